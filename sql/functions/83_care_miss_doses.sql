-- care.job_miss_doses: marks at most `batch` doses as missed whose window, and the grace after it, have ended by `clock`,
-- those first that ended first. They are found by what they are, never by a time up to which all was done before: an undo
-- opens an ended dose again, and a backend writes old ones. A dose that somebody has locked is left for the next call, and
-- so is one of a user whose stream somebody has locked. A markTaken that comes late undoes it (care.rule_act).
--
-- Its commit holds the streams of all these users, so it takes few: callers ask for as many as they have seen to fit
-- (Sources/Data/Jobs). Where that is too many of a sudden, it stops after 10 ms of writing: the flush takes about as long again.
-- So ten doses come first, and tell how many more there is time for.
--
-- A dose counts only once its stream is had: where an import holds thousands of streams, their doses are passed over in one
-- scan, and a turn without a dose to write is the last. A turn looks at 5,000 doses at most, which bounds its time too.
--
-- Lock order: a dose, then its user's stream, one after another; it waits for none of them, so there is no deadlock with
-- actions, with other writers or with another job. Then, for what it has, day summaries (sync.flush).
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
    ids text[];
    written bigint;
begin
    perform set_config('sync.actor', 'system', true);
    done := 0;
    loop
        more := done = batch or done > 0 and clock_timestamp() >= stop;
        exit when more;
        asked := least(batch - done, case when done = 0 then 10 else greatest(1, least(50, floor(
            done * extract(epoch from stop - clock_timestamp()) / nullif(extract(epoch from clock_timestamp() - begun), 0)))) end);
        -- The order is the first subquery's; a sort above the second one would lock all streams before the limit.
        ids := array(
            select d.id
            from (
                select x.id, x.user_id from care.dose_occurrence as x
                where x.status = 'scheduled' and x.window_end <= due
                order by x.window_end limit 5000
                for update skip locked
            ) as d
            left join lateral (
                select true as had from sync.stream as s where s.user_id = d.user_id and s.topic = 'adherence'
                for update skip locked
            ) as s on true
            -- A dose of nobody has no stream, and the first one of a user makes it.
            where s.had or not exists (select from sync.stream as x where x.user_id = d.user_id and x.topic = 'adherence')
            limit asked);
        exit when ids = '{}';
        update care.dose_occurrence as d set status = 'missed' where d.id = any(ids);
        get diagnostics written = row_count;
        done := done + written;
        exit when written = 0 or cardinality(ids) < asked;
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
