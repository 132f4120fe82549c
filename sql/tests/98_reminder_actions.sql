-- Actions on reminder rules: made, changed, deleted, and what a person decides where two devices disagree.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
insert into care.user_settings (user_id, zone) values ('ra', 'Europe/Berlin'), ('rb', 'UTC'), ('rc', 'UTC'), ('rl', 'America/New_York');
create function test.rule(who text, key text, type text, payload jsonb, base jsonb default null, device text default null) returns text language sql as $$
    select test.short(test.act(who, key, type, payload, base, device)) $$;
create function test.fields(rule text, variadic names text[]) returns text language sql as $$
    select string_agg(coalesce(f ->> n, '-'), ' ' order by place)
    from (select care.rule_fields(r) || jsonb_build_object('rev', r.rev, 'clientId', r.client_id) as f from care.reminder_rule as r where r.id = rule) as t,
         unnest(names) with ordinality as u(n, place) $$;

create function test.rules_of(who text, product text) returns bigint language sql as $$ select count(*) from care.reminder_rule where user_id = who and product_id = product $$;

-- Create: what is left out, and what is wrong.
insert into care.stack (id, user_id, name) values ('s', 'ra', 's'), ('rc-s', 'rc', 's');
select test.is(format('created: %s', payload), test.rule('ra', 'c' || n, 'createReminder', payload || jsonb_build_object('id', 'ra-' || n)) || ' ' || test.fields('ra-' || n, 'time', 'timezone', 'tzMode', 'repeat', 'repeatOn', 'delivery', 'enabled', 'appliesTo', 'preset'), want) from (values
    (1, '{"productId":"p","preset":"AM_WITH_FOOD"}'::jsonb, 'applied 08:00 Europe/Berlin follow daily - local true item AM_WITH_FOOD'),
    (2, '{"productId":"p","preset":"WITH_BREAKFAST"}', 'applied 08:30 Europe/Berlin follow daily - local true item WITH_BREAKFAST'),
    (3, '{"productId":"p","preset":"LUNCH","time":"13:15"}', 'applied 13:15 Europe/Berlin follow daily - local true item LUNCH'),
    (4, '{"stackId":"s","preset":"BEDTIME","delivery":"both","enabled":false}', 'applied 22:00 Europe/Berlin follow daily - both false stack BEDTIME'),
    (5, '{"productId":"p","time":"07:00","repeat":"custom","repeatOn":[7,1],"timezone":"Asia/Tokyo"}', 'applied 07:00 Asia/Tokyo fixed custom [1, 7] local true item -'),
    (6, '{"productId":"p","time":"07:00","timezone":"Asia/Tokyo","tzMode":"follow"}', 'applied 07:00 Europe/Berlin follow daily - local true item -'),
    (7, '{"productId":"p","time":"07:05","repeat":"weekdays","repeatOn":[],"label":null,"timezone":"CET","snoozeMinutes":15.0,"stackId":null}', 'applied 07:05 Europe/Brussels fixed weekdays - local true item -')) as t(n, payload, want);
select test.is(format('refused: %s', payload), test.rule('ra', 'x' || n, 'createReminder', payload), 'rejected invalid payload.' || path) from (values
    (1, '{"time":"08:00"}'::jsonb, 'productId'), (2, '{"productId":"p","stackId":"s","time":"08:00"}', 'stackId'), (3, '{"productId":"p"}', 'time'), (4, '{"productId":"p","preset":"CUSTOM"}', 'time'),
    (5, '{"productId":"p","time":"8:00"}', 'time'), (6, '{"productId":"p","time":"08:00","repeat":"hourly"}', 'repeat'), (7, '{"productId":"p","time":"08:00","repeat":"custom"}', 'repeatOn'), (8, '{"productId":"p","time":"08:00","repeat":"custom","repeatOn":[8]}', 'repeatOn'),
    (9, '{"productId":"p","time":"08:00","repeatOn":[1,1]}', 'repeatOn'), (10, '{"productId":"p","time":"08:00","timezone":"Mars/Base"}', 'timezone'), (11, '{"productId":"p","time":"08:00","tzMode":"local"}', 'tzMode'), (12, '{"productId":"p","time":"08:00","delivery":"sms"}', 'delivery'),
    (13, '{"productId":"p","time":"08:00","snoozeMinutes":0}', 'snoozeMinutes'), (14, '{"productId":"p","time":"08:00","enabled":"yes"}', 'enabled'), (15, '{"productId":"p","time":"08:00","appliesTo":"stack"}', 'appliesTo'), (16, '{"productId":7,"time":"08:00"}', 'productId'),
    (17, '{"productId":"p","time":"08:00","preset":"DINNER"}', 'preset'), (18, '{"productId":"p","time":"08:00","scheduleId":"none"}', 'scheduleId'), (19, '{"productId":"p","time":"08:00","clientId":""}', 'clientId'), (20, '{"productId":"p","time":"08:00","id":7}', 'id')) as t(n, payload, path);
select test.is('another user''s id is in use', test.rule('rb', 'x', 'createReminder', '{"id":"ra-1","productId":"p","time":"08:00"}'), 'rejected invalid payload.id');
select test.is('the event is the answer''s rule', (select data - '_sync' from sync.event where user_id = 'ra' and topic = 'reminders' and name = 'reminder.created' and data ->> 'id' = 'ra-1'),
    (select answer -> 'result' from sync.action where user_id = 'ra' and key = 'c1'));
