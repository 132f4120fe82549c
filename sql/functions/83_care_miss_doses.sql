-- care.job_miss_doses: marks at most `batch` doses as missed whose window, and the grace after it, have ended by `clock`,
-- those first that ended first. They are found by what they are, never by a time up to which all was done before: an undo
-- opens an ended dose again, and a backend writes old ones. A dose that somebody else has locked is left for the next
-- call. A markTaken that comes late undoes it (care.rule_act).
--
-- Its commit holds the streams of all their users, so it takes few: it stops after 4 ms of writing, for the flush takes about
-- four times as long as the writes before it. Callers ask for as many as they have seen to fit (Sources/Data/Jobs).
--
-- Lock order: the doses, for none of which it waits; streams and day summaries (sync.flush). It waits for streams only, and
-- who holds a stream waits for no dose: there is no deadlock with actions, nor with another job. A transaction that
-- flushes before its end (SET CONSTRAINTS IMMEDIATE), and then writes doses again, may lose to it or win: 40P01.
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
    stop constant timestamptz := clock_timestamp() + interval '4 milliseconds';
    outer_actor constant text := coalesce(current_setting('sync.actor', true), '');
    taken int;
    ids text[];
begin
    perform set_config('sync.actor', 'system', true);
    done := 0;
    loop
        taken := least(batch - done, 25);
        more := taken = 0 or done > 0 and clock_timestamp() >= stop;
        exit when more;
        ids := array(
            select d.id from care.dose_occurrence as d
            where d.status = 'scheduled' and d.window_end <= due
            order by d.window_end limit taken
            for update skip locked);
        if cardinality(ids) > 0 then
            update care.dose_occurrence as d set status = 'missed' where d.id = any(ids);
            done := done + cardinality(ids);
        end if;
        exit when cardinality(ids) < taken;
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
