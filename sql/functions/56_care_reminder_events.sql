-- Reminder rules as events, answers and snapshots show them, and the builder of their events.

-- care.rule_fields: what people change of a rule, as JSON. No locks.
create or replace function care.rule_fields(r care.reminder_rule) returns jsonb
language plpgsql stable
as $$
begin
    return jsonb_build_object(
        'productId', r.product_id, 'stackId', r.stack_id, 'appliesTo', r.applies_to, 'preset', r.preset, 'label', r.label,
        'time', to_char(r.time, 'HH24:MI'), 'timezone', r.timezone, 'tzMode', r.tz_mode, 'repeat', r.repeat,
        'repeatOn', r.repeat_on, 'snoozeMinutes', r.snooze_minutes, 'delivery', r.delivery, 'enabled', r.enabled,
        'scheduleId', r.schedule_id);
end
$$;

-- care.rule_shown: a reminder rule as events, answers and snapshots show it, with its next occurrences, each with the id by
-- which it is snoozed. `since`: from then on; `wanted`: so many, at most 30. No locks.
drop function if exists care.rule_json(care.reminder_rule, timestamptz);
create or replace function care.rule_shown(r care.reminder_rule, since timestamptz, wanted int default 10) returns jsonb
language plpgsql stable
as $$
declare
    times jsonb;
    upcoming jsonb;
begin
    select coalesce(jsonb_agg(care.local_iso(u.start, r.timezone) order by u.start, u.id), '[]'),
           coalesce(jsonb_agg(jsonb_build_object('id', u.id, 'ruleId', r.id, 'start', care.local_iso(u.start, r.timezone),
                                                 'status', u.status) order by u.start, u.id), '[]')
    into times, upcoming
    from care.upcoming(r, since, wanted) as u;
    return care.rule_fields(r) || jsonb_build_object(
        'id', r.id, 'userId', r.user_id, 'clientId', r.client_id, 'rev', r.rev, 'silent', care.gives_nothing(r), 'createdAt', r.created_at,
        'updatedAt', r.updated_at, 'nextOccurrences', times, 'upcoming', upcoming);
end
$$;

-- care.reminder_events: the builder of care.reminder_rule: reminder.created and .updated with the whole rule,
-- reminder.deleted with {id, rev}. Locks: none.
create or replace function care.reminder_events(changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
as $$
declare
    clock timestamptz := sync.clock();
begin
    return query
    select c.user_id, false, c.id,
           case when r.id is null then 'reminder.deleted' when c.op = 'I' then 'reminder.created'
                else 'reminder.updated' end,
           case when r.id is null then jsonb_build_object('id', c.id, 'rev', c.rev)
                else care.rule_shown(r::care.reminder_rule, clock) end
    from unnest(changes) as c
    left join lateral (
        select * from care.reminder_rule as r where r.id = c.id and r.user_id = c.user_id offset 0
    ) as r on true
    where r.id is not null or c.op <> 'I';
end
$$;
