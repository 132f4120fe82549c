-- Occurrences that keep their instant when their rule's zone changes, as doses do: a reminder rings for its dose, wherever the
-- dose stays. What has come is told by the occurrence, and not by the instant that another zone would give it.
--
--   both ahead     it moves, as its doses do. It stays while an open dose of it stays, or where all its doses are acted on
--   the old ahead  it stays: by the new zone its time has passed, and nobody would be reminded
--   the new ahead  it stays, for it has come: a snooze of it ends when it ends, and nothing comes a second time. It moves
--                  where the rule was made later than that, and where an open dose of it moves: it came before its dose, or
--                  the hub hears late that the person was elsewhere by then. A snooze that has not ended keeps it
--   neither        it stays, for as long as it can be snoozed
--
-- A schedule that gets another time leaves a dose where it is if the new time has passed, or if it is taken or missed: the
-- occurrence of a linked rule stays with it. A person who gives a rule of its own another time means what it says.
--
-- A rule that pushes is judged by the hub's clock: until now it pushed by the old zone. A local one is judged by when the
-- person acted: the device on which that was has rung by the new zone since.

-- care.moves_with_dose: whether a dose of an occurrence goes where its rule goes: its schedule follows the user, or is the
-- rule's own, and its time lies ahead of when the person acted, here and there. No locks.
create or replace function care.moves_with_dose(was care.reminder_rule, r care.reminder_rule, d care.dose_occurrence,
                                                clock timestamptz) returns boolean
language plpgsql stable
as $$
declare
    since constant timestamptz := care.moment();
begin
    return not care.acted(d) and care.open_since(d, clock, since) and d.scheduled_at > since
        and care.resolve_local(d.local_date + d.local_time, r.timezone) > clock
        and coalesce(d.schedule_id = r.schedule_id, was.tz_mode = 'follow' and r.tz_mode = 'follow' and exists (
            select from care.schedule as s where s.id = d.schedule_id and s.tz_mode = 'follow'));
end
$$;

-- care.stays_with_doses: whether an occurrence that could move stays with its doses: with an open one that is nearest to its
-- time, for one before that may have a reminder of its own; or where all are acted on. Those of schedules that follow the
-- user move, if they can. No locks.
drop function if exists care.stays_with_doses(care.reminder_rule, care.reminder_rule, date, timestamptz);
create or replace function care.stays_with_doses(was care.reminder_rule, r care.reminder_rule, on_day date, old_at timestamptz,
                                                 clock timestamptz) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    travels constant boolean := r.schedule_id is not null or was.tz_mode = 'follow' and r.tz_mode = 'follow';
begin
    return (
        select coalesce(bool_and(acted) or travels and bool_or(
            not acted and place = 1 and not care.moves_with_dose(was, r, t.d, clock)), false)
        from (
            select d, care.acted(d) as acted, rank() over (
                partition by care.acted(d) order by greatest(d.scheduled_at - old_at, old_at - d.scheduled_at)) as place
            from care.rule_doses(was, on_day) as d
        ) as t);
end
$$;

