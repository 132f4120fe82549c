drop function if exists care.undo(text, text, text, jsonb, timestamptz);

-- care.undo: takes back what an action of the same user did, part by part where nothing has touched it since: within 24
-- hours by when the person acted, and once. What it takes back cannot be taken back. Lock order: the doses by id.
create or replace function care.undo(who text, key text, target_key text, base jsonb, acted timestamptz, clock timestamptz)
returns sync.verdict
language plpgsql
as $$
declare
    target sync.action;
    kind text := 'undo';
    intents care.intent[];
    verdict sync.verdict;
begin
    select * into target from sync.action as a where a.user_id = who and a.key = target_key;
    if not found then
        return care.invalid('payload.targetKey', 'names no action');
    elsif target.type = 'undo' then
        return care.invalid('payload.targetKey', 'names an undo, which cannot be undone');
    elsif target.undone_by is not null or coalesce(jsonb_typeof(target.memo -> 'undo'), '') <> 'array' then
        return row('noop', '{}'::jsonb, null, false)::sync.verdict;
    elsif acted - target.created_at > interval '24 hours' then
        kind := 'late';
    end if;
    intents := array(
        select care.intent_of(e, kind, care.base_rev(base, e ->> 'id'), null, target_key, acted)
        from jsonb_array_elements(target.memo -> 'undo') with ordinality as t(e, place) order by place);
    if (target.memo -> 'single')::boolean then
        verdict := care.carry_one(who, target_key, intents[1], clock);
    else
        verdict := care.carry_many(who, target_key, intents, clock);
    end if;
    if verdict.status in ('applied', 'partial') then
        update sync.action as a set undone_by = undo.key where a.user_id = who and a.key = target_key;
        perform care.open_again(array(select e ->> 'id' from jsonb_array_elements(target.memo -> 'undo') as e), acted);
    end if;
    return verdict;
end
$$;

-- care.open_again: doses are scheduled again. One ahead that its schedule does not give any more, or at another time, becomes
-- what it would have become; of one that is due, its reminders ring that were silent. Lock order: doses by id, then as
-- care.replan; care.set_due by rule.
create or replace function care.open_again(doses text[], acted timestamptz) returns void
language plpgsql
as $$
declare
    stale text[];
begin
    stale := array(
        select d.id from care.dose_occurrence as d
        where d.id = any(doses) and d.status = 'scheduled' and d.scheduled_at > acted
            -- Of the planner's: an app may have schedules of its own.
            and d.id in (care.occurrence_id(d.schedule_id, d.local_date + d.local_time),
                         care.occurrence_id(d.schedule_id, d.local_date + d.local_time, d.product_id))
            and not exists (
                select from care.schedule as s cross join lateral care.slots(s, d.local_date, d.local_date) as w
                where s.id = d.schedule_id and w.id = d.id));
    if stale <> '{}' then
        update care.dose_occurrence as d set status = 'cancelled', cancelled_by_plan = true
        where d.id = any(stale) and not exists (select from care.schedule as s where s.id = d.schedule_id);
        perform care.replan(array(select d.schedule_id from care.dose_occurrence as d where d.id = any(stale)), acted);
    end if;
    perform care.ring_again(doses);
end
$$;
