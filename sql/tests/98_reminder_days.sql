-- Actions on single occurrences of reminders, the snapshots of one rule, and previews.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
insert into care.user_settings (user_id, zone) values ('rd', 'Europe/Berlin'), ('rs', 'UTC');
create function test.one_day(who text, key text, type text, payload jsonb, base jsonb default null, device text default null, client_time jsonb default null) returns text language sql as $$
    select concat_ws(' ', test.short(a), a #>> '{result,status}', left(a #>> '{result,start}', 16), left(a #>> '{result,snoozedUntil}', 16), nullif(a #>> '{result,snoozeCount}', '0'), a #>> '{result,rev}')
    from test.act(who, key, type, payload, base, device, null, client_time) as a $$;
create function test.next(who text, rule text, n int default 3) returns text language sql as $$
    select string_agg(to_char((u ->> 'start')::timestamptz, 'MM-DD HH24:MI'), ', ') from sync.reminder(who, rule, n, null) as s, jsonb_array_elements(s.body::jsonb -> 'upcoming') as u $$;
select test.act('rd', 'c', 'createReminder', '{"id":"rd-1","clientId":"tmp-rd","productId":"p","time":"14:00","snoozeMinutes":20}') \g /dev/null
select care.occurrence_id('rd-1', '2025-11-20 14:00') as today, care.occurrence_id('rd-1', '2025-11-21 14:00') as tomorrow, care.occurrence_id('rd-1', '2025-11-22 14:00') as third \gset
select test.is('the next times carry ids', (select string_agg((u ->> 'id' in (:'today', :'tomorrow'))::text || ' ' || (u ->> 'ruleId') || ' ' || (u ->> 'status'), ', ') from sync.reminder('rd', 'tmp-rd', 2, null) as s, jsonb_array_elements(s.body::jsonb -> 'upcoming') as u), 'true rd-1 scheduled, true rd-1 scheduled');

-- Cancelled, brought back, moved: by id, or by rule and day. Idempotent.
select test.is(why, test.one_day('rd', 's' || n, type, payload), want) from (values
    (1, 'cancelled', 'setReminderOccurrence', jsonb_build_object('occurrenceId', :'tomorrow', 'enabled', false), 'applied cancelled 2025-11-21T14:00 1'),
    (2, 'again is nothing', 'setReminderOccurrence', '{"id":"rd-1","date":"2025-11-21","enabled":false}'::jsonb, 'noop cancelled 2025-11-21T14:00 1'),
    (3, 'brought back', 'setReminderOccurrence', '{"id":"tmp-rd","date":"2025-11-21","enabled":true}', 'applied scheduled 2025-11-21T14:00 2'),
    (4, 'to bring back what was never away is nothing', 'setReminderOccurrence', '{"id":"rd-1","date":"2025-11-24","enabled":true}', 'noop scheduled 2025-11-24T14:00 0'),
    (5, 'moved', 'setReminderOccurrence', '{"id":"rd-1","date":"2025-11-22","movedTo":"2025-11-23T09:30"}', 'applied scheduled 2025-11-23T09:30 1'),
    (6, 'moved to where it is is nothing', 'setReminderOccurrence', jsonb_build_object('occurrenceId', :'third', 'movedTo', '2025-11-23T09:30'), 'noop scheduled 2025-11-23T09:30 1'),
    (7, 'and back', 'setReminderOccurrence', jsonb_build_object('occurrenceId', :'third', 'movedTo', null), 'applied scheduled 2025-11-22T14:00 2'),
    (8, 'a patch of one occurrence', 'updateReminder', jsonb_build_object('id', 'rd-1', 'applyTo', 'occurrence', 'occurrenceId', :'third', 'time', '16:00', 'enabled', true, 'rev', 1), 'applied scheduled 2025-11-22T16:00 3'),
    (9, 'to the rule''s time is back', 'updateReminder', '{"id":"rd-1","applyTo":"occurrence","date":"2025-11-22","time":"14:00"}', 'applied scheduled 2025-11-22T14:00 4')) as t(n, why, type, payload, want);
-- A rule's whole object, sent back for one day: its rev is the rule's, and only what the person changed of it counts.
select test.act('rw', 'c', 'createReminder', '{"id":"rw-1","productId":"p","time":"14:00","timezone":"UTC"}') \g /dev/null
create function test.whole(n int, day text, changes jsonb) returns text language sql as $$
    select test.one_day('rw', 'w' || whole.n, 'updateReminder', (a.answer -> 'result') || jsonb_build_object('applyTo', 'occurrence', 'date', day) || changes)
    from sync.action as a where a.user_id = 'rw' and a.key = 'c' $$;
select test.one_day('rw', 'o1', 'setReminderOccurrence', '{"id":"rw-1","date":"2025-11-22","enabled":false}'), test.one_day('rw', 'o2', 'setReminderOccurrence', '{"id":"rw-1","date":"2025-11-23","movedTo":"2025-11-23T16:00"}') \g /dev/null
select test.is(format('%s of the whole object', changes), test.whole(n, day, changes), want) from (values
    (1, '2025-11-22', '{"time":"15:00"}'::jsonb, 'applied cancelled 2025-11-22T15:00 2'), (2, '2025-11-23', '{"enabled":false}', 'applied cancelled 2025-11-23T16:00 2'), (3, '2025-11-24', '{"time":"15:00","enabled":false}', 'applied cancelled 2025-11-24T15:00 1'),
    (4, '2025-11-23', '{}', 'applied scheduled 2025-11-23T14:00 3'), (5, '2025-11-25', '{}', 'noop scheduled 2025-11-25T14:00 0'), (6, '2025-11-25', '{"movedTo":"2025-11-25T18:00"}', 'applied scheduled 2025-11-25T18:00 1')) as t(n, day, changes, want);
select test.act('rw', 'u', 'updateReminder', '{"id":"rw-1","time":"13:00"}') \g /dev/null
select test.is('by the rule as the device saw it', test.whole(7, '2025-11-26', '{"enabled":false}') || ', ' || test.whole(8, '2025-11-27', '{"time":"13:30"}') || ', ' || test.whole(9, '2025-11-24', '{}'), 'applied cancelled 2025-11-26T13:00 1, applied scheduled 2025-11-27T13:30 1, applied scheduled 2025-11-24T13:00 2');
select test.is(format('refused: %s', payload), test.one_day('rd', 'x' || n, 'setReminderOccurrence', payload), 'rejected invalid payload.' || path) from (values
    (1, '{"enabled":true}'::jsonb, 'occurrenceId'), (2, '{"id":"rd-1","enabled":true}', 'occurrenceId'), (3, '{"id":"rd-1","date":"2025-11-21"}', 'enabled'), (4, '{"id":"rd-1","date":"21 Nov","enabled":true}', 'date'), (5, '{"occurrenceId":"none","enabled":true}', 'occurrenceId'),
    (6, '{"id":"rd-1","date":"2025-11-21","movedTo":"2025-11-21 09:30"}', 'movedTo'), (7, '{"id":"rd-1","date":"2025-11-21","movedTo":"2025-02-30T09:30"}', 'movedTo'), (8, '{"id":"none","date":"2025-11-21","enabled":true}', 'id'), (9, '{"id":"rd-1","date":"2025-11-21","enabled":1}', 'enabled'), (10, '{"id":"rd-1","date":"2025-11-21","time":"9"}', 'time')) as t(n, payload, path);
select test.act('rd', 'w', 'createReminder', '{"id":"rd-w","productId":"p","time":"08:00","repeat":"weekdays"}') \g /dev/null
select test.is('a day that the rule does not have', test.one_day('rd', 'w1', 'setReminderOccurrence', '{"id":"rd-w","date":"2025-11-22","enabled":false}') || ', ' || test.one_day('rd', 'w2', 'setReminderOccurrence', jsonb_build_object('occurrenceId', care.occurrence_id('rd-w', '2025-11-22 08:00'), 'enabled', false)), 'rejected invalid payload.date, rejected invalid payload.occurrenceId');
select test.is('another user''s occurrence is unknown', test.one_day('rs', 'x', 'setReminderOccurrence', jsonb_build_object('occurrenceId', :'today', 'enabled', false)), 'rejected invalid payload.occurrenceId');
select test.one_day('rd', 'm1', 'setReminderOccurrence', '{"id":"rd-1","date":"2025-11-22","movedTo":"2025-11-22T09:15"}'), test.one_day('rd', 'm2', 'setReminderOccurrence', '{"id":"rd-1","date":"2025-11-21","enabled":false}'), test.act('rd', 'm3', 'updateReminder', '{"id":"rd-1","time":"15:00"}') \g /dev/null
select test.is('they survive an edit of the time', test.next('rd', 'rd-1', 4), '11-20 14:00, 11-22 08:15, 11-23 14:00, 11-24 14:00');
select test.is('and are known by the id of before', test.one_day('rd', 'm4', 'setReminderOccurrence', jsonb_build_object('occurrenceId', :'tomorrow', 'enabled', true)), 'applied scheduled 2025-11-21T15:00 4');
select test.is('also where nothing had been decided', test.one_day('rd', 'm5', 'setReminderOccurrence', jsonb_build_object('occurrenceId', care.occurrence_id('rd-1', '2025-11-28 14:00'), 'enabled', true)), 'noop scheduled 2025-11-28T15:00 0');
select test.act('rd', 'wk', 'createReminder', '{"id":"rd-k","productId":"p","time":"08:00","repeat":"custom","repeatOn":[4]}') \g /dev/null
select test.is('each that a device is shown is known, months ahead too', (select string_agg(test.one_day('rd', 'wk' || n, 'setReminderOccurrence', jsonb_build_object('occurrenceId', u ->> 'id', 'enabled', true)), ', ') from sync.reminder('rd', 'rd-k', 30, null) as s, jsonb_array_elements(s.body::jsonb -> 'upcoming') with ordinality as t(u, n) where n in (1, 30)), 'noop scheduled 2025-11-27T08:00 0, noop scheduled 2026-06-18T08:00 0');
select test.act('rd', 'wkd', 'deleteReminder', '{"id":"rd-k"}') \g /dev/null
select test.is('each change is told once, with both names of its id', (select count(*) || ' ' || bool_and(data ->> 'id' = data ->> 'occurrenceId') from sync.event where user_id = 'rd' and name = 'reminder.occurrence_updated'), '9 true');

-- What another device decided since is a conflict; what jobs wrote is not, nor what the device itself did.
select test.is('decided by a tablet', test.one_day('rd', 'k1', 'setReminderOccurrence', '{"id":"rd-1","date":"2025-11-25","enabled":false}', null, 'tablet'), 'applied cancelled 2025-11-25T15:00 1');
select test.is('a phone that has not seen it', test.one_day('rd', 'k2', 'setReminderOccurrence', '{"id":"rd-1","date":"2025-11-25","movedTo":"2025-11-25T17:00"}', '{"rev":0}', 'phone'), 'conflict state');
select test.is('nor by an occurrence that is sent back by the socket', test.one_day('rd', 'k2s', 'setReminderOccurrence', '{"id":"rd-1","date":"2025-11-25","movedTo":"2025-11-25T17:00","rev":0}', null, 'phone') || ', ' || test.one_day('rd', 'k2s', 'setReminderOccurrence', '{"id":"rd-1","date":"2025-11-25","movedTo":"2025-11-25T17:00"}', '{"rev":0}', 'phone'), 'conflict state, conflict state replayed');
select test.is('what is no revision is told', test.one_day('rd', 'k2x', 'setReminderOccurrence', '{"id":"rd-1","date":"2025-11-25","movedTo":"2025-11-25T17:00","rev":-1}', null, 'phone'), 'rejected invalid payload.rev');
select test.is('is shown both', (select (answer #>> '{conflict,entity,type}') || ' ' || (answer #>> '{conflict,fields}') || ' ' || (answer #>> '{conflict,server,changedBy,deviceId}') from sync.action where user_id = 'rd' and key = 'k2'),
    'reminderOccurrence [{"base": null, "name": "movedTo", "local": "2025-11-25T17:00", "server": null}] tablet');
select test.is('the tablet itself is not in its own way', test.one_day('rd', 'k3', 'setReminderOccurrence', '{"id":"rd-1","date":"2025-11-25","movedTo":"2025-11-25T18:00"}', '{"rev":0}', 'tablet'), 'applied cancelled 2025-11-25T18:00 2');
select test.is('another decision since is another conflict', test.one_day('rd', 'k4', 'resolve', '{"of":"k2","choice":"keep_local"}', null, 'phone') || ', ' || test.one_day('rd', 'k5', 'resolve', '{"of":"k4","choice":"merge","merged":{"enabled":true}}', null, 'phone'), 'conflict state, applied scheduled 2025-11-25T17:00 3');
select test.is('accepted or merged as it is', test.one_day('rd', 'k6', 'resolve', '{"of":"k2","choice":"accept_server"}', null, 'phone') || ', ' || test.one_day('rd', 'k7', 'resolve', '{"of":"k2","choice":"merge"}', null, 'phone'), 'noop scheduled 2025-11-25T17:00 3, noop scheduled 2025-11-25T17:00 3');
select test.is('same value, no conflict', test.one_day('rd', 'k8', 'setReminderOccurrence', '{"id":"rd-1","date":"2025-11-25","enabled":true}', '{"rev":0}', 'tablet'), 'noop scheduled 2025-11-25T17:00 3');
begin;
select set_config('sync.actor', 'system', true) \g /dev/null
update care.reminder_occurrence set status = 'sent' where rule_id = 'rd-1' and day = '2025-11-25';
commit;
select test.is('what a job wrote is no decision', test.one_day('rd', 'k9', 'setReminderOccurrence', '{"id":"rd-1","date":"2025-11-25","enabled":false}', '{"rev":3}', 'tablet') || ' ' || (select count(*) from care.reminder_occurrence_audit where actor = 'system'), 'applied cancelled 2025-11-25T17:00 5 0');

-- Snoozes: the latest counts, four hours at most, and ten.
select test.set_clock('2025-11-20 14:05Z') \g /dev/null
select test.is(why, test.one_day('rd', 'z' || n, 'snoozeReminder', payload || jsonb_build_object('occurrenceId', care.occurrence_id('rd-1', '2025-11-20 15:00')), null, null, client_time), want) from (values
    (1, 'for as long as the rule says', '{}'::jsonb, null::jsonb, 'applied scheduled 2025-11-20T15:00 2025-11-20T14:25 1 1'),
    (2, 'a shorter one changes nothing', '{"minutes":5}', null, 'noop scheduled 2025-11-20T15:00 2025-11-20T14:25 1 1'),
    (3, 'minutes count from when the person acted', '{"minutes":30}', '"2025-11-20T14:01:00Z"', 'applied scheduled 2025-11-20T15:00 2025-11-20T14:31 2 2'),
    (4, 'until', '{"until":"2025-11-20T16:00:00Z"}', null, 'applied scheduled 2025-11-20T15:00 2025-11-20T16:00 3 3'),
    (5, 'an earlier one changes nothing', '{"until":"2025-11-20T15:00:00Z"}', null, 'noop scheduled 2025-11-20T15:00 2025-11-20T16:00 3 3'),
    (6, 'four hours at most', '{"until":"2025-11-21T15:00:00Z"}', null, 'applied scheduled 2025-11-20T15:00 2025-11-20T18:00 4 4'),
    (7, 'and no further', '{"until":"2025-11-21T16:00:00Z"}', null, 'noop scheduled 2025-11-20T15:00 2025-11-20T18:00 4 4')) as t(n, why, payload, client_time, want);
select test.set_clock('2025-11-20 19:00Z') \g /dev/null
select test.is('one that is over already is nothing', test.one_day('rd', 'z8', 'snoozeReminder', jsonb_build_object('occurrenceId', care.occurrence_id('rd-1', '2025-11-20 15:00'), 'minutes', 10)), 'noop scheduled 2025-11-20T15:00 2025-11-20T18:00 4 4');
select test.set_clock('2025-11-20 14:05Z') \g /dev/null
select test.is('it comes at the end of its snooze', test.next('rd', 'rd-1', 2), '11-20 18:00, 11-21 14:00');
select test.is(format('refused: %s', payload), test.one_day('rd', 'y' || n, 'snoozeReminder', payload), 'rejected invalid payload.' || path) from (values
    (1, '{}'::jsonb, 'occurrenceId'), (2, '{"occurrenceId":"none"}', 'occurrenceId'), (3, '{"occurrenceId":"o","minutes":0}', 'minutes'), (4, '{"occurrenceId":"o","until":"soon"}', 'until')) as t(n, payload, path);
select test.act('rs', 'c', 'createReminder', '{"id":"rs-1","clientId":"tmp-rs","productId":"rs-p","time":"14:00"}') \g /dev/null
select care.occurrence_id('rs-1', '2025-11-20 14:00') as today \gset
select test.is('ten times', (select string_agg(split_part(test.one_day('rs', 'z' || n, 'snoozeReminder', jsonb_build_object('occurrenceId', :'today', 'minutes', n * 6)), ' ', 1), ' ' order by n) from generate_series(1, 11) as n), 'applied applied applied applied applied applied applied applied applied applied rejected');
select test.is('the eleventh is refused by a code, and a shorter one is nothing', test.one_day('rs', 'zz' || n, 'snoozeReminder', jsonb_build_object('occurrenceId', :'today', 'minutes', n)), want) from (values (100, 'rejected too_many payload.occurrenceId'), (60, 'noop scheduled 2025-11-20T14:00 2025-11-20T15:05 10 10')) as t(n, want);
-- What has passed never comes.
select test.is(format('moved: %s', payload), test.one_day('rs', 'mv' || n, 'setReminderOccurrence', '{"id":"rs-1","date":"2025-11-20"}' || payload, client_time => seen), want) from (values
    (1, '{"movedTo":"2025-11-20T14:04"}'::jsonb, null::jsonb, 'rejected invalid payload.movedTo'), (2, '{"movedTo":"2025-11-20T14:05"}', null, 'rejected invalid payload.movedTo'), (3, '{"time":"13:00"}', null, 'rejected invalid payload.time'),
    (4, '{"movedTo":"2025-11-19T20:00"}', null, 'rejected invalid payload.movedTo'), (5, '{"movedTo":"2025-11-20T14:04","enabled":false}', null, 'rejected invalid payload.movedTo'),
    (6, '{"movedTo":"2025-11-20T20:00","enabled":true}', null, 'applied scheduled 2025-11-20T20:00 2025-11-20T15:05 10 11'), (7, '{"movedTo":null}', null, 'rejected invalid payload.movedTo'),
    (8, '{"movedTo":"2025-11-20T13:30"}', '"2025-11-20T13:00:00Z"', 'applied scheduled 2025-11-20T13:30 2025-11-20T15:05 10 12'), (9, '{"movedTo":null}', null, 'applied scheduled 2025-11-20T14:00 2025-11-20T15:05 10 13')) as t(n, payload, seen, want);
select test.is('an id that a device made by its own name for the rule', test.one_day('rs', 'own', 'setReminderOccurrence', jsonb_build_object('occurrenceId', care.occurrence_id('tmp-rs', '2025-11-21 14:00'), 'enabled', false)), 'applied cancelled 2025-11-21T14:00 1');
select test.is('what is cancelled is not snoozed', test.one_day('rs', 'cz', 'snoozeReminder', jsonb_build_object('occurrenceId', care.occurrence_id('rs-1', '2025-11-21 14:00'), 'until', '2025-11-21T15:00:00Z')), 'noop cancelled 2025-11-21T14:00 1');
insert into care.product (id, user_id, name) values ('rs-p', 'rs', 'Zinc');
insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, window_end, status) values ('rs-d', 'rs', 'rs-p', '2025-11-22 14:00Z', '2025-11-22 18:00Z', 'scheduled');
select test.is('a dose that is open', test.one_day('rs', 'dz1', 'snoozeReminder', jsonb_build_object('occurrenceId', care.occurrence_id('rs-1', '2025-11-22 14:00'), 'until', '2025-11-22T14:10:00Z')), 'applied scheduled 2025-11-22T14:00 2025-11-22T14:10 1 1');
update care.dose_occurrence set status = 'missed' where id = 'rs-d';
select test.is('what is missed can be made up: it is snoozed', test.one_day('rs', 'dz3', 'snoozeReminder', jsonb_build_object('occurrenceId', care.occurrence_id('rs-1', '2025-11-22 14:00'), 'until', '2025-11-22T14:15:00Z')), 'applied scheduled 2025-11-22T14:00 2025-11-22T14:15 2 2');
update care.dose_occurrence set status = 'taken', taken_at = '2025-11-22 14:05Z' where id = 'rs-d';
select test.is('what is taken is not snoozed', test.one_day('rs', 'dz2', 'snoozeReminder', jsonb_build_object('occurrenceId', care.occurrence_id('rs-1', '2025-11-22 14:00'), 'until', '2025-11-22T14:20:00Z')), 'noop scheduled 2025-11-22T14:00 2025-11-22T14:15 2 2');
select test.is('a snooze is no change of the rule', (select rev from care.reminder_rule where id = 'rs-1'), 1::bigint);

-- Snapshots of one rule, and previews.
select test.is('n and from', (select jsonb_array_length(body::jsonb -> 'upcoming') || ' ' || (body::jsonb #>> '{nextOccurrences,0}') from sync.reminder('rs', 'rs-1', 30, '2025-12-24T00:00:00Z')), '30 2025-12-24T14:00:00+00:00');
select test.is('none of another user', (select coalesce(body, 'none') from sync.reminder('rd', 'rs-1', 1, null)), 'none');
select test.fails('what is no instant', $$select sync.reminder('rs', 'rs-1', 1, 'soon')$$, 'UQ003');
select test.is('the list shows what there is to snooze', (select string_agg(i #>> '{upcoming,0,start}', ' ' order by i ->> 'id') from sync.reminders('rd') as s, jsonb_array_elements(s.body::jsonb -> 'items') as i), '2025-11-20T19:00:00+01:00 2025-11-21T08:00:00+01:00');
select test.top('rs', 'reminders') as before \gset
create function test.preview(who text, doc text) returns text language sql as $$
    select string_agg(left(t, 16), ' ') from sync.preview_reminder(who, doc) as s, jsonb_array_elements_text(s.body::jsonb -> 'nextOccurrences') as t $$;
select test.is(format('preview: %s', doc), test.preview('rd', doc), want) from (values
    ('{"preset":"LUNCH","n":2}', '2025-11-21T12:30 2025-11-22T12:30'), ('{"time":"08:00","repeat":"custom","repeatOn":[1,3],"n":3,"productId":"p"}', '2025-11-24T08:00 2025-11-26T08:00 2025-12-01T08:00'),
    ('{"id":"rd-w","time":"21:00","n":3}', '2025-11-20T21:00 2025-11-21T21:00 2025-11-24T21:00'), ('{"time":"08:00","timezone":"Asia/Tokyo","n":1}', '2025-11-21T08:00'), ('{"time":"08:00","n":1,"from":"2026-03-29T00:00:00+01:00"}', '2026-03-29T08:00')) as t(doc, want);
select test.fails(format('no preview of %s', doc), format('select sync.preview_reminder(%L, %L)', 'rd', doc), 'UQ004') from (values ('{}'), ('[]'), ('x'), ('{"time":"8"}'), ('{"time":"08:00","repeat":"custom"}'), ('{"time":"08:00","n":31}'), ('{"time":"08:00","from":"soon"}'), ('{"time":"08:00","id":7}'), ('{"time":"08:00","clientId":""}')) as t(doc);
select test.is('nothing is stored', test.top('rs', 'reminders') || ' ' || (select count(*) from care.reminder_rule where user_id = 'rd'), :'before' || ' 2');
select test.is('nothing is left out of a stream', (select bool_and(n = top and high = top) from (select user_id, count(*) as n, max(o) as high from sync.event where topic = 'reminders' and user_id = any('{rd,rs}') group by user_id) as e join sync.stream as s using (user_id) where s.topic = 'reminders'), true);
\ir ../functions/11_sync_clock.sql

-- How much a user may keep, and the ids that nobody can tell.
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
insert into care.reminder_rule (id, user_id, product_id, time, timezone) select 'rz-' || n, 'rz', 'p', '08:00', 'UTC' from generate_series(1, 200) as n;
select test.is('a user has 200 reminders at most', test.one_day('rz', 'c', 'createReminder', '{"id":"rz","productId":"p","time":"09:00"}'), 'rejected invalid payload');
select test.is('a former time counts for 90 days', test.act('rd', 'ft', 'updateReminder', '{"id":"rd-1","time":"16:10"}') ->> 'status' || ' ' || test.one_day('rd', 'ft1', 'setReminderOccurrence', jsonb_build_object('occurrenceId', care.occurrence_id('rd-1', '2025-12-01 15:00'), 'enabled', true)) || ', ' || test.set_clock('2026-02-19 12:00Z')
    || test.one_day('rd', 'ft2', 'setReminderOccurrence', jsonb_build_object('occurrenceId', care.occurrence_id('rd-1', '2026-02-25 15:00'), 'enabled', true)), 'applied noop scheduled 2025-12-01T16:10 0, rejected invalid payload.occurrenceId');
\ir ../functions/11_sync_clock.sql
