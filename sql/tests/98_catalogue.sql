-- Products of the catalogue: who gets one while it is archived, or while it comes back, has its doses when it is back. Sessions are
-- held apart by locks.
set timezone = 'UTC';
select test.set_clock('2025-11-20 10:00Z') \g /dev/null
select test.open(name, :'connection') from unnest('{one,two,three}'::text[]) as name \g /dev/null
create function test.ahead_of(product text) returns text language sql volatile as $$
    select coalesce(string_agg(line, ', ' order by line), 'none') from (
        select user_id || ' ' || count(*) as line from care.dose_occurrence
        where product_id = product and status = 'scheduled' and scheduled_at > sync.clock() group by user_id) as d $$;
-- `first` is done and not committed when `second` begins, and waits. The job runs while it waits, and once more when both have committed.
create function test.joined(first text, second text) returns text language plpgsql as $$
declare
    waited text;
    outcome text;
begin
    perform test.begin('one', first);
    perform dblink_send_query('two', second);
    waited := test.wait_blocked('two');
    perform test.spread();
    perform dblink_exec('one', 'commit');
    outcome := test.outcome('two');
    perform test.spread();
    return waited || ' ' || outcome;
end
$$;
create function test.catalogue(product text, is_archived boolean) returns void language sql as $$
    insert into care.product (id, name, archived_at) values (product, initcap(product), case when is_archived then sync.clock() end) $$;

-- One after the other: nothing is planned or told until it is back; then all is, to each once.
select test.catalogue('tin', true) \g /dev/null
insert into care.schedule (id, user_id, product_id, time) values ('za', 'za', 'tin', '12:00');
insert into care.stack (id, user_id, name) values ('zb', 'zb', 'Morning');
insert into care.stack_item (stack_id, product_id) values ('zb', 'tin');
insert into care.schedule (id, user_id, stack_id, time) values ('zb', 'zb', 'zb', '12:00');
select test.act('zc', 'c1', 'createStack', '{"id":"zc","name":"Mine","items":[{"productId":"tin"}]}') \g /dev/null
select test.act('zc', 'c2', 'createSchedule', '{"id":"zc","stackId":"zc","time":"12:00"}') \g /dev/null
select test.spread() \g /dev/null
select test.is('an archived product is in no list and gives no doses', test.ahead_of('tin') || (select count(*) from sync.event where name like 'medication.%' and data ->> 'id' = 'tin'), 'none0');
update care.product set archived_at = null where id = 'tin';
select test.spread() \g /dev/null
select test.is('when it is back, all who got it have its doses', test.ahead_of('tin'), 'za 15, zb 15, zc 15');
select test.is('and their devices are told once', (select string_agg(concat_ws(' ', user_id, name, data ->> 'rev', data ->> 'archivedAt'), ', ' order by user_id, o) from sync.event where name like 'medication.%' and data ->> 'id' = 'tin'), 'za medication.created 1, zb medication.created 1, zc medication.created 1');
-- A reminder of its schedule is silent meanwhile, and devices are told.
select test.act('za', 'r1', 'createReminder', '{"id":"za-r","scheduleId":"za","delivery":"push"}') \g /dev/null
select test.top('za', 'reminders') as before \gset
update care.product set archived_at = now() where id = 'tin';
select test.spread() \g /dev/null
select test.is('a linked reminder is silent', (select count(*) from care.reminder_due where rule_id = 'za-r'), 0::bigint);
update care.product set archived_at = null where id = 'tin';
select test.spread() \g /dev/null
select test.is('until it is back', (select count(*) from care.reminder_due where rule_id = 'za-r'), 1::bigint);
select test.is('its user is told both', (select string_agg(name || ' ' || jsonb_array_length(data -> 'nextOccurrences'), ', ' order by o) from sync.event where user_id = 'za' and topic = 'reminders' and o > :before), 'reminder.updated 0, reminder.updated 10');
select test.is('again and again', test.ahead_of('tin') || (select max((data ->> 'rev')::int) from sync.event where name like 'medication.%' and data ->> 'id' = 'tin'), 'za 15, zb 15, zc 153');

