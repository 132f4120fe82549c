-- What a dose says it is: from its product and schedule, followed while it is scheduled, and true ever after.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
select test.open(name, :'connection') from unnest('{one,two}'::text[]) as name \g /dev/null
create function test.named(dose text) returns text language sql as $$
    select concat_ws('|', status, product_name, strength, form, d.dose) from care.dose_occurrence as d where id = named.dose $$;
create function test.shown(dose text) returns text language sql as $$
    select concat_ws('|', s ->> 'productName', s ->> 'strength', s ->> 'form', s ->> 'dose', s ->> 'asNeeded')
    from care.dose_occurrence as d, care.dose_state(d) as s where d.id = shown.dose $$;
create function test.dose_of(who text, dose text, product text, schedule text default null, day date default '2025-11-20', hour int default 8) returns void language sql as $$
    insert into care.dose_occurrence (id, user_id, product_id, schedule_id, scheduled_at) values (dose, who, product, schedule, (day + make_interval(hours => hour)) at time zone 'UTC') $$;

insert into care.product (id, user_id, name, strength, form) values
    ('n-own', 'dn', 'Ibuprofen', '400 mg', 'tablet'), ('n-cat', null, 'Zinc', '10 mg', null), ('n-other', 'm', 'Secret', null, null);
insert into care.stack (id, user_id, name) values ('n-stack', 'dn', 'Morning');
insert into care.stack_item (stack_id, product_id, dose) values ('n-stack', 'n-cat', '2 drops'), ('n-stack', 'n-own', null);
insert into care.schedule (id, user_id, product_id, stack_id, time, dose, enabled) values ('n-s1', 'dn', 'n-own', null, '08:00', '1 tablet', false), ('n-s2', 'dn', null, 'n-stack', '08:00', 'all', false);
select test.dose_of('dn', 'dn1', 'n-own', 'n-s1'), test.dose_of('dn', 'dn2', 'n-cat', 'n-s2'), test.dose_of('dn', 'dn3', 'n-own', 'n-s2'), test.dose_of('dn', 'dn4', 'n-other'), test.dose_of('dn', 'dn5', 'nothing') \g /dev/null
select test.is('a dose takes over what its product and its schedule say', test.named('dn1'), 'scheduled|Ibuprofen|400 mg|tablet|1 tablet');
select test.is('of a stack, its item says how much', test.named('dn2'), 'scheduled|Zinc|10 mg|2 drops');
select test.is('and where the item does not, the schedule does', test.named('dn3'), 'scheduled|Ibuprofen|400 mg|tablet|all');
select test.is('nothing of another user''s product, nor of one that is not there', test.named('dn4') || ' ' || test.named('dn5'), 'scheduled scheduled');
insert into care.dose_occurrence (id, user_id, product_id, schedule_id, scheduled_at, product_name, dose) values ('dn6', 'dn', 'n-own', 'n-s1', '2025-11-20 09:00Z', 'My own words', '3');
select test.is('what the writer says stays', test.named('dn6'), 'scheduled|My own words|400 mg|tablet|3');
select test.is('events show it', (select data -> 'occurrence' ->> 'strength' from sync.event where user_id = 'dn' and data ->> 'occurrenceId' = 'dn1'), '400 mg');
select test.is('and so do answers', test.shown('dn1'), 'Ibuprofen|400 mg|tablet|1 tablet|false');
update care.dose_occurrence set product_name = null, strength = null, form = null where id = 'dn1';
select test.is('a row from before shows the product''s name', test.shown('dn1'), 'Ibuprofen|1 tablet|false');

