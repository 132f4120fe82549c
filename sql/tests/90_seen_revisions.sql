-- base.rev: a status is set only while the dose's is the one that the device saw.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
-- A dose of status `was` at rev 1, and what befalls it until rev 4: its status is changed and comes back; or its note changes;
-- or where it is due. `to`: the status that it has then.
create function test.passed(dose text, was text, what text) returns void language plpgsql as $$
#variable_conflict use_variable
begin
    perform test.plan('seen', dose, was);
    for n in 1..3 loop
        case what
            when 'status' then
                update care.dose_occurrence set status = case when n < 3 then (array['taken', 'skipped'])[n] else was end,
                    taken_at = case when n = 1 then sync.clock() when n = 3 and was in ('taken', 'made_up') then sync.clock() - interval '1 hour' end,
                    reason = case when n = 3 and was in ('made_up', 'skipped') then 'why' end where id = dose;
            when 'note' then update care.dose_occurrence set note = 'note ' || n where id = dose;
            when 'time' then update care.dose_occurrence set scheduled_at = scheduled_at + interval '1 minute' where id = dose;
        end case;
    end loop;
    if (select rev from care.dose_occurrence where id = dose) <> 4 then
        raise exception '% is not at rev 4', dose;
    end if;
end
$$;
create temp sequence place;
-- What an action that saw `rev` gets, in short: applied, noop, state.
create function test.seen(action text, was text, what text, rev bigint, many boolean default false) returns text language plpgsql as $$
#variable_conflict use_variable
declare
    dose text := 'seen' || nextval('place');
    a jsonb;
begin
    perform test.passed(dose, was, what);
    a := test.act('seen', dose, action,
        case when many then jsonb_build_object('occurrenceIds', jsonb_build_array(dose)) else jsonb_build_object('occurrenceId', dose, 'text', 't') end
            || case when action in ('markTaken', 'bulkMarkAll') then '{"takenAt":"2025-11-20T09:00Z"}'::jsonb else '{}' end,
        case when many then jsonb_build_object(dose, jsonb_build_object('rev', rev)) else jsonb_build_object('rev', rev) end);
    if a ->> 'status' in ('conflict', 'rejected') and (select d.rev from care.dose_occurrence as d where d.id = dose) <> 4 then
        return 'written in spite of ' || test.short(a);
    end if;
    return coalesce(a ->> 'code', a ->> 'status');
end
$$;
create temp table rule (action text, was text, stale text);
insert into rule values
    ('markTaken', 'scheduled', 'state'), ('markTaken', 'taken', 'noop'), ('markTaken', 'missed', 'applied'), ('markTaken', 'made_up', 'state'), ('markTaken', 'skipped', 'state'),
    ('markMissed', 'scheduled', 'state'), ('markMissed', 'taken', 'state'), ('markMissed', 'missed', 'noop'), ('markMissed', 'skipped', 'state'),
    ('makeUp', 'scheduled', 'state'), ('makeUp', 'taken', 'noop'), ('makeUp', 'missed', 'applied'), ('makeUp', 'made_up', 'noop'), ('makeUp', 'skipped', 'state'),
    ('skip', 'scheduled', 'state'), ('skip', 'taken', 'state'), ('skip', 'missed', 'applied'), ('skip', 'made_up', 'state'), ('skip', 'skipped', 'noop'),
    ('addNote', 'scheduled', 'applied'), ('addNote', 'taken', 'applied'), ('addNote', 'missed', 'applied'), ('addNote', 'made_up', 'applied'), ('addNote', 'skipped', 'applied');
select test.is(format('%s of what was %s, has changed and is so again', action, was), concat_ws(' ', test.seen(action, was, 'status', 1), test.seen(action, was, 'status', 3)), stale || ' ' || stale) from rule;
select test.is(format('%s on %s: who has seen it all, or said nothing', action, was), concat_ws(' ', test.seen(action, was, 'status', 4), test.seen(action, was, 'status', 99), test.seen(action, was, 'status', null)),
    case when stale = 'state' and was = 'scheduled' then 'applied applied applied' else concat_ws(' ', stale, stale, stale) end) from rule;
select test.is(format('%s on %s: another part has changed', action, was), concat_ws(' ', test.seen(action, was, 'note', 1), test.seen(action, was, 'time', 1)),
    case when stale = 'state' and was = 'scheduled' then 'applied applied' else stale || ' ' || stale end) from rule;
select test.is('bulkMarkAll, each item by its own', concat_ws(' ', test.seen('bulkMarkAll', 'scheduled', 'status', 1, true), test.seen('bulkMarkAll', 'scheduled', 'status', 4, true), test.seen('bulkMarkAll', 'scheduled', 'note', 1, true), test.seen('bulkMarkAll', 'missed', 'status', 1, true)), 'state applied applied applied');

select test.passed('mixed' || n, 'scheduled', case n when 1 then 'status' else 'note' end) from generate_series(1, 3) as n \g /dev/null
select test.is('of many those that have changed stay', (select test.short(a) || ' ' || test.items(a) from test.act('seen', 'mixed', 'bulkMarkAll', '{"occurrenceIds":["mixed1","mixed2","mixed3"]}', '{"mixed1":{"rev":1},"mixed2":{"rev":1}}') as a), 'partial mixed1:state mixed2:applied mixed3:applied');
-- The person decides: what was seen is told, and the decision is on the revision shown.
select test.passed('ask', 'scheduled', 'status') \g /dev/null
select test.is('a note beside a stale status is not added', test.short(test.act('seen', 'ask', 'skip', '{"occurrenceId":"ask","note":"n"}', '{"rev":1}')) || ' ' || test.row('ask'), 'conflict state scheduled 4 4 1');
select test.is('the conflict shows both', (select concat_ws(' ', answer #>> '{conflict,server,rev}', answer #>> '{conflict,server,status}', answer #>> '{conflict,local,status}') from sync.action where user_id = 'seen' and key = 'ask'), '4 scheduled skipped');
select test.is('and a resolve ends it', test.short(test.act('seen', 'ask2', 'resolve', '{"of":"ask","choice":"keep_local"}')) || ' ' || test.row('ask'), 'applied skipped n 5 5 5 ask2');
-- Two devices of one person, one of them without a network.
select test.plan('seen', 'two') \g /dev/null
select test.act('seen', 'tablet1', 'markTaken', '{"occurrenceId":"two"}', '{"rev":1}', 'tablet', 1), test.act('seen', 'tablet2', 'undo', '{"targetKey":"tablet1"}', null, 'tablet', 2), test.act('seen', 'tablet3', 'addNote', '{"occurrenceId":"two","text":"n"}', null, 'tablet', 3) \g /dev/null
select test.is('skip of rev 1 at rev 4', test.short(test.act('seen', 'phone1', 'skip', '{"occurrenceId":"two"}', '{"rev":1}', 'phone', 1)) || ' ' || test.row('two'), 'conflict state scheduled n 4 3 4 tablet3');
select test.is('what is not due is that first', test.short(test.act('seen', 'early', 'makeUp', '{"occurrenceId":"soon"}', '{"rev":1}')), 'rejected not_due')
from (select test.passed('soon', 'scheduled', 'status')) as p cross join lateral (select test.set_clock('2025-11-20 10:00Z')) as c;
