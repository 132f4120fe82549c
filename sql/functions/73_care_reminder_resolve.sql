-- What a person chose of a reminder's conflict. `rev`: what the person was shown, or what the device names.
--
--   accept_server  nothing to do
--   keep_local     the same action again, with the revision that the person was shown: what others changed since may be another
--                  conflict. A rule that is gone, and has not come back since, comes back with its id and its next revision.
--   merge          what did not conflict, and over it the fields of `merged`, which the person edited, as keep_local. Where
--                  a deletion met a change, the rule stays; where a change met a deletion, it comes back: no reminder is lost.

-- care.bring_back: a rule that was deleted, with its id, as it was when it went last. Locks: the rule, its schedule (SHARE).
create or replace function care.bring_back(who text, pending jsonb, wanted jsonb, clock timestamptz) returns sync.verdict
language plpgsql
as $$
declare
    r care.reminder_rule := jsonb_populate_record(null::care.reminder_rule, coalesce(
        (select t.rule from care.reminder_tombstone as t where t.user_id = who and t.id = pending #>> '{gone,id}'), pending -> 'gone'));
    was care.reminder_rule;
    verdict sync.verdict;
begin
    if not exists (select from care.schedule as s where s.id = r.schedule_id and s.user_id = who) then
        r.schedule_id := null;
    end if;
    was := r;
    r := care.rule_with(r, care.rule_fields(r) || wanted);
    r.user_id := who;
    verdict := care.rule_problem(r, r);
    if verdict.status is null and (was.product_id, was.stack_id) is distinct from (r.product_id, r.stack_id) then
        verdict := care.target_problem(r);
    end if;
    if verdict.status is not null then
        return verdict;
    end if;
    r.rev := r.rev + 1;
    r.updated_at := clock;
    insert into care.reminder_rule select r.*;
    select * into r from care.reminder_rule as x where x.id = r.id;
    return care.done('applied', care.rule_shown(r, clock));
end
$$;

-- care.resolve_reminder: what `resolve` comes to for an action whose memo is a reminder's. Lock order: the rule, its schedule
-- (SHARE), its occurrence.
create or replace function care.resolve_reminder(who text, key text, target sync.action, doc jsonb, base jsonb,
                                                 client_time jsonb, clock timestamptz) returns sync.verdict
language plpgsql
as $$
declare
    pending constant jsonb := target.memo -> 'reminder';
    type constant text := pending ->> 'type';
    of_rule constant text := pending ->> 'id';
    choice constant text := doc ->> 'choice';
    merged constant jsonb := case when choice = 'merge' then care.given(doc, 'merged') end;
    rev bigint;
    wanted jsonb;
    r care.reminder_rule;
    t care.reminder_tombstone;
    verdict sync.verdict;
begin
    if choice is null or care.choice_problem(doc -> 'choice', '{keep_local,accept_server,merge}') is not null then
        return care.invalid('payload.choice', 'must be keep_local, accept_server or merge');
    elsif merged is not null and jsonb_typeof(merged) <> 'object' then
        return care.invalid('payload.merged', 'must be an object');
    elsif merged is not null and type <> 'setReminderOccurrence' then
        verdict := care.rule_fields_problem(merged, 'payload.merged.');
    elsif care.given(merged, 'enabled') is not null and care.boolean_problem(merged -> 'enabled') is not null then
        verdict := care.invalid('payload.merged.enabled', care.boolean_problem(merged -> 'enabled'));
    elsif care.given(merged, 'movedTo') is not null and care.wall_problem(merged -> 'movedTo') is not null then
        verdict := care.invalid('payload.merged.movedTo', care.wall_problem(merged -> 'movedTo'));
    end if;
    if verdict.status is not null then
        return verdict;
    elsif care.base_problem(base) is not null then
        return care.invalid('base', care.base_problem(base));
    elsif client_time is not null and care.time_problem(client_time) is not null then
        return care.invalid('clientTime', care.time_problem(client_time));
    end if;
    rev := coalesce(care.base_rev(base, of_rule), (pending ->> 'rev')::bigint);
    select * into r from care.reminder_rule as x where x.id = of_rule and x.user_id = who for no key update;
    if choice = 'accept_server' or type = 'deleteReminder' and choice = 'merge' and merged is null then
        verdict := case
            when type = 'setReminderOccurrence' and r.id is not null
                then care.done('noop', care.occurrence_shown(r, (pending ->> 'date')::date))
            when r.id is null then row('noop', '{}'::jsonb, null, false)::sync.verdict
            else care.done('noop', care.rule_shown(r, clock)) end;
    elsif type = 'setReminderOccurrence' then
        wanted := case when choice = 'merge' and merged is null then '{}'
                       else (pending -> 'local') || coalesce(
                           (select jsonb_object_agg(e.key, e.value) from jsonb_each(merged) as e where e.key in ('enabled', 'movedTo')),
                           '{}') end;
        verdict := case when wanted = '{}' then care.done('noop', care.occurrence_shown(r, (pending ->> 'date')::date))
                        else care.set_reminder_day(who, wanted || jsonb_build_object('id', of_rule, 'date', pending -> 'date'), rev,
                                                   client_time, clock) end;
    elsif type = 'deleteReminder' and choice = 'keep_local' then
        verdict := care.delete_reminder(who, of_rule, rev, clock);
    else
        wanted := coalesce(case choice when 'keep_local' then pending -> 'local' else pending -> 'taken' end, '{}')
            || case when merged is null then '{}' else care.rule_wanted(who, merged) end;
        -- What did not conflict may be half of a new target: a stack takes the product away, and the reverse.
        wanted := wanted || case
            when care.given(wanted, 'stackId') is not null then '{"productId": null, "appliesTo": "stack"}'
            when care.given(wanted, 'productId') is not null then '{"stackId": null, "appliesTo": "item"}'
            else '{}' end::jsonb;
        -- Who follows is where the user is now, and not where that was when the conflict came.
        if wanted ->> 'tzMode' = 'follow' then
            wanted := wanted || jsonb_build_object('timezone', care.zone_of(who));
        end if;
        select * into t from care.reminder_tombstone as x where x.user_id = who and x.id = of_rule;
        if r.id is null and pending ? 'gone' and (t.id is null or t.rev <= rev) then
            verdict := care.bring_back(who, pending, wanted, clock);
        else
            verdict := care.update_reminder(who, of_rule, wanted, rev, clock);
        end if;
    end if;
    if verdict.status in ('applied', 'noop', 'conflict') then
        update sync.action as a set resolved_by = resolve_reminder.key where a.user_id = who and a.key = target.key;
    end if;
    return verdict;
end
$$;