-- A user's product.
select test.act('dn', 'take', 'markTaken', '{"occurrenceId":"dn1"}'), test.dose_of('dn', 'dn7', 'n-own', null, '2025-12-24'), test.dose_of('dn', 'dn8', 'n-own', null, '2025-01-01') \g /dev/null
update care.dose_occurrence set product_name = 'Ibuprofen', strength = '400 mg', form = 'tablet' where id = 'dn1';
select test.top('dn') as before \gset
update care.product set name = 'Ibu', strength = '600 mg', form = null where id = 'n-own';
select test.is('scheduled doses follow, of any day', test.named('dn3') || ' ' || test.named('dn7') || ' ' || test.named('dn8'), 'scheduled|Ibu|600 mg|all scheduled|Ibu|600 mg scheduled|Ibu|600 mg');
select test.is('a taken one keeps what was true', test.named('dn1'), 'taken|Ibuprofen|400 mg|tablet|1 tablet');
select test.is('the change tells each of them, and each day once', (select count(*) filter (where name = 'occurrence.updated') || ' ' || count(*) filter (where name = 'adherence.summary_updated') from sync.event where user_id = 'dn' and topic = 'adherence' and o > :before), '4 3');
select test.top('dn') as before \gset
update care.product set updated_at = now() where id = 'n-own';
select test.is('what no dose shows tells none', test.top('dn'), :before::bigint);
select test.is('undone, a dose follows again', test.short(test.act('dn', 'untake', 'undo', '{"targetKey":"take"}')) || ' ' || test.named('dn1'), 'applied scheduled|Ibu|600 mg|1 tablet');
update care.dose_occurrence set status = 'cancelled' where id = 'dn7';
update care.product set name = 'Ibuprofen' where id = 'n-own';
select test.is('a cancelled one keeps its name', test.named('dn7'), 'cancelled|Ibu|600 mg');
update care.dose_occurrence set status = 'scheduled' where id = 'dn7';
select test.is('revived, it has that of now', test.named('dn7'), 'scheduled|Ibuprofen|600 mg');

update care.dose_occurrence set product_id = 'n-cat' where id = 'dn7';
select test.is('with another product it is of that', test.named('dn7'), 'scheduled|Zinc|10 mg');
update care.dose_occurrence set product_id = null where id = 'dn7';
select test.is('and of nothing without one', test.named('dn7'), 'scheduled');
update care.dose_occurrence set product_id = 'n-own' where id = 'dn7';

-- How much.
update care.schedule set dose = '2 tablets' where id = 'n-s1';
select test.is('a schedule''s dose goes to its scheduled doses', test.named('dn1') || ' ' || test.named('dn3'), 'scheduled|Ibuprofen|600 mg|2 tablets scheduled|Ibuprofen|600 mg|all');
update care.stack_item set dose = '3 drops' where stack_id = 'n-stack' and product_id = 'n-cat';
select test.is('a stack item''s to its own', test.named('dn2') || ' ' || test.named('dn3'), 'scheduled|Zinc|10 mg|3 drops scheduled|Ibuprofen|600 mg|all');
update care.schedule set dose = 'some' where id = 'n-s2';
select test.is('a stack''s schedule''s to the items that say nothing', test.named('dn2') || ' ' || test.named('dn3'), 'scheduled|Zinc|10 mg|3 drops scheduled|Ibuprofen|600 mg|some');

-- The catalogue.
select test.dose_of('dn' || n, 'dnc' || n, 'n-cat') from generate_series(1, 120) as n \g /dev/null
update care.dose_occurrence set status = 'taken', taken_at = scheduled_at where id = 'dnc1';
update care.product set strength = '15 mg' where id = 'n-cat';
select test.is('doses of the catalogue do not follow at once', test.named('dnc2'), 'scheduled|Zinc|10 mg');
select dblink_exec('one', 'begin') || (select min(t.x) from dblink('one', $$select id from care.dose_occurrence where id = 'dnc3' for update$$) as t(x text)) \g /dev/null
create table test.round as select j.done, j.more from care.job_spread_products(10, sync.clock()) as j;
select test.is('a batch does what it may, and says that there is more', (select done between 1 and 10 and more from test.round), true);
select test.spread() \g /dev/null
select test.is('all follow but the taken and the one that is held', (select string_agg(id, ' ' order by id) from care.dose_occurrence where product_id = 'n-cat' and strength = '10 mg'), 'dnc1 dnc3');
select test.is('which is not forgotten', (select count(*) from care.product_spread where product_id = 'n-cat'), 1::bigint);
select dblink_exec('one', 'commit') \g /dev/null
select test.spread() \g /dev/null
select test.is('and follows when it is free', test.named('dnc3') || ' ' || test.named('dnc1'), 'scheduled|Zinc|15 mg taken|Zinc|10 mg');
select test.is('then nothing is left to do', (select count(*) from care.product_spread), 0::bigint);
select test.is('and a call does nothing', (select done || ' ' || more from sync.job('spread_products', 1000, null)), '0 false');

