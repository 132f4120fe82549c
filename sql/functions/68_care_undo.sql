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
    end if;
    return verdict;
end
$$;
