drop function if exists care.resolve(text, text, jsonb, jsonb, timestamptz);

-- care.resolve: what the user chose of an action's conflicts. What is in conflict again is pending under the new key. A
-- conflict may be decided more than once, by two devices that both showed it: revisions tell what the second one saw.
-- Lock order: the doses by id.
create or replace function care.resolve(who text, key text, doc jsonb, base jsonb, acted timestamptz, clock timestamptz)
returns sync.verdict
language plpgsql
as $$
declare
    of constant text := doc ->> 'of';
    merged constant jsonb := jsonb_strip_nulls(doc -> 'merged');
    kind constant text := case doc ->> 'choice' when 'keep_local' then 'keep' when 'accept_server' then 'accept'
                               else case when care.given(doc, 'merged') is null then 'merge' else 'edit' end end;
    target sync.action;
    intents care.intent[];
    verdict sync.verdict;
begin
    select * into target from sync.action as a where a.user_id = who and a.key = of;
    if not found then
        return care.invalid('payload.of', 'names no action');
    elsif coalesce(jsonb_typeof(target.memo -> 'pending'), '') <> 'array' then
        return care.invalid('payload.of', 'names an action without a conflict');
    elsif kind = 'edit' and not (target.memo -> 'single')::boolean then
        return care.invalid('payload.merged', 'is for an action on one dose');
    end if;
    intents := array(
        select care.intent_of(e, kind, coalesce(care.base_rev(base, e ->> 'id'), (e ->> 'rev')::bigint), merged, null, acted)
        from jsonb_array_elements(target.memo -> 'pending') with ordinality as t(e, place) order by place);
    if (target.memo -> 'single')::boolean then
        verdict := care.carry_one(who, key, intents[1], clock);
    else
        verdict := care.carry_many(who, key, intents, clock);
    end if;
    if verdict.status in ('applied', 'noop', 'partial', 'conflict') then
        update sync.action as a set resolved_by = resolve.key where a.user_id = who and a.key = of;
    end if;
    return verdict;
end
$$;
