-- The planner: from schedules to doses. Triggers call it where schedules, stacks or zones are written, in that transaction
-- (58_care_plan_triggers.sql); the job keeps the horizon filled (81_care_job_plan_doses.sql).
--
-- A slot is (schedule, product, local date). At most one of its doses is not cancelled:
--   frozen     the slot has a dose that was acted on, was missed, or whose time has come: nothing in it changes
--   cancelled  a scheduled dose ahead that its schedule does not give any more, unless it gives the slot at a time that has
--              passed: today's dose stays where it was. And one whose time has come, which nobody has touched, where another
--              one of its slot is revived
--   moved      one that it gives at another instant, of another product or with another window: under the same id, if the new
--              instant lies ahead too; else it stays as it is
--   revived    one that the planner cancelled and that is given again, while its window is open or among those that are filled
--              (`fill` below): a mistake that is put right costs no dose
--   made       one that was never there. What a person cancelled stays cancelled, and its id taken
drop function if exists care.plan_day(text, date);

-- care.horizon: how many days after today are planned. No locks.
create or replace function care.horizon() returns int
language sql immutable parallel safe
begin atomic
    select 14;
end;

drop function if exists care.slots(care.schedule, date, date, date);

-- care.slots: what a schedule gives from one local day to another: wall time in its zone, by RFC 5545 (care.resolve_local). An
-- archived product gives nothing, but for what is filled up to `filled`: what it gave until then.
-- A day that the zone skipped (Apia, 2011-12-30) gives nothing. No locks.
create or replace function care.slots(s care.schedule, first date, last date, fill date default null,
                                      filled timestamptz default null)
returns setof care.slot
language sql stable rows 20
begin atomic
    select (s).id, (s).user_id, care.occurrence_id((s).id, d.day + (s).time, i.product_id),
           coalesce((s).product_id, i.product_id), d.day, (s).time, t.at, (s).timezone,
           t.at + make_interval(mins => (s).window_minutes), coalesce(d.day >= fill, false)
    from (select first + n as day from generate_series(0, last - first) as n) as d
    cross join lateral (select care.resolve_local(d.day + (s).time, (s).timezone) as at offset 0) as t
    left join care.stack_item as i on i.stack_id = (s).stack_id
    where (s).enabled and care.repeats_on((s).repeat, (s).repeat_on, d.day)
        and d.day >= coalesce((s).starts_on, d.day) and d.day <= coalesce((s).ends_on, d.day)
        and coalesce((s).product_id, i.product_id) is not null
        and not exists (select from care.product as p
                        where p.id = coalesce((s).product_id, i.product_id) and p.archived_at is not null
                            and not coalesce(d.day >= fill and t.at <= filled and t.at <= p.archived_at, false))
        and ((t.at at time zone (s).timezone)::date = d.day
             or (care.resolve_local(d.day::timestamp, (s).timezone) at time zone (s).timezone)::date = d.day);
end;

-- care.plan_doses: makes the doses of schedules right; the caller holds their rows. Returns how many doses were written.
-- `since`: when who changed the schedules did so; a device may tell it late. All is as if it had been told at once: "ahead" is
-- after that, and what was missed meanwhile counts as scheduled.
-- `fill` says which slots are made although their time has passed, 90 days back at most; all others only ahead of `since`:
--   new      those from starts_on on, where the schedule has one
--   go on    those after planned_until: no job came by
--   ahead    none
--   gap      only those after planned_until whose time has passed, and nothing else: what the schedule gave until it was changed
--   start    only those from starts_on on whose time has passed, and nothing else: for a schedule that begins earlier than it did
--
-- Lock order: the schedules (before), care.dose_occurrence in the order of ids. A first statement finds what is to
-- change, a second locks it, and each that writes looks again: between the first two a person may have acted.
-- Settings: as those of sync.flush.
drop function if exists care.plan_doses(care.schedule[], text, timestamptz);
create or replace function care.plan_doses(schedules care.schedule[], fill text, clock timestamptz, since timestamptz)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    filled constant timestamptz := case when fill in ('go on', 'gap') then since end;
    wanted care.slot[];
    changing text[];
    written bigint := 0;
    n bigint;