-- Intakes as needed count nowhere.
select test.plan('an', 'an1'), test.plan('an', 'an2', 'taken') \g /dev/null
insert into care.dose_occurrence (id, user_id, scheduled_at, status, taken_at, as_needed) values ('an3', 'an', '2025-11-20 10:00Z', 'taken', '2025-11-20 10:00Z', true);
select test.is('the summary leaves them out', (select (data -> 'summary') - 'date' from sync.event where user_id = 'an' and name = 'adherence.summary_updated' order by o desc limit 1), '{"takenCount": 1, "madeUpCount": 0, "missedCount": 0, "onTimePct": 50.0, "pendingCount": 1, "skippedCount": 0, "adherencePct": 50.0, "scheduledCount": 2}');
insert into care.dose_occurrence (id, user_id, scheduled_at, status, taken_at, as_needed) values ('an4', 'an', '2025-11-19 10:00Z', 'taken', '2025-11-19 10:00Z', true);
select test.is('a day with nothing else has no summary', (select count(*) from care.day_summary where user_id = 'an' and date = '2025-11-19'), 0::bigint);
select test.is('and is in no streak', (select body::jsonb -> 'stats' ->> 'bestStreakDays' from sync.adherence_day('an', null)), '0');
select test.is('the day shows them', (select string_agg(e ->> 'id', ' ') from sync.adherence_day('an', '2025-11-20') as a, jsonb_array_elements(a.body::jsonb -> 'occurrences') as e where (e ->> 'asNeeded')::boolean), 'an3');

-- Worst interleavings: a dose is written while its product is renamed, by who renames first and by who writes first.
create function test.insertion(dose text, product text) returns text language sql as $$
    select format('insert into care.dose_occurrence (id, user_id, product_id, scheduled_at) values (%L, ''dn'', %L, ''2025-11-20 08:00Z'')', dose, product) $$;
select test.begin('one', test.insertion('w1', 'n-own')) \g /dev/null
select dblink_send_query('two', $$update care.product set name = 'Second' where id = 'n-own'$$) \g /dev/null
select test.is('a rename waits for a dose that has the old name', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and renames it', test.outcome('two') || ' ' || test.named('w1'), 'done scheduled|Second|600 mg');
select test.begin('one', $$update care.product set name = 'Third' where id = 'n-own'$$) \g /dev/null
select dblink_send_query('two', test.insertion('w2', 'n-own')) \g /dev/null
select test.is('a new dose waits for a rename', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and has the new name', test.outcome('two') || ' ' || test.named('w2'), 'done scheduled|Third|600 mg');
select test.begin('one', test.insertion('w3', 'n-cat')) \g /dev/null
select dblink_send_query('two', $$update care.product set name = 'Zinc two' where id = 'n-cat'$$) \g /dev/null
select test.is('so it is in the catalogue', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('whose change then waits no longer', test.outcome('two'), 'done');
select test.is('and is to be spread to that dose too', (select count(*) from care.product_spread), 1::bigint);
select test.begin('one', $$set local care.planning = 'on'; update care.schedule set window_minutes = 100 where id = 'n-s1'; insert into care.dose_occurrence (id, user_id, product_id, schedule_id, scheduled_at) values ('w4', 'dn', 'n-own', 'n-s1', '2025-11-21 08:00Z')$$) \g /dev/null
select dblink_send_query('two', $$update care.product set name = 'Fourth' where id = 'n-own'$$) \g /dev/null
select test.is('a rename waits for a planner, by the schedule', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and renames what it planned', test.outcome('two') || ' ' || test.named('w4'), 'done scheduled|Fourth|600 mg|2 tablets');
select test.begin('one', $$update care.product set name = 'Fifth' where id = 'n-own'$$) \g /dev/null
select dblink_send_query('two', $$set care.planning = 'on'; update care.schedule set window_minutes = 110 where id = 'n-s1'; insert into care.dose_occurrence (id, user_id, product_id, schedule_id, scheduled_at) values ('w5', 'dn', 'n-own', 'n-s1', '2025-11-22 08:00Z')$$) \g /dev/null
select test.is('a planner waits for a rename', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and plans with the new name', test.outcome('two') || ' ' || test.named('w5'), 'done scheduled|Fifth|600 mg|2 tablets');
select test.is('every scheduled dose has its product''s name', (select count(*) from care.dose_occurrence as d join care.product as p on p.id = d.product_id and p.user_id = d.user_id where d.status = 'scheduled' and d.product_name <> p.name), 0::bigint);
select test.is('summaries hold', not exists (select from care.day_summary as s where s.user_id like 'dn%' and s.scheduled_count <> (select count(*) from care.dose_occurrence as d where d.user_id = s.user_id and d.local_date = s.date and d.status <> 'cancelled' and not d.as_needed)), true);
select dblink_disconnect(name) from unnest('{one,two}'::text[]) as name \g /dev/null
\ir ../functions/11_sync_clock.sql
