-- What follows when reminder rules and their schedules are written; 59_care_triggers.sql says which trigger calls what.
--
-- Lock order of all that writes reminders: rules, then the schedules that they are linked to, then occurrences that differ
-- from their rule, each by id; then streams. Who changes a schedule holds it, and then locks the rules that are linked to it: an action
-- meets no other one of the same user there, and plain SQL that does both at once may meet a deadlock, and is to be repeated. Who
-- archives a product, and the job that does so for the catalogue, locks rules first (care.hold_rules): it meets actions.

-- care.preset_time: when a user takes what a preset stands for: the user's own time, else the usual one; null for CUSTOM and
-- for what is no preset. No locks.
create or replace function care.preset_time(who text, preset text) returns time
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(
        (select u.preset_times ->> preset from care.user_settings as u where u.user_id = who),
        case preset when 'AM_WITH_FOOD' then '08:00' when 'WITH_BREAKFAST' then '08:30' when 'LUNCH' then '12:30'
                    when 'BEDTIME' then '22:00' end)::time
$$;

-- care.linked: a rule with the time, the days and the zone of its schedule. One of another user is no link. A schedule that is
-- taken as needed has no time: its reminder keeps its own, and nothing of it comes (care.schedule_span). Locks: the schedule
-- (SHARE), where `held`.
create or replace function care.linked(r care.reminder_rule, held boolean) returns care.reminder_rule
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    s care.schedule;
begin
    if held then
        select * into s from care.schedule as x where x.id = r.schedule_id for share;
    else
        select * into s from care.schedule as x where x.id = r.schedule_id;
    end if;
    if s.id is null then
        return r;
    elsif s.user_id <> r.user_id then
        r.schedule_id := null;
    elsif s.repeat <> 'as_needed' then
        r.time := s.time;
        r.repeat := s.repeat;
        r.repeat_on := s.repeat_on;
        r.timezone := s.timezone;
        r.tz_mode := s.tz_mode;
    end if;
    return r;
end
$$;

-- care.link_reminder: before a rule that has or had a schedule is changed. A new link waits for who changes the schedule, or
-- makes that one wait, who then sees the rule. A rule whose schedule was deleted is disabled: its doses are gone. Lock
-- order: the rule, then the schedule (SHARE).
create or replace function care.link_reminder() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if new.schedule_id is null and not exists (select from care.schedule as s where s.id = old.schedule_id) then
        new.enabled := false;
    end if;
    return care.linked(new, new.schedule_id is distinct from old.schedule_id);
end
$$;

-- care.follow_schedule: rules that are linked to a schedule take its time, days and zone, and let it go when it gets another
-- user. Where it gives other days (it was paused, say) they have other occurrences: a revision of theirs tells so. Lock
-- order: the schedule (held), its rules by id.
create or replace function care.follow_schedule() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if (new.user_id, new.time, new.repeat, new.repeat_on, new.timezone, new.tz_mode, new.enabled, new.starts_on, new.ends_on)
        is not distinct from (old.user_id, old.time, old.repeat, old.repeat_on, old.timezone, old.tz_mode, old.enabled,
                              old.starts_on, old.ends_on)
    then
        return null;
    end if;
    perform from care.reminder_rule as r where r.schedule_id = new.id order by r.id collate "C" for update;
    -- care.link_reminder says what becomes of them.
    update care.reminder_rule as r
    set rev = r.rev + ((new.enabled, new.starts_on, new.ends_on, new.repeat = 'as_needed')
                       is distinct from (old.enabled, old.starts_on, old.ends_on, old.repeat = 'as_needed'))::int
    where r.schedule_id = new.id;
    return null;
end
$$;

-- care.pace_reminders: rules with a time of their own have other occurrences where their product or stack is given until
-- another day, or not at all: a revision of theirs tells so. Before a schedule is deleted, while its own rules are linked: these
-- are told anyway. Lock order: the schedule (held), the rules by id.
create or replace function care.pace_reminders() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    was care.schedule;
    now care.schedule;
begin
    if tg_op <> 'INSERT' then
        was := old;
    end if;
    if tg_op <> 'DELETE' then
        now := new;
    end if;
    perform care.tell_rules(array(
        select r.id from care.reminder_rule as r
        cross join lateral (
            select care.given_by(was, r.user_id, r.product_id, r.stack_id) as was,
                   care.given_by(now, r.user_id, r.product_id, r.stack_id) as now offset 0
        ) as g
        where r.user_id in (was.user_id, now.user_id) and r.schedule_id is null and g.was is distinct from g.now and (
            select coalesce(greatest(o.until, g.was), 'infinity') <> coalesce(greatest(o.until, g.now), 'infinity')
            from (
                select care.gives_until(r.user_id, r.product_id, r.stack_id, coalesce(now.id, was.id)) as until offset 0
            ) as o)));
    return coalesce(new, old);
end
$$;

-- care.tell_rules: a revision of rules tells that they have other occurrences. Lock order: the rules by id.
create or replace function care.tell_rules(rules text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if rules <> '{}' then
        perform from care.reminder_rule as r where r.id = any(rules) order by r.id collate "C" for update;
        update care.reminder_rule as r set rev = r.rev + 1 where r.id = any(rules);
    end if;
end
$$;

drop function if exists care.follow_archiving(text, text);
drop function if exists care.follow_archiving(text, text[]);

-- care.hold_rules: the rules of users' schedules of a product that is archived, or came back: the caller plans these schedules
-- again, and raises the rules' revisions. Worst interleaving: an action has a rule, and waits for its schedule; who has the
-- schedule waits for the rule. So rules are locked before schedules, and with them those that may fall silent, or speak
-- again (care.silence_reminders). One that is linked after this look sees the product, which the caller holds. Lock order:
-- rules by id.
create or replace function care.hold_rules(product text, users text[]) returns text[]
language sql
set search_path = pg_catalog, pg_temp
as $$
    select array(
        select k.id from (
            select r.id, s.product_id from care.reminder_rule as r left join care.schedule as s on s.id = r.schedule_id
            where r.user_id = any(users) and (s.product_id = product or r.product_id = product or r.stack_id is not null)
            order by r.id collate "C" for update of r
        ) as k where k.product_id = product)
$$;
