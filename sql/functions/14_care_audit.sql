-- The audit of doses: care.dose_audit. 59_care_triggers.sql has the triggers that write and keep it, but for updates.

-- care.claimed_actor: whom sync.actor names. Any session may set that, so it counts only in sessions that began as the hub's role,
-- the owner or a superuser; for jobs, as a member of the owner's too. No locks.
create or replace function care.claimed_actor() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    claimed constant text := current_setting('sync.actor', true);
begin
    return case when claimed in ('user', 'system') and (
                         session_user = 'carillon_owner' or pg_has_role(session_user, 'carillon_hub', 'member')
                         or claimed = 'system' and pg_has_role(session_user, 'carillon_owner', 'member')) then claimed
                else 'backend' end;
end
$$;

-- care.actor: who changes doses in this transaction: the system (sync.job says so), the user (sync.settle does, while it
-- carries out an action), or the backend, also where it names a key for its events. Planned into its callers' statements: a
-- backend, which claims nothing, asks no further. No locks.
create or replace function care.actor() returns text
language sql stable
as $$
    select case when pg_catalog.current_setting('sync.actor', true) operator(pg_catalog.<>) '' then care.claimed_actor() else 'backend' end
$$;

-- care.acting_device: the device whose action is carried out; null: no action is. No locks.
create or replace function care.acting_device() returns text
language sql stable
as $$
    select case when pg_catalog.current_setting('sync.device', true) <> '' and care.actor() = 'user'
                then pg_catalog.current_setting('sync.device', true) end
$$;

-- care.dose_details: what else is true of a dose, for its audit: what it is of, where it comes from, its day and window. Times
-- are in UTC, whatever the writer's zone. No locks.
create or replace function care.dose_details(o care.dose_occurrence) returns jsonb
language plpgsql stable
set timezone = 'UTC'
as $$
begin
    return jsonb_build_object(
        'scheduleId', o.schedule_id, 'productId', o.product_id, 'productName', o.product_name, 'strength', o.strength,
        'form', o.form, 'dose', o.dose, 'asNeeded', o.as_needed, 'timezone', o.tz, 'localDate', o.local_date,
        'localTime', o.local_time, 'windowStart', o.window_start, 'windowEnd', o.window_end);
end
$$;

-- care.audit_doses: one row for each dose that an INSERT or DELETE brought or took. Updates are audited by the recorder of their
-- events (care.audited_recorder), for one statement that writes both costs less than two.
create or replace function care.audit_doses() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    clock constant timestamptz := sync.clock();
    actor constant text := care.actor();
    device constant text := care.acting_device();
    key constant text := nullif(current_setting('sync.key', true), '');
begin
    if tg_op = 'INSERT' then
        insert into care.dose_audit as a (occurrence_id, user_id, at, actor, device, key,
                                          status, taken_at, scheduled_at, rev, reason, noted)
        select n.id, n.user_id, clock, actor, device, key,
               n.status, n.taken_at, n.scheduled_at, n.rev, n.reason, n.note <> ''
        from new_rows as n
        where n.user_id <> '';
    else
        insert into care.dose_audit as a (occurrence_id, user_id, at, actor, device, key,
                                          was_status, was_taken_at, was_scheduled_at, was_rev, was_reason, was_noted,
                                          was_details)
        select o.id, o.user_id, clock, actor, device, key,
               o.status, o.taken_at, o.scheduled_at, o.rev, o.reason, o.note <> '',
               care.dose_details(o::care.dose_occurrence)
        from old_rows as o
        where o.user_id <> '';
    end if;
    return null;
end
$$;