-- At once: the product comes back, and the job is done, while who gets it has not committed.
select test.catalogue(p, true) from unnest('{i1,i2,i3,i4,i5,i6}'::text[]) as p \g /dev/null
select test.catalogue('cobalt', false) \g /dev/null
insert into care.stack (id, user_id, name) select k, k, k from unnest('{k2,k3,k4}'::text[]) as k;
insert into care.stack_item (stack_id, product_id) values ('k2', 'i2');
insert into care.schedule (id, user_id, stack_id, time) values ('k3', 'k3', 'k3', '12:00');
insert into care.schedule (id, user_id, product_id, time) values ('k4', 'k4', 'cobalt', '12:00');
select test.is('a product that comes back waits for ' || what, test.joined(first, format('update care.product set archived_at = null where id = %L', product)), 'blocked done') || E'\n'
    || test.is('which is planned', test.ahead_of(product), who || ' 15') from (values
    ('a schedule of it', 'i1', 'k1', $$insert into care.schedule (id, user_id, product_id, time) values ('k1', 'k1', 'i1', '12:00')$$),
    ('a schedule of its stack', 'i2', 'k2', $$insert into care.schedule (id, user_id, stack_id, time) values ('k2', 'k2', 'k2', '12:00')$$),
    ('an item of a stack', 'i3', 'k3', $$insert into care.stack_item (stack_id, product_id) values ('k3', 'i3')$$),
    ('a schedule that gets it', 'i4', 'k4', $$update care.schedule set product_id = 'i4' where id = 'k4'$$)) as t(what, product, who, first);
select test.is('a schedule waits for a product that comes back', test.joined($$update care.product set archived_at = null where id = 'i5'$$, $$insert into care.schedule (id, user_id, product_id, time) values ('k5', 'k5', 'i5', '12:00')$$), 'blocked done');
select test.is('and is planned', test.ahead_of('i5'), 'k5 15');
-- An item comes while a schedule of its stack waits for the stack: that schedule then holds the item's product too.
insert into care.stack (id, user_id, name) values ('k6', 'k6', 'Late');
select test.begin('two', $$insert into care.stack_item (stack_id, product_id) values ('k6', 'i6')$$), test.begin('one', 'set local lock_timeout = 0') \g /dev/null
select dblink_send_query('one', $$insert into care.schedule (id, user_id, stack_id, time) values ('k6', 'k6', 'k6', '12:00')$$) \g /dev/null
select test.is('a schedule of a stack waits for its new item', test.wait_blocked('one'), 'blocked');
select dblink_exec('two', 'commit') \g /dev/null
select test.is('and has it', test.outcome('one'), 'done');
select dblink_send_query('two', $$update care.product set archived_at = null where id = 'i6'$$) \g /dev/null
select test.is('its product waits for the schedule', test.wait_blocked('two'), 'blocked');
select test.spread(), dblink_exec('one', 'commit') \g /dev/null
select test.is('comes back', test.outcome('two'), 'done');
select test.spread() \g /dev/null
select test.is('and is planned', test.ahead_of('i6'), 'k6 15');

-- A user's own product: what a backend writes beside a device's action.
insert into care.product (id, user_id, name) values ('own1', 'own', 'Own'), ('own2', 'own', 'Own');
select test.is('an archiving waits for a new schedule', test.joined($$insert into care.schedule (id, user_id, product_id, time) values ('own1', 'own', 'own1', '12:00')$$, $$select test.act('own', 'a', 'archiveMedication', '{"id":"own1"}')$$), 'blocked done');
select test.is('and cancels its doses', test.ahead_of('own1'), 'none');
select test.is('so does another name', test.joined($$insert into care.schedule (id, user_id, product_id, time) values ('own2', 'own', 'own2', '12:00')$$, $$select test.act('own', 'n', 'updateMedication', '{"id":"own2","name":"Named"}')$$), 'blocked done');
select test.is('which its doses have', test.ahead_of('own2') || (select string_agg(distinct product_name, ',') from care.dose_occurrence where product_id = 'own2'), 'own 15Named');

