-- A clock that has lost the time loses no action: of each type, such a clientTime counts as none.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
select test.act('lost', 'c1', 'createMedication', '{"id":"lost-p","name":"Iron","times":["11:00"],"startsOn":"2025-11-17","scheduleIds":["lost-k"]}'),
    test.act('lost', 'c2', 'createStack', '{"id":"lost-s","name":"Morning","items":[{"productId":"lost-p"}]}'),
    test.act('lost', 'c3', 'createReminder', '{"id":"5b1c8a4e-0d8f-4c1b-9a43-000000000001","productId":"lost-p","time":"11:30"}') \g /dev/null
select test.plan('lost', 'lost-open'), test.plan('lost', 'lost-missed', 'missed'), test.plan('lost', 'lost-undone'), test.plan('lost', 'lost-skipped', 'skipped') \g /dev/null
select test.act('lost', 'done', 'skip', '{"occurrenceId":"lost-undone"}'), test.act('lost', 'clash', 'markTaken', '{"occurrenceId":"lost-skipped"}') \g /dev/null

-- What an action would be answered; nothing of it stays.
create function test.would(type text, payload jsonb, client jsonb) returns jsonb language plpgsql as $$
declare
    a jsonb;
begin
    a := test.act('lost', 'would', type, payload, client_time => client, tz => 'Europe/Berlin');
    raise exception using errcode = 'ZZ001', message = a::text;
exception when sqlstate 'ZZ001' then
    return regexp_replace(sqlerrm, '"createdAt": "[^"]*"', '"createdAt": ""', 'g')::jsonb;
end
$$;
create temp table act (type text, payload jsonb);
insert into act values
    ('markTaken', '{"occurrenceId":"lost-open"}'), ('markTaken', '{"occurrenceId":"lost-open","takenAt":"2025-11-20T10:00:00+01:00"}'),
    ('makeUp', '{"occurrenceId":"lost-missed","reason":"late"}'), ('markMissed', '{"occurrenceId":"lost-open"}'), ('skip', '{"occurrenceId":"lost-open"}'),
    ('addNote', '{"occurrenceId":"lost-open","text":"n"}'), ('bulkMarkAll', '{"occurrenceIds":["lost-open"]}'), ('bulkMarkAll', '{"criteria":{}}'),
    ('undo', '{"targetKey":"done"}'), ('resolve', '{"of":"clash","choice":"keep_local"}'), ('logDose', '{"id":"lost-log","productId":"lost-p"}'),
    ('createMedication', '{"id":"lost-q","name":"Zinc","frequency":"weekly"}'), ('updateMedication', '{"id":"lost-p","times":["11:00","20:00"]}'),
    ('archiveMedication', '{"id":"lost-p"}'), ('createSchedule', '{"id":"lost-k2","productId":"lost-p","time":"21:00"}'), ('updateSchedule', '{"id":"lost-k","enabled":false}'),
    ('deleteSchedule', '{"id":"lost-k"}'), ('createStack', '{"id":"lost-s2","name":"Evening"}'), ('updateStack', '{"id":"lost-s","name":"Noon"}'), ('deleteStack', '{"id":"lost-s"}'),
    ('updateSettings', '{"timezone":"Asia/Tokyo"}'), ('createReminder', '{"id":"5b1c8a4e-0d8f-4c1b-9a43-000000000002","productId":"lost-p","time":"18:00"}'),
    ('updateReminder', '{"id":"5b1c8a4e-0d8f-4c1b-9a43-000000000001","time":"19:00"}'), ('deleteReminder', '{"id":"5b1c8a4e-0d8f-4c1b-9a43-000000000001"}'),
    ('setReminderOccurrence', '{"id":"5b1c8a4e-0d8f-4c1b-9a43-000000000001","date":"2025-11-21","enabled":false}'),
    ('snoozeReminder', jsonb_build_object('occurrenceId', care.occurrence_id('5b1c8a4e-0d8f-4c1b-9a43-000000000001', '2025-11-20 11:30'), 'minutes', 45)),
    ('registerDevice', '{"deviceId":"lost-phone","platform":"webhook","token":"t","permission":"granted"}'), ('removeDevice', '{"deviceId":"lost-phone"}');
create temp table clock (told jsonb);
insert into clock values ('0'), ('420000'), ('-1'), ('1e300'), ('9007199254740993'), ('"1970-01-01T00:00:00Z"'), ('"1970-01-01T01:07:00+01:00"'), ('"1999-12-31T23:59:59.999Z"'), ('"0001-01-01T00:00:00+15:00"'),
    ('"2005-01-01T00:00:00Z"'), ('"2025-08-22T12:00:00Z"'), ('"2101-01-01T00:00:00Z"'), ('"2150-06-01T08:00:00-05:00"'), ('"9999-12-31T23:59:59-15:00"'), ('5680281600000');
select test.is('every type is tried', (select string_agg(type, ' ' order by type) from sync.action_type where not by_app and function like 'care.%' and type not in (select type from act)), null);
select test.is('each does something', (select string_agg(type, ' ') from act where test.would(type, payload, null) ->> 'status' not in ('applied', 'noop')), null);
select test.is('a lost clock counts as none: ' || type, (select string_agg(told::text || ': ' || test.short(test.would(type, payload, told)), '; ') from clock where test.would(type, payload, told) is distinct from test.would(type, payload, null)), null)
from act;
select test.is('a resolve of a reminder or a medication, too', (
    select string_agg(told::text, '; ') from clock
    where (select count(*) from (values
        (test.act('lost', 'm' || md5(told::text), 'updateMedication', '{"id":"lost-p","name":"Other"}', '{"rev":0}')), (test.act('lost', 'r' || md5(told::text), 'updateReminder', '{"id":"5b1c8a4e-0d8f-4c1b-9a43-000000000001","time":"10:00"}', '{"rev":0}'))) as t(a)
        where a ->> 'status' <> 'conflict' or test.act('lost', 'of' || (a ->> 'key'), 'resolve', jsonb_build_object('of', a -> 'key', 'choice', 'accept_server'), client_time => told) ->> 'status' <> 'noop') > 0), null);
select test.is('what is not a time is an error: ' || told::text, test.short(test.would('addNote', '{"occurrenceId":"lost-open","text":"n"}', told)), 'rejected invalid clientTime') from (values ('"yesterday"'::jsonb), ('"1970-01-01"'), ('"1970-13-01T00:00:00Z"'), ('true'), ('1.5'), ('{}')) as t(told);
select test.is('takenAt is judged by itself: ' || at::text, test.short(test.would('markTaken', jsonb_build_object('occurrenceId', 'lost-open', 'takenAt', at), null)), 'rejected invalid payload.takenAt')
from (values ('420000'::jsonb), ('"1970-01-01T00:00:00Z"'), ('"1999-12-31T23:59:59Z"'), ('"2150-01-01T00:00:00Z"')) as t(at);
select test.is('a clock within reach still says when', test.would('markTaken', '{"occurrenceId":"lost-open"}', '"2025-11-20T08:10:00Z"') #>> '{result,takenAt}', '2025-11-20T08:10:00+00:00');
select test.is('feedback is kept, too', (select max(dropped) from sync.append_feedback(array(select 'lost' from clock), array(select jsonb_build_object('type', 'tap', 'id', md5(told::text), 'timestamp', told) from clock))), 0::bigint);
select test.is('as of now', (select count(*) from care.feedback where user_id = 'lost' and at = '2025-11-20 12:00Z') = (select count(*) from clock), true);
delete from care.feedback where user_id = 'lost';
