-- Another frequency or other times of a medication: times that stay keep their doses and reminders. The clock is set.
set timezone = 'UTC';
create function test.mt(who text, type text, payload jsonb, at timestamptz default null) returns text language sql as $$
    select test.short(test.act(who, gen_random_uuid()::text, type, payload, null, null, null, to_jsonb(at))) $$;
create function test.mt_day(who text, day date) returns text language sql as $$
    select coalesce(string_agg(to_char(local_time, 'HH24:MI') || ' ' || status, ', ' order by local_time, status), '')
    from care.dose_occurrence where user_id = who and local_date = day and status <> 'cancelled' $$;
-- A person who has had a medication with these times since yesterday, and has taken, an hour early, what was due by `taken`; then changes it. Today and tomorrow.
create function test.changed(zone text, before text[], taken time, at time, change jsonb, out told text) language plpgsql as $$
declare
    who constant text := gen_random_uuid();
    m constant text := gen_random_uuid();
begin
    insert into care.user_settings (user_id, zone) values (who, zone);
    perform test.set_clock(care.resolve_local('2025-11-19 00:30', zone));
    insert into care.product (id, user_id, name) values (m, who, 'M');
    if cardinality(before) < 3 then
        perform test.mt(who, 'updateMedication', jsonb_build_object('id', m, 'times', to_jsonb(before)));
    else
        perform test.mt(who, 'createSchedule', jsonb_build_object('id', m || '/' || t, 'productId', m, 'time', t)) from unnest(before) as t;
    end if;
    update care.dose_occurrence as d set status = 'taken', taken_at = d.scheduled_at where d.user_id = who and d.local_date < '2025-11-20';
    update care.dose_occurrence as d set status = 'taken', taken_at = d.scheduled_at - interval '1 hour' where d.user_id = who and d.local_date = '2025-11-20' and d.local_time <= taken;
    perform test.set_clock(care.resolve_local(date '2025-11-20' + at, zone));
    told := test.mt(who, 'updateMedication', change || jsonb_build_object('id', m));
    told := told || ': ' || test.mt_day(who, '2025-11-20') || ' | ' || test.mt_day(who, '2025-11-21');
