-- What the apps' own client code expects: who changed a dose, the offset of takenAt, notes of today, fast clocks, days.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null

-- Who changed a dose.
create function test.changer(dose text) returns text language sql as $$
    select concat_ws(' ', data #>> '{updates,changedBy,actor}', data #>> '{updates,changedBy,deviceId}') from sync.event where data ->> 'occurrenceId' = dose order by o desc limit 1 $$;
select test.plan('by', 'by' || n) from generate_series(1, 4) as n \g /dev/null
select test.is('a backend', test.changer('by1'), 'backend');
select test.act('by', '1', 'markTaken', '{"occurrenceId":"by1"}', device => 'phone'), test.act('by', '2', 'addNote', '{"occurrenceId":"by2","text":"n"}') \g /dev/null
select test.is('a person, on a device', test.changer('by1'), 'user phone');
select test.is('or on one that gives no name', test.changer('by2'), 'user');
begin;
select set_config('sync.actor', 'system', true) \g /dev/null
update care.dose_occurrence set status = 'missed' where id = 'by3';
select test.act('by', 'between', 'skip', '{"occurrenceId":"by4"}', device => 'phone') \g /dev/null
update care.dose_occurrence set status = 'missed' where id = 'by2';
commit;
select test.is('a job', test.changer('by3') || ', ' || test.changer('by2'), 'system, system');
select test.is('and an action in its transaction', test.changer('by4'), 'user phone');
begin;
set local sync.key = 'import-7';
update care.dose_occurrence set status = 'taken', taken_at = sync.clock() where id = 'by3';
commit;
select test.is('a key that a backend sets makes it no person', test.changer('by3') || ' ' || (select changed_key from care.dose_occurrence where id = 'by3'), 'backend import-7');
update care.dose_occurrence set status = 'taken' where id = 'by3';
select test.is('nothing changed: nobody changed it', test.changer('by3') || ' ' || (select rev from care.dose_occurrence where id = 'by3'), 'backend 3');
select test.is('the conflict tells it', test.act('by', '3', 'makeUp', '{"occurrenceId":"by4"}') #> '{conflict,server,changedBy}', '{"at": "2025-11-20T12:00:00+00:00", "key": "between", "actor": "user", "deviceId": "phone"}');
alter table care.dose_occurrence disable trigger user;
update care.dose_occurrence set changed_by = null, changed_device = null where id = 'by4';
alter table care.dose_occurrence enable trigger user;
select test.is('a row from before', (select care.dose_state(d) -> 'changedBy' from care.dose_occurrence as d where id = 'by4'), '{"actor": null, "deviceId": null}');
select test.is('and the triggers stand as they did', (select count(*) from pg_trigger where tgrelid = 'care.dose_occurrence'::regclass and tgenabled = 'D'), 0::bigint);

-- The offset of takenAt.
create function test.intake(answer jsonb) returns text language sql as $$ select concat_ws(' ', answer ->> 'status', answer #>> '{result,takenAt}', answer #>> '{result,takenAtLocal}') $$;
create temp sequence place;
create function test.told_offset(payload jsonb, client jsonb default null, action text default 'markTaken') returns text language plpgsql as $$
declare
    dose text := 'off' || nextval('place');
begin
    perform test.plan('off', dose);
    return test.intake(test.act('off', dose, action, payload || jsonb_build_object('occurrenceId', dose), null, null, null, client));
end
$$;
select test.is(format('the offset of %s', t), test.told_offset(jsonb_build_object('takenAt', t)), 'applied ' || want) from (values
    ('"2025-11-20T03:05:00-05:00"'::jsonb, '2025-11-20T08:05:00+00:00 2025-11-20T03:05:00-05:00'), ('"2025-11-20T13:50+0545"', '2025-11-20T08:05:00+00:00 2025-11-20T13:50:00+05:45'),
    ('"2025-11-20T08:05:00.1234567+00"', '2025-11-20T08:05:00.123456+00:00 2025-11-20T08:05:00.123456+00:00'), ('"2025-11-20T04:35:00.5-03:30"', '2025-11-20T08:05:00.5+00:00 2025-11-20T04:35:00.5-03:30'),
    ('"2025-11-21T00:04:00+15:59"', '2025-11-20T08:05:00+00:00 2025-11-21T00:04:00+15:59'), ('"2025-11-20T08:05:00Z"', '2025-11-20T08:05:00+00:00'), ('1763625900000', '2025-11-20T08:05:00+00:00')) as v(t, want);
select test.is('of clientTime, where it says when', test.told_offset('{}', '"2025-11-20T09:10:00+01:00"') || ', ' || test.told_offset('{"takenAt":"2025-11-20T08:05Z"}', '"2025-11-20T09:10:00+01:00"'), 'applied 2025-11-20T08:10:00+00:00 2025-11-20T09:10:00+01:00, applied 2025-11-20T08:05:00+00:00');
select test.is('makeUp', test.told_offset('{"at":"2025-11-20T12:30:00+01:00"}', null, 'makeUp'), 'applied 2025-11-20T11:30:00+00:00 2025-11-20T12:30:00+01:00');
select test.is('none where nothing was taken', test.told_offset('{}', '"2025-11-20T09:10:00+01:00"', 'skip'), 'applied');
select test.plan('mem', 'mem' || n) from generate_series(1, 4) as n \g /dev/null
select test.act('mem', 't' || n, 'markTaken', jsonb_build_object('occurrenceId', 'mem' || n, 'takenAt', '2025-11-20T09:30:00+01:00')) from generate_series(1, 4) as n \g /dev/null
update care.dose_occurrence set status = 'missed', taken_at = null, taken_offset = null where id = 'mem1';
select test.is('the event has it', (select concat_ws(' ', data #>> '{updates,takenAt}', data #>> '{updates,takenAtLocal}') from sync.event where data ->> 'occurrenceId' = 'mem2' and data #>> '{_sync,k}' = 't2'), '2025-11-20T08:30:00+00:00 2025-11-20T09:30:00+01:00');
update care.dose_occurrence set taken_at = '2025-11-20 08:40Z' where id = 'mem3';
select test.is('a backend that writes another time tells no offset', (select concat_ws(' ', taken_at, taken_offset) from care.dose_occurrence where id = 'mem3'), '2025-11-20 08:40:00+00');
update care.dose_occurrence set taken_at = '2025-11-20 08:50Z', taken_offset = -3600 where id = 'mem3';
select test.is('unless it does', (select care.dose_json(d) ->> 'takenAtLocal' from care.dose_occurrence as d where id = 'mem3'), '2025-11-20T07:50:00-01:00');
update care.dose_occurrence set note = 'n' where id = 'mem3';
select test.is('and keeps it with its time', (select taken_offset from care.dose_occurrence where id = 'mem3'), -3600);
-- A conflict keeps the offset of what the person said, an undo that of what was.
select test.act('mem', 'c3', 'skip', '{"occurrenceId":"mem3"}') \g /dev/null
select test.is('merge leaves the server''s', test.intake(test.act('mem', 'm3', 'resolve', '{"of":"c3","choice":"merge","merged":{"note":"m"}}')), 'applied 2025-11-20T08:50:00+00:00 2025-11-20T07:50:00-01:00');
select test.is('or takes the one chosen', test.intake(test.act('mem', 'm3b', 'resolve', '{"of":"c3","choice":"merge","merged":{"takenAt":"2025-11-20T10:00+01:00"}}', '{"rev":9}')), 'applied 2025-11-20T09:00:00+00:00 2025-11-20T10:00:00+01:00');
select test.is('its undo brings back the one before', test.intake(test.act('mem', 'u3', 'undo', '{"targetKey":"m3b"}')), 'applied 2025-11-20T08:50:00+00:00 2025-11-20T07:50:00-01:00');
select test.act('mem', 's2', 'undo', '{"targetKey":"t2"}'), test.act('mem', 's2b', 'skip', '{"occurrenceId":"mem2"}'), test.act('mem', 'c2', 'markTaken', '{"occurrenceId":"mem2","takenAt":"2025-11-20T09:40:00+01:00"}') \g /dev/null
select test.is('the undo of an intake leaves none', (select count(taken_offset) from care.dose_occurrence where id = 'mem2'), 0::bigint);
select test.is('keep_local has that of its action', test.intake(test.act('mem', 'k2', 'resolve', '{"of":"c2","choice":"keep_local"}')), 'applied 2025-11-20T08:40:00+00:00 2025-11-20T09:40:00+01:00');
select test.plan('mem', 'mem5', 'skipped'), test.act('mem', 'c5', 'markTaken', '{"occurrenceId":"mem5","takenAt":"2025-11-20T09:40:00+01:00"}') \g /dev/null
select test.is('a choice without a time has that of the action', test.intake(test.act('mem', 'm5', 'resolve', '{"of":"c5","choice":"merge","merged":{"status":"taken"}}')), 'applied 2025-11-20T08:40:00+00:00 2025-11-20T09:40:00+01:00');
select test.is('skipped: none', test.intake(test.act('mem', 'm2', 'resolve', '{"of":"c2","choice":"merge","merged":{"status":"missed"}}', '{"rev":9}')), 'applied');
select test.act('mem', 'c4', 'skip', '{"occurrenceId":"mem4"}') \g /dev/null
select test.is('the same time in another place is another', test.intake(test.act('mem', 'm4', 'resolve', '{"of":"c4","choice":"merge","merged":{"takenAt":"2025-11-20T08:30:00+00:00"}}')), 'applied 2025-11-20T08:30:00+00:00 2025-11-20T08:30:00+00:00');
select test.is('with a revision of its own', (select status_rev from care.dose_occurrence where id = 'mem4'), 3::bigint);

-- Notes in today's answer, and in no event.
select test.act('mem', 'note', 'addNote', '{"occurrenceId":"mem4","text":"with water"}') \g /dev/null
select test.is('today has the notes', (select string_agg(coalesce(o ->> 'note', '-'), ',' order by n) from sync.adherence_day('mem', null) as d cross join lateral jsonb_array_elements(d.body::jsonb -> 'occurrences') with ordinality as t(o, n)), '-,-,m,with water,-');
select test.is('and no event', (select count(*) from sync.event where user_id = 'mem' and data::text like '%with water%'), 0::bigint);

-- Fast clocks.
select test.is('a time ahead is now, with its offset', test.told_offset('{"takenAt":"2025-11-20T15:00:00+01:00"}') || ', ' || test.told_offset('{"takenAt":"2025-11-21T12:00:00Z"}') || ', ' || test.told_offset('{"at":"2025-11-21T12:00:00Z"}', null, 'makeUp'),
    'applied 2025-11-20T12:00:00+00:00 2025-11-20T13:00:00+01:00, applied 2025-11-20T12:00:00+00:00, applied 2025-11-20T12:00:00+00:00');
select test.is('more than a day ahead is no time', test.told_offset('{"takenAt":"2025-11-21T12:00:00.000001Z"}'), 'rejected');
select test.is('clientTime too', test.told_offset('{}', '"2025-11-21T05:00:00-05:00"') || ', ' || test.told_offset('{}', '"2026-11-21T05:00:00-05:00"'), 'applied 2025-11-20T12:00:00+00:00 2025-11-20T07:00:00-05:00, applied 2025-11-20T12:00:00+00:00 2025-11-20T07:00:00-05:00');
select test.plan('fast', 'fast') \g /dev/null
select test.is('of many', (select e #>> '{occurrence,takenAt}' from jsonb_array_elements(test.act('fast', '1', 'bulkMarkAll', '{"occurrenceIds":["fast"],"takenAt":"2025-11-20T20:00:00Z"}') #> '{result,items}') as e), '2025-11-20T12:00:00+00:00');
select test.plan('fast', 'fast2', 'skipped'), test.act('fast', '2', 'makeUp', '{"occurrenceId":"fast2"}') \g /dev/null
select test.is('and in a choice', test.intake(test.act('fast', '3', 'resolve', '{"of":"2","choice":"merge","merged":{"status":"taken","takenAt":"2025-11-20T20:00:00Z"}}')), 'applied 2025-11-20T12:00:00+00:00');

-- Days. The person is in New York, or was: doses of the 20th and the 21st there. It is 07:00.
insert into care.user_settings (user_id, zone) values ('day', 'America/New_York'), ('tokyo', 'Asia/Tokyo');
create function test.day_doses(who text, prefix text, zone text default 'America/New_York') returns void language sql as $$
    insert into care.dose_occurrence (id, user_id, scheduled_at, tz, window_end)
    select prefix || n, who, at at time zone zone, zone, (at + interval '3 hours') at time zone zone
    from (values (1, '2025-11-20 00:30'::timestamp), (2, '2025-11-20 08:00'), (3, '2025-11-20 23:50'), (4, '2025-11-21 00:10'), (5, '2025-11-21 20:00'), (6, '2025-11-23 20:00')) as t(n, at) $$;
create function test.mark_all_of(who text, prefix text, client jsonb, more jsonb default '{}') returns text language sql as $$
    select test.short(a) || ' ' || replace(test.items(a), prefix, '') from test.act(who, prefix || 'all', 'bulkMarkAll', more || jsonb_build_object('occurrenceIds', (select jsonb_agg(prefix || n) from generate_series(1, 6) as n)), null, null, null, client) as a $$;
create function test.intakes(prefix text) returns text language sql as $$
    select string_agg(status || coalesce(to_char(taken_at, ' DD"T"HH24:MI'), ''), ', ' order by id) from care.dose_occurrence where id like prefix || '_' $$;
select test.day_doses('day', p) from unnest('{day-one,day-live,day-late,day-away,day-none,day-old}'::text[]) as p \g /dev/null
select test.is('markTaken ahead of its time, on its day', test.short(test.act('day', 'm' || n, 'markTaken', jsonb_build_object('occurrenceId', 'day-one' || n, 'takenAt', '2025-11-20T12:00:00Z'))), want)
from (values (2, 'applied'), (3, 'applied'), (4, 'rejected not_due'), (5, 'rejected not_due'), (6, 'rejected not_due')) as t(n, want);
select test.is('a rejection that is kept', test.short(test.act('day', 'm4', 'markTaken', '{"occurrenceId":"day-one4","takenAt":"2025-11-20T12:00:00Z"}')) || ' ' || test.row('day-one4'), 'rejected not_due replayed scheduled 1 1 1');
select test.is('by the day on which the person acted', test.short(test.act('day', 'm3y', 'markTaken', '{"occurrenceId":"day-live3"}', client_time => '"2025-11-19T23:00-05:00"')) || ', ' || test.short(test.act('day', 'm3t', 'markTaken', '{"occurrenceId":"day-live3"}', client_time => '"2025-11-20T00:00-05:00"')), 'rejected not_due, applied');
select test.act('day', 'back', 'undo', '{"targetKey":"m3t"}') \g /dev/null
select test.is('a clock that has lost its time says nothing', test.short(test.act('day', 'm2x', 'markTaken', '{"occurrenceId":"day-old2","takenAt":"2025-11-20T12:00:00Z"}', client_time => '"2000-01-01T00:00Z"')), 'applied');
select test.is('what is taken already is', test.short(test.act('day', 'again', 'markTaken', '{"occurrenceId":"day-one2"}', client_time => '"2025-11-19T20:00Z"')), 'noop');
-- Mark all of today, live: the same clock on both sides, and doses of today ahead of their time.
create temp table want as select test.mark_all_of('day', 'day-live', '"2025-11-20T07:00:00-05:00"') as said, test.intakes('day-live') as doses;
select test.is('all of today', said, 'partial 1:applied 2:applied 3:applied 4:not_due 5:not_due 6:not_due') from want;
select test.is('and when', doses, 'taken 20T12:00, taken 20T12:00, taken 20T12:00, scheduled, scheduled, scheduled') from want;
select test.is('without the device''s time, by the server''s', test.mark_all_of('day', 'day-none', null), said) from want;
-- The same, replayed days later; all doses were marked as missed meanwhile.
select test.set_clock('2025-11-25 12:00Z') \g /dev/null
begin;
select set_config('sync.actor', 'system', true) \g /dev/null
update care.dose_occurrence set status = 'missed' where user_id = 'day' and id ~ '^day-late[2-6]$';
commit;
select test.is('replayed days later', test.mark_all_of('day', 'day-late', '"2025-11-20T07:00:00-05:00"'), said) from want;
select test.is('with the same times', regexp_replace(test.intakes('day-late'), 'missed', 'scheduled', 'g'), doses) from want;
select test.is('also where nothing was missed', test.mark_all_of('day', 'day-away', '1763640000000') || ' ' || test.intakes('day-away'), said || ' ' || doses) from want;
begin;
update care.dose_occurrence set status = 'missed', taken_at = null where id in ('day-one1', 'day-one4');
commit;
select test.is('what was over before the person acted is late', (select test.short(a) || ' ' || test.items(a) from test.act('day', 'over', 'bulkMarkAll', '{"occurrenceIds":["day-one1"]}', client_time => '"2025-11-20T07:00:00-05:00"') as a), 'conflict late day-one1:late');
select test.is('markTaken on its day, however long before', test.short(test.act('day', 'm4l', 'markTaken', '{"occurrenceId":"day-one4","takenAt":"2025-11-21T00:00:00-05:00"}')), 'applied');
update care.dose_occurrence set status = 'missed' where id = 'day-one5';
select test.is('20 hours before, on its day; not a moment earlier', test.short(test.act('day', 'm5l', 'markTaken', '{"occurrenceId":"day-one5","takenAt":"2025-11-20T23:59:59-05:00"}')) || ', ' || test.short(test.act('day', 'm5m', 'markTaken', '{"occurrenceId":"day-one5","takenAt":"2025-11-21T00:00:00-05:00"}')), 'conflict late, applied');
-- A day of 25 hours.
insert into care.dose_occurrence (id, user_id, scheduled_at, tz, window_end) values ('fall', 'day', '2025-11-02 23:50-05', 'America/New_York', '2025-11-03 03:00-05');
select test.is('a day may have 25 hours', test.short(test.act('day', 'fall', 'bulkMarkAll', '{"occurrenceIds":["fall"]}', client_time => '"2025-11-02T00:05:00-04:00"')) || ' ' || test.intakes('fal'), 'applied taken 02T04:05');
-- Criteria mean what is due, and nothing of a later day.
select test.day_doses('tokyo', 'day-crit') \g /dev/null
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
select test.is('criteria keep to what is due', test.items(test.act('tokyo', 'c1', 'bulkMarkAll', '{"criteria":{"date":"2025-11-20"}}', client_time => '"2025-11-20T12:00Z"')), 'day-crit1:applied');
select test.is('and to the day on which the person acted', test.items(test.act('tokyo', 'c2', 'bulkMarkAll', '{"criteria":{"date":"2025-11-20"}}', client_time => '"2025-11-18T12:00Z"')), null);
select test.set_clock('2025-11-20 14:00Z') \g /dev/null
select test.is('so that none is taken days before', test.items(test.act('tokyo', 'c3', 'bulkMarkAll', '{"criteria":{"date":"2025-11-20"}}', client_time => '"2025-11-18T12:00Z"')), null);
-- In Tokyo it is the 21st at 00:10, in New York the 20th at 10:10: both have come.
select test.set_clock('2025-11-20 15:10Z') \g /dev/null
select test.is('a day has come where the dose is, or where the person is', test.mark_all_of('tokyo', 'day-crit', null), 'partial 1:noop 2:applied 3:applied 4:applied 5:applied 6:not_due');
select test.is('streams are contiguous', (select count(*) from sync.event where user_id in ('by', 'day', 'tokyo', 'mem') and topic = 'adherence'), test.top('by') + test.top('day') + test.top('tokyo') + test.top('mem'));
select test.is('summaries hold', test.summaries_hold(), true);
