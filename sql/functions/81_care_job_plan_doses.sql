-- care.job_plan_doses: keeps the horizon of schedules filled: plans at most `batch` of those whose local day has changed, or whose
-- zone's rules have. A whole horizon at once, so that it also mends what is not as the schedule says. `done`: schedules
-- planned; `more`: call it again.
--
-- Any number of hubs may call it: one works, the others get (0, false). It ends after 20 ms, or 200 doses, whatever `batch`
-- says: the commit then holds locks of streams. A schedule that another transaction holds is left to the next call.
-- Killed anywhere it loses nothing: how far a schedule is planned is written in one transaction with its doses.
-- A schedule that cannot be planned (its zone is gone from the time zone database) holds up no other: it is tried again in an
-- hour. Lock order: an advisory lock of its own, care.schedule, then as care.plan_doses; it waits for no schedule.
create or replace function care.job_plan_doses(batch int, clock timestamptz, out done bigint, out more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    deadline constant timestamptz := clock_timestamp() + interval '20 milliseconds';
    outer_actor constant text := coalesce(current_setting('sync.actor', true), '');
    size int := 8;
    written bigint := 0;
    moved bigint;
    schedules care.schedule[];
begin
    done := 0;
    more := false;
    if not pg_try_advisory_xact_lock(hashtextextended('carillon.job.plan_doses', 0)) then
        return;
    end if;
    if not care.read_zone_rules(clock, deadline) then
        more := true;
        return;
    end if;
    perform set_config('sync.actor', 'system', true);
    loop
        more := done >= batch or written >= 200 or clock_timestamp() > deadline;
        exit when more;
        schedules := care.due_schedules(least(size, batch - done)::int, clock);
        exit when schedules is null;
        begin
            -- One that should follow its user: both were written at the same time. Its trigger plans it.
            update care.schedule as s set timezone = care.zone_of(s.user_id)
            from unnest(schedules) as k
            where s.id = k.id and k.tz_mode = 'follow' and k.timezone <> care.zone_of(k.user_id);
            get diagnostics moved = row_count;
            done := done + moved;
            if moved = 0 then
                written := written + care.plan_doses(schedules, 'go on', clock, clock);
                perform care.know_zones(schedules, clock);
                done := done + cardinality(schedules);
            end if;
        exception when data_exception or integrity_constraint_violation or raise_exception then
            if size = 1 then
                raise warning 'a schedule cannot be planned: %', sqlstate;
                update care.schedule_plan as p
                set next_at = clock + interval '1 hour',
                    rules_version = coalesce((select z.version from care.zone_rules as z where z.zone = p.zone), 0)
                where p.schedule_id = (schedules[1]).id;
            end if;
            size := 1;
        end;
    end loop;
    perform set_config('sync.actor', outer_actor, true);
end
$$;

-- care.plan_lag: for how many seconds the oldest schedule has been due to be planned; 0 where none is. No locks.
create or replace function care.plan_lag(clock timestamptz) returns double precision
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    next_at timestamptz := (select p.next_at from care.schedule_plan as p order by p.next_at limit 1);
begin
    return case when isfinite(next_at) then greatest(0, extract(epoch from clock - next_at)) else 0 end;
end
$$;

-- care.due_schedules: some schedules that are to be planned, locked. Those whose day has changed, then those whose zone has other
-- rules. Lock order: care.schedule; those that others hold are left out.
create or replace function care.due_schedules(most int, clock timestamptz) returns care.schedule[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    due care.schedule[];
begin
    select array_agg(k.s) into due from (
        select s from care.schedule_plan as p join care.schedule as s on s.id = p.schedule_id
        where p.next_at <= clock
        order by p.next_at limit most for no key update of s skip locked) as k;
    if due is null then
        select array_agg(k.s) into due from (
            select s
            from care.zone_rules as z
            join care.schedule_plan as p on p.zone = z.zone and p.rules_version < z.version
            join care.schedule as s on s.id = p.schedule_id
            limit most for no key update of s skip locked) as k;
    end if;
    return due;
end
$$;
