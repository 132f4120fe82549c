-- What rows get when they are written; 59_care_triggers.sql says which. SECURITY DEFINER where a writer may lack rights on
-- the tables read. No locks but those named.

-- care.bump_rev: rev + 1 and updated_at, if anything changed. A rev that the writer raised is left alone.
create or replace function care.bump_rev() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if new *<> old then
        if new.rev is null or new.rev <= old.rev then
            new.rev := old.rev + 1;
        end if;
        new.updated_at := sync.clock();
    end if;
    return new;
end
$$;

-- care.bump_dose: raises rev and updated_at of a dose, and notes what actions go by: the rev with which (status, taken_at,
-- taken_offset, reason) came, the one with which the note came, the key and device of the action that changed the row (null:
-- no action), and who did. Nobody else writes these columns. Outside of actions, a writer that sets taken_at and leaves
-- taken_offset as it is tells no offset. A dose that becomes scheduled again follows its product again, and one that gets
-- another product is of that; where triggers are off (session_replication_role) the writer says so. Here, and not by a
-- trigger with a condition: each statement reads that anew from its text. Locks: care.described.
create or replace function care.bump_dose() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if new *= old then
        return new;
    elsif (new.status_rev, new.note_rev, new.changed_key, new.changed_device, new.changed_by)
        is distinct from (old.status_rev, old.note_rev, old.changed_key, old.changed_device, old.changed_by)
    then
        new.status_rev := old.status_rev;
        new.note_rev := old.note_rev;
        new.changed_key := old.changed_key;
        new.changed_device := old.changed_device;
        new.changed_by := old.changed_by;
        if new *= old then
            return new;
        end if;
    end if;
    new.rev := greatest(new.rev, old.rev + 1);
    new.updated_at := sync.clock();
    new.changed_by := care.actor();
    new.changed_key := nullif(current_setting('sync.key', true), '');
    new.changed_device := null;
    if new.changed_by = 'user' then
        new.changed_device := nullif(current_setting('sync.device', true), '');
    end if;
    if (new.status, new.taken_at, new.reason, new.taken_offset)
        is distinct from (old.status, old.taken_at, old.reason, old.taken_offset)
    then
        new.status_rev := new.rev;
        if new.taken_offset is not null then
            if new.taken_offset = old.taken_offset and new.changed_by <> 'user' and new.taken_at is distinct from old.taken_at
            then
                new.taken_offset := null;
            end if;
        end if;
    end if;
    -- What follows is seldom: the usual update takes a scheduled dose.
    if new.status <> 'scheduled' and not new.cancelled_by_plan and new.note is not distinct from old.note
        and new.product_id is not distinct from old.product_id
    then
        return new;
    end if;
    if new.note is distinct from old.note then
        new.note_rev := new.rev;
    end if;
    if new.cancelled_by_plan and new.status <> old.status and old.cancelled_by_plan then
        -- The planner says what it does; what a person cancels stays cancelled.
        new.cancelled_by_plan := false;
    end if;
    if (new.status = 'scheduled' and old.status <> 'scheduled' or new.product_id is distinct from old.product_id)
        and current_setting('session_replication_role') <> 'replica'
    then
        if new.product_id is distinct from old.product_id then
            new.product_name := null;
            new.strength := null;
            new.form := null;
        end if;
        if new.product_id is not null then
            new := care.described(new, true);
            if (new.product_name, new.strength, new.form, new.dose)
                is distinct from (old.product_name, old.strength, old.form, old.dose)
            then
                new.details_rev := new.rev;
            end if;
        end if;
    end if;
    return new;
end
$$;

-- care.bump_details: notes the rev with which the details of a dose came (care.dose_details), for its audit. A trigger of the
-- columns that it compares: a statement that sets none of them does not call it. What care.bump_dose brings of itself, it
-- notes there. Nobody else writes `details_rev`. No locks.
create or replace function care.bump_details() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    new.details_rev := case when (
        new.schedule_id, new.product_id, new.product_name, new.strength, new.form, new.dose, new.as_needed, new.tz, new.local_date,
        new.local_time, new.window_start, new.window_end
    ) is distinct from (
        old.schedule_id, old.product_id, old.product_name, old.strength, old.form, old.dose, old.as_needed, old.tz, old.local_date,
        old.local_time, old.window_start, old.window_end
    ) then new.rev else old.details_rev end;
    return new;
end
$$;

-- care.complete_dose: day, time and zone of a new dose from its instant in the user's zone; its window: four hours. Never
-- derived again: a moved dose keeps its day unless the writer moves that too. What is taken, by care.described. Locks: there.
create or replace function care.complete_dose() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    wall timestamp;
begin
    new.tz := coalesce(care.named_zone(new.tz), care.zone_of(new.user_id));
    wall := new.scheduled_at at time zone new.tz;
    new.local_date := coalesce(new.local_date, wall::date);
    new.local_time := coalesce(new.local_time, wall::time);
    new.window_end := coalesce(new.window_end, new.scheduled_at + interval '4 hours');
    if new.product_id is not null then
        new := care.described(new, false);
    end if;
    new.status_rev := new.rev;
    new.note_rev := new.rev;
    new.changed_key := nullif(current_setting('sync.key', true), '');
    new.changed_by := care.actor();
    new.changed_device := null;
    if new.changed_by = 'user' then
        new.changed_device := nullif(current_setting('sync.device', true), '');
    end if;
    return new;
