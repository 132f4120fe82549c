-- care.rule_start: when an occurrence that differs from its rule fires, before any snooze. No locks.
create or replace function care.rule_start(x care.reminder_occurrence, r care.reminder_rule) returns timestamptz
language plpgsql stable
as $$
begin
    return coalesce(care.moved_start(x, r.timezone), care.resolve_local(x.day + r.time, r.timezone));
end
$$;

-- care.rule_occurrence_json: such an occurrence as events and snapshots show it. `date` is the local day that it is of;
-- `originalLocal` the time that its rule gave it when it began to differ; `movedTo` wall time in the rule's zone; `kept`: nobody
-- moved it there, for it keeps the instant that it had when the zone changed. No locks.
create or replace function care.rule_occurrence_json(x care.reminder_occurrence, r care.reminder_rule) returns jsonb
language plpgsql stable
as $$
begin
    return jsonb_build_object(
        'userId', x.user_id, 'ruleId', x.rule_id, 'id', x.id, 'occurrenceId', x.id, 'date', x.day,
        'originalLocal', to_char(x.original_local, 'YYYY-MM-DD"T"HH24:MI:SS'),
        'start', care.local_iso(care.rule_start(x, r), r.timezone),
        'movedTo', to_char(care.moved_start(x, r.timezone) at time zone r.timezone, 'YYYY-MM-DD"T"HH24:MI'), 'kept', x.kept,
        'status', x.status, 'snoozedUntil', x.snoozed_until, 'snoozeCount', x.snooze_count, 'rev', x.rev,
        'updatedAt', x.updated_at);
end
$$;

-- care.reminder_occurrence_events: the builder of care.reminder_occurrence: reminder.occurrence_updated. A row deleted
-- while its rule lives tells `removed: true`: the occurrence is as its rule says again (where it had several in the
-- transaction: for each); deleted with its rule it tells nothing, for reminder.deleted has. Only the rule's user is
-- told. Locks: none.
create or replace function care.reminder_occurrence_events(changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
as $$
begin
    return query
    select c.user_id, false, c.id, 'reminder.occurrence_updated'::text,
           case when x.id is null then jsonb_build_object(
               'userId', c.user_id, 'ruleId', r.id, 'id', c.id, 'occurrenceId', c.id, 'rev', c.rev, 'removed', true)
           else care.rule_occurrence_json(x::care.reminder_occurrence, r::care.reminder_rule) end
    from unnest(changes) as c
    left join lateral (
        select * from care.reminder_occurrence as x where x.id = c.id and x.user_id = c.user_id offset 0
    ) as x on true
    cross join lateral (
        select * from care.reminder_rule as r
        where r.id = any(case when x.id is null then c.context || c.contexts else array[x.rule_id] end)
            and r.user_id = c.user_id
        offset 0
    ) as r
    where x.id is not null or c.op <> 'I';
end
$$;