-- The job beside who changes a product. It waits for no product, and spreads others.
update care.product set name = 'Tin plus' where id = 'tin';
update care.product set name = 'Cobalt plus' where id = 'cobalt';
select test.begin('one', $$update care.product set strength = '5 mg' where id = 'tin'$$) \g /dev/null
set lock_timeout = '1s';
select test.spread() \g /dev/null
reset lock_timeout;
select test.is('a product that is being changed is left to a later call', (select string_agg(product_id, ' ') from care.product_spread), 'tin');
select dblink_exec('one', 'commit') \g /dev/null
select test.spread() \g /dev/null
select test.is('which tells the last of it', (select string_agg(distinct concat_ws(' ', product_name, strength), ', ') from care.dose_occurrence where product_id = 'tin' and status = 'scheduled') || (select count(*) from care.product_spread), 'Tin plus 5 mg0');
-- The batch holds its entry, and is held up by a schedule; a change of the product comes; then the batch plans doses of it.
update care.product set archived_at = now() where id = 'tin';
select test.spread() \g /dev/null
update care.product set archived_at = null where id = 'tin';
select test.begin('three', $$update care.schedule set dose = dose where id = 'za'$$) \g /dev/null
select dblink_send_query('two', 'select test.spread()') \g /dev/null
select test.is('a batch waits', test.wait_blocked('two'), 'blocked');
select dblink_send_query('one', $$update care.product set name = 'Tin' where id = 'tin'$$) \g /dev/null
select test.is('a change of its product waits for the batch', test.wait_blocked('one'), 'blocked');
select dblink_exec('three', 'commit') \g /dev/null
select test.is('neither holds up the other', test.outcome('one') || ' ' || test.outcome('two'), 'done done');
select test.spread() \g /dev/null
select test.is('all is planned, by the last name', test.ahead_of('tin') || ' ' || (select string_agg(distinct product_name, ',') from care.dose_occurrence where product_id = 'tin' and status = 'scheduled' and scheduled_at > sync.clock()), 'za 15, zb 15, zc 15 Tin');
-- A user changes a linked reminder: the action has the rule, and then wants its schedule. The batch waits for the rule without the schedule.
update care.product set archived_at = now() where id = 'tin';
select test.begin('one', $q$do $$ begin perform from care.reminder_rule where id = 'za-r' for no key update; end $$$q$) \g /dev/null
select dblink_send_query('two', 'select test.spread()') \g /dev/null
select test.is('a batch waits for a rule that an action has', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', $$set local lock_timeout = '1s'$$) \g /dev/null
select test.is('which gets its schedule meanwhile', (select n from dblink('one', $$select 1 from care.schedule where id = 'za' for share$$) as t(n int)), 1);
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and the batch ends', test.outcome('two'), 'done');
-- Their own products, by what a backend writes beside a device's action.
insert into care.schedule (id, user_id, product_id, time) values ('own3', 'own', 'own2', '09:00');
select test.act('own', 'r', 'createReminder', '{"id":"own-r","scheduleId":"own3","delivery":"push"}') \g /dev/null
select test.begin('one', $q$do $$ begin perform from care.reminder_rule where id = 'own-r' for no key update; end $$$q$) \g /dev/null
select dblink_send_query('two', $$update care.product set archived_at = now() where id = 'own2'$$) \g /dev/null
select test.is('an archiving waits for a rule', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', $$set local lock_timeout = '1s'$$) \g /dev/null
select test.is('whose action gets the schedule', (select n from dblink('one', $$select 1 from care.schedule where id = 'own3' for share$$) as t(n int)), 1);
select dblink_exec('one', 'commit') \g /dev/null
select test.is('then it is archived', test.outcome('two'), 'done');
select test.is('and its reminder is silent', (select count(*) from care.reminder_due where rule_id = 'own-r'), 0::bigint);
-- A device makes a schedule of a stack while a backend deletes one of its products.
select test.catalogue('d1', false) \g /dev/null
insert into care.stack (id, user_id, name) values ('kd', 'kd', 'Doomed');
insert into care.stack_item (stack_id, product_id) values ('kd', 'd1');
select test.begin('one', $q$do $$ begin perform from care.product where id = 'd1' for update; end $$$q$) \g /dev/null
select dblink_send_query('two', $$select test.act('kd', 's', 'createSchedule', '{"id":"kd","stackId":"kd","time":"12:00"}')$$) \g /dev/null
select test.is('a schedule of a stack waits for a product that is being deleted', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', $$set local lock_timeout = '1s'$$), dblink_exec('one', $$delete from care.product where id = 'd1'$$), dblink_exec('one', 'commit') \g /dev/null
select test.is('and is made', test.outcome('two'), 'done');
select test.is('of the stack without it', (select count(*) from care.schedule where id = 'kd') || test.ahead_of('d1'), '1none');
update care.product set name = 'Gone' where id = 'cobalt';
delete from care.product where id = 'cobalt';
select test.spread() \g /dev/null
select test.is('of a product that is gone nothing is to be told', (select count(*) from care.product_spread), 0::bigint);
select test.is('streams have no hole', (select count(*) from sync.stream as s where s.user_id in ('za', 'zb', 'zc') and array(select e.o from sync.event as e where e.user_id = s.user_id and e.topic = s.topic order by e.o) <> array(select generate_series(1, s.top))), 0::bigint);
select dblink_disconnect(name) from unnest('{one,two,three}'::text[]) as name \g /dev/null
drop function test.joined(text, text), test.ahead_of(text), test.catalogue(text, boolean);
\ir ../functions/11_sync_clock.sql
