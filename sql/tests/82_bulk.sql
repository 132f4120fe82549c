-- bulkMarkAll, its undo and its resolve.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
insert into care.user_settings (user_id, zone) values ('bu', 'America/New_York') on conflict do nothing;
select test.plan('bu', 'b' || n, (array['scheduled', 'taken', 'missed', 'skipped', 'scheduled', 'scheduled'])[n]) from generate_series(1, 6) as n \g /dev/null
update care.dose_occurrence set scheduled_at = '2025-11-21 12:00:01Z', window_end = '2025-11-21 16:00Z', local_date = '2025-11-21' where id = 'b6';
create temp table answer as select test.act('bu', 'bulk', 'bulkMarkAll', '{"occurrenceIds":["b6","b1","b2","b1","nope","b3","b4","b5"],"takenAt":"2025-11-20T11:20:00Z"}', '{"b4":{"rev":1}}', 'phone', 1) as a;
select test.is('each in the order given, once', (select test.items(a) from answer), 'b6:not_due b1:applied b2:noop nope:gone b3:applied b4:state b5:applied');
select test.is('partial, counted', (select test.short(a) || ' ' || (a #>> '{result,counts}') || ' ' || (a ? 'conflict') from answer), 'partial {"noop": 1, "applied": 3, "conflict": 2, "rejected": 1} false');
select test.is('items carry their dose or conflict', (select string_agg(concat_ws(' ', e ->> 'occurrenceId', e #>> '{occurrence,status}', e #>> '{conflict,server,status}', e #>> '{conflict,base,rev}'), ', ') from answer, jsonb_array_elements(a #> '{result,items}') as e),
    'b6, b1 taken, b2 taken, nope, b3 taken, b4 skipped 1, b5 taken');
select test.is('one event each and one summary', (select string_agg(name || ' ' || coalesce(data ->> 'occurrenceId', ''), ', ' order by o) from sync.event where user_id = 'bu' and data #>> '{_sync,k}' = 'bulk'), 'occurrence.updated b1, occurrence.updated b3, occurrence.updated b5, adherence.summary_updated ');
select test.is('a repeat is identical', test.act('bu', 'bulk', 'bulkMarkAll', '{"takenAt":"2025-11-20T11:20:00Z","occurrenceIds":["b6","b1","b2","b1","nope","b3","b4","b5"]}', '{"b4":{"rev":1}}', 'phone', 1), (select a || '{"replayed": true}' from answer));
select test.is('no merged for many', test.short(test.act('bu', 'rm', 'resolve', '{"of":"bulk","choice":"merge","merged":{"status":"taken"}}')), 'rejected invalid payload.merged');
update care.dose_occurrence set status = 'missed', reason = null where id = 'b4';
select test.is('resolve: each conflict', (select test.short(a) || ' ' || test.items(a) from test.act('bu', 'r1', 'resolve', '{"of":"bulk","choice":"keep_local"}') as a), 'conflict gone nope:gone b4:state');
select test.is('again', (select test.short(a) || ' ' || test.items(a) from test.act('bu', 'r2', 'resolve', '{"of":"r1","choice":"keep_local"}') as a), 'partial nope:gone b4:applied');
select test.is('and to the end', (select test.short(a) || ' ' || test.items(a) from test.act('bu', 'r3', 'resolve', '{"of":"r2","choice":"accept_server"}') as a), 'noop nope:noop');
select test.is('the undo of a resolve', (select test.short(a) || ' ' || test.items(a) from test.act('bu', 'ur', 'undo', '{"targetKey":"r2"}') as a), 'applied b4:applied');
select test.is('brings back what it met', test.row('b4'), 'missed 4 4 1 ur');
update care.dose_occurrence set note = 'theirs' where id = 'b1';
update care.dose_occurrence set status = 'skipped' where id = 'b3';
select test.is('undo of many: what nobody touched', (select test.short(a) || ' ' || test.items(a) from test.act('bu', 'u1', 'undo', '{"targetKey":"bulk"}') as a), 'partial b1:applied b3:superseded b5:applied');
select test.is('once', test.short(test.act('bu', 'u2', 'undo', '{"targetKey":"bulk"}')), 'noop');
select test.is('all conflicts', (select test.short(a) || ' ' || test.items(a) || ' ' || (a ? 'conflict') from test.act('bu', 'all', 'bulkMarkAll', '{"occurrenceIds":["x","b3","b6"]}') as a), 'conflict gone x:gone b3:state b6:not_due false');
select test.is('none due', (select test.short(a) || ' ' || test.items(a) from test.act('bu', 'none', 'bulkMarkAll', '{"occurrenceIds":["b6"]}') as a), 'rejected not_due b6:not_due');
select test.is('unless asked for', (select test.short(a) || ' ' || test.items(a) from test.act('bu', 'future', 'bulkMarkAll', '{"occurrenceIds":["b6"],"includeFuture":true}') as a), 'applied b6:applied');
select test.is('all noop', (select test.short(a) || ' ' || test.items(a) from test.act('bu', 'noop', 'bulkMarkAll', '{"occurrenceIds":["b6","b2"]}') as a), 'noop b6:noop b2:noop');
-- By its route the members stand alone, without nulls.
select test.is('the same action by another way', test.short(test.act('bu', 'way', 'bulkMarkAll', '{"occurrenceIds":["b6","b2"],"criteria":null,"takenAt":null}')) || ', ' || test.short(test.act('bu', 'way', 'bulkMarkAll', '{"occurrenceIds":["b6","b2"]}')) || ', '
    || test.short(test.act('bu', 'way', 'bulkMarkAll', '{"occurrenceIds":["b6","b2"],"includeFuture":null}')), 'noop, noop replayed, noop replayed');
select test.is('another one is another', test.short(test.act('bu', 'way', 'bulkMarkAll', '{"occurrenceIds":["b6"]}')) || ', ' || test.short(test.act('bu', 'way', 'bulkMarkAll', '{"occurrenceIds":["b6","b2"],"includeFuture":false}')) || ', ' || test.short(test.act('bu', 'way', 'bulkMarkAll', '{"occurrenceIds":["b6","b2"]}', '{"b2":{"rev":1}}')),
    'rejected key_reused, rejected key_reused, rejected key_reused');
update sync.action set digest = sync.digest(type, '{"occurrenceIds":["b6","b2"],"criteria":null}', '{"occurrenceIds":["b6","b2"],"criteria":null}', null, null) where user_id = 'bu' and key = 'way';
select test.is('what an older version stored is known', test.short(test.act('bu', 'way', 'bulkMarkAll', '{"occurrenceIds":["b6","b2"],"criteria":null}')), 'noop replayed');

-- Criteria.
insert into care.dose_occurrence (id, user_id, schedule_id, product_id, scheduled_at, window_end, local_date)
select 'crit' || n, 'cr', 's' || n % 2, 'p' || n % 3, '2025-11-20 06:00Z'::timestamptz + make_interval(hours => n), '2025-11-20 22:00Z', '2025-11-20' from generate_series(1, 9) as n;
update care.dose_occurrence set scheduled_at = '2025-11-20 07:00Z' where id = 'crit2';
select test.is('criteria: ' || (p #>> '{criteria}'), test.items(test.act('cr', p::text, 'bulkMarkAll', p)), want) from (values
    ('{"criteria":{"productId":"p2","scheduleId":"s0"}}'::jsonb, 'crit2:applied'), ('{"criteria":{"productId":"p1","includeFuture":true}}', 'crit1:applied crit4:applied crit7:applied'),
    ('{"criteria":{"date":"2025-11-19"}}', null), ('{"criteria":{}}', 'crit3:applied crit5:applied crit6:applied'), ('{"criteria":{"date":"2025-11-20","includeFuture":false}}', null),
    ('{"criteria":{"includeFuture":true}}', 'crit8:applied crit9:applied')) as t(p, want);
select test.is('nothing meant: a noop', (select status || ' ' || (answer -> 'result')::text from sync.action where user_id = 'cr' and answer #>> '{result,items}' = '[]' order by created_at limit 1), 'noop {"items": [], "counts": {"noop": 0, "applied": 0, "conflict": 0, "rejected": 0}}');
select test.plan('cz', 'z1', 'scheduled', '2025-11-19'), test.plan('cz', 'z2', 'scheduled', '2025-11-20'), test.plan('cz', 'z3', 'scheduled', '2025-11-21') \g /dev/null
insert into care.user_settings (user_id, zone) values ('cz', 'America/New_York');
select test.set_clock('2025-11-20 03:00Z') \g /dev/null
select test.is('today in the user''s zone', test.items(test.act('cz', '1', 'bulkMarkAll', '{"criteria":{"includeFuture":true}}')), 'z1:applied');
select test.is('or the one named', test.items(test.act('cz', '2', 'bulkMarkAll', '{"criteria":{"includeFuture":true}}', tz => 'Europe/Berlin')), 'z2:applied');
select test.is('which a date makes needless', test.items(test.act('cz', '3', 'bulkMarkAll', '{"criteria":{"date":"2025-11-21","includeFuture":true}}', tz => 'Nowhere')), 'z3:applied');
insert into care.dose_occurrence (id, user_id, scheduled_at, local_date) select 'many' || n, 'many', '2025-11-20 01:00Z', '2025-11-20' from generate_series(1, 201) as n;
select test.is('more than 200', test.short(test.act('many', '1', 'bulkMarkAll', '{"criteria":{"date":"2025-11-20"}}')), 'rejected invalid payload.criteria');
delete from care.dose_occurrence where id = 'many201';
select test.is('200', (select test.short(a) || ' ' || (a #>> '{result,counts,applied}') from test.act('many', '2', 'bulkMarkAll', '{"criteria":{"date":"2025-11-20"}}') as a), 'applied 200');
select test.is('and back', (select test.short(a) || ' ' || (a #>> '{result,counts,applied}') from test.act('many', '3', 'undo', '{"targetKey":"2"}') as a), 'applied 200');
select test.is('a day of many counts right', (select (scheduled_count, taken_count, pending_count)::text from care.day_summary where user_id = 'many'), '(200,0,200)');