end
$$;

-- care.complete_reminder: a rule's zone is the user's where the writer names none. A linked rule takes its schedule's time, days
-- and zone. Locks: the schedule (SHARE).
create or replace function care.complete_reminder() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    new.timezone := coalesce(new.timezone, care.zone_of(new.user_id));
    return case when new.schedule_id is null then new else care.linked(new, true) end;
end
$$;

-- care.complete_reminder_occurrence: id, day and time from the rule, and always its user. An occurrence that was moved keeps
-- wall time and instant: moved_local says the instant in the rule's zone; an instant that a backend writes says the wall time
-- of a rule that follows its user. Who moves one that is kept ends that; care.keep_days and care.meet_doses alone write `kept`.
-- One that is snoozed again after it was sent is scheduled again, if that lies ahead. KEY SHARE waits for a transaction that
-- moves the rule to another user, and makes a later one wait: that one then sees this row. Lock order: care.reminder_rule.
create or replace function care.complete_reminder_occurrence() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    r care.reminder_rule;
begin
    if tg_op = 'INSERT' or (new.rule_id, new.user_id) is distinct from (old.rule_id, old.user_id) then
        perform from care.reminder_rule where id = new.rule_id for key share;
    end if;
    select * into r from care.reminder_rule where id = new.rule_id;
    new.user_id := coalesce(r.user_id, new.user_id);
    new.original_local := coalesce(new.original_local, new.day + r.time);
    new.day := new.original_local::date;
    new.id := coalesce(new.id, care.occurrence_id(new.rule_id, new.original_local));
    new.kept := new.kept and (
        tg_op = 'UPDATE' and old.kept or pg_trigger_depth() > 1 or current_setting('care.planning', true) = 'on');
    if r.id is null then
        return new;
    elsif tg_op = 'UPDATE' and old.kept and new.kept then
        new.kept := (new.moved_to, new.moved_local) is not distinct from (old.moved_to, old.moved_local);
    elsif tg_op = 'UPDATE' and old.kept then
        return new;
    end if;
    if new.kept then
        null;
    elsif tg_op = 'INSERT' and new.moved_local is not null
        or tg_op = 'UPDATE' and new.moved_local is distinct from old.moved_local
    then
        new.moved_to := care.resolve_local(new.moved_local, r.timezone);
    elsif tg_op = 'INSERT' or new.moved_to is distinct from old.moved_to then
        new.moved_local := case when r.tz_mode = 'follow' then new.moved_to at time zone r.timezone end;
        if care.resolve_local(new.moved_local, r.timezone) <> new.moved_to then
            new.moved_local := null;
        end if;
    end if;
    if tg_op = 'UPDATE' and old.status in ('sent', 'missed') and new.status = old.status
        and new.snoozed_until > greatest(old.snoozed_until, sync.clock())
    then
        new.status := 'scheduled';
    end if;
    return new;
end
$$;

-- care.move_reminder: a rule that changes owner takes its occurrences along. Lock order: the rule, then
-- care.reminder_occurrence.
create or replace function care.move_reminder() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update care.reminder_occurrence set user_id = new.user_id where rule_id = new.id and user_id <> new.user_id;
    return null;
end
$$;

-- care.forget_notes: a dose that was deleted leaves no notes behind. Lock order: care.dose_note.
create or replace function care.forget_notes() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from care.dose_note as n using gone where n.user_id = gone.user_id and n.occurrence_id = gone.id;
    return null;
end
$$;

-- care.leave_notes: a dose that changes owner takes none along either. Lock order: care.dose_note.
create or replace function care.leave_notes() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if (new.user_id, new.id) is distinct from (old.user_id, old.id) then
        delete from care.dose_note as n where n.user_id = old.user_id and n.occurrence_id = old.id;
    end if;
    return null;
end
$$;

-- care.check_zone: a zone that PostgreSQL does not know is refused when written, not when an event is built; one that it takes
-- for an abbreviation gets its other name (care.named_zone). The column is the trigger's argument.
create or replace function care.check_zone() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    zone constant text := to_jsonb(new) ->> tg_argv[0];
    named constant text := care.named_zone(zone);
begin
    perform now() at time zone zone;
    if named <> zone then
        new := jsonb_populate_record(new, jsonb_build_object(tg_argv[0], named));
    end if;
    return new;
end
$$;

-- care.follow_zone: rules and schedules whose tz_mode is follow move with their user. The doses of those schedules move in
-- place, where their old and their new time both lie ahead (care.plan_schedules). Lock order: care.reminder_rule by id,
-- care.schedule by id, then doses.
create or replace function care.follow_zone() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from care.reminder_rule where user_id = new.user_id and tz_mode = 'follow' order by id collate "C" for update;
    update care.reminder_rule set timezone = new.zone
    where user_id = new.user_id and tz_mode = 'follow' and timezone <> new.zone;
    perform from care.schedule where user_id = new.user_id and tz_mode = 'follow' order by id collate "C" for no key update;
    update care.schedule set timezone = new.zone
    where user_id = new.user_id and tz_mode = 'follow' and timezone <> new.zone;
    return null;
end
$$;
