-- Medications, schedules, stacks, settings and intakes by action: what is written, told and answered.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
select test.open(name, :'connection') from unnest('{one,two}'::text[]) as name \g /dev/null
create function test.med(who text, key text, type text, payload jsonb, base jsonb default null) returns text language sql as $$
    select test.short(test.act(who, key, type, payload, base)) $$;
create function test.meds(who text) returns jsonb language sql as $$ select body::jsonb from sync.medications(who) $$;
create function test.planned(schedule text, most int default 3) returns text language sql as $$
    select coalesce(string_agg(to_char(scheduled_at, 'MM-DD HH24:MI') || ' ' || status, ', ' order by scheduled_at), '') from (
        select * from care.dose_occurrence where schedule_id = planned.schedule order by scheduled_at limit most) as d $$;
create function test.times(who text, product text) returns text language sql as $$
    select coalesce(string_agg(concat_ws(' ', to_char(s.time, 'HH24:MI'), s.repeat, s.repeat_on::text, s.dose), ', ' order by s.time, s.id), '')
    from care.schedule as s where s.user_id = who and s.product_id = product $$;

-- Create: frequencies are schedules, and schedules are doses, in one action.
insert into care.user_settings (user_id, zone) values ('md', 'Europe/Berlin');
select test.top('md', 'medications') as before \gset
create table test.made as select test.act('md', 'c1', 'createMedication', '{"id":"md-ibu","name":"Ibuprofen","strength":"400 mg","form":"tablet","frequency":"twice_daily","dose":"1"}') as a;
select test.is('a medication is created', (select test.short(a) || ' ' || (a #>> '{result,frequency}') || ' ' || (a #>> '{result,rev}') || ' ' || jsonb_array_length(a #> '{result,schedules}') from test.made), 'applied twice_daily 1 2');
select test.is('twice daily is two schedules', test.times('md', 'md-ibu'), '08:00 daily 1, 20:00 daily 1');
select test.is('their doses are there', (select count(*) filter (where local_date = '2025-11-21') || ' ' || count(distinct local_date) from care.dose_occurrence where product_id = 'md-ibu'), '2 15');
select test.is('the answer names both streams', (select string_agg(k || ' ' || ((a -> 'positions' -> k ->> 'offset')::bigint = test.top('md', split_part(k, '.', 3))), ', ' order by k) from test.made, jsonb_object_keys(a -> 'positions') as k), 'user.md.adherence true, user.md.medications true');
select test.is('one event tells the medication with its schedules', (select string_agg(name || ' ' || (data ->> 'rev') || ' ' || jsonb_array_length(data -> 'schedules') || ' ' || (data #>> '{_sync,k}'), ', ') from sync.event where user_id = 'md' and topic = 'medications' and o > :before), 'medication.created 1 2 c1');
select test.is('the event is the answer''s result', (select data - '_sync' from sync.event where user_id = 'md' and topic = 'medications' and name = 'medication.created'), (select a -> 'result' from test.made));
select test.is('and what the snapshot shows', test.meds('md') #> '{items,0}', (select a -> 'result' from test.made));
select test.is('a repeat gets the answer again', test.med('md', 'c1', 'createMedication', '{"id":"md-ibu","name":"Ibuprofen","strength":"400 mg","form":"tablet","frequency":"twice_daily","dose":"1"}'), 'applied replayed');
select test.is('the same id under another key is no second one', test.med('md', 'c1b', 'createMedication', '{"id":"md-ibu","name":"Other"}') || ' ' || (test.meds('md') #>> '{items,0,name}'), 'noop Ibuprofen');
select test.is('another user''s id is in use', test.med('me', 'c1', 'createMedication', '{"id":"md-ibu","name":"Mine"}'), 'rejected invalid payload.id');
select test.is('a device can tell the ids of schedules', (select string_agg(id, ' ' order by time) = care.schedule_id('md-ibu', 1) || ' ' || care.schedule_id('md-ibu', 2) from care.schedule where product_id = 'md-ibu'), true);
select test.is(format('created as %s', f), test.med('md', 'c-' || f, 'createMedication', jsonb_build_object('id', 'md-' || f, 'name', f, 'frequency', f) || more) || ' ' || test.times('md', 'md-' || f), want) from (values
    ('daily', '{}'::jsonb, 'applied 08:00 daily'), ('weekly', '{"repeatOn":[7],"times":["21:30"]}', 'applied 21:30 custom {7}'), ('as_needed', '{"dose":"1 drop"}', 'applied as_needed 1 drop')) as t(f, more, want);
select test.is('weekly without a day is on today''s weekday', test.med('md', 'c-w2', 'createMedication', '{"id":"md-w2","name":"W","frequency":"weekly"}') || ' ' || test.times('md', 'md-w2'), 'applied 08:00 custom {4}');
select test.is('as needed plans nothing', (select count(*) from care.dose_occurrence where product_id = 'md-as_needed'), 0::bigint);
select test.is('the list shows each frequency', (select string_agg(e ->> 'frequency', ' ' order by n) from jsonb_array_elements(test.meds('md') -> 'items') with ordinality as t(e, n)), 'twice_daily as_needed daily weekly weekly');
select test.is('without a frequency there is none', test.med('md', 'c-none', 'createMedication', '{"id":"md-none","name":"None"}') || coalesce(test.times('md', 'md-none'), ''), 'applied');
select test.is('made offline, it fills from its first day on', test.med('md', 'c-off', 'createMedication', '{"id":"md-off","name":"Off","frequency":"daily","times":["09:00"],"startsOn":"2025-11-18","scheduleIds":["md-off-s"]}') || ' ' || test.planned('md-off-s'), 'applied 11-18 08:00 scheduled, 11-19 08:00 scheduled, 11-20 08:00 scheduled');
select test.med('md', 'c-old', 'createMedication', '{"id":"md-old","name":"Old","frequency":"daily","startsOn":"2020-01-01"}') as got \gset
select test.is('and not more than 90 days back', :'got' || ' ' || (select min(local_date) from care.dose_occurrence where product_id = 'md-old'), 'applied 2025-08-22');
select test.med('md', 'a-old', 'archiveMedication', '{"id":"md-old"}') \g /dev/null

-- What is wrong is a stored rejection that names the member.
select test.is(format('%s %s', type, payload), test.med('md', 'bad' || n, type, payload, base), 'rejected invalid ' || path) from (values
    (1, 'createMedication', '{"name":"x"}'::jsonb, null::jsonb, 'payload.id'), (2, 'createMedication', '{"id":"x"}', null, 'payload.name'), (3, 'createMedication', '{"id":"x","name":" "}', null, 'payload.name'),
    (4, 'createMedication', '{"id":"x","name":7}', null, 'payload.name'), (5, 'createMedication', '{"id":"x","name":"x","frequency":"hourly"}', null, 'payload.frequency'), (6, 'createMedication', '{"id":"x","name":"x","frequency":"custom"}', null, 'payload.frequency'),
    (7, 'createMedication', '{"id":"x","name":"x","frequency":"twice_daily","times":["08:00"]}', null, 'payload.times'), (8, 'createMedication', '{"id":"x","name":"x","frequency":"twice_daily","times":["08:00","08:00"]}', null, 'payload.times'),
    (9, 'createMedication', '{"id":"x","name":"x","frequency":"daily","times":["8:00"]}', null, 'payload.times[0]'), (10, 'createMedication', '{"id":"x","name":"x","frequency":"daily","times":[8]}', null, 'payload.times[0]'), (11, 'createMedication', '{"id":"x","name":"x","frequency":"daily","times":"08:00"}', null, 'payload.times'),
    (12, 'createMedication', '{"id":"x","name":"x","frequency":"weekly","repeatOn":[1,2]}', null, 'payload.repeatOn'), (13, 'createMedication', '{"id":"x","name":"x","frequency":"weekly","repeatOn":[8]}', null, 'payload.repeatOn[0]'), (14, 'createMedication', '{"id":"x","name":"x","frequency":"daily","startsOn":"2025-02-30"}', null, 'payload.startsOn'),
    (15, 'createMedication', '{"id":"x","name":"x","frequency":"daily","startsOn":"1999-12-31"}', null, 'payload.startsOn'), (16, 'createMedication', '{"id":"x","name":"x","frequency":"daily","startsOn":"2025-12-01","endsOn":"2025-11-30"}', null, 'payload.endsOn'), (17, 'createMedication', '{"id":"x","name":"x","frequency":"daily","timezone":"Mars/Phobos"}', null, 'payload.timezone'),
    (18, 'createMedication', '{"id":"x","name":"x","frequency":"daily","windowMinutes":0}', null, 'payload.windowMinutes'), (19, 'createMedication', '{"id":"x","name":"x","frequency":"daily","scheduleIds":["md-off-s"]}', null, 'payload.scheduleIds'), (20, 'createMedication', '{"id":"x","name":"x","frequency":"daily","scheduleIds":["a","b"]}', null, 'payload.scheduleIds'),
    (21, 'createMedication', '{"id":"x","name":"x","tzMode":"never"}', null, 'payload.tzMode'), (22, 'createMedication', '{"id":"x","name":"x"}', '{"rev":"one"}', 'base'), (23, 'createMedication', '[]', null, 'payload'),
    (24, 'createSchedule', '{"id":"x","time":"08:00"}', null, 'payload.productId'), (25, 'createSchedule', '{"id":"x","productId":"md-ibu","stackId":"y","time":"08:00"}', null, 'payload.productId'), (26, 'createSchedule', '{"id":"x","productId":"nothing","time":"08:00"}', null, 'payload.productId'),
    (27, 'createSchedule', '{"id":"x","stackId":"nothing","time":"08:00"}', null, 'payload.stackId'), (28, 'createSchedule', '{"id":"x","productId":"md-old","time":"08:00"}', null, 'payload.productId'), (29, 'createSchedule', '{"id":"x","productId":"md-ibu"}', null, 'payload.time'),
    (30, 'createSchedule', '{"id":"x","productId":"md-ibu","time":"24:00"}', null, 'payload.time'), (31, 'createSchedule', '{"id":"x","productId":"md-ibu","time":"08:00","repeat":"custom"}', null, 'payload.repeatOn'), (32, 'createSchedule', '{"id":"x","productId":"md-ibu","time":"08:00","repeat":"as_needed"}', null, 'payload.time'),
    (33, 'createSchedule', '{"id":"x","productId":"md-ibu","time":"08:00","frequency":"twice_daily"}', null, 'payload.frequency'), (34, 'createSchedule', '{"id":"x","productId":"md-ibu","time":"08:00","enabled":"no"}', null, 'payload.enabled'), (35, 'updateSchedule', '{"id":"md-off-s","endsOn":"2025-11-01"}', null, 'payload.endsOn'),
    (36, 'createStack', '{"id":"x","name":"x","items":[{"productId":"nothing"}]}', null, 'payload.items[0].productId'), (37, 'createStack', '{"id":"x","name":"x","items":[7]}', null, 'payload.items[0]'), (38, 'createStack', '{"id":"x","name":"x","items":[{"productId":"md-ibu"},{"productId":"md-ibu","dose":"2"}]}', null, 'payload.items'),
    (39, 'createStack', '{"id":"x","name":"x","items":[{"productId":"md-ibu","dose":""}]}', null, 'payload.items[0].dose'), (40, 'updateSettings', '{}', null, 'payload.timezone'), (41, 'updateSettings', '{"timezone":7}', null, 'payload.timezone'), (42, 'updateSettings', '{"timezone":"Mars/Phobos"}', null, 'payload.timezone'),
    (43, 'logDose', '{"id":"x"}', null, 'payload.productId'), (44, 'logDose', '{"id":"x","productId":"nothing"}', null, 'payload.productId'), (45, 'logDose', '{"id":"x","productId":"md-ibu","takenAt":"soon"}', null, 'payload.takenAt'), (46, 'logDose', '{"id":"x","productId":"md-ibu","takenAt":"2025-12-20T12:00:00Z"}', null, 'payload.takenAt'),
    (47, 'logDose', '{"id":"x","productId":"md-ibu","note":" "}', null, 'payload.note'), (48, 'deleteSchedule', '{"id":null}', null, 'payload.id'), (49, 'updateMedication', '{"id":"md-ibu","archived":1}', null, 'payload.archived')) as t(n, type, payload, base, path);
select test.is('a member that an update does not read is ignored, whatever it is', test.med('md', 'ids' || n, 'updateMedication', payload), 'noop') from (values (1, '{"id":"md-ibu","scheduleIds":"x"}'::jsonb), (2, '{"id":"md-ibu","scheduleIds":{"a":1}}')) as t(n, payload);
select test.is('a new medication is offered what it may have', (select string_agg((care.medication_problem('createMedication', doc, null, null, sync.clock())).answer ->> 'message', '; ' order by n) from (values
    (1, '{"id":"x","name":"x","frequency":"dayly"}'::jsonb), (2, '{"id":"x","name":"x","frequency":"daily","times":["08:00","09:00"]}'), (3, '{"id":"x","name":"x","frequency":"as_needed","times":["08:00"]}'), (4, '{"id":"x","name":"x","frequency":"twice_daily","times":["08:00"]}')) as t(n, doc)),
    'must be one of daily, twice_daily, weekly, as_needed; must have 1 element for this frequency; must have no elements for this frequency; must have 2 elements for this frequency');
select test.is('all are kept, also those about what may still come', (select count(*) from sync.action where user_id = 'md' and key like 'bad%'), 49::bigint);

-- Update.
select test.top('md', 'medications') as before \gset
select test.med('md', 'u1', 'updateMedication', '{"id":"md-ibu","name":"Ibu","strength":null}', '{"rev":1}') as got \gset
select test.is('a new name', :'got' || ' ' || (select string_agg(name || ' ' || (data ->> 'name') || ' ' || (data ->> 'rev') || ' ' || coalesce(data ->> 'strength', '-'), ', ') from sync.event where user_id = 'md' and topic = 'medications' and o > :before), 'applied medication.updated Ibu 2 -');
select test.is('its scheduled doses have it', (select string_agg(distinct product_name || coalesce(strength, ''), ',') from care.dose_occurrence where product_id = 'md-ibu'), 'Ibu');
create table test.clash as select test.act('md', 'u2', 'updateMedication', '{"id":"md-ibu","name":"Theirs"}', '{"rev":1}') as a;
select test.is('who has not seen it is asked', (select test.short(a) || ' ' || (a #>> '{conflict,server,name}') || ' ' || (a #>> '{conflict,local}') || ' ' || (a #>> '{conflict,fields}') || ' ' || (a #>> '{conflict,entity,type}') from test.clash),
    'conflict state Ibu {"name": "Theirs"} [{"base": null, "name": "name", "local": "Theirs", "server": "Ibu"}] medication');
select test.is('the same value is no conflict', test.med('md', 'u3', 'updateMedication', '{"id":"md-ibu","name":"Ibu"}', '{"rev":1}'), 'noop');
select test.is('with the server''s rev it goes through', test.med('md', 'u4', 'updateMedication', '{"id":"md-ibu","name":"Theirs"}', '{"rev":2}') || ' ' || (test.meds('md') #>> '{items,0,name}'), 'applied Theirs');
select test.is('what is sent back as it was shown changes nothing', test.med('md', 'u5', 'updateMedication', test.meds('md') #> '{items,0}'), 'noop');
select test.is('a schedule inside raises the rev', test.med('md', 's1', 'createSchedule', '{"id":"md-s1","productId":"md-ibu","time":"13:00","repeat":"custom","repeatOn":[1,5]}') || ' ' || (test.meds('md') #>> '{items,0,rev}') || ' ' || (test.meds('md') #>> '{items,0,frequency}'), 'applied 4 custom');
select test.is('and is no conflict with a name', test.med('md', 'u6', 'updateMedication', '{"id":"md-ibu","name":"Ibuprofen"}', '{"rev":3}') || ' ' || (test.meds('md') #>> '{items,0,rev}'), 'applied 5');
select test.med('md', 'u7', 'updateMedication', '{"id":"md-ibu","frequency":"daily","times":["09:15"],"dose":"2"}') as got \gset
select test.is('another frequency keeps the first schedule''s id', :'got' || ' ' || (select string_agg((id = care.schedule_id('md-ibu', 1)) || ' ' || time || ' ' || dose, ',') from care.schedule where product_id = 'md-ibu'), 'applied true 09:15:00 2');
select test.is('the doses of tomorrow are those', (select string_agg(local_time || ' ' || status || ' ' || coalesce(dose, '-'), ', ' order by local_time, status) from care.dose_occurrence where product_id = 'md-ibu' and local_date = '2025-11-21' and status <> 'cancelled'), '09:15:00 scheduled 2');
select test.is('and back to two', test.med('md', 'u8', 'updateMedication', '{"id":"md-ibu","frequency":"twice_daily"}') || ' ' || test.times('md', 'md-ibu'), 'applied 08:00 daily 2, 20:00 daily');
select test.is('what is not there', test.med('md', 'u9', 'updateMedication', '{"id":"nothing","name":"x"}'), 'conflict gone');
select test.is('nor another user''s', test.med('me', 'u9', 'updateMedication', '{"id":"md-ibu","name":"x"}'), 'conflict gone');

-- Schedules.
select test.med('md', 's2', 'updateSchedule', '{"id":"md-off-s","enabled":false}', '{"rev":1}') as got \gset
select test.is('a pause', :'got' || ' ' || (select count(*) from care.dose_occurrence where schedule_id = 'md-off-s' and status = 'scheduled' and scheduled_at > '2025-11-20 12:00Z'), 'applied 0');
select test.is('who has not seen it is asked about schedules too', test.med('md', 's3', 'updateSchedule', '{"id":"md-off-s","time":"10:00"}', '{"rev":1}'), 'conflict state');
select test.med('md', 's4', 'updateSchedule', '{"id":"md-off-s","enabled":true,"time":"10:00"}', '{"rev":2}') as got \gset
select test.is('it goes on, at another time', :'got' || ' ' || (select count(*) from care.dose_occurrence where schedule_id = 'md-off-s' and status = 'scheduled' and local_date > '2025-11-20' and local_time = '10:00'), 'applied 14');
select test.med('md', 's5', 'deleteSchedule', '{"id":"md-off-s"}') as got \gset
select test.is('deleted, with what lies ahead', :'got' || ' ' || (select string_agg(distinct status, ',' order by status) from care.dose_occurrence where schedule_id = 'md-off-s' and scheduled_at > '2025-11-20 12:00Z') || ' ' || test.med('md', 's6', 'deleteSchedule', '{"id":"md-off-s"}'), 'applied cancelled noop');
select test.is('another user''s schedule is not there', test.med('me', 's5', 'deleteSchedule', jsonb_build_object('id', care.schedule_id('md-ibu', 1))) || ' ' || test.med('me', 's6', 'updateSchedule', jsonb_build_object('id', care.schedule_id('md-ibu', 1), 'time', '11:00')), 'noop conflict gone');

-- Archive.
select test.top('md', 'medications') as before \gset
select test.is('archived with a stale rev is asked', test.med('md', 'a0', 'archiveMedication', '{"id":"md-ibu"}', '{"rev":1}'), 'conflict state');
select test.med('md', 'a1', 'archiveMedication', '{"id":"md-ibu"}') as got \gset
select test.is('archived: it leaves the list', :'got' || ' ' || (select string_agg(name || ' ' || (data - '_sync' - 'rev')::text, ', ') from sync.event where user_id = 'md' and topic = 'medications' and o > :before) || ' ' || jsonb_path_exists(test.meds('md'), '$.items[*] ? (@.id == "md-ibu")'), 'applied medication.deleted {"id": "md-ibu"} false');
select test.is('nothing lies ahead', (select count(*) from care.dose_occurrence where product_id = 'md-ibu' and status = 'scheduled' and scheduled_at > '2025-11-20 12:00Z'), 0::bigint);
select test.is('the row stays, and can be read', (select (body::jsonb ->> 'archivedAt') is not null from sync.medication('md', 'md-ibu')), true);
select test.is('again: noop', test.med('md', 'a2', 'archiveMedication', '{"id":"md-ibu"}') || ' ' || test.med('md', 'a3', 'archiveMedication', '{"id":"nothing"}'), 'noop noop');
select test.med('md', 'a4', 'updateMedication', '{"id":"md-ibu","archived":false}') as got \gset
select test.is('it comes back, with its doses', :'got' || ' ' || (select count(*) > 20 from care.dose_occurrence where product_id = 'md-ibu' and status = 'scheduled') || ' ' || (select name from sync.event where user_id = 'md' and topic = 'medications' order by o desc limit 1), 'applied true medication.created');
select test.is('revs never fall', (select bool_and(rev > was) from (select (data ->> 'rev')::int as rev, lag((data ->> 'rev')::int, 1, 0) over (order by o) as was from sync.event where user_id = 'md' and topic = 'medications' and data ->> 'id' = 'md-ibu') as r), true);

-- Stacks.
insert into care.product (id, user_id, name) values ('md-cat', null, 'Zinc');
select test.top('md', 'medications') as before \gset
select test.is('a stack', test.med('md', 'k1', 'createStack', '{"id":"md-k","name":"Morning","items":[{"productId":"md-cat","dose":"1"},{"productId":"md-ibu"}]}') || ' ' || test.events('md', 'medications', :before), 'applied medication.created md-cat, medication.updated md-ibu, stack.created md-k');
select test.med('md', 'k2', 'createSchedule', '{"id":"md-ks","stackId":"md-k","time":"07:00"}') as got \gset
select test.is('its schedule plans each item', :'got' || ' ' || (select string_agg(product_id || ' ' || coalesce(dose, '-'), ', ' order by product_id) from care.dose_occurrence where schedule_id = 'md-ks' and local_date = '2025-11-21'), 'applied md-cat 1, md-ibu -');
select test.is('the snapshot shows it', (select (e ->> 'rev') || ' ' || (e #>> '{schedules,0,id}') || ' ' || (e #>> '{items,0,productId}') from jsonb_array_elements(test.meds('md') -> 'stacks') as e), '2 md-ks md-cat');
select test.med('md', 'k3', 'updateStack', '{"id":"md-k","items":[{"productId":"md-daily"},{"productId":"md-cat","dose":"2"}]}', '{"rev":1}') as got \gset
select test.is('another item', :'got' || ' ' || (select string_agg(product_id || ' ' || status || ' ' || coalesce(dose, '-'), ', ' order by product_id) from care.dose_occurrence where schedule_id = 'md-ks' and local_date = '2025-11-21'), 'applied md-cat scheduled 2, md-daily scheduled -, md-ibu cancelled -');
select test.is('the same items again', test.med('md', 'k4', 'updateStack', '{"id":"md-k","items":[{"productId":"md-daily"},{"productId":"md-cat","dose":"2"}]}'), 'noop');
select test.is('fewer items are a change', test.med('md', 'k5', 'updateStack', '{"id":"md-k","items":[{"productId":"md-daily"}]}', '{"rev":2}') || ', ' || test.med('md', 'k6', 'updateStack', '{"id":"md-k","items":[{"productId":"md-daily"}]}'), 'conflict state, applied');
select test.top('md', 'medications') as before \gset
select test.is('the one of the catalogue that nothing uses leaves the list', jsonb_path_exists(test.meds('md'), '$.items[*] ? (@.id == "md-cat")'), false);
select test.med('md', 'k7', 'deleteStack', '{"id":"md-k"}') as got \gset
select test.is('a stack goes with its schedules', :'got' || ' ' || (select string_agg(name || ' ' || (data ->> 'id'), ', ' order by o) from sync.event where user_id = 'md' and topic = 'medications' and o > :before and name like 'stack%') || ' ' || (select count(*) from care.dose_occurrence where schedule_id = 'md-ks' and status = 'scheduled'), 'applied stack.deleted md-k 0');
select test.is('what is not there is deleted already', test.med('md', 'k8', 'deleteStack', '{"id":"md-k"}') || ', ' || test.med('me', 'k8', 'updateStack', '{"id":"md-k","name":"x"}'), 'noop, conflict gone');

-- Resolve: the same action again, or nothing.
create function test.channels(who text, key text) returns text language sql as $$
    select string_agg(regexp_replace(c, '^.*[.]', ''), ' ' order by c) from sync.action as a, jsonb_object_keys(a.answer -> 'positions') as c where a.user_id = who and a.key = channels.key $$;
create function test.rev(id text) returns text language sql as $$ select rev || ' ' || name from care.product where product.id = rev.id $$;
select test.med('rs', 'r1', 'createMedication', '{"id":"rs-m","name":"Iron","frequency":"daily"}') || test.med('rs', 'r2', 'updateMedication', '{"id":"rs-m","name":"Iron 2"}') || test.med('rs', 'r3', 'updateMedication', '{"id":"rs-m","name":"Local"}', '{"rev":1}') as got \gset
select test.is('a conflict of a medication', :'got'::text, 'appliedappliedconflict state');
select test.is('it may be left to the server', test.med('rs', 'r4', 'resolve', '{"of":"r3","choice":"accept_server"}') || ' ' || test.rev('rs-m'), 'noop 2 Iron 2');
select test.is('or be done all the same', test.med('rs', 'r5', 'resolve', '{"of":"r3","choice":"keep_local"}') || ' ' || test.rev('rs-m'), 'applied 3 Local');
select test.is('the answer has its events'' place', (select (a.answer #>> '{positions,user.rs.medications,offset}')::bigint = test.top('rs', 'medications') from sync.action as a where a.user_id = 'rs' and a.key = 'r5'), true);
select test.is('and names all streams that the action may write', test.channels('rs', 'r5') || ', ' || test.channels('rs', 'r3') || ', ' || test.channels('rs', 'r4'), 'adherence medications reminders, adherence medications reminders, adherence medications reminders');
select test.is('again it is the same answer', test.med('rs', 'r5', 'resolve', '{"of":"r3","choice":"keep_local"}') || ' ' || test.rev('rs-m'), 'applied replayed 3 Local');
select test.is('who decides so, but saw less than is there, is asked again', test.med('rs', 'r6', 'updateMedication', '{"id":"rs-m","name":"Other"}') || ' ' || test.med('rs', 'r7', 'resolve', '{"of":"r3","choice":"keep_local"}') || ' ' || test.rev('rs-m'), 'applied conflict state 4 Other');
select test.is('and then names that conflict', test.med('rs', 'r8', 'resolve', '{"of":"r7","choice":"keep_local"}') || ' ' || test.rev('rs-m'), 'applied 5 Local');
select test.is('or the revision that it saw', test.med('rs', 'r9', 'updateMedication', '{"id":"rs-m","name":"Third"}') || ' ' || test.med('rs', 'r10', 'resolve', '{"of":"r3","choice":"keep_local"}', '{"rev":6}') || ' ' || test.rev('rs-m'), 'applied applied 7 Local');
select test.med('rs', 'r13', 'createSchedule', '{"id":"rs-s","productId":"rs-m","time":"08:00"}') || test.med('rs', 'r14', 'updateSchedule', '{"id":"rs-s","time":"09:00"}') as got \gset
select test.med('rs', 'r15', 'updateSchedule', '{"id":"rs-s","time":"10:00"}', '{"rev":1}') || ' ' || test.med('rs', 'r16', 'resolve', '{"of":"r15","choice":"keep_local"}') as got \gset
select test.is('a schedule', :'got' || ' ' || (select time from care.schedule where id = 'rs-s'), 'conflict state applied 10:00:00');
select test.med('rs', 'r17', 'deleteSchedule', '{"id":"rs-s"}', '{"rev":1}') || ' ' || test.med('rs', 'r18', 'resolve', '{"of":"r17","choice":"keep_local"}') as got \gset
select test.is('and its end', :'got' || ' ' || (select count(*) from care.schedule where id = 'rs-s'), 'conflict state applied 0');
select test.is('what is gone stays gone', test.med('rs', 'r19', 'updateSchedule', '{"id":"rs-s","time":"11:00"}') || ' ' || test.med('rs', 'r20', 'resolve', '{"of":"r19","choice":"keep_local"}') || ' ' || test.med('rs', 'r21', 'resolve', '{"of":"r20","choice":"accept_server"}'), 'conflict gone conflict gone noop');
select test.is('a new stack''s schedule writes no reminders', test.channels('rs', 'r13') || '; ' || test.channels('rs', 'r16') || '; ' || test.channels('rs', 'r21'), 'adherence medications; adherence medications reminders; adherence medications reminders');
select test.is('an intake that was undone writes adherence alone', test.med('rs', 'r26', 'logDose', '{"id":"rs-l","productId":"rs-m"}') || ' ' || test.med('rs', 'r27', 'undo', '{"targetKey":"r26"}') || ' ' || test.med('rs', 'r28', 'logDose', '{"id":"rs-l","productId":"rs-m"}') || ' ' || test.med('rs', 'r29', 'resolve', '{"of":"r28","choice":"keep_local"}') || ' ' || test.channels('rs', 'r29'), 'applied applied conflict gone applied adherence');
select test.is('only of what was offered', test.med('rs', 'r22', 'resolve', '{"of":"r3","choice":"merge"}') || ', ' || test.med('rs', 'r23', 'resolve', '{"of":"r3"}') || ', ' || test.med('rs', 'r24', 'resolve', '{"of":"r3","choice":"keep_local"}', '{"rev":"x"}') || ', ' || test.short(test.act('rs', 'r30', 'resolve', '{"of":"r3","choice":"accept_server"}', client_time => '"never"')), 'rejected invalid payload.choice, rejected invalid payload.choice, rejected invalid base, rejected invalid clientTime');
select test.is('and nobody else''s', test.med('me', 'r25', 'resolve', '{"of":"r3","choice":"keep_local"}'), 'rejected invalid payload.of');
select test.med('rs', 'r11', 'archiveMedication', '{"id":"rs-m"}', '{"rev":1}') || ' ' || test.med('rs', 'r12', 'resolve', '{"of":"r11","choice":"keep_local"}') as got \gset
select test.is('an archive', :'got' || ' ' || (select archived_at is not null from care.product where id = 'rs-m'), 'conflict state applied true');
select test.is('what was done before an archive may come after it', string_agg(test.short(test.act('rs', 'late' || type, type, doc, client_time => to_jsonb(sync.clock() - interval '1 day'))) || '; ' || test.short(test.act('rs', 'now' || type, type, doc || '{"id":"rs-now"}')), ', ' order by type), 'applied; rejected invalid payload.productId, applied; rejected invalid payload.productId')
from (values ('createReminder', '{"productId":"rs-m","time":"08:00"}'::jsonb), ('createSchedule', '{"id":"rs-late","productId":"rs-m","time":"08:00"}')) as t(type, doc);

-- An entry that is sent back whole: by its route its rev is the base, by the socket it is in the payload. Both are what the device saw.
select test.med('wb', 'w0', 'createMedication', '{"id":"wb-m","name":"Iron"}') || test.med('wb', 'w1', 'updateMedication', '{"id":"wb-m","name":"Iron 2"}') || test.med('wb', 'w2', 'createSchedule', '{"id":"wb-s","productId":"wb-m","time":"08:00"}')
    || test.med('wb', 'w3', 'updateSchedule', '{"id":"wb-s","time":"09:00"}') || test.med('wb', 'w4', 'createStack', '{"id":"wb-k","name":"K"}') || test.med('wb', 'w5', 'updateStack', '{"id":"wb-k","name":"L"}')
    || test.med('wb', 'w6', 'updateSettings', '{"timezone":"Europe/Berlin"}') || test.med('wb', 'w7', 'updateSettings', '{"timezone":"Europe/Rome"}') as got \gset
select test.is('two revisions of each', :'got'::text, repeat('applied', 8));
create table test.whole as
select n, type, payload from (values
    (1, 'updateMedication', '{"id":"wb-m","name":"Mine"}'::jsonb), (2, 'updateSchedule', '{"id":"wb-s","time":"10:00"}'), (3, 'updateStack', '{"id":"wb-k","name":"Mine"}'), (4, 'updateSettings', '{"timezone":"Asia/Tokyo"}'),
    (5, 'deleteStack', '{"id":"wb-k"}'), (6, 'deleteSchedule', '{"id":"wb-s"}'), (7, 'archiveMedication', '{"id":"wb-m"}')) as t(n, type, payload);
select test.is(format('%s of what was not seen, by the route and by the socket', type), test.med('wb', 'a' || n, type, payload, '{"rev":1}') || ', ' || test.med('wb', 'b' || n, type, payload || '{"rev":1}'), 'conflict state, conflict state') from test.whole;
select test.is('a base beside it counts', test.med('wb', 'c1', 'updateMedication', '{"id":"wb-m","name":"Mine","rev":9}', '{"rev":1}') || ', ' || test.med('wb', 'c2', 'updateMedication', '{"id":"wb-m","name":"Mine","rev":1}', '{"rev":9}'), 'conflict state, applied');
select test.is('null is nothing', test.med('wb', 'c3', 'updateMedication', '{"id":"wb-m","name":"Iron 3","rev":null}'), 'applied');
select test.is('what is no revision is told', test.med('wb', 'c4', 'updateMedication', '{"id":"wb-m","name":"Mine","rev":"x"}') || ', ' || test.med('wb', 'c5', 'deleteStack', '{"id":"wb-k","rev":-1}'), 'rejected invalid payload.rev, rejected invalid payload.rev');
select test.is('what is new has none', test.med('wb', 'c6', 'createStack', '{"id":"wb-k2","name":"N","rev":"x"}'), 'applied');
select test.is('who decides has seen more', test.med('wb', 'd1', 'resolve', '{"of":"b1","choice":"keep_local"}') || ', ' || test.med('wb', 'd2', 'resolve', '{"of":"d1","choice":"keep_local"}') || ' ' || test.rev('wb-m'), 'conflict state, applied 5 Mine');
select test.is(format('%s of what was seen, by the socket', type), test.med('wb', 'e' || n, type, payload || '{"rev":9}'), case n when 1 then 'noop' else 'applied' end) from test.whole order by n;
select test.is('what is gone is gone, whatever was seen', test.med('wb', 'f1', 'updateSchedule', '{"id":"wb-s","time":"11:00","rev":1}') || ', ' || test.med('wb', 'f2', 'resolve', '{"of":"f1","choice":"keep_local"}') || ', ' || test.med('wb', 'f3', 'createSchedule', '{"id":"wb-s","productId":"wb-m2","time":"08:00"}'), 'conflict gone, conflict gone, rejected invalid payload.productId');

-- The catalogue.
select test.top('md', 'medications') as before \gset
select test.is('a schedule of the catalogue puts it in the list', test.med('md', 'g1', 'createSchedule', '{"id":"md-g","productId":"md-cat","time":"12:30"}') || ' ' || test.events('md', 'medications', :before), 'applied medication.created md-cat');
select test.is('it is nobody''s to change', test.med('md', 'g2', 'updateMedication', '{"id":"md-cat","name":"Mine"}'), 'rejected forbidden');
select test.is('but for its schedules', test.med('md', 'g3', 'updateMedication', '{"id":"md-cat","times":["06:00"]}') || ' ' || test.times('md', 'md-cat'), 'applied 06:00 daily');
update care.product set name = 'Zinc plus' where id = 'md-cat';
select test.top('md', 'medications') as before \gset
select test.spread() \g /dev/null
select test.is('its change is spread to doses and devices', test.events('md', 'medications', :before) || ' ' || (select string_agg(distinct product_name, ',') from care.dose_occurrence where schedule_id = 'md-g' and status = 'scheduled'), 'medication.updated md-cat Zinc plus');
update care.product set archived_at = now() where id = 'md-cat';
select test.top('md', 'medications') as before \gset
select test.spread() \g /dev/null
select test.is('so is its archiving', test.events('md', 'medications', :before) || ' ' || (select count(*) from care.dose_occurrence where schedule_id = 'md-g' and status = 'scheduled' and scheduled_at > sync.clock()), 'medication.deleted md-cat 0');
update care.product set archived_at = null where id = 'md-cat';
select test.spread() \g /dev/null
select test.med('md', 'g4', 'archiveMedication', '{"id":"md-cat"}') as got \gset
select test.is('a user puts it away with its schedules', :'got' || ' ' || test.times('md', 'md-cat') || (select archived_at is null from care.product where id = 'md-cat'), 'applied true');

-- Settings.
select test.med('tr', 't0', 'updateSettings', '{"timezone":"Europe/Berlin"}') \g /dev/null
select test.med('tr', 't1', 'createMedication', '{"id":"tr-1","name":"T","frequency":"daily","times":["18:00"],"scheduleIds":["tr-s"]}') \g /dev/null
select test.top('tr', 'medications') as before \gset
select test.med('tr', 't2', 'updateSettings', '{"timezone":"America/New_York"}', '{"rev":1}') as got \gset
select test.is('a user travels', :'got' || ' ' || (select string_agg(name || coalesce(' ' || (data ->> 'timezone'), ''), ', ' order by o) from sync.event where user_id = 'tr' and topic = 'medications' and o > :before), 'applied medication.updated, settings.updated America/New_York');
select test.is('doses ahead move', (select min(scheduled_at) filter (where local_date = '2025-11-21') from care.dose_occurrence where schedule_id = 'tr-s' and status = 'scheduled'), '2025-11-21 23:00Z'::timestamptz);
select test.is('the answer names all streams', (select count(*) from sync.action, jsonb_object_keys(answer -> 'positions') where user_id = 'tr' and key = 't2'), 3::bigint);
select test.is('the same zone is no change, another one unseen is asked', test.med('tr', 't3', 'updateSettings', '{"timezone":"America/New_York"}') || ', ' || test.med('tr', 't4', 'updateSettings', '{"timezone":"Asia/Tokyo"}', '{"rev":1}'), 'noop, conflict state');
select test.is('without settings it is UTC', (select body::jsonb ->> 'timezone' from sync.settings('nobody')) || ' ' || test.med('nobody', 't1', 'updateSettings', '{"timezone":"UTC"}'), 'UTC noop');

-- Intakes as needed.
select test.top('md') as before \gset
create table test.logged as select test.act('md', 'l1', 'logDose', '{"id":"md-l1","productId":"md-as_needed","takenAt":"2025-11-20T10:30:00Z","note":"headache"}') as a;
select test.is('an intake is logged', (select test.short(a) || ' ' || (a #>> '{result,status}') || ' ' || (a #>> '{result,asNeeded}') || ' ' || (a #>> '{result,dose}') || ' ' || (a #>> '{result,note}') || ' ' || (a #>> '{result,timeLocal}') from test.logged), 'applied taken true 1 drop headache 2025-11-20T11:30:00+01:00');
select test.is('and told as a dose', (select string_agg(name, ', ' order by o) from sync.event where user_id = 'md' and topic = 'adherence' and o > :before), 'occurrence.created, adherence.summary_updated');
select test.is('it counts nowhere', (select count(*) from care.dose_occurrence as d where d.id = 'md-l1' and d.as_needed) || ' ' || (select taken_count from care.day_summary where user_id = 'md' and date = '2025-11-20'), '1 0');
select test.med('md', 'l2', 'logDose', '{"id":"md-l1","productId":"md-as_needed","takenAt":"2025-11-20T11:00:00Z","note":"headache"}') as got \gset
select test.is('once, whatever the key', :'got' || ' ' || (select count(*) from care.dose_note where occurrence_id = 'md-l1'), 'noop 1');
select test.is('an id of another dose is in use', test.med('md', 'l3', 'logDose', '{"id":"md-l1","productId":"md-ibu"}') || ', ' || test.med('me', 'l3', 'logDose', '{"id":"md-l1","productId":"md-cat"}'), 'rejected invalid payload.id, rejected invalid payload.id');
select test.med('md', 'l4', 'undo', '{"targetKey":"l1"}') as got \gset
select test.is('undone', :'got' || ' ' || (select status || coalesce(taken_at::text, '') || coalesce(note, '') from care.dose_occurrence where id = 'md-l1') || ' ' || (select count(*) from care.dose_note where occurrence_id = 'md-l1'), 'applied cancelled 0');
select test.med('md', 'l5', 'logDose', '{"id":"md-l1","productId":"md-as_needed","takenAt":"2025-11-20T10:30:00Z"}') as got \gset
select test.is('then the id is gone, and may be kept all the same', :'got' || ', ' || test.med('md', 'l6', 'resolve', '{"of":"l5","choice":"keep_local"}'), 'conflict gone, applied');
select test.is('as the person chose', (select status from care.dose_occurrence where id = 'md-l1'), 'taken');
select test.med('md', 'l7', 'logDose', '{"id":"md-l2","productId":"md-as_needed","dose":"3 drops"}') as got \gset
select test.is('the offset of the phone is kept', test.act('md', 'l8', 'logDose', '{"id":"md-l3","productId":"md-as_needed","takenAt":"2025-11-20T13:30:00+02:00"}') #>> '{result,takenAtLocal}', '2025-11-20T13:30:00+02:00');
select test.is('without a time it is now', :'got' || ' ' || (select taken_at = '2025-11-20 12:00Z' and dose = '3 drops' from care.dose_occurrence where id = 'md-l2'), 'applied true');

create function test.intake_at(key text, payload jsonb, client_time jsonb default null) returns text language sql as $$
    select concat_ws(' ', test.short(a), a #>> '{result,takenAt}', a #>> '{result,takenAtLocal}')
    from test.act('md', key, 'logDose', jsonb_build_object('id', key, 'productId', 'md-as_needed') || payload, client_time => client_time) as a $$;
select test.is('when: ' || title, test.intake_at('la' || n, payload, client_time), want) from (values
    (1, 'a fast clock is now', '{"takenAt":"2025-11-21T13:00:00+01:00"}'::jsonb, null::jsonb, 'applied 2025-11-20T12:00:00+00:00 2025-11-20T13:00:00+01:00'),
    (2, 'more than a day ahead is no time', '{"takenAt":"2025-11-21T12:00:01Z"}', null, 'rejected invalid payload.takenAt'),
    (3, 'days later, from a queue', '{}', '"2025-11-15T08:00:00+01:00"', 'applied 2025-11-15T07:00:00+00:00 2025-11-15T08:00:00+01:00'),
    (4, 'what the person says goes before', '{"takenAt":"2025-11-14T08:00:00Z"}', '"2025-11-15T08:00:00Z"', 'applied 2025-11-14T08:00:00+00:00'),
    (5, 'a clock that has lost its time says nothing', '{}', '"2001-01-01T00:10:00+01:00"', 'applied 2025-11-20T12:00:00+00:00'),
    (6, 'nor does one that is fast', '{}', '"2026-11-20T12:00:00Z"', 'applied 2025-11-20T12:00:00+00:00')) as t(n, title, payload, client_time, want);
select test.is('they are in history and export, and in no count', (select string_agg(e ->> 'id', ' ' order by n) from sync.adherence_history('md', '2025-11-14', '2025-11-15', 'md-as_needed', null, null, 50) as h, jsonb_array_elements(h.body::jsonb -> 'items') with ordinality as t(e, n)) || ' ' || (select coalesce(sum(taken_count), 0) from care.day_summary where user_id = 'md' and date between '2025-11-14' and '2025-11-15'), 'la3 la4 0');

-- A queue of days without a network: a medication that begins on its first day, and what was taken of it, by ids that the device made.
select test.med('off', 'f1', 'createMedication', '{"id":"off-m","name":"Off","frequency":"daily","times":["09:00"],"startsOn":"2025-11-17"}') as made \gset
update care.dose_occurrence set status = 'missed' where user_id = 'off' and local_date = '2025-11-18' \g /dev/null
select test.is('what was taken meanwhile counts, also where the job came between', :'made' || ', ' || string_agg(test.med('off', 'f-' || day, 'markTaken', jsonb_build_object('occurrenceId', care.occurrence_id(care.schedule_id('off-m', 1), day + time '09:00'), 'takenAt', day || 'T09:05:00Z')), ', ' order by day), 'applied, applied, applied, applied')
from unnest('{2025-11-17,2025-11-18,2025-11-19}'::date[]) as day;
select test.is('each on its day', (select string_agg(local_date || ' ' || status || ' ' || to_char(taken_at, 'MM-DD HH24:MI'), ', ' order by local_date) from care.dose_occurrence where user_id = 'off' and status = 'taken'), '2025-11-17 taken 11-17 09:05, 2025-11-18 taken 11-18 09:05, 2025-11-19 taken 11-19 09:05');

-- Plain SQL is told the same way.
select test.top('sq', 'medications') as before \gset
insert into care.product (id, user_id, name) values ('sq-1', 'sq', 'By hand');
insert into care.schedule (id, user_id, product_id, time) values ('sq-s', 'sq', 'sq-1', '08:00');
update care.schedule set time = '09:00' where id = 'sq-s';
delete from care.product where id = 'sq-1';
select test.is('each commit tells the medication once', test.events('sq', 'medications', :before), 'medication.created sq-1, medication.updated sq-1, medication.updated sq-1, medication.deleted sq-1');
begin;
insert into care.product (id, user_id, name) values ('sq-2', 'sq', 'Two');
insert into care.stack (id, user_id, name) values ('sq-k', 'sq', 'Stack');
insert into care.stack_item (stack_id, product_id) values ('sq-k', 'sq-2');
insert into care.schedule (id, user_id, stack_id, time) values ('sq-ks', 'sq', 'sq-k', '08:00');
commit;
select test.top('sq', 'medications') as before \gset
delete from care.stack where id = 'sq-k';
select test.is('a stack that goes tells its medications', test.events('sq', 'medications', :before), 'medication.updated sq-2, stack.deleted sq-k');
select test.is('nothing is left out of a stream', (select count(*) || ' ' || max(o) from sync.event where user_id = 'md' and topic = 'medications'), test.top('md', 'medications') || ' ' || test.top('md', 'medications'));

-- Two schedules of one medication, by two transactions at once: the second event has both, and the higher rev.
select test.begin('one', $$insert into care.schedule (id, user_id, product_id, time) values ('sq-a', 'sq', 'sq-2', '08:00')$$), test.begin('two', $$insert into care.schedule (id, user_id, product_id, time) values ('sq-b', 'sq', 'sq-2', '09:00')$$) \g /dev/null
select dblink_exec('one', 'commit') \g /dev/null
select dblink_exec('two', 'commit') \g /dev/null
select test.is('the later event has both', (select jsonb_array_length(data -> 'schedules') || ' ' || ((data ->> 'rev')::bigint = (select rev from care.listed where user_id = 'sq' and id = 'sq-2')) from sync.event where user_id = 'sq' and topic = 'medications' order by o desc limit 1), '2 true');
-- An archiving comes between the two halves of a schedule's making: one waits for the other.
select test.begin('one', $$update care.product set archived_at = sync.clock() where id = 'sq-2'$$) \g /dev/null
select dblink_send_query('two', $$select test.med('sq', 'race', 'createSchedule', '{"id":"sq-c","productId":"sq-2","time":"10:00"}')$$) \g /dev/null
select test.is('a schedule waits for an archiving', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and is refused', test.outcome('two'), 'done');
select test.is('for the medication is archived', (select test.short(answer) from sync.action where user_id = 'sq' and key = 'race'), 'rejected invalid payload.productId');
select dblink_disconnect(name) from unnest('{one,two}'::text[]) as name \g /dev/null

-- A backend that has the rights of sql/README.md alone writes each table.
create role carillon_test_backend;
grant usage on schema care to carillon_test_backend;
grant select, insert, update, delete on all tables in schema care to carillon_test_backend;
set role carillon_test_backend;
insert into care.user_settings (user_id, zone) values ('be', 'Europe/Berlin');
insert into care.product (id, user_id, name) values ('be-p', 'be', 'Product');
insert into care.stack (id, user_id, name) values ('be-k', 'be', 'Stack');
insert into care.stack_item (stack_id, product_id) values ('be-k', 'be-p');
insert into care.schedule (id, user_id, product_id, time, timezone) values ('be-s', 'be', 'be-p', '08:00', 'GMT0');
update care.schedule set time = '09:00' where id = 'be-s';
insert into care.reminder_rule (user_id, product_id, time, timezone) values ('be', 'be-p', '08:00', 'Europe/Berlin');
insert into care.dose_occurrence (user_id, product_id, scheduled_at) values ('be', 'be-p', '2025-11-20 07:00Z');
update care.dose_occurrence set tz = 'Europe/Rome' where user_id = 'be' and schedule_id is null;
update care.user_settings set zone = 'Europe/Rome' where user_id = 'be';
reset role;
select test.is('a backend''s rows are written', (select count(*) from care.schedule where user_id = 'be') || ' ' || (select count(*) from care.reminder_rule where user_id = 'be') || ' ' || (select zone from care.user_settings where user_id = 'be') || ' ' || (select tz from care.dose_occurrence where user_id = 'be' and schedule_id is null), '1 1 Europe/Rome Europe/Rome');
drop owned by carillon_test_backend;
drop role carillon_test_backend;
\ir ../functions/11_sync_clock.sql