begin
    -- Who renames a product waits for these schedules: care.described.
    perform set_config('care.planning', 'on', true);
    select array_agg(w order by w.id collate "C") into wanted
    from (select *, least(p.fill_from, p.first) as day from care.plan_spans(schedules, fill, clock, since) as p offset 0) as r
    cross join lateral care.slots(r.s, r.day, r.last, r.fill_from, filled) as w
    where fill not in ('gap', 'start') or w.late and w.at <= since;

    if fill not in ('gap', 'start') then
        select array_agg(d.id) into changing
        from (select * from care.plan_spans(schedules, fill, clock, since) offset 0) as r
        cross join lateral (
            select * from care.dose_occurrence as d
            where d.schedule_id = (r.s).id and d.local_date >= r.first offset 0
        ) as d
        left join unnest(wanted) as w on w.id = d.id
        where case
            when d.status = 'cancelled' then
                d.cancelled_by_plan and case when w.id is null then d.scheduled_at > since and care.stays_today(d, wanted, since)
                                             else w.window_end > since end
            when not care.open_since(d, clock, since) then false
            when d.scheduled_at <= since then w.id is null and care.gives_way(d, wanted, since)
            when w.id is null then
                (d.local_date <= r.last or d.local_date > r.ends_on) and not care.stays_today(d, wanted, since)
            else w.at > since and (d.user_id, d.product_id, d.scheduled_at, d.tz, d.local_date, d.local_time, d.window_end)
                is distinct from (w.user_id, w.product_id, w.at, w.zone, w.day, w.wall, w.window_end) end;
    end if;
    -- What is filled is not only what was never there: the planner may have cancelled it, for another start, say.
    changing := changing || array(
        select d.id from unnest(wanted) as w join care.dose_occurrence as d on d.id = w.id
        where w.late and w.at <= since and d.status = 'cancelled' and d.cancelled_by_plan);
    if changing <> '{}' then
        perform from care.dose_occurrence as d where d.id = any(changing) order by d.id collate "C" for no key update;

        update care.dose_occurrence as d set status = 'cancelled', cancelled_by_plan = true
        where fill not in ('gap', 'start') and d.id = any(changing) and care.open_since(d, clock, since)
            and case when d.scheduled_at > since
                     then not care.stays_today(d, wanted, since) and not exists (
                         select from unnest(wanted) as w
                         where w.id = d.id and (w.product_id = d.product_id or not care.slot_taken(w, since)))
                     else care.gives_way(d, wanted, since) end;
        get diagnostics written = row_count;

        update care.dose_occurrence as d
        set user_id = w.user_id, product_id = w.product_id, scheduled_at = w.at, tz = w.zone, local_date = w.day,
            local_time = w.wall, window_start = null, window_end = w.window_end, status = 'scheduled',
            cancelled_by_plan = false
        from unnest(wanted) as w
        where d.id = any(changing) and d.id = w.id
            and (care.open_since(d, clock, since) and d.scheduled_at > since and w.at > since
                 or d.status = 'cancelled' and d.cancelled_by_plan and (w.window_end > since or w.late)
                    and not care.slot_taken(w, since));
        get diagnostics n = row_count;
        written := written + n;

        -- What stayed today before a mistake took it away: the new time has had no dose today. Of several, the one that was
        -- taken away last.
        update care.dose_occurrence as d set status = 'scheduled', cancelled_by_plan = false
        where d.id in (
            select distinct on (x.schedule_id, x.product_id, x.local_date) x.id
            from care.dose_occurrence as x
            where fill not in ('gap', 'start') and x.id = any(changing) and x.status = 'cancelled' and x.cancelled_by_plan
                and x.scheduled_at > since and not exists (select from unnest(wanted) as w where w.id = x.id)
                and care.stays_today(x, wanted, since) and not exists (
                    select from care.dose_occurrence as o
                    where o.schedule_id = x.schedule_id and o.local_date = x.local_date and o.product_id = x.product_id
                        and (o.status <> 'cancelled' or not o.cancelled_by_plan
                             or exists (select from unnest(wanted) as w where w.id = o.id)))
            order by x.schedule_id, x.product_id, x.local_date, x.updated_at desc, x.scheduled_at desc, x.id collate "C");
        get diagnostics n = row_count;
        written := written + n;
    end if;

    insert into care.dose_occurrence (id, user_id, schedule_id, product_id, scheduled_at, tz, local_date, local_time,
                                      window_end)
    select w.id, w.user_id, w.schedule_id, w.product_id, w.at, w.zone, w.day, w.wall, w.window_end
    from unnest(wanted) as w
    where (w.at > since or w.late) and not exists (select from care.dose_occurrence as d where d.id = w.id)
        and not care.slot_taken(w, since)
    order by w.id collate "C"
    on conflict (id) do nothing;
    get diagnostics n = row_count;
    if fill not in ('gap', 'start') then
        perform care.note_plan(schedules, fill, clock);
        if changing <> '{}' then
            perform care.meet_doses(array(select (s).id from unnest(schedules) as s), clock);
            perform care.ring_again(changing);
        end if;
    end if;
    perform set_config('care.planning', '', true);
    return written + n;
end
$$;

-- care.gives_way: whether a dose whose time has come has its slot by a mistake: nobody has touched it, and another dose of the
-- slot, which the planner cancelled for it, is given again while its window is open. No locks.
create or replace function care.gives_way(d care.dose_occurrence, wanted care.slot[], since timestamptz) returns boolean
language plpgsql stable
as $$
begin
    return d.note is null and exists (
        select from unnest(wanted) as w join care.dose_occurrence as x on x.id = w.id
        where w.schedule_id = d.schedule_id and w.day = d.local_date and w.product_id = d.product_id and w.id <> d.id
            and w.window_end > since and x.status = 'cancelled' and x.cancelled_by_plan);
end
$$;