end
$$;
select test.is(format('%s to %s at %s in %s', array_to_string(before, '+'), change ->> 'times', at, zone), test.changed(zone, before, taken, at, change), 'applied: ' || want)
from unnest('{UTC,Europe/Berlin,America/Los_Angeles,Asia/Kathmandu,Pacific/Auckland}'::text[]) as zone
cross join (values
    ('{08:00,20:00}'::text[], time '08:00', time '12:00', '{"frequency":"daily","times":["20:00"]}'::jsonb, '08:00 taken, 20:00 scheduled | 20:00 scheduled'),
    ('{08:00,20:00}', '08:00', '12:00', '{"times":["08:00"]}', '08:00 taken | 08:00 scheduled'),
    ('{20:00}', '20:00', '19:10', '{"times":["08:00","20:00"]}', '20:00 taken | 08:00 scheduled, 20:00 scheduled'),
    ('{20:00}', '20:00', '19:10', '{"frequency":"twice_daily"}', '20:00 taken | 08:00 scheduled, 20:00 scheduled'),
    ('{08:00}', '08:00', '07:10', '{"times":["20:00","08:00"]}', '08:00 taken, 20:00 scheduled | 08:00 scheduled, 20:00 scheduled'),
    ('{08:00,20:00}', '08:00', '12:00', '{"times":["20:00","23:00"]}', '08:00 taken, 20:00 scheduled, 23:00 scheduled | 20:00 scheduled, 23:00 scheduled'),
    ('{08:00,20:00}', '00:00', '12:00', '{"times":["20:00","23:00"]}', '08:00 scheduled, 20:00 scheduled, 23:00 scheduled | 20:00 scheduled, 23:00 scheduled'),
    ('{08:00,20:00}', '00:00', '07:00', '{"times":["20:00","23:00"]}', '20:00 scheduled, 23:00 scheduled | 20:00 scheduled, 23:00 scheduled'),
    ('{08:00,20:00}', '20:00', '19:30', '{"times":["06:00","08:00"]}', '08:00 taken, 20:00 taken | 06:00 scheduled, 08:00 scheduled'),
    ('{08:00,20:00}', '08:00', '12:00', '{"times":["09:00","20:00"]}', '08:00 taken, 20:00 scheduled | 09:00 scheduled, 20:00 scheduled'),
    ('{08:00,20:00}', '08:00', '12:00', '{"times":["08:00","22:00"]}', '08:00 taken, 22:00 scheduled | 08:00 scheduled, 22:00 scheduled'),
    ('{08:00,20:00}', '08:00', '12:00', '{"times":["22:00","23:00"]}', '08:00 taken, 22:00 scheduled, 23:00 scheduled | 22:00 scheduled, 23:00 scheduled'),
    ('{08:00,20:00}', '08:00', '12:00', '{"times":["21:00"]}', '08:00 taken, 21:00 scheduled | 21:00 scheduled'),
    ('{08:00,20:00}', '08:00', '12:00', '{"times":["20:00","08:00"],"dose":"2"}', '08:00 taken, 20:00 scheduled | 08:00 scheduled, 20:00 scheduled'),
    ('{08:00}', '08:00', '08:30', '{"times":["09:00"]}', '08:00 taken | 09:00 scheduled'),
    ('{08:00}', '00:00', '07:30', '{"times":["09:00"]}', '09:00 scheduled | 09:00 scheduled'),
    ('{08:00,20:00}', '08:00', '12:00', '{"frequency":"as_needed"}', '08:00 taken | '),
    ('{08:00,20:00}', '08:00', '12:00', '{"frequency":"weekly","times":["20:00"],"repeatOn":[4]}', '08:00 taken, 20:00 scheduled | '),
    ('{08:00,14:00,20:00}', '08:00', '12:00', '{"times":["14:00","20:00"]}', '08:00 taken, 14:00 scheduled, 20:00 scheduled | 14:00 scheduled, 20:00 scheduled'),
    ('{08:00,14:00,20:00}', '14:00', '13:30', '{"times":["08:00","14:00"]}', '08:00 taken, 14:00 taken | 08:00 scheduled, 14:00 scheduled')
) as t(before, taken, at, change, want);

-- Once more what was taken: no second one, whatever way there is. And a mistake that is put right.
insert into care.product (id, user_id, name) select 'mt-' || n, 'mt', n from unnest('{a,b,c,d,e,w}'::text[]) as n;
select test.set_clock('2025-11-19 00:30Z') \g /dev/null
select test.mt('mt', 'updateMedication', format('{"id":"mt-%s","times":["20:00"]}', n)::jsonb) from unnest('{a,b}'::text[]) as n \g /dev/null
select test.mt('mt', 'updateMedication', format('{"id":"mt-%s","times":["08:00","20:00"]}', n)::jsonb) from unnest('{c,d,e}'::text[]) as n \g /dev/null
select test.set_clock('2025-11-20 19:05Z') \g /dev/null
update care.dose_occurrence set status = 'taken', taken_at = sync.clock() where product_id in ('mt-a', 'mt-b') and local_date = '2025-11-20';
create function test.mt_of(product text, day date) returns text language sql as $$
    select coalesce(string_agg(to_char(local_time, 'HH24:MI') || ' ' || status, ', ' order by local_time, status), '')
    from care.dose_occurrence where product_id = product and local_date = day and status <> 'cancelled' $$;
select test.mt('mt', 'updateMedication', '{"id":"mt-a","times":["08:00"]}') \g /dev/null
select test.mt('mt', 'updateMedication', '{"id":"mt-a","times":["08:00","20:00"]}') \g /dev/null
select test.is('another time, and then both: what was taken is not asked for again', test.mt_of('mt-a', '2025-11-20') || ' | ' || test.mt_of('mt-a', '2025-11-21'), '20:00 taken | 08:00 scheduled, 20:00 scheduled');
select test.set_clock('2025-11-20 07:59Z') \g /dev/null
select test.mt('mt', 'updateMedication', format('{"id":"mt-%s","times":["20:00"]}', n)::jsonb) from unnest('{c,d,e}'::text[]) as n \g /dev/null
select test.mt('mt', 'updateMedication', '{"id":"mt-d","times":["20:00","23:00"]}') \g /dev/null
select test.mt('mt', 'updateMedication', '{"id":"mt-e","frequency":"as_needed"}') \g /dev/null
select test.set_clock('2025-11-20 08:01Z') \g /dev/null
select test.mt('mt', 'updateMedication', format('{"id":"mt-%s","times":["08:00","20:00"]}', n)::jsonb) from unnest('{c,d,e}'::text[]) as n \g /dev/null
select test.is(format('a time that was taken away by mistake, and back (%s)', n), test.mt_of('mt-' || n, '2025-11-20'), '08:00 scheduled, 20:00 scheduled') from unnest('{c,d,e}'::text[]) as n;