-- care.audited_recorder: what the recorder of care.dose_occurrence (sync.generate_recorder) does first with an UPDATE: one row of
-- the audit for each dose that changed. A revision rises with every change, so it alone tells what changed. A dose that goes to
-- another user ends for the one and begins for the other: neither reads of the other. The details, which rarely change,
-- are written where `details_rev` says that they did (care.bump_details).
--
-- One row that stays its user's and keeps its details, its day with them, the usual update, has a statement of its own, which
-- writes the ticket of the events too: where that is the transaction's first, nothing is left to do. Else its events are recorded
-- below, and its audit is written. It does not ask for a ticket, for SERIALIZABLE writers who read the tickets would fail each
-- other. It has no hash of a join; it takes from the row what care.bump_dose has just put there. FULL JOIN for all others, for
-- a plan made with one row must do for thousands. The ticket names no day: the dose has it, and what moves the dose later
-- records it.
--
-- Doses that come back from being cancelled take their slots (care.yield_slots): here, and not by a trigger with a
-- condition, which each statement would read anew from its text. No locks; those of what it returns: there.
create or replace function care.audited_recorder(source int, topic text) returns text
language sql immutable
as $$
    select format($recorder$
        with audited as (
            insert into care.dose_audit as a (occurrence_id, user_id, at, actor, device, key,
                                              was_status, was_taken_at, was_scheduled_at, was_rev, was_reason, was_noted,
                                              status, taken_at, scheduled_at, rev, reason, noted)
            select n.id, n.user_id, n.updated_at, coalesce(n.changed_by, 'backend'), n.changed_device, n.changed_key,
                   o.status, o.taken_at, o.scheduled_at, o.rev, o.reason, o.note <> '',
                   n.status, n.taken_at, n.scheduled_at, n.rev, n.reason, n.note <> ''
            from old_rows as o cross join new_rows as n
            where %3$s
            returning a.user_id, a.occurrence_id, a.was_rev
        )
        insert into sync.ticket (xid, source, user_id, id, topic, rev)
        select pg_current_xact_id(), %1$s, a.user_id, a.occurrence_id, %2$L, a.was_rev from audited as a
        on conflict do nothing;
        if found then
            return null;
        end if;
        if exists (select from old_rows as o where o.status = 'cancelled')
            and current_setting('session_replication_role') <> 'replica'
        then
            perform care.yield_slots(array(
                select n::care.dose_occurrence from old_rows as o join new_rows as n on n.id = o.id
                where o.status = 'cancelled' and n.status <> 'cancelled'));
        end if;
        insert into care.dose_audit as a (occurrence_id, user_id, at, actor, device, key,
                                          was_status, was_taken_at, was_scheduled_at, was_rev, was_reason, was_noted,
                                          status, taken_at, scheduled_at, rev, reason, noted, was_details, details)
        select coalesce(n.id, o.id), coalesce(n.user_id, o.user_id), who.at, who.actor, who.device, who.key,
               o.status, o.taken_at, o.scheduled_at, o.rev, o.reason, o.note <> '',
               n.status, n.taken_at, n.scheduled_at, n.rev, n.reason, n.note <> '',
               case when o.id is not null and n.details_rev is distinct from o.details_rev
                   then care.dose_details(o::care.dose_occurrence) end,
               case when n.details_rev <> o.details_rev then care.dose_details(n::care.dose_occurrence) end
        from old_rows as o
        full join new_rows as n on n.id = o.id and n.user_id = o.user_id
        cross join (
            select sync.clock() as at, care.actor() as actor, care.acting_device() as device,
                   nullif(current_setting('sync.key', true), '') as key
            offset 0
        ) as who
        where n.rev is distinct from o.rev and coalesce(n.user_id, o.user_id) <> '' and (%3$s) is not true;$recorder$,
        source, topic,
        $sql$n.rev <> o.rev and n.id = o.id and n.user_id = o.user_id and n.details_rev = o.details_rev
                and n.user_id <> '' and o.status <> 'cancelled' and not exists (select from new_rows offset 1)$sql$)
$$;

-- care.keep_audit: what has been written stays: UPDATE, DELETE and TRUNCATE are refused. care.erase_audit deletes. No locks.
create or replace function care.keep_audit() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op <> 'DELETE' or current_setting('care.erasing', true) is distinct from 'on' then
        raise exception '% of care.% is refused: it tells what was, for good', tg_op, tg_table_name
            using errcode = 'insufficient_privilege',
                hint = 'If a user''s data must go, delete doses and reminders, then SELECT care.erase_audit(user_id).';
    end if;
    return null;
end
$$;

-- care.erase_audit: deletes what the audits have of a user, of whom no dose and no reminder is left, with the tombstones of
-- reminders; returns how many rows of audits. For a person's right to be forgotten. Refused while the user has doses or
-- reminders. Locks: the rows it deletes.
create or replace function care.erase_audit(who text) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    erased bigint;
    total bigint;
    outer_erasing constant text := coalesce(current_setting('care.erasing', true), '');
begin
    if exists (select from care.dose_occurrence as d where d.user_id = who) then
        raise exception 'this user has doses: delete them first' using errcode = 'object_not_in_prerequisite_state';
    elsif exists (select from care.reminder_rule as r where r.user_id = who) then
        raise exception 'this user has reminders: delete them first' using errcode = 'object_not_in_prerequisite_state';
    end if;
    perform set_config('care.erasing', 'on', true);
    delete from care.dose_audit as a where a.user_id = who;
    get diagnostics total = row_count;
    delete from care.reminder_audit as a where a.user_id = who;
    get diagnostics erased = row_count;
    total := total + erased;
    delete from care.reminder_occurrence_audit as a where a.user_id = who;
    get diagnostics erased = row_count;
    delete from care.reminder_tombstone as t where t.user_id = who;
    delete from care.reminder_alias as n where n.user_id = who;
    perform set_config('care.erasing', outer_erasing, true);
    return total + erased;
end
$$;

-- care.audit_json: a change as the history of a dose shows it: `before` null for a new dose, `after` for one that was taken
-- away. Both have the details where those changed, and `before` where the dose was deleted. No locks.
create or replace function care.audit_json(a care.dose_audit) returns jsonb
language plpgsql stable
as $$
begin
    return jsonb_build_object(
        'at', a.at, 'actor', a.actor, 'deviceId', a.device, 'key', a.key,
        'before', case when a.was_rev is not null then jsonb_build_object(
            'status', a.was_status, 'takenAt', a.was_taken_at, 'scheduledAt', a.was_scheduled_at, 'reason', a.was_reason,
            'hasNote', coalesce(a.was_noted, false), 'rev', a.was_rev) || coalesce(a.was_details, '{}') end,
        'after', case when a.rev is not null then jsonb_build_object(
            'status', a.status, 'takenAt', a.taken_at, 'scheduledAt', a.scheduled_at, 'reason', a.reason,
            'hasNote', coalesce(a.noted, false), 'rev', a.rev) || coalesce(a.details, '{}') end);
end
$$;

-- care.history: the last two hundred changes of a dose while it was the user's, the oldest first, as an array. No locks.
create or replace function care.history(who text, dose text) returns jsonb
language plpgsql stable
as $$
begin
    return (
        select coalesce(jsonb_agg(care.audit_json(a) order by a.n), '[]')
        from (
            select l.* from care.dose_audit as l
            where l.occurrence_id = dose and l.user_id = who
            order by l.n desc limit 200
        ) as a);
end
$$;
