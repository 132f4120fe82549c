-- When a dose was taken: not more than a day before its window. And how many devices of a user are remembered.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
-- Doses at 08:00, windows until 11:00.
create temp sequence place;
create function test.time(was text, action text, payload jsonb, client jsonb default null, day date default '2025-11-20', start timestamptz default null) returns text language plpgsql as $$
#variable_conflict use_variable
declare
    dose text := 'time' || nextval('place');
    a jsonb;
begin
    perform test.plan('time', dose, was, day);
    update care.dose_occurrence set window_start = start where id = dose and start is not null;
    a := test.act('time', dose, action, payload || case when action = 'bulkMarkAll' then jsonb_build_object('occurrenceIds', jsonb_build_array(dose)) else jsonb_build_object('occurrenceId', dose) end, null, null, null, client);
    if a ->> 'status' = 'rejected' and (a ->> 'message' <> 'lies more than a day before the window of the dose' or a ? 'positions'
            or (select d.status from care.dose_occurrence as d where d.id = dose) <> was) then
        return a::text;
    end if;
    return test.short(a) || coalesce(' ' || (a #>> '{result,items,0,code}') || ' ' || (a #>> '{result,items,0,path}'), '');
end
$$;
select test.is(format('%s of %s at %s', action, was, at), test.time(was, action, jsonb_build_object(field, at)), case when at < '2025-11-19T08:00:00Z' then 'rejected invalid payload.' || field else want end)
from (values ('markTaken', 'takenAt', 'scheduled', 'applied'), ('markTaken', 'takenAt', 'missed', 'conflict late'), ('markTaken', 'takenAt', 'taken', 'noop'), ('markTaken', 'takenAt', 'skipped', 'conflict state'),
    ('makeUp', 'at', 'scheduled', 'applied'), ('makeUp', 'at', 'missed', 'applied'), ('makeUp', 'takenAt', 'missed', 'applied'), ('makeUp', 'at', 'made_up', 'noop')) as a(action, field, was, want)
cross join unnest('{2025-11-19T08:00:00Z,2025-11-19T07:59:59.999999Z,2024-11-20T08:00:00Z,2000-01-01T00:00:00Z}'::text[]) as at;
select test.is('as epoch milliseconds, and with an offset', test.time('scheduled', 'markTaken', '{"takenAt":1732089600000}') || ', ' || test.time('scheduled', 'markTaken', '{"takenAt":"2025-11-19T09:59:59+02:00"}'), 'rejected invalid payload.takenAt, rejected invalid payload.takenAt');
select test.is('a window that begins before the time of the dose', test.time('scheduled', 'markTaken', '{"takenAt":"2025-11-19T06:00Z"}', null, '2025-11-20', '2025-11-20 06:00Z') || ', ' || test.time('scheduled', 'markTaken', '{"takenAt":"2025-11-19T05:59Z"}', null, '2025-11-20', '2025-11-20 06:00Z'), 'applied, rejected invalid payload.takenAt');
select test.is('or after it', test.time('scheduled', 'markTaken', '{"takenAt":"2025-11-19T08:00Z"}', null, '2025-11-20', '2025-11-20 09:00Z'), 'applied');
select test.is('bulkMarkAll', test.time('scheduled', 'bulkMarkAll', '{"takenAt":"2024-11-20T08:00Z"}') || ', ' || test.time('missed', 'bulkMarkAll', '{"takenAt":"2024-11-20T08:00Z"}'), 'rejected invalid payload.takenAt invalid payload.takenAt, rejected invalid payload.takenAt invalid payload.takenAt');
select test.plan('times', 'tm' || n, 'scheduled', '2025-11-15'::date + n) from generate_series(1, 5) as n \g /dev/null
select test.is('of many those whose window it is before', (select test.short(a) || ' ' || test.items(a) from test.act('times', 'many', 'bulkMarkAll', '{"occurrenceIds":["tm1","tm2","tm3","tm4","tm5"],"takenAt":"2025-11-17T08:00Z"}') as a), 'partial tm1:applied tm2:applied tm3:applied tm4:invalid tm5:invalid');
select test.is('and criteria', (select test.short(a) || ' ' || test.items(a) from test.act('times', 'criteria', 'bulkMarkAll', '{"criteria":{"date":"2025-11-20"},"takenAt":"2025-11-17T08:00Z"}') as a), 'rejected invalid payload.takenAt tm5:invalid');

-- Where the payload names none: the device's clock, which may be wrong, or the server's.
select test.is('clientTime of last week: it had not ended then', test.time(status, 'makeUp', '{}', '"2025-11-13T08:00Z"')::jsonb ->> 'code', 'not_due') from unnest('{missed,scheduled}'::text[]) as status;
select test.is('is no matter beside a time', test.time('scheduled', 'markTaken', '{"takenAt":"2025-11-20T08:00Z"}', '"2024-11-20T08:00Z"'), 'applied');
select test.is('nor where none is asked for', test.time('scheduled', 'skip', '{}', '"2024-11-20T08:00Z"') || ', ' || test.time('scheduled', 'markMissed', '{}', '"2024-11-20T08:00Z"') || ', ' || test.time('scheduled', 'addNote', '{"text":"n"}', '"2024-11-20T08:00Z"'), 'applied, applied, applied');
select test.is('a dose of last week, marked then', test.time('scheduled', 'markTaken', '{}', '"2025-11-13T08:10Z"', '2025-11-13'), 'applied');
select test.is('a dose ahead is marked where the future is included', test.time('scheduled', 'bulkMarkAll', '{"includeFuture":true}', null, '2025-11-24') || ', ' || test.time('scheduled', 'bulkMarkAll', '{"includeFuture":true}', '"2025-11-19T12:00Z"', '2025-11-24'), 'applied, applied');
select test.is('and by a device that tells it a day later, but not by a time given', test.time('scheduled', 'bulkMarkAll', '{"includeFuture":true}', '"2025-11-19T11:59:59Z"', '2025-11-24') || ', ' || test.time('scheduled', 'bulkMarkAll', '{"includeFuture":true,"takenAt":"2025-11-20T12:00Z"}', null, '2025-11-24'), 'applied, rejected invalid payload.takenAt invalid payload.takenAt');

-- Resolve.
create function test.settled(n int, choice text, merged jsonb default null) returns text language plpgsql as $$
begin
    perform test.plan('ts', 'ts' || n, 'skipped');
    perform test.act('ts', 'c' || n, 'markTaken', jsonb_build_object('occurrenceId', 'ts' || n));
    return test.short(test.act('ts', 'r' || n, 'resolve', jsonb_build_object('of', 'c' || n, 'choice', choice, 'merged', merged))) || ' ' || split_part(test.row('ts' || n), ' ', 1);
end
$$;
select test.is('merged ' || merged::text, test.settled(n, 'merge', merged), want) from (values
    (1, '{"status":"taken","takenAt":"2024-11-20T08:00Z"}'::jsonb, 'rejected invalid payload.merged.takenAt skipped'), (2, '{"status":"made_up","takenAt":"2025-11-19T07:59Z"}', 'rejected invalid payload.merged.takenAt skipped'),
    (3, '{"status":"taken","takenAt":"2025-11-19T08:00Z"}', 'applied taken'), (4, '{"status":"missed","takenAt":"2024-11-20T08:00Z"}', 'applied missed'), (5, '{"status":"taken"}', 'applied taken')) as t(n, merged, want);
select test.act('ts', 'nowhere', 'markTaken', '{"occurrenceId":"later","takenAt":"2024-11-20T08:00Z"}'), test.act('ts', 'nowhere2', 'markTaken', '{"occurrenceId":"later","takenAt":"2025-11-20T08:00Z"}') \g /dev/null
select test.plan('ts', 'later') \g /dev/null
select test.is('a dose that came to be later', test.short(test.act('ts', 'there', 'resolve', '{"of":"nowhere","choice":"keep_local"}')) || ', ' || test.short(test.act('ts', 'keep', 'resolve', '{"of":"there","choice":"keep_local"}')) || ', ' || test.short(test.act('ts', 'merge', 'resolve', '{"of":"there","choice":"merge","merged":{"status":"taken"}}'))
    || ', ' || test.short(test.act('ts', 'accept', 'resolve', '{"of":"there","choice":"accept_server"}')) || ', ' || test.short(test.act('ts', 'keep2', 'resolve', '{"of":"nowhere2","choice":"keep_local"}', '{"rev":1}')), 'conflict state, rejected invalid payload.of, rejected invalid payload.of, noop, applied');
select test.is('no time of another year is anywhere', (select count(*) from care.dose_occurrence where user_id in ('time', 'times', 'ts') and taken_at < '2025-11-01'), 0::bigint);

-- Two equal notes: what was there before them comes back with the last of their undos, in whatever order.
create function test.notes(dose text) returns text language sql as $$
    select coalesce(d.note, '-') || ' ' || coalesce((select string_agg(n.key || '=' || n.text, ',' order by n.key) from care.dose_note as n where n.occurrence_id = d.id), '-') from care.dose_occurrence as d where d.id = $1 $$;
create function test.note(dose text, key text, note text) returns void language sql as $$
    select test.act('note', key, 'addNote', jsonb_build_object('occurrenceId', dose, 'text', note)) $$;
create function test.take_back(key text) returns text language sql as $$
    select test.short(test.act('note', 'u' || key, 'undo', jsonb_build_object('targetKey', key))) $$;
create function test.equal(before text, keys text[], undone int[]) returns text language plpgsql as $$
#variable_conflict use_variable
declare
    dose text := 'note' || nextval('place');
    k text;
begin
    perform test.plan('note', dose);
    update care.dose_occurrence set note = before where id = dose and before is not null;
    foreach k in array keys loop
        perform test.note(dose, dose || k, 'x');
    end loop;
    return (select string_agg(test.take_back(dose || keys[n]) || ' ' || split_part(test.notes(dose), ' ', 1), ', ' order by place) from unnest(undone) with ordinality as u(n, place));
end
$$;
select test.is(format('before %s, undone %s', before, undone), test.equal(before, '{a,b,c}', undone), format('applied x, applied x, applied %s', coalesce(before, '-')))
from unnest('{old,NULL,x,""}'::text[]) as before cross join (values ('{1,2,3}'::int[]), ('{1,3,2}'), ('{2,1,3}'), ('{2,3,1}'), ('{3,1,2}'), ('{3,2,1}')) as t(undone);
select test.plan('note', 'nt' || n) from generate_series(1, 5) as n \g /dev/null
select test.note('nt1', 'a', 'x'), test.note('nt1', 'b', 'y'), test.note('nt1', 'c', 'x') \g /dev/null
select test.is('another one between: that comes back', test.take_back('c') || ' ' || test.notes('nt1'), 'applied y a=x,b=y');
select test.note('nt2', 'd', 'x'), test.note('nt2', 'e', 'x') \g /dev/null
select test.take_back('d') \g /dev/null
select test.note('nt2', 'f', 'x') \g /dev/null
select test.is('a third after the first has gone', test.take_back('e') || ' ' || test.notes('nt2') || ', ' || test.take_back('f') || ' ' || test.notes('nt2'), 'applied x f=x, applied - -');
select test.act('note', 'g', 'markTaken', '{"occurrenceId":"nt3","note":"x"}'), test.act('note', 'h', 'markTaken', '{"occurrenceId":"nt3","note":"x"}') \g /dev/null
select test.is('notes beside a status: each part by itself', test.take_back('g') || ' ' || test.row('nt3') || ', ' || test.take_back('h') || ' ' || test.row('nt3'), 'applied scheduled x 3 3 2 ug, applied scheduled 4 3 4 uh');
select test.note('nt4', 'i', 'x') \g /dev/null
select test.set_clock('2025-11-21 12:00:01Z') \g /dev/null
select test.note('nt4', 'j', 'x') \g /dev/null
select test.is('the first is past undoing: it stays', test.take_back('i') || ', ' || test.take_back('j') || ' ' || test.notes('nt4'), 'conflict late, applied x i=x');
update sync.action set created_at = sync.clock() - interval '91 days' where user_id = 'note' and key = 'i';
delete from sync.action where user_id = 'note' and created_at < sync.clock() - interval '90 days';
select test.note('nt4', 'k', 'x') \g /dev/null
select test.is('and long forgotten, still', test.take_back('k') || ' ' || test.notes('nt4'), 'applied x i=x');
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
select test.note('nt5', 'l', 'x') \g /dev/null
update care.dose_occurrence set note = 'backend' where id = 'nt5';
update care.dose_occurrence set note = 'x' where id = 'nt5';
select test.note('nt5', 'm', 'x') \g /dev/null
select test.is('a backend''s own of the same text stays', test.take_back('m') || ' ' || test.notes('nt5') || ', ' || test.take_back('l'), 'applied x l=x, conflict superseded');

-- Devices: a hundred are remembered, those that have acted last.
select test.plan('dev', 'dev') \g /dev/null
create function test.number(device text, n bigint, key text) returns text language sql as $$
    select test.short(test.act('dev', key, 'addNote', '{"occurrenceId":"dev","text":"n"}', null, device, n)) $$;
create function test.devices() returns text language sql as $$ select count(*) || ' ' || coalesce(sum((device_id = 'phone')::int), 0) from sync.device where user_id = 'dev' $$;
select test.number('phone', n, 'phone' || n) from generate_series(1, 3) as n \g /dev/null
select test.set_clock('2025-11-20 12:00:01Z') \g /dev/null
select test.number('made up ' || n, 1, 'first ' || n) from generate_series(1, 99) as n \g /dev/null
select test.is('a hundred devices', test.devices(), '100 1');
select test.set_clock('2025-11-20 12:00:02Z') \g /dev/null
select test.number('phone', 4, 'phone4') \g /dev/null
select test.set_clock('2025-11-20 12:00:03Z') \g /dev/null
select test.number('made up 100', 1, 'first 100') \g /dev/null
select test.is('one more: who acted lately stays', test.devices(), '100 1');
select test.set_clock('2025-11-20 12:00:04Z') \g /dev/null
select test.number('invented ' || n, 1, 'invented ' || n) from generate_series(1, 1000) as n \g /dev/null
delete from care.dose_note where user_id = 'dev' and key like 'invented%'; -- A dose takes so many and no more.
select test.is('a thousand more', test.devices(), '100 0');
select test.is('a repeat of what it did is answered as before', test.number('phone', 3, 'phone3'), 'applied replayed');
select test.is('its next number is not done', test.number('phone', 5, 'phone5'), 'retry out_of_order 1');
select test.is('but with the number that is expected', test.number('phone', 1, 'phone5') || ', ' || test.number('phone', 2, 'phone6'), 'applied, applied');
select test.is('and what it did under that number before is not done again', test.number('phone', 1, 'phone1'), 'applied replayed');
select test.is('in all each once', (select string_agg(key, ' ' order by key collate "C") from care.dose_note where occurrence_id = 'dev' and key like 'phone%'), 'phone1 phone2 phone3 phone4 phone5 phone6');
select test.set_clock('2025-11-19 12:00Z') \g /dev/null
select test.is('a clock that goes back forgets no newcomer', test.number('newcomer', 1, 'new1') || ', ' || test.number('newcomer', 2, 'new2') || ', ' || test.devices(), 'applied, applied, 100 1');
select test.set_clock('2025-11-20 12:00:05Z') \g /dev/null
select test.is('an answer that is not kept makes no row', test.number('nobody', 7, 'no') || ' ' || (select count(*) from sync.device where device_id = 'nobody'), 'retry out_of_order 1 0');
select test.is('nor does an action without a number', test.short(test.act('dev', 'none', 'addNote', '{"occurrenceId":"dev","text":"n"}', null, 'unnumbered')) || ' ' || (select count(*) from sync.device where device_id = 'unnumbered'), 'applied 0');
select test.is('other users have their own', (select count(*) from sync.device where user_id = 'seen'), 2::bigint) where exists (select from sync.device where user_id = 'seen');
select test.is('the stream is contiguous', (select count(*) from sync.event where user_id = 'dev'), test.top('dev'));
