-- care.reminder_occurrence_events: the builder of care.reminder_occurrence: reminder.occurrence_updated. `start` is when
-- it fires (before any snooze). A row deleted while its rule lives tells `removed: true`: the occurrence is as its rule
-- says again; deleted with its rule it tells nothing, for reminder.deleted has. Locks: none.
create or replace function care.reminder_occurrence_events(changes sync.change[]) returns setof sync.draft
language plpgsql
as $$
begin
    return query
    select c.user_id, false, c.id, 'reminder.occurrence_updated'::text,
           case when x.id is null then jsonb_build_object(
               'userId', c.user_id, 'ruleId', r.id, 'occurrenceId', c.id, 'rev', c.rev, 'removed', true)
           else jsonb_build_object(
               'userId', c.user_id, 'ruleId', r.id, 'occurrenceId', x.id,
               'originalLocal', to_char(x.original_local, 'YYYY-MM-DD"T"HH24:MI:SS'),
               'start', care.local_iso(coalesce(x.moved_to, care.resolve_local(x.original_local, r.timezone)),
                                       r.timezone),
               'status', x.status, 'snoozedUntil', x.snoozed_until, 'snoozeCount', x.snooze_count, 'rev', x.rev,
               'updatedAt', x.updated_at) end
    from unnest(changes) as c
    left join care.reminder_occurrence as x on x.id = c.id and x.user_id = c.user_id
    join care.reminder_rule as r on r.id = coalesce(x.rule_id, c.context)
    where x.id is not null or c.op <> 'I';
end
$$;