-- care.stays_today: whether the slot of a dose ahead is given at a time that has passed, whose dose is not revived: nothing else
-- of today is to come. Where the next dose comes while its window is open (23:30 is set to 00:30 at 23:00), that is it. No locks.
create or replace function care.stays_today(d care.dose_occurrence, wanted care.slot[], since timestamptz) returns boolean
language plpgsql stable
as $$
begin
    return exists (
        select from unnest(wanted) as w
        where w.schedule_id = d.schedule_id and w.day = d.local_date and w.product_id = d.product_id and w.id <> d.id
            and w.at <= since and not exists (
                select from care.dose_occurrence as x
                where x.id = w.id and x.status = 'cancelled' and x.cancelled_by_plan and w.window_end > since))
        and not exists (
            select from unnest(wanted) as w
            where w.schedule_id = d.schedule_id and w.product_id = d.product_id and w.id <> d.id
                and w.at > since and w.at <= d.window_end);
end
$$;

drop function if exists care.plan_ranges(care.schedule[], text, timestamptz);
drop function if exists care.plan_spans(care.schedule[], text, timestamptz);

-- care.plan_spans: for each schedule: the days that are looked at, and from which on slots are made although their time
-- has passed. Two days back, for a dose ahead may be of an earlier day: its user was in another zone. `ends_on`: after it
-- nothing is given; before all days where nothing is given at all. No locks.
create or replace function care.plan_spans(schedules care.schedule[], fill text, clock timestamptz, since timestamptz)
returns table(s care.schedule, today date, first date, last date, fill_from date, ends_on date)
language sql stable rows 10
begin atomic
    select k.s, t.today, t.acted - 2, greatest(t.today + care.horizon(), p.planned_until),
           case when fill in ('new', 'start') and (k.s).starts_on is not null then greatest((k.s).starts_on, t.acted - 90)
                when fill in ('go on', 'gap') and p.planned_until is not null
                    then greatest(p.planned_until + 1, t.acted - 90) end,
           case when (k.s).enabled and (k.s).repeat <> 'as_needed' then (k.s).ends_on else '-infinity' end
    from (select s from unnest(schedules) as s offset 0) as k
    cross join lateral (
        select (clock at time zone (k.s).timezone)::date as today, (since at time zone (k.s).timezone)::date as acted offset 0
    ) as t
    left join care.schedule_plan as p on p.schedule_id = (k.s).id;
end;

-- care.stands_in: whether a dose is asked for instead of one of that user, product, day, time and schedule: it is of a schedule
-- that is gone, paused or has another time by now. No locks.
create or replace function care.stands_in(who text, product text, day date, wall time, schedule text) returns boolean
language sql stable
begin atomic
    select exists (
        select from care.dose_occurrence as d
        where d.user_id = who and d.local_date = day and d.product_id = product and d.local_time = wall
            and d.schedule_id <> schedule and d.status <> 'cancelled'
            and not exists (select from care.schedule as s where s.id = d.schedule_id and s.time = d.local_time and s.enabled));
end;

-- care.slot_taken: whether a dose that is not cancelled has the slot, or stands in for one ahead. No locks.
drop function if exists care.slot_taken(care.slot);
create or replace function care.slot_taken(w care.slot, since timestamptz) returns boolean
language sql stable
begin atomic
    select exists (
        select from care.dose_occurrence as d
        where d.schedule_id = (w).schedule_id and d.local_date = (w).day and d.product_id = (w).product_id
            and d.status <> 'cancelled'
    ) or (w).at > since and care.stands_in((w).user_id, (w).product_id, (w).day, (w).wall, (w).schedule_id);
end;

-- care.note_plan: notes how far the schedules are planned, and when there is more to do: with the next local day, unless
-- nothing more is given. Lock order: care.schedule_plan, under the schedules' locks.
create or replace function care.note_plan(schedules care.schedule[], fill text, clock timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into care.schedule_plan as p (schedule_id, zone, planned_until, next_at, rules_version)
    select (r.s).id, (r.s).timezone, r.last,
           case when r.ends_on <= r.last then 'infinity'
                else care.resolve_local((r.today + 1)::timestamp, (r.s).timezone) end,
           coalesce((select z.version from care.zone_rules as z where z.zone = (r.s).timezone), 0)
    from (select * from care.plan_spans(schedules, fill, clock, clock) offset 0) as r
    where exists (select from care.schedule as k where k.id = (r.s).id)
    on conflict (schedule_id) do update
        set zone = excluded.zone, planned_until = excluded.planned_until, next_at = excluded.next_at,
            rules_version = excluded.rules_version
        where (p.zone, p.planned_until, p.next_at, p.rules_version)
            is distinct from (excluded.zone, excluded.planned_until, excluded.next_at, excluded.rules_version);
end
$$;

drop function if exists care.replan(text[]);

-- care.replan: plans schedules again from `since` on (the action, for who changed what they stand on: a stack's items, say). Lock
-- order: care.schedule in the order of ids, then as care.plan_doses.
create or replace function care.replan(ids text[], since timestamptz default care.moment()) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    schedules care.schedule[];
begin
    select array_agg(k.s) into schedules
    from (select s from care.schedule as s where s.id = any(ids) order by s.id collate "C" for no key update) as k;
    return case when schedules is null then 0 else care.plan_doses(schedules, 'go on', sync.clock(), since) end;
end
$$;