select test.is('the answer tells what there is to snooze', (select string_agg(u ->> 'start', ' ') from (select u from sync.action, jsonb_array_elements(answer #> '{result,upcoming}') as u where user_id = 'ra' and key = 'c1' limit 2) as t),
    '2025-11-21T08:00:00+01:00 2025-11-22T08:00:00+01:00');
select test.is('the answer names the stream alone', (select string_agg(k, ' ') from sync.action, jsonb_object_keys(answer -> 'positions') as k where user_id = 'ra' and key = 'c1'), 'user.ra.reminders');
select test.is('its own times of presets', test.short(a) || ' ' || (a #>> '{result,presetTimes,LUNCH}') || ' ' || (a #>> '{result,presetTimes,BEDTIME}') || ' ' || care.preset_time('rb', 'LUNCH'), 'applied 11:45 22:00 12:30:00')
    from test.act('ra', 'p1', 'updateSettings', '{"presetTimes":{"LUNCH":"11:45","BEDTIME":null}}') as a;
select test.rule('ra', 'p2', 'createReminder', '{"id":"ra-p","productId":"q","preset":"LUNCH"}') \g /dev/null
select test.is('are those of new rules, and of no old one', test.fields('ra-p', 'time') || ' ' || test.fields('ra-3', 'time'), '11:45 13:15');
select test.is(format('settings: %s', payload), test.rule('ra', 's' || n, 'updateSettings', payload), want) from (values
    (1, '{}'::jsonb, 'rejected invalid payload.timezone'), (2, '{"presetTimes":7}', 'rejected invalid payload.presetTimes'), (3, '{"presetTimes":{"DINNER":"18:00"}}', 'rejected invalid payload.presetTimes'), (4, '{"presetTimes":{"LUNCH":"noon"}}', 'rejected invalid payload.presetTimes.LUNCH'),
    (5, '{"presetTimes":{"LUNCH":"11:45"}}', 'noop'), (6, '{"timezone":"Europe/Berlin","presetTimes":{}}', 'noop')) as t(n, payload, want);

-- Names: ids, client ids, temporary ids, and repeats without a key of their own.
select test.is('the same id again is that rule', test.rule('rb', 'a1', 'createReminder', '{"id":"rb-1","clientId":"mine","productId":"p","time":"08:00"}') || ', ' || test.rule('rb', 'a2', 'createReminder', '{"id":"rb-1","productId":"other","time":"09:00"}') || ', ' || test.rule('rb', 'a3', 'createReminder', '{"clientId":"mine","productId":"p","time":"10:00"}') || ', ' || test.fields('rb-1', 'productId', 'time', 'rev'), 'applied, noop, noop, p 08:00 1');
create table test.made_rules as select test.act('rb', 'b1', 'createReminder', '{"productId":"z","time":"08:00","repeat":"daily"}') as a;
select test.is('an equal create without an id is that rule', test.rule('rb', 'b2', 'createReminder', '{"productId":"z","time":"08:00","repeat":"daily","label":"other"}') || ' ' || test.rules_of('rb', 'z'), 'noop 1');
select test.is('the temporary id that comes later is its client id', test.rule('rb', 'b3', 'createReminder', '{"id":"tmp-z","productId":"z","time":"08:00","repeat":"daily"}') || ' ' || test.fields((select a #>> '{result,id}' from test.made_rules), 'clientId', 'rev'), 'noop tmp-z 2');
select test.is('and is told', (select name || ' ' || (data ->> 'clientId') from sync.event where user_id = 'rb' and topic = 'reminders' order by o desc limit 1), 'reminder.updated tmp-z');
select test.is('a second device''s name of it is known too', test.rule('rb', 'b4', 'createReminder', '{"id":"tmp-y","productId":"z","time":"08:00","repeat":"daily"}') || ', ' || test.rule('rb', 'b5', 'updateReminder', '{"id":"tmp-y","label":"Zinc"}') || ', ' || test.fields((select a #>> '{result,id}' from test.made_rules), 'label', 'clientId', 'rev'), 'noop, applied, Zinc tmp-z 3');
select test.is(format('no repeat: %s', why), test.rule('rb', 'n' || n, 'createReminder', payload) || ' ' || test.rules_of('rb', 'z'), 'applied ' || n + 1) from (values
    (1, 'another time', '{"productId":"z","time":"08:01"}'::jsonb), (2, 'other days', '{"productId":"z","time":"08:00","repeat":"weekdays"}'), (3, 'another zone', '{"productId":"z","time":"08:00","timezone":"Asia/Tokyo"}'), (4, 'an id of its own', '{"productId":"z","time":"08:00","id":"rb-own"}'),
    (5, 'a client id that is no temporary one', '{"productId":"z","time":"08:00","clientId":"rb-other"}'), (6, 'custom days', '{"productId":"z","time":"08:00","repeat":"custom","repeatOn":[1,2]}'), (7, 'other custom days', '{"productId":"z","time":"08:00","repeat":"custom","repeatOn":[2]}')) as t(n, why, payload);
-- Seed 001 posts what its queue has made once more, without a name, whatever became of it meanwhile. Twice is on purpose.
create function test.queued(n int, variadic then_types text[]) returns text language plpgsql as $$
declare
    rule constant jsonb := jsonb_build_object('productId', 'q' || n, 'time', '08:00');
    answer text := test.rule('rb', 'qd' || n, 'createReminder', rule || jsonb_build_object('id', 'tmp-q' || n));
    step text;
begin
    foreach step in array then_types loop
        answer := answer || ', ' || case step
            when 'post' then test.rule('rb', gen_random_uuid()::text, 'createReminder', rule)
            when 'named' then test.rule('rb', gen_random_uuid()::text, 'createReminder', rule || jsonb_build_object('id', 'tmp-q' || n || 'b'))
            when 'delete' then test.rule('rb', gen_random_uuid()::text, 'deleteReminder', jsonb_build_object('id', 'tmp-q' || n))
            when 'later' then test.set_clock(sync.clock() + interval '10 minutes')::text
            else test.rule('rb', gen_random_uuid()::text, 'updateReminder', jsonb_build_object('id', 'tmp-q' || n, 'time', step)) end;
    end loop;
    return answer || coalesce((select string_agg(to_char(time, ' HH24:MI'), '' order by time) from care.reminder_rule where user_id = 'rb' and product_id = 'q' || n), '');
end $$;
select test.is(format('made by a queue, then %s', steps), test.queued(n, variadic steps), want) from (values
    (1, '{09:00,post}'::text[], 'applied, applied, noop 09:00'), (2, '{delete,post}', 'applied, applied, noop'), (3, '{09:00,delete,post,09:30}', 'applied, applied, applied, noop, conflict gone'),
    (4, '{09:00,post,post}', 'applied, applied, noop, applied 08:00 09:00'), (5, '{post,09:00,post}', 'applied, noop, applied, applied 08:00 09:00'), (6, '{delete,post,post}', 'applied, applied, noop, applied 08:00'),
    (7, '{delete,named}', 'applied, applied, applied 08:00'), (8, '{delete,named,post,post}', 'applied, applied, applied, noop, noop 08:00'), (9, '{09:00,later,post}', 'applied, applied, , applied 08:00 09:00')) as t(n, steps, want) order by n;
-- What another device makes is its own wish, whatever a queue made shortly before.
create function test.other(n int, poster text, maker text default 'phone') returns text language sql as $$
    select test.rule('rb', 'qo' || n, 'createReminder', jsonb_build_object('productId', 'qo' || n, 'time', '08:00', 'id', 'tmp-qo' || n), device => maker) || ', '
        || test.rule('rb', 'qo-d' || n, 'deleteReminder', jsonb_build_object('id', 'tmp-qo' || n), device => 'tablet') || ', '
        || test.rule('rb', 'qo-p' || n, 'createReminder', jsonb_build_object('productId', 'qo' || n, 'time', '08:00'), device => poster) || ' ' || test.rules_of('rb', 'qo' || n) $$;
select test.is(format('made by a queue of %s, deleted, posted by %s', coalesce(maker, 'nobody'), coalesce(poster, 'nobody')), test.other(n, poster, maker), want) from (values
    (1, 'phone', 'phone', 'applied, applied, noop 0'), (2, 'tablet', 'phone', 'applied, applied, applied 1'), (3, null, 'phone', 'applied, applied, noop 0'), (4, 'tablet', null, 'applied, applied, noop 0')) as t(n, poster, maker, want) order by n;
select test.is('nor is it what the queue posts', string_agg(answer, ', ' order by n), 'applied, noop, applied, noop') from (
    select n, test.rule('rb', 'qz' || n, type, payload, device => device) as answer from (values
        (1, 'createReminder', '{"id":"tmp-qz","productId":"qz","time":"08:00"}'::jsonb, 'phone'), (2, 'createReminder', '{"productId":"qz","time":"08:00"}', 'tablet'),
        (3, 'deleteReminder', '{"id":"tmp-qz"}', 'phone'), (4, 'createReminder', '{"productId":"qz","time":"08:00"}', 'phone')) as t(n, type, payload, device) order by n offset 0) as x;
select test.is('a rule that was posted first, and changed, is none of another wish', test.rule('rb', 'qp1', 'createReminder', '{"id":"rb-q","productId":"qp","time":"08:00"}') || ', ' || test.rule('rb', 'qp2', 'updateReminder', '{"id":"rb-q","time":"09:00"}') || ', ' || test.rule('rb', 'qp3', 'createReminder', '{"productId":"qp","time":"08:00"}'), 'applied, applied, applied');
select test.is('a name that another rule has stays that one''s', test.rule('rb', 'nm1', 'createReminder', '{"id":"rb-n1","clientId":"tmp-n1","productId":"n","time":"01:00"}') || ', ' || test.rule('rb', 'nm2', 'createReminder', '{"id":"rb-n2","productId":"n","time":"02:00"}') || ', '
    || test.rule('rb', 'nm3', 'createReminder', '{"id":"rb-n2","clientId":"tmp-n1","productId":"n","time":"02:00"}') || ' ' || test.fields('rb-n2', 'clientId', 'rev'), 'applied, applied, noop - 1');
select test.is('and names it', care.find_rule('rb', 'tmp-n1'), 'rb-n1');
select test.set_clock('2025-11-21 12:00:01Z') \g /dev/null
select test.is('after a day an equal one is a new one', test.rule('rb', 'b6', 'createReminder', '{"productId":"z","time":"08:01"}') || ' ' || test.rules_of('rb', 'z'), 'applied 9');
select test.is('a client''s name is only its own user''s', test.rule('rc', 'b', 'updateReminder', '{"id":"tmp-z","label":"x"}'), 'conflict gone');

-- Update: three sides, field by field. Rules begin as rev 1; rev 2 changes the time, by another device.
create function test.merge(n int, payload jsonb, base jsonb, device text default 'phone') returns text language plpgsql as $$
declare
    rule constant text := 'rc-' || n;
    answer jsonb;
begin
    perform test.act('rc', rule || '-c', 'createReminder', jsonb_build_object('id', rule, 'productId', 'p', 'time', '08:00', 'label', 'A', 'repeat', 'daily'), null, 'phone');
    perform test.act('rc', rule || '-t', 'updateReminder', jsonb_build_object('id', rule, 'time', '09:00'), null, 'tablet');
    answer := test.act('rc', rule || '-u', 'updateReminder', payload || jsonb_build_object('id', rule), base, device);
    return concat_ws(' ', test.short(answer), test.fields(rule, 'time', 'label', 'rev'), (select string_agg(f ->> 'name' || ':' || coalesce(f ->> 'base', '-') || ':' || (f ->> 'server') || ':' || (f ->> 'local'), ' ') from jsonb_array_elements(answer #> '{conflict,fields}') as f));
end
$$;
select test.is(why, test.merge(n, payload, base, device), want) from (values
    (1, 'other fields merge', '{"label":"B"}'::jsonb, '{"rev":1}'::jsonb, 'phone', 'applied 09:00 B 3'),
    (2, 'the same field is a conflict, of the whole action', '{"time":"10:00","label":"B"}', '{"rev":1}', 'phone', 'conflict field 09:00 A 2 time:08:00:09:00:10:00'),
    (3, 'the same value is nothing', '{"time":"09:00"}', '{"rev":1}', 'phone', 'noop 09:00 A 2'),
    (4, 'what is sent back unchanged says nothing', '{"time":"08:00","label":"B","_sync":{"o":7},"nextOccurrences":["x"],"upcoming":[],"userId":"somebody","createdAt":1}', '{"rev":1}', 'phone', 'applied 09:00 B 3'),
    (5, 'a revision in the object is its base', '{"time":"08:00","rev":1}', null, 'phone', 'noop 09:00 A 2'),
    (6, 'without a base the last one wins', '{"time":"10:00"}', null, 'phone', 'applied 10:00 A 3'),
    (7, 'the revision of now is no conflict', '{"time":"10:00"}', '{"rev":2}', 'phone', 'applied 10:00 A 3'),
    (8, 'a device''s own change is no conflict', '{"time":"10:00"}', '{"rev":1}', 'tablet', 'applied 10:00 A 3'),
    (9, 'a revision that nobody knows: what differs is a conflict', '{"time":"10:00"}', '{"rev":0}', 'phone', 'conflict field 09:00 A 2 time:-:09:00:10:00'),
    (10, 'and what does not is none', '{"time":"09:00"}', '{"rev":0}', 'phone', 'noop 09:00 A 2'),
    (11, 'a base by id', '{"time":"10:00"}', '{"rc-11":{"rev":1}}', 'phone', 'conflict field 09:00 A 2 time:08:00:09:00:10:00'),
    (12, 'null takes away what may be missing', '{"label":null,"time":null}', '{"rev":2}', 'phone', 'applied 09:00 - 3'),
    (13, 'a change that leaves no rule is refused', '{"repeat":"custom"}', '{"rev":2}', 'phone', 'rejected invalid payload.repeatOn 09:00 A 2')) as t(n, why, payload, base, device, want);
select test.is('a queue may name one revision for all its changes', test.rule('rc', 'q1', 'updateReminder', '{"id":"rc-1","time":"11:00"}', '{"rev":3}', 'phone') || ', ' || test.rule('rc', 'q2', 'updateReminder', '{"id":"rc-1","time":"12:00"}', '{"rev":3}', 'phone') || ', ' || test.rule('rc', 'q3', 'updateReminder', '{"id":"rc-1","time":"13:00"}', '{"rev":3}', 'tablet'), 'applied, applied, conflict field');
select test.merge(15, '{"time":"09:00","label":"A"}', '{"rev":1}') \g /dev/null
select test.is('what a device asked for and found done it knows', test.rule('rc', 'fd1', 'updateReminder', '{"id":"rc-15","time":"10:00"}', '{"rev":1}', 'watch') || ', ' || test.rule('rc', 'fd2', 'updateReminder', '{"id":"rc-15","time":"10:00"}', '{"rev":1}', 'phone') || ' ' || test.fields('rc-15', 'time', 'rev'), 'conflict field, applied 10:00 3');
select test.merge(16, '{"time":"09:00","label":"B"}', '{"rev":1}') \g /dev/null
select test.is('also where the same action changed something else', test.fields('rc-16', 'time', 'label', 'rev') || ' ' || test.rule('rc', 'fd3', 'updateReminder', '{"id":"rc-16","time":"10:00"}', '{"rev":1}', 'phone') || ' ' || test.fields('rc-16', 'time', 'rev'), '09:00 B 3 applied 10:00 4');
select test.rule('rc', 'fd4', 'updateReminder', '{"id":"rc-16","time":"07:00"}', null, 'tablet') \g /dev/null
select test.is('but not what came after', test.rule('rc', 'fd5', 'updateReminder', '{"id":"rc-16","time":"08:15"}', '{"rev":1}', 'phone'), 'conflict field');
select test.merge(17, '{"time":"09:00"}', '{"rev":1}', null) \g /dev/null
select test.is('who names no device has only said what it saw', test.rule('rc', 'fd6', 'updateReminder', '{"id":"rc-17","time":"10:00"}', '{"rev":1}', null), 'conflict field');
select test.is('an item becomes a stack', test.rule('rc', 'st', 'updateReminder', '{"id":"rc-1","productId":null,"stackId":"rc-s","appliesTo":"stack"}') || ' ' || test.fields('rc-1', 'productId', 'stackId', 'appliesTo'), 'applied - rc-s stack');
select test.is('a rule from before this table is known at its next revision', (select (care.rule_at('rc', 'rc-2', 1)).time || ' ' || (care.rule_at('rc', 'rc-2', 2)).time), '08:00:00 09:00:00');

-- Resolve.
select test.is('keep_local is the same again', test.rule('rc', 'r2', 'resolve', '{"of":"rc-2-u","choice":"keep_local"}', null, 'phone') || ' ' || test.fields('rc-2', 'time', 'label', 'rev'), 'applied 10:00 B 3');
select test.merge(22, '{"time":"10:00","label":"B"}', '{"rev":1}') \g /dev/null
select test.is('accept_server changes nothing', test.rule('rc', 'r22', 'resolve', '{"of":"rc-22-u","choice":"accept_server"}') || ' ' || test.fields('rc-22', 'time', 'label', 'rev'), 'noop 09:00 A 2');
select test.merge(23, '{"time":"10:00","label":"B"}', '{"rev":1}') \g /dev/null
select test.is('the preview is what merge leaves', (select (answer #>> '{conflict,merged,time}') || ' ' || (answer #>> '{conflict,merged,label}') || ' ' || (answer #>> '{conflict,server,changedBy,deviceId}') from sync.action where user_id = 'rc' and key = 'rc-23-u'), '09:00 B tablet');
select test.is('merge takes what does not conflict', test.rule('rc', 'r23', 'resolve', '{"of":"rc-23-u","choice":"merge"}') || ' ' || test.fields('rc-23', 'time', 'label', 'rev'), 'applied 09:00 B 3');
select test.merge(24, '{"time":"10:00","label":"B"}', '{"rev":1}') \g /dev/null
select test.is('and what the person edited', test.rule('rc', 'r24', 'resolve', '{"of":"rc-24-u","choice":"merge","merged":{"time":"09:30","id":"x","rev":2}}') || ' ' || test.fields('rc-24', 'time', 'label', 'rev'), 'applied 09:30 B 3');
select test.merge(25, '{"time":"10:00"}', '{"rev":1}') \g /dev/null
select test.rule('rc', 't25', 'updateReminder', '{"id":"rc-25","time":"07:00"}', null, 'tablet') \g /dev/null
select test.is('what moved on meanwhile is another conflict', test.rule('rc', 'r25', 'resolve', '{"of":"rc-25-u","choice":"keep_local"}', null, 'phone') || ', ' || test.rule('rc', 'r25b', 'resolve', '{"of":"r25","choice":"keep_local"}', null, 'phone') || ' ' || test.fields('rc-25', 'time', 'rev'), 'conflict field, applied 10:00 4');
select test.is(format('resolve %s', payload), test.rule('rc', 'rx' || n, 'resolve', payload), 'rejected invalid payload.' || path) from (values
    (1, '{"of":"rc-25-u","choice":"both"}'::jsonb, 'choice'), (2, '{"of":"rc-25-u"}', 'choice'), (3, '{"of":"rc-25-u","choice":"merge","merged":7}', 'merged'), (4, '{"of":"rc-25-u","choice":"merge","merged":{"time":"x"}}', 'merged.time'), (5, '{"of":"rc-1-c","choice":"merge"}', 'of')) as t(n, payload, path);
select test.is('the reminders'' stream is named alone', (select string_agg(k, ' ' order by k) from sync.action, jsonb_object_keys(answer -> 'positions') as k where user_id = 'rc' and key = 'r25b'), 'user.rc.reminders');

-- Delete, and what meets a deletion.
select test.merge(30 + n, '{}', null) from generate_series(1, 9) as n \g /dev/null
select test.is('a deletion of what another device changed is a conflict', test.rule('rc', 'd1', 'deleteReminder', '{"id":"rc-31"}', '{"rev":1}', 'phone') || ' ' || test.fields('rc-31', 'rev'), 'conflict state 2');
select test.is('kept it is done', test.rule('rc', 'd2', 'resolve', '{"of":"d1","choice":"keep_local"}', null, 'phone') || coalesce(test.fields('rc-31', 'rev'), ''), 'applied');
select test.is('its own change does not keep a device from deleting', test.rule('rc', 'd3', 'deleteReminder', '{"id":"rc-32"}', '{"rev":1}', 'tablet'), 'applied');
select test.is('without a base it is forced', test.rule('rc', 'd4', 'deleteReminder', '{"id":"rc-33"}') || ', ' || test.rule('rc', 'd5', 'deleteReminder', '{"id":"rc-33"}', '{"rev":1}') || ', ' || test.rule('rc', 'd6', 'deleteReminder', '{"id":"never"}'), 'applied, noop, noop');
select test.rule('rc', 'd7', 'deleteReminder', '{"id":"rc-34"}', '{"rev":1}') \g /dev/null
select test.is('merged or given up the rule stays', test.rule('rc', 'd8', 'resolve', '{"of":"d7","choice":"merge"}') || ', ' || test.rule('rc', 'd9', 'resolve', '{"of":"d7","choice":"accept_server"}') || ' ' || test.fields('rc-34', 'rev'), 'noop, noop 2');
select test.is('a change of what is deleted is a conflict', test.rule('rc', 'g1', 'updateReminder', '{"id":"rc-33","label":"C"}', '{"rev":2}', 'phone'), 'conflict gone');
select test.is('accepted it stays away', test.rule('rc', 'g2', 'resolve', '{"of":"g1","choice":"accept_server"}') || coalesce(test.fields('rc-33', 'rev'), ''), 'noop');
select test.is('kept it comes back, with its id and its next revision', test.rule('rc', 'g3', 'resolve', '{"of":"g1","choice":"keep_local"}', null, 'phone') || ' ' || test.fields('rc-33', 'time', 'label', 'rev'), 'applied 09:00 C 3');
select test.is('which its devices are told', (select string_agg(name || ' ' || (data ->> 'rev'), ', ' order by o) from sync.event where user_id = 'rc' and topic = 'reminders' and data ->> 'id' = 'rc-33'), 'reminder.created 1, reminder.updated 2, reminder.deleted 2, reminder.created 3');
select test.is('a second device that keeps its own meets what came back', test.rule('rc', 'g4', 'deleteReminder', '{"id":"rc-35"}') || ', ' || test.rule('rc', 'g5', 'updateReminder', '{"id":"rc-35","label":"P"}', '{"rev":2}', 'phone') || ', ' || test.rule('rc', 'g6', 'updateReminder', '{"id":"rc-35","label":"T"}', '{"rev":2}', 'tablet') || ', '
    || test.rule('rc', 'g7', 'resolve', '{"of":"g5","choice":"keep_local"}', null, 'phone') || ', ' || test.rule('rc', 'g8', 'resolve', '{"of":"g6","choice":"keep_local"}', null, 'tablet') || ' ' || test.fields('rc-35', 'label', 'rev'), 'applied, conflict gone, conflict gone, applied, conflict field P 3');
select test.is('a device has seen what it brought back', test.rule('rc', 'g14', 'deleteReminder', '{"id":"rc-37"}') || ', ' || test.rule('rc', 'g15', 'updateReminder', '{"id":"rc-37","label":"P"}', '{"rev":2}', 'phone') || ', ' || test.rule('rc', 'g16', 'resolve', '{"of":"g15","choice":"keep_local"}', null, 'phone') || ', '
    || test.rule('rc', 'g17', 'updateReminder', '{"id":"rc-37","label":"Q"}', '{"rev":2}', 'phone') || ' ' || test.fields('rc-37', 'label', 'rev'), 'applied, conflict gone, applied, applied Q 4');
select test.is('it comes back as it went last', test.rule('rc', 'h1', 'deleteReminder', '{"id":"rc-38"}') || ', ' || test.rule('rc', 'h2', 'updateReminder', '{"id":"rc-38","label":"P"}', '{"rev":2}', 'phone') || ', ' || test.rule('rc', 'h3', 'resolve', '{"of":"h2","choice":"keep_local"}') || ', '
    || test.rule('rc', 'h4', 'updateReminder', '{"id":"rc-38","time":"11:00"}') || ', ' || test.rule('rc', 'h5', 'deleteReminder', '{"id":"rc-38"}') || ', ' || test.rule('rc', 'h6', 'resolve', '{"of":"h2","choice":"keep_local"}', '{"rev":4}') || ' ' || test.fields('rc-38', 'time', 'label', 'rev'), 'applied, conflict gone, applied, applied, applied, applied 11:00 P 5');
select test.is('a rule that follows is made', test.rule('rf', 'f1', 'createReminder', '{"id":"rf-1","productId":"p","time":"08:00","tzMode":"follow"}') || ', ' || test.rule('rf', 'f2', 'deleteReminder', '{"id":"rf-1"}') || ', ' || test.rule('rf', 'f3', 'updateReminder', '{"id":"rf-1","label":"P"}'), 'applied, applied, conflict gone');
insert into care.user_settings (user_id, zone) values ('rf', 'Asia/Tokyo');
select test.is('it comes back to where its user is now', test.rule('rf', 'f4', 'resolve', '{"of":"f3","choice":"keep_local"}') || ' ' || test.fields('rf-1', 'timezone', 'tzMode', 'rev'), 'applied Asia/Tokyo follow 2');
select test.is('and takes no other zone', test.rule('rf', 'f5', 'updateReminder', '{"id":"rf-1","timezone":"UTC"}') || ' ' || test.fields('rf-1', 'timezone', 'tzMode', 'rev'), 'noop Asia/Tokyo follow 2');
select test.is('also not beside a wish that counts', test.rule('rf', 'f6', 'updateReminder', '{"id":"rf-1","timezone":"UTC","label":"Q"}') || ' ' || test.fields('rf-1', 'timezone', 'label', 'rev'), 'applied Asia/Tokyo Q 3');
select test.is('a zone kept for a rule that follows meanwhile changes nothing', test.rule('rf', 'f7', 'createReminder', '{"id":"rf-2","productId":"q","time":"08:00","tzMode":"fixed"}') || ', ' || test.rule('rf', 'f8', 'deleteReminder', '{"id":"rf-2"}') || ', '
    || test.rule('rf', 'f9', 'createReminder', '{"id":"rf-2","productId":"q","time":"08:00","tzMode":"fixed","timezone":"America/New_York"}', null, 'watch') || ', ' || test.rule('rf', 'f10', 'createReminder', '{"id":"rf-2","productId":"q","time":"08:00","tzMode":"follow"}', null, 'watch') || ', '
    || test.rule('rf', 'f11', 'resolve', '{"of":"f10","choice":"merge"}') || ', ' || test.rule('rf', 'f12', 'resolve', '{"of":"f9","choice":"keep_local"}', '{"rev":1}', 'tablet') || ' ' || test.fields('rf-2', 'timezone', 'tzMode', 'rev'), 'applied, applied, conflict gone, conflict gone, applied, noop Asia/Tokyo follow 2');
select test.is('and no device is told', (select string_agg(name || ' ' || (data ->> 'rev'), ', ' order by o) from sync.event where user_id = 'rf' and topic = 'reminders' and data ->> 'id' = 'rf-2'), 'reminder.created 1, reminder.deleted 1, reminder.created 2');
select test.is('a late create of what was deleted asks first', test.rule('rc', 'g9', 'deleteReminder', '{"id":"rc-36"}') || ', ' || test.rule('rc', 'g10', 'createReminder', '{"id":"rc-36","productId":"p","time":"08:00"}') || ', ' || test.rule('rc', 'g11', 'resolve', '{"of":"g10","choice":"keep_local"}') || ' ' || test.fields('rc-36', 'time', 'rev'), 'applied, conflict gone, applied 08:00 3');
select test.is('a change of what never was is a conflict that nothing can keep', test.short(a) || ' ' || (a #>> '{conflict,options}') || ', ' || test.rule('rc', 'g13', 'resolve', '{"of":"g12","choice":"keep_local"}'), 'conflict gone ["accept_server"], conflict gone')
    from test.act('rc', 'g12', 'updateReminder', '{"id":"never","label":"x"}') as a;
select test.is('an undo of a reminder''s action has nothing to do', test.rule('rc', 'u1', 'undo', '{"targetKey":"d4"}'), 'noop');
select test.is('tombstones and names stay for 90 days', (select count(*) > 0 from care.reminder_tombstone where user_id = 'rc') and care.find_rule('rb', 'tmp-z') is not null, true);
select test.rule('rb', 'dz', 'deleteReminder', '{"id":"tmp-z"}') \g /dev/null
select test.is('a deleted rule is known by its names', test.rule('rb', 'dz2', 'updateReminder', '{"id":"tmp-y","label":"x"}'), 'conflict gone');
select test.set_clock('2026-02-20 12:00Z') \g /dev/null
do $$ begin while (select more from sync.job('retain_actions', 1000, null)) loop end loop; end $$;
select test.is('and no longer', (select count(*) from care.reminder_tombstone where user_id in ('rb', 'rc')) || ' ' || coalesce(care.find_rule('rb', 'tmp-y'), 'unknown') || ' ' || (care.find_rule('rb', 'mine')), '0 unknown rb-1');
select test.set_clock('2025-11-21 12:00Z') \g /dev/null

-- Rules that are linked to schedules.
insert into care.product (id, user_id, name) values ('rl-p', 'rl', 'Iron'), ('rl-q', 'rl', 'Zinc');
insert into care.schedule (id, user_id, product_id, time, repeat, repeat_on) values ('rl-s', 'rl', 'rl-p', '07:30', 'custom', '{1,5}');
insert into care.schedule (id, user_id, product_id, repeat) values ('rl-n', 'rl', 'rl-p', 'as_needed');
select test.is('a linked rule takes product, time, days and zone from its schedule', test.rule('rl', 'l1', 'createReminder', '{"id":"rl-1","scheduleId":"rl-s","time":"12:00","timezone":"UTC"}') || ' ' || test.fields('rl-1', 'productId', 'time', 'repeat', 'repeatOn', 'timezone', 'tzMode'), 'applied rl-p 07:30 custom [1, 5] America/New_York follow');
update care.schedule set time = '06:45', repeat = 'daily', repeat_on = null where id = 'rl-s';
select test.is('and keeps them', test.fields('rl-1', 'time', 'repeat', 'repeatOn', 'rev'), '06:45 daily - 2');
update care.user_settings set zone = 'Asia/Tokyo' where user_id = 'rl';
select test.is('also the zone', test.fields('rl-1', 'timezone'), 'Asia/Tokyo');
update care.reminder_rule set time = '01:00' where id = 'rl-1';
select test.is('which no writer of the rule changes', test.fields('rl-1', 'time'), '06:45');
select test.is(format('linked: %s', payload), test.rule('rl', 'lx' || n, 'updateReminder', payload || '{"id":"rl-1"}'), want) from (values
    (1, '{"time":"09:00"}'::jsonb, 'rejected invalid payload.time'), (2, '{"repeat":"weekdays"}', 'rejected invalid payload.repeat'), (3, '{"timezone":"UTC"}', 'rejected invalid payload.timezone'), (4, '{"productId":"rl-q"}', 'rejected invalid payload.scheduleId'), (5, '{"label":"Iron","time":"06:45"}', 'applied'),
    (6, '{"scheduleId":"rl-n"}', 'rejected invalid payload.scheduleId'), (7, '{"scheduleId":null,"time":"09:00"}', 'applied'), (8, '{"scheduleId":"rl-s"}', 'applied')) as t(n, payload, want);
select test.is('unlinked and linked again', test.fields('rl-1', 'time', 'scheduleId'), '06:45 rl-s');
update care.schedule set repeat = 'as_needed', time = null where id = 'rl-s';
select test.is('a schedule as needed silences its reminder, and switches it off for nobody', test.fields('rl-1', 'time', 'enabled', 'rev') || ' ' || (select (data ->> 'silent') || ' ' || (data ->> 'upcoming') from sync.event where user_id = 'rl' and topic = 'reminders' order by o desc limit 1), '06:45 true 7 true []');
select test.is('nor does it change for who sends it back, off and on', test.rule('rl', 'ln' || n, 'updateReminder', jsonb_build_object('id', 'rl-1', 'enabled', enabled)), 'applied') from (values (1, false), (2, true)) as t(n, enabled);
update care.schedule set repeat = 'daily', time = '06:00' where id = 'rl-s';
select test.is('a time again, and it speaks', test.fields('rl-1', 'time', 'repeat', 'enabled') || ' ' || (select (data ->> 'silent') || ' ' || jsonb_array_length(data -> 'upcoming') from sync.event where user_id = 'rl' and topic = 'reminders' order by o desc limit 1), '06:00 daily true false 10');
delete from care.schedule where id = 'rl-s';
select test.is('a rule whose schedule was deleted is disabled', test.fields('rl-1', 'time', 'scheduleId', 'enabled'), '06:00 - false');
select test.is('which its devices are told', (select (data ->> 'enabled') || ' ' || (data ->> 'nextOccurrences') from sync.event where user_id = 'rl' and topic = 'reminders' order by o desc limit 1), 'false []');
select test.is('a person who unlinks a rule keeps it', test.rule('rl', 'lk1', 'createSchedule', '{"id":"rl-k","productId":"rl-p","time":"07:30","repeat":"daily"}') || ', ' || test.rule('rl', 'lk2', 'createReminder', '{"id":"rl-2","scheduleId":"rl-k","delivery":"push"}') || ', ' || test.rule('rl', 'lk3', 'updateReminder', '{"id":"rl-2","scheduleId":null}') || ' ' || test.fields('rl-2', 'time', 'scheduleId', 'enabled'), 'applied, applied, applied 07:30 - true');

-- A linked rule has occurrences on those days alone on which its schedule gives doses; each change of that is told, and is due.
select test.rule('rl', 'lk4', 'updateReminder', '{"id":"rl-2","scheduleId":"rl-k"}') \g /dev/null
create function test.linked(rule text) returns text language sql as $$
    select concat_ws(' ', coalesce((select string_agg(to_char(u.start at time zone 'UTC', 'DD'), ' ' order by u.start) from care.upcoming(r, sync.clock(), 2) as u), 'none'), 'due',
                     coalesce((select to_char(d.due_at at time zone 'UTC', 'DD') from care.reminder_due as d where d.rule_id = r.id), 'never'), 'told',
                     (select (data #>> '{nextOccurrences,0}' is not null)::text from sync.event as e where e.user_id = r.user_id and topic = 'reminders' and data ->> 'id' = r.id order by o desc limit 1), 'rev', r.rev)
    from care.reminder_rule as r where r.id = rule $$;
select test.is('a schedule that gives a dose daily', test.linked('rl-2'), '21 22 due 21 told true rev 3');
select test.is(format('schedule: %s', payload), test.rule('rl', 'ls' || n, 'updateSchedule', payload || '{"id":"rl-k"}') || ' ' || test.linked('rl-2'), 'applied ' || want) from (values
    (1, '{"enabled":false}'::jsonb, 'none due never told false rev 4'), (2, '{"enabled":true}', '21 22 due 21 told true rev 5'), (3, '{"endsOn":"2025-11-22"}', '21 due 21 told true rev 6'), (4, '{"endsOn":"2025-11-20"}', 'none due never told false rev 7'),
    (5, '{"startsOn":"2026-03-03","endsOn":"2026-03-04"}', '02 03 due 02 told true rev 8'), (6, '{"startsOn":"2025-11-25","endsOn":null}', '24 25 due 24 told true rev 9'), (7, '{"repeat":"custom","repeatOn":[5]}', '27 04 due 27 told true rev 10'), (8, '{"startsOn":null,"repeat":"daily"}', '21 22 due 21 told true rev 11')) as t(n, payload, want);
select test.is('an archived medication is silent', test.rule('rl', 'la1', 'archiveMedication', '{"id":"rl-p"}') || ' ' || test.linked('rl-2'), 'applied none due never told false rev 12');
select test.is('until it comes back', test.rule('rl', 'la2', 'updateMedication', '{"id":"rl-p","archived":false}') || ' ' || test.linked('rl-2'), 'applied 21 22 due 21 told true rev 13');
select test.rule('rl', 'ls9', 'updateSchedule', '{"id":"rl-k","endsOn":"2025-11-23"}') \g /dev/null
select test.is('a day that the schedule does not give is none of the rule''s', test.rule('rl', 'ld1', 'setReminderOccurrence', '{"id":"rl-2","date":"2025-11-24","enabled":false}') || ', ' || test.rule('rl', 'ld2', 'snoozeReminder', jsonb_build_object('occurrenceId', care.occurrence_id('rl-2', '2025-11-24 07:30'), 'minutes', 5)), 'rejected invalid payload.date, noop');
insert into care.device (user_id, device_id, platform, token, registered_at) values ('rl', 'rl-phone', 'fcm', 'rl-token', '2025-11-20 12:00Z');
create function test.fired(at timestamptz) returns text language plpgsql as $$
begin
    perform test.set_clock(at), (select sum(done) from sync.job('fire_reminders', 100, null));
    return (select count(*) from care.push where rule_id = 'rl-2') || ' ' || test.linked('rl-2');
end $$;
select test.is('the last days fire', test.fired('2025-11-22 23:00Z'), '2 none due never told true rev 14');
select test.rule('rl', 'ls10', 'updateSchedule', '{"id":"rl-k","endsOn":null}') \g /dev/null
begin;
set local session_replication_role = 'replica';
update care.schedule set enabled = false where id = 'rl-k';
commit;
select test.is('what is due is asked again', test.fired('2025-11-25 12:00Z'), '2 none due never told true rev 15');
delete from care.push where rule_id = 'rl-2';
select test.set_clock('2025-11-21 12:00Z') \g /dev/null
select test.is('all of it is told', (select count(*) = max(o) from sync.event where user_id = 'rl' and topic = 'reminders'), true);

-- A repeat by another way. Routes take the rev of an object that is sent back whole for its base; sockets and queues leave it inside.
create function test.again(n int, one jsonb, one_base jsonb, other jsonb, other_base jsonb) returns text language sql as $$
    select test.rule('ro', 'w' || n, 'updateReminder', '{"id":"ro-1","label":"w"}' || one, one_base) || ', ' || test.rule('ro', 'w' || n, 'updateReminder', '{"id":"ro-1","label":"w"}' || other, other_base) $$;
select test.rule('ro', 'w0', 'createReminder', '{"id":"ro-1","productId":"p","time":"08:00","timezone":"UTC"}') \g /dev/null
select test.is(format('the same action: %s', why), test.again(n, one, one_base, other, other_base), want || ', ' || want || ' replayed') from (values
    (1, 'by the route, and by the socket', '{}'::jsonb, '{"rev":1}'::jsonb, '{"rev":1}'::jsonb, '{"rev":1}'::jsonb, 'applied'), (2, 'by the route with its rev alone', '{}', '{"rev":2}', '{"rev":2}', null, 'noop'),
    (3, 'by the socket, and by the route', '{"rev":2}', '{"rev":2}', '{}', '{"rev":2}', 'noop'), (4, 'with its rev alone', '{"rev":2}', null, '{}', '{"rev":2}', 'noop'), (5, 'null is nothing', '{"rev":null,"tz":null}', 'null', '{}', null, 'noop'),
    (6, 'of one occurrence, the rev is the rule''s', '{"applyTo":"occurrence","rev":2,"enabled":false,"date":"2025-11-22","timestamp":7}', null, '{"applyTo":"occurrence","rev":2,"enabled":false,"date":"2025-11-22"}', null, 'applied'),
    (7, 'another base beside the rev', '{"rev":1}', '{"ro-1":{"rev":2}}', '{}', '{"ro-1":{"rev":2}}', 'noop')) as t(n, why, one, one_base, other, other_base, want);
select test.is(format('another action: %s', why), test.again(n, one, one_base, other, other_base), 'noop, rejected key_reused') from (values
    (11, 'another rev', '{"rev":2}'::jsonb, null::jsonb, '{"rev":1}'::jsonb, null::jsonb), (12, 'another base', '{"rev":2}', null, '{}', '{"rev":1}'), (13, 'no base', '{"rev":2}', null, '{}', null), (14, 'another label', '{"rev":2}', null, '{"rev":2,"label":"v"}', null)) as t(n, why, one, one_base, other, other_base);
select test.rule('ro', 'w20', 'updateReminder', '{"id":"ro-1","label":"w","rev":2}') \g /dev/null
update sync.action set digest = sync.digest(type, '{"id":"ro-1","label":"w","rev":2}', '{"id":"ro-1","label":"w","rev":2}', null, null) where user_id = 'ro' and key = 'w20';
select test.is('what an older version stored is known', test.rule('ro', 'w20', 'updateReminder', '{"id":"ro-1","label":"w","rev":2}'), 'noop replayed');
select test.is('of medications too', test.rule('ro', 'w21', 'updateMedication', '{"id":"none","name":"x"}', '{"rev":1}') || ', ' || test.rule('ro', 'w21', 'updateMedication', '{"id":"none","name":"x","rev":1}', '{"rev":1}'), 'conflict gone, conflict gone replayed');

-- Who changed what.
select test.is('changes are recorded with who and where', (select string_agg(concat_ws(':', was_rev, rev, actor, device, key), ', ' order by n) from care.reminder_audit where rule_id = 'rc-33'), '1:user:phone:rc-33-c, 1:2:user:tablet:rc-33-t, 2:user:d4, 3:user:phone:g3');
select test.fails('what is recorded stays', $$update care.reminder_audit set actor = 'x'$$, '42501');
select test.fails('of occurrences too', $$delete from care.reminder_occurrence_audit$$, '42501');
select test.fails('a user with reminders is not erased', $$select care.erase_audit('rc')$$, '55000');
delete from care.reminder_rule where user_id = 'rc';
select test.is('one without is', care.erase_audit('rc') > 0, true);
select test.is('wholly', not exists (select from care.reminder_audit where user_id = 'rc') and not exists (select from care.reminder_tombstone where user_id = 'rc'), true);
insert into care.reminder_rule (id, user_id, client_id, product_id, time, timezone) values ('plain', 'rm', 'pc', 'p', '08:00', 'UTC');
update care.reminder_rule set user_id = 'rn' where id = 'plain';
select test.is('a rule that goes to another user leaves no tombstone', (select count(*) from care.reminder_tombstone where id = 'plain') || ' ' || coalesce(care.find_rule('rm', 'pc'), '-') || ' ' || care.find_rule('rn', 'pc'), '0 plain plain');
select test.is('and is not its old user''s', test.rule('rm', 'm1', 'updateReminder', '{"id":"pc","label":"x"}') || ', ' || test.rule('rm', 'm2', 'deleteReminder', '{"id":"plain"}') || ' ' || test.fields('plain', 'label'), 'conflict gone, noop -');
select test.is('nothing is left out of a stream', (select bool_and(n = top and high = top) from (select user_id, count(*) as n, max(o) as high from sync.event where topic = 'reminders' and user_id = any('{ra,rb,rc,rl,rm,rn}') group by user_id) as e join sync.stream as s using (user_id) where s.topic = 'reminders'), true);
\ir ../functions/11_sync_clock.sql