-- care.keep_days: after a rule got another time or zone. Nobody decided that of these days: care.audit_rule_occurrences leaves
-- it out.
-- Lock order: the rule (held), its occurrences by day; it reads doses.
create or replace function care.keep_days(was care.reminder_rule, r care.reminder_rule, clock timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    since constant timestamptz := case when r.delivery = 'local' then least(care.moment(), clock) else clock end;
    x care.reminder_occurrence;
    on_day date;
    wall timestamptz;
    old_at timestamptz;
    new_at timestamptz;
    next_at timestamptz;
    keeps boolean;
begin
    -- No zone is more than 26 hours from another.
    for on_day in
        select (clock at time zone was.timezone)::date + n from generate_series(-2, 2) as n
        union
        select o.day from care.reminder_occurrence as o
        where o.rule_id = r.id and greatest(o.moved_to, o.snoozed_until) >= clock - interval '2 days'
        order by 1
    loop
        select o.start into old_at from care.occurrence_of(was, on_day) as o;
        wall := case when care.rule_gives(r, on_day) then care.wall_start(on_day, r.time, r.timezone) end;
        continue when old_at is null or wall is null;
        select * into x from care.reminder_occurrence as o where o.rule_id = r.id and o.day = on_day for update;
        -- Of a rule that is switched off that alone has come which was pushed before.
        continue when not (was.enabled and r.enabled) and (old_at > since or not exists (
            select from care.push as p
            where p.user_id = r.user_id
                and p.occurrence_id = coalesce(x.id, care.occurrence_id(r.id, on_day + was.time))));
        new_at := coalesce(case when x.moved_local is not null then care.resolve_local(x.moved_local, r.timezone)
                                when not x.kept then x.moved_to end, wall);
        if old_at > since and new_at > since then
            keeps := r.time = was.time and care.stays_with_doses(was, r, on_day, old_at, clock);
        elsif new_at > since and (
            old_at < r.created_at and r.created_at <= clock
            or r.time = was.time and coalesce(x.snoozed_until <= clock, true) and exists (
                select from care.rule_doses(was, on_day) as d where care.moves_with_dose(was, r, d, clock)))
        then
            keeps := false;
        elsif r.time = was.time then
            continue when greatest(old_at, new_at, x.snoozed_until) <= clock - interval '4 hours';
            keeps := true;
        elsif coalesce(was.schedule_id <> r.schedule_id, true) then
            keeps := false;
        elsif old_at > since then
            -- Not where it has rung before, and the hub hears of two edits late; nor where the next one comes within hours:
            -- 23:30 is set to 00:30 at 23:00.
            next_at := case when care.rule_gives(r, on_day + 1) then care.wall_start(on_day + 1, r.time, r.timezone) end;
            keeps := not exists (
                select from care.push as p where p.user_id = r.user_id and p.rule_id = r.id and p.day = on_day)
                and not coalesce(next_at > since and next_at <= old_at + interval '4 hours', false);
        else
            -- A dose that is over is not made again at the new time.
            keeps := new_at > since and (
                select bool_and(d.status <> 'scheduled') from care.rule_doses(was, on_day) as d);
            keeps := coalesce(keeps, false);
        end if;
        keeps := keeps and old_at <> new_at;
        if keeps and x.id is null then
            insert into care.reminder_occurrence (rule_id, user_id, original_local, moved_to, kept, created_at, updated_at)
            values (r.id, r.user_id, on_day + was.time, old_at, true, clock, clock);
        elsif keeps <> x.kept then
            update care.reminder_occurrence as o
            set kept = keeps, moved_to = case when keeps then old_at else care.resolve_local(x.moved_local, r.timezone) end
            where o.id = x.id;
        end if;
    end loop;
end
$$;

-- care.meet_doses: reminders that are linked to a schedule ring for its dose that stays today (care.stays_today), also those
-- that were made, linked or switched on after it stayed, and where it came back with its schedule; and for the dose that came
-- back in place of one that stayed. `rule`: of that one alone. What a person decided of the day stands. Lock order: the rules
-- (KEY SHARE), their occurrences by rule and day.
create or replace function care.meet_doses(schedules text[], clock timestamptz, rule text default null) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    update care.reminder_occurrence as o set kept = false, moved_to = care.resolve_local(o.moved_local, r.timezone)
    from care.reminder_rule as r
    where r.schedule_id = any(schedules) and r.id = coalesce(rule, r.id) and r.enabled
        and o.rule_id = r.id and o.kept and o.moved_to > clock and exists (
            select from care.rule_doses(r, o.day) as d where d.status = 'scheduled' and d.window_end > clock)
        and not exists (select from care.rule_doses(r, o.day) as d where d.scheduled_at = o.moved_to);
    insert into care.reminder_occurrence as o (rule_id, user_id, original_local, moved_to, kept, created_at, updated_at)
    select r.id, r.user_id, d.local_date + r.time, min(d.scheduled_at), true, clock, clock
    from care.reminder_rule as r
    join care.dose_occurrence as d on d.schedule_id = r.schedule_id and d.user_id = r.user_id
        and d.local_date >= (clock at time zone r.timezone)::date - 2 and d.status = 'scheduled' and d.scheduled_at > clock
        and d.local_time <> r.time
    where r.schedule_id = any(schedules) and r.id = coalesce(rule, r.id) and r.enabled
        and care.wall_start(d.local_date, r.time, r.timezone) <= clock and care.rule_gives(r, d.local_date)
        and not exists (
            select from care.push as p where p.user_id = r.user_id and p.rule_id = r.id and p.day = d.local_date)
    group by r.id, r.user_id, d.local_date, r.time
    order by r.id collate "C", d.local_date
    on conflict (rule_id, day) do update set kept = true, moved_to = excluded.moved_to
        where o.status = 'scheduled' and not o.kept and o.moved_to is null and o.snoozed_until is null;
end
$$;