-- The wrong one of two times, put right after the morning's was taken early; by other actions, too, and after an undo.
insert into care.product (id, user_id, name) select 'mo-' || n, 'mo', n from unnest('{a,b,c,d}'::text[]) as n;
select test.set_clock('2025-11-19 12:00Z') \g /dev/null
select test.mt('mo', 'createSchedule', jsonb_build_object('id', format('mo-%s-%s', n, t), 'productId', 'mo-' || n, 'time', t)) from unnest('{a,b,c,d}'::text[]) as n, unnest('{08:00,20:00}'::text[]) as t \g /dev/null
select test.set_clock('2025-11-20 07:10Z') \g /dev/null
select test.act('mo', 'take ' || product_id, 'markTaken', jsonb_build_object('occurrenceId', id)) from care.dose_occurrence where user_id = 'mo' and local_date = '2025-11-20' and local_time = '08:00' \g /dev/null
select test.mt('mo', type, payload) from (values
    (1, 'updateMedication', '{"id":"mo-a","times":["20:00"]}'::jsonb), (2, 'updateMedication', '{"id":"mo-a","times":["08:00"]}'), (3, 'deleteSchedule', '{"id":"mo-b-08:00"}'), (4, 'createSchedule', '{"id":"mo-b-new","productId":"mo-b","time":"08:00"}'),
    (5, 'deleteSchedule', '{"id":"mo-c-08:00"}'), (6, 'updateSchedule', '{"id":"mo-c-20:00","time":"08:00"}'), (7, 'createSchedule', '{"id":"mo-d-new","productId":"mo-d","time":"20:00"}')) as t(n, type, payload) order by n \g /dev/null
select test.is('what was taken early is asked for once: ' || n, test.mt_of('mo-' || n, '2025-11-20') || ' | ' || test.mt_of('mo-' || n, '2025-11-21'), want) from (values
    ('a', '08:00 taken | 08:00 scheduled'), ('b', '08:00 taken, 20:00 scheduled | 08:00 scheduled, 20:00 scheduled'), ('c', '08:00 taken | 08:00 scheduled')) as t(n, want);
select test.is('two schedules of one time are two doses', test.mt_of('mo-d', '2025-11-20'), '08:00 taken, 20:00 scheduled, 20:00 scheduled');
select test.mt('mo', 'undo', '{"targetKey":"take mo-a"}') \g /dev/null
select care.replan(array(select id from care.schedule where product_id = 'mo-a')) \g /dev/null
select test.is('undone: one is open', test.mt_of('mo-a', '2025-11-20'), '08:00 scheduled');
select test.mt('mo', 'updateMedication', '{"id":"mo-b","times":["20:00"]}'), test.mt('mo', 'updateMedication', '{"id":"mo-b","times":["20:00","23:00"]}') \g /dev/null
select test.is('the evening is as it says', test.mt_of('mo-b', '2025-11-20'), '08:00 taken, 20:00 scheduled, 23:00 scheduled');

-- Reminders: one of a time that stays stays with it; one of a time that another one replaces goes on with that.
create function test.mt_rules(product text) returns text language sql as $$
    select string_agg(r.id || ' ' || to_char(r.time, 'HH24:MI') || ' ' || r.enabled || ' ' || coalesce((s.time = r.time)::text, '-'), ', ' order by r.id)
    from care.reminder_rule as r left join care.schedule as s on s.id = r.schedule_id where r.product_id = product $$;
