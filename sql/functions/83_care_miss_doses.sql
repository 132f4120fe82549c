-- care.job_miss_doses: marks at most `batch` doses as missed whose window, and the grace after it, have ended by `clock`,
-- those first that ended first. They are found by what they are, never by a time up to which all was done before: an undo
-- opens an ended dose again, and a backend writes old ones. A dose that somebody has locked is left for the next call, and
-- so is one of a user whose stream somebody has locked. A markTaken that comes late undoes it (care.rule_act).
--
-- Its commit holds the streams of all these users, so it takes few: callers ask for as many as they have seen to fit
-- (Sources/Data/Jobs). Where that is too many of a sudden, it stops after 10 ms of writing: the flush takes about as long again.
-- So ten doses come first, and tell how many more there is time for.
--
-- Lock order: doses, then their users' streams; it waits for none of them, so there is no deadlock with actions, with other
-- writers or with another job. Then, for what it has, day summaries (sync.flush).
create or replace function care.job_miss_doses(batch int, clock timestamptz, out done bigint, out more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    due constant timestamptz := clock - care.grace();
    begun constant timestamptz := clock_timestamp();
    stop constant timestamptz := begun + interval '10 milliseconds';
    outer_actor constant text := coalesce(current_setting('sync.actor', true), '');
    asked int;
    written bigint;
    ids text[];
    users text[];
    free text[];
    busy text[] := '{}';
begin
    perform set_config('sync.actor', 'system', true);
    done := 0;
    loop
        more := done = batch or done > 0 and clock_timestamp() >= stop;
        exit when more;
        asked := least(batch - done, case when done = 0 then 10 else greatest(1, least(50, floor(
            done * extract(epoch from stop - clock_timestamp()) / extract(epoch from clock_timestamp() - begun)))) end);
        select array_agg(o.id), array_agg(distinct o.user_id) filter (where o.user_id is not null) into ids, users
        from (
            select d.id, d.user_id from care.dose_occurrence as d
            where d.status = 'scheduled' and d.window_end <= due and coalesce(d.user_id <> all(busy), true)
            order by d.window_end limit asked
            for update skip locked
        ) as o;
        exit when ids is null;
        free := array(
            select s.user_id from sync.stream as s where s.user_id = any(users) and s.topic = 'adherence'
            for update skip locked);
        if cardinality(free) < cardinality(users) then
            busy := busy || array(
                select s.user_id from sync.stream as s
                where s.user_id = any(users) and s.topic = 'adherence' and s.user_id <> all(free));
        end if;
        update care.dose_occurrence as d set status = 'missed'
        where d.id = any(ids) and coalesce(d.user_id <> all(busy), true);
        get diagnostics written = row_count;
        done := done + written;
        exit when cardinality(ids) < asked;
    end loop;
    perform set_config('sync.actor', outer_actor, true);
end
$$;

-- care.miss_lag: for how many seconds the oldest dose has been due to be missed; 0 where none is. No locks.
create or replace function care.miss_lag(clock timestamptz) returns double precision
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    return greatest(0, extract(epoch from clock - care.grace() - (
        select d.window_end from care.dose_occurrence as d where d.status = 'scheduled' order by d.window_end limit 1)));
end
$$;