insert into care.product (id, user_id, name) select 'mr-' || n, 'mr', n from generate_series(1, 5) as n;
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
select test.mt('mr', 'updateMedication', format('{"id":"mr-%s","times":["08:00","20:00"]}', n)::jsonb) from generate_series(1, 5) as n \g /dev/null
select test.mt('mr', 'createReminder', jsonb_build_object('id', product_id || to_char(time, '-HH24'), 'productId', product_id, 'scheduleId', id, 'delivery', 'push')) from care.schedule where user_id = 'mr' order by id \g /dev/null
select test.mt('mr', 'updateMedication', format('{"id":"mr-%s","times":%s}', n, times)::jsonb)
from (values (1, '["20:00"]'), (2, '["20:00","23:00"]'), (3, '["07:00","20:00"]'), (4, '["20:00","08:00"]'), (5, '["21:00"]')) as t(n, times) \g /dev/null
select test.is(format('reminders of %s', title), test.mt_rules('mr-' || n), replace(want, '#', 'mr-' || n)) from (values
    (1, 'a time that stays alone', '#-08 08:00 false -, #-20 20:00 true true'), (2, 'a time that another one replaces', '#-08 23:00 true true, #-20 20:00 true true'),
    (3, 'a time that moves', '#-08 07:00 true true, #-20 20:00 true true'), (4, 'times that swap', '#-08 08:00 true true, #-20 20:00 true true'),
    (5, 'the nearest of two', '#-08 08:00 false -, #-20 21:00 true true')) as t(n, title, want);
select test.is('the next push is of the time that stays', (select string_agg(d.rule_id || ' ' || to_char(d.due_at, 'DD HH24:MI'), ', ' order by d.rule_id) from care.reminder_due as d where d.rule_id like 'mr-2-%'), 'mr-2-08 20 23:00, mr-2-20 20 20:00');

-- What ends, ends for what begins in its place, too; what is paused or over does not come back.
insert into care.product (id, user_id, name) select 'me-' || n, 'me', n from generate_series(1, 4) as n;
insert into care.schedule (id, user_id, product_id, time, ends_on, window_minutes, enabled) values
    ('me-1a', 'me', 'me-1', '08:00', '2025-11-25', 60, true), ('me-1b', 'me', 'me-1', '20:00', '2025-11-25', 60, true),
    ('me-2a', 'me', 'me-2', '08:00', null, 240, true), ('me-2b', 'me', 'me-2', '20:00', null, 240, false),
    ('me-4a', 'me', 'me-4', '20:00', '2025-11-25', 60, true), ('me-3a', 'me', 'me-3', '08:00', null, 240, true), ('me-3b', 'me', 'me-3', '20:00', '2025-11-18', 240, true);
select test.mt('me', 'updateMedication', '{"id":"me-1","times":["20:00","23:00"]}'), test.mt('me', 'updateMedication', '{"id":"me-2","times":["20:00"]}'),
    test.mt('me', 'updateMedication', '{"id":"me-3","times":["08:00","21:00"]}'), test.mt('me', 'updateMedication', '{"id":"me-4","times":["08:00","20:00"]}') \g /dev/null
select test.is('a course ends for all of its times', (select string_agg(to_char(time, 'HH24:MI') || ' ' || ends_on || ' ' || window_minutes, ', ' order by time) from care.schedule where product_id = 'me-1'), '20:00 2025-11-25 60, 23:00 2025-11-25 60');
select test.is('also for one that is added', (select string_agg(to_char(time, 'HH24:MI') || ' ' || ends_on || ' ' || window_minutes, ', ' order by time) from care.schedule where product_id = 'me-4'), '08:00 2025-11-25 60, 20:00 2025-11-25 60');
select test.is('what is paused is the last to go on', (select string_agg(id || ' ' || to_char(time, 'HH24:MI') || ' ' || enabled, ', ') from care.schedule where product_id = 'me-2'), 'me-2a 20:00 true');
select test.is('what is over does not go on', (select string_agg(to_char(time, 'HH24:MI') || ' ' || coalesce(ends_on::text, '-'), ', ' order by time) from care.schedule where product_id = 'me-3'), '08:00 -, 21:00 -');

drop function test.mt(text, text, jsonb, timestamptz), test.mt_day(text, date), test.changed(text, text[], time, time, jsonb), test.mt_of(text, date), test.mt_rules(text);
