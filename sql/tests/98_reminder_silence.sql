-- A stopped medicine is silent, and speaks again when it is back; which medications and stacks a reminder may be about.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
create function test.speaks(rule text) returns text language sql as $$
    select case when e.up and d.due and not e.silent then 'speaks' when not e.up and not d.due and e.silent then 'silent'
                else format('upcoming %s, due %s, told silent %s', e.up, d.due, e.silent) end || ' ' || r.rev
    from care.reminder_rule as r
    cross join lateral (
        select jsonb_array_length(data -> 'upcoming') > 0 as up, (data ->> 'silent')::boolean as silent
        from sync.event where user_id = r.user_id and topic = 'reminders' and data ->> 'id' = r.id and name ~ 'created|updated$' and name !~ 'occurrence' order by o desc limit 1
    ) as e
    cross join lateral (select exists (select from care.reminder_due as x where x.rule_id = r.id) as due) as d
    where r.id = rule $$;
insert into care.product (id, user_id, name) values ('si-a', 'si', 'a'), ('si-b', 'si', 'b'), ('si-d', 'si', 'd'), ('si-z', 'si', 'z'), ('si-c', null, 'of the catalogue'), ('si-never', null, 'never in the list'), ('si-x', 'si-other', 'x');
insert into care.stack (id, user_id, name) values ('si-s', 'si', 's'), ('si-e', 'si', 'e'), ('si-g', 'si', 'goes'), ('si-xs', 'si-other', 'xs');
insert into care.stack_item (stack_id, product_id) values ('si-s', 'si-a'), ('si-s', 'si-b'), ('si-e', 'si-z'), ('si-g', 'si-z');
insert into care.schedule (id, user_id, product_id, time) values ('si-cs', 'si', 'si-c', '08:00'), ('si-as', 'si', 'si-a', '08:00');
insert into care.schedule (id, user_id, stack_id, time) values ('si-ss', 'si', 'si-s', '08:00');
select test.is(format('made: %s', payload), test.short(test.act('si', 'c' || n, 'createReminder', '{"time":"14:00","delivery":"push"}' || payload || jsonb_build_object('id', 'si-' || n))), 'applied') from (values
    (1, '{"productId":"si-a"}'::jsonb), (2, '{"stackId":"si-s"}'), (3, '{"productId":"si-c"}'), (4, '{"productId":"si-own"}'), (5, '{"productId":"si-never"}'), (6, '{"stackId":"si-e"}'), (7, '{"stackId":"si-g"}'), (8, '{"productId":"si-d"}'),
    (9, '{"scheduleId":"si-as"}'), (10, '{"scheduleId":"si-ss"}')) as t(n, payload);
select test.is('all speak', (select string_agg(distinct test.speaks('si-' || n), ', ') from generate_series(1, 10) as n), 'speaks 1');

create function test.all_speak() returns text language sql as $$
    select string_agg(n || ' ' || test.speaks('si-' || n), ', ' order by n) from generate_series(1, 10) as n where test.speaks('si-' || n) <> 'speaks 1' $$;
-- What is archived, by an action.
select test.is('archived', test.short(test.act('si', 'a1', 'archiveMedication', '{"id":"si-a"}')), 'applied');
select test.is('its reminders are silent, linked or not; a stack with another medication speaks', test.all_speak(), '1 silent 2, 9 silent 2');
select test.is('archived the other', test.short(test.act('si', 'a2', 'archiveMedication', '{"id":"si-b"}')), 'applied');
select test.is('so is a stack of which all is archived', test.all_speak(), '1 silent 2, 2 silent 2, 9 silent 2, 10 silent 2');
select test.set_clock('2025-11-20 14:00:01Z') \g /dev/null
select done from sync.job('fire_reminders', 100, null) \g /dev/null
select test.is('at its time nothing is sent', (select string_agg(rule_id, ' ' order by rule_id) from care.push where user_id = 'si'), 'si-3 si-4 si-5 si-6 si-7 si-8');
select test.is('nor is one cancelled or moved', test.short(test.act('si', 'a3', 'setReminderOccurrence', '{"id":"si-1","date":"2025-11-22","enabled":false}')), 'rejected invalid payload.date');
update care.product set archived_at = null where id in ('si-a', 'si-b');
select test.is('they speak again, and each is told once', test.all_speak(), '1 speaks 3, 2 speaks 3, 9 speaks 3, 10 speaks 3');
-- What is deleted, by a backend.
delete from care.product where id = 'si-d';
select test.is('a product that is deleted', test.speaks('si-8'), 'silent 2');
insert into care.product (id, user_id, name) values ('si-d', 'si', 'd');
select test.is('made again', test.speaks('si-8'), 'speaks 3');
select test.is('a stack that is deleted', test.short(test.act('si', 's1', 'deleteStack', '{"id":"si-g"}')) || ' ' || test.speaks('si-7'), 'applied silent 2');
insert into care.stack (id, user_id, name) values ('si-g', 'si', 'goes'); insert into care.stack_item (stack_id, product_id) values ('si-g', 'si-z');
select test.is('made again, the stack too', test.speaks('si-7'), 'speaks 3');
-- The catalogue: what leaves the list.
select test.is('a schedule of it goes, the last one', test.short(test.act('si', 'k1', 'deleteSchedule', '{"id":"si-cs"}')) || ' ' || test.speaks('si-3'), 'applied silent 2');
insert into care.stack_item (stack_id, product_id) values ('si-e', 'si-c');
select test.is('in a stack it is in the list', test.speaks('si-3'), 'speaks 3');
delete from care.stack where id = 'si-e';
select test.is('until that goes', test.speaks('si-3') || ', ' || test.speaks('si-6'), 'silent 4, silent 2');
select test.is('a new schedule', test.short(test.act('si', 'k2', 'createSchedule', '{"id":"si-cs2","productId":"si-c","time":"09:00"}')) || ' ' || test.speaks('si-3'), 'applied speaks 5');
update care.product set archived_at = '2025-11-20Z' where id = 'si-c';
select test.spread() \g /dev/null
select test.is('archived for all', test.speaks('si-3'), 'silent 6');
update care.product set archived_at = null where id = 'si-c';
select test.spread() \g /dev/null
select test.is('and back', test.speaks('si-3'), 'speaks 7');
select test.is('archived by its user', test.short(test.act('si', 'k3', 'archiveMedication', '{"id":"si-c"}')) || ' ' || test.speaks('si-3'), 'applied silent 8');
select test.is('what the list never had speaks', test.speaks('si-4') || ', ' || test.speaks('si-5'), 'speaks 1, speaks 1');
-- Linked: what is paused, over or deleted.
update care.schedule set enabled = false where id = 'si-as';
select test.is('a schedule that is paused', test.speaks('si-9'), 'silent 4');
update care.schedule set enabled = true, ends_on = '2025-11-19' where id = 'si-as';
select test.is('one that is over has no times', (select concat_ws(' ', (select count(*) from care.upcoming(r, sync.clock(), 5)), exists (select from care.reminder_due as d where d.rule_id = r.id)) from care.reminder_rule as r where id = 'si-9'), '0 f');

-- Which target is refused.
update care.product set archived_at = '2025-11-20Z' where id = 'si-b';
delete from care.product where id = 'si-d';
select test.is(format('refused: %s', payload), test.short(test.act('si', 'r' || n, 'createReminder', '{"time":"15:00"}' || payload)), want) from (values
    (1, '{"productId":"si-b"}'::jsonb, 'rejected invalid payload.productId'), (2, '{"productId":"si-x"}', 'rejected invalid payload.productId'), (3, '{"productId":"si-d"}', 'rejected invalid payload.productId'),
    (4, '{"stackId":"si-none"}', 'rejected invalid payload.stackId'), (5, '{"stackId":"si-xs"}', 'rejected invalid payload.stackId'), (6, '{"productId":"si-c"}', 'rejected invalid payload.productId'),
    (7, '{"scheduleId":"si-none"}', 'rejected invalid payload.scheduleId')) as t(n, payload, want);
select test.is('of another''s no more is told than of none', (test.act('si', 'm1', 'createReminder', '{"time":"15:00","productId":"si-x"}') - 'key')::text, (test.act('si', 'm2', 'createReminder', '{"time":"15:00","productId":"si-d"}') - 'key')::text);
select test.is('an update to it is refused too', test.short(test.act('si', 'u' || n, 'updateReminder', '{"id":"si-4"}' || payload)), want) from (values
    (1, '{"productId":"si-b"}'::jsonb, 'rejected invalid payload.productId'), (2, '{"productId":"si-x"}', 'rejected invalid payload.productId'), (3, '{"stackId":"si-none"}', 'rejected invalid payload.stackId'), (4, '{"productId":"si-own2"}', 'applied')) as t(n, payload, want);
select test.is('a change of a silent one is not', test.short(test.act('si', 'u9', 'updateReminder', '{"id":"si-8","productId":"si-d","label":"x"}')), 'applied');
select test.is('a preview of it has no times', (select body from sync.preview_reminder('si', '{"time":"15:00","productId":"si-b"}')), '{"upcoming": [], "nextOccurrences": []}');
update care.product set archived_at = '2025-11-20Z' where id = 'si-a';
select test.is('a preview of a linked stack of which all is archived has none either', (select body from sync.preview_reminder('si', '{"scheduleId":"si-ss","stackId":"si-s"}')), '{"upcoming": [], "nextOccurrences": []}');
-- Made offline is made then: what was stopped after the act refuses nothing, and the reminder is silent.
select test.is(format('before it was stopped: %s at %s', payload, at), test.short(test.act('si', 'o' || n, 'createReminder', payload || '{"time":"15:00","delivery":"push"}', client_time => to_jsonb(at))) || coalesce(' ' || test.speaks(payload ->> 'id'), ''), want) from (values
    (1, '{"id":"si-o1","productId":"si-a"}'::jsonb, '2025-11-19T23:59:00Z'::text, 'applied silent 1'), (2, '{"id":"si-o2","productId":"si-a"}', '2025-11-20T00:00:00Z', 'rejected invalid payload.productId'),
    (3, '{"id":"si-o3","stackId":"si-s"}', '2025-11-19T23:59:00Z', 'applied silent 1'), (4, '{"id":"si-o4","stackId":"si-s"}', '2025-11-20T00:01:00Z', 'rejected invalid payload.stackId')) as t(n, payload, at, want);
-- Its schedules are paused, over or deleted: so is a reminder with a time of its own.
insert into care.product (id, user_id, name) values ('pz-a', 'pz', 'a');
insert into care.schedule (id, user_id, product_id, time) values ('pz-1', 'pz', 'pz-a', '08:00'), ('pz-2', 'pz', 'pz-a', '20:00');
insert into care.stack (id, user_id, name) values ('pz-s', 'pz', 's');
insert into care.stack_item (stack_id, product_id) values ('pz-s', 'pz-a');
select test.is('reminders of one medication', string_agg(test.short(test.act('pz', 'r' || n, 'createReminder', doc || '{"time":"15:00","delivery":"push"}')), ' '), 'applied applied applied') from (values (1, '{"id":"pz-r1","productId":"pz-a"}'::jsonb), (2, '{"id":"pz-r2","stackId":"pz-s"}'), (3, '{"id":"pz-r3","productId":"pz-app"}')) as t(n, doc);
create function test.pz(key text, type text, doc jsonb) returns text language sql as $$
    select test.short(test.act('pz', key, type, doc)) $$;
create function test.pz_speak() returns text language sql as $$
    select string_agg(test.speaks('pz-r' || n), ', ' order by n) from generate_series(1, 3) as n $$;
create function test.pz_next() returns text language sql as $$
    select string_agg(jsonb_array_length(care.rule_shown(r, sync.clock()) -> 'upcoming')::text || ' ' || rev, ', ' order by id) from care.reminder_rule as r where user_id = 'pz' $$;
create function test.pz_on() returns text language sql as $$
    select string_agg(enabled::text, ', ' order by id) from care.reminder_rule where user_id = 'pz' $$;
select test.is('one of two is paused', test.pz('p1', 'updateSchedule', '{"id":"pz-1","enabled":false}') || ': ' || test.pz_speak(), 'applied: speaks 1, speaks 1, speaks 1');
select test.is('both are paused', test.pz('p2', 'updateSchedule', '{"id":"pz-2","enabled":false}') || ': ' || test.pz_speak(), 'applied: silent 2, silent 2, speaks 1');
select test.is('none fires', (select count(*) from care.push where user_id = 'pz'), 0::bigint);
select test.is('one goes on', test.pz('p3', 'updateSchedule', '{"id":"pz-2","enabled":true}') || ': ' || test.pz_speak(), 'applied: speaks 3, speaks 3, speaks 1');
select test.is('one ends, and the other is paused', test.pz('p4', 'updateSchedule', '{"id":"pz-2","endsOn":"2025-11-21"}') || ': ' || test.pz_next(), 'applied: 2 4, 2 4, 10 1');
select test.set_clock('2025-11-22 12:00Z') \g /dev/null
select test.is('it is over', (select string_agg(jsonb_array_length(care.rule_shown(r, sync.clock()) -> 'upcoming')::text, ', ' order by id) from care.reminder_rule as r where user_id = 'pz'), '0, 0, 10');
select test.is('no rule that is over fires', (select count(*) from care.job_fire_reminders(100, sync.clock() + interval '4 hours')) > 0 and not exists (select from care.push where user_id = 'pz' and rule_id <> 'pz-r3'), true);
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
select test.is('a schedule of the stack gives it', test.pz('p5', 'createSchedule', '{"id":"pz-3","stackId":"pz-s","time":"09:00"}') || ': ' || test.pz_next(), 'applied: 10 5, 10 5, 10 1');
-- What is in a stack is given by its schedules, and no longer when it has left it: what pushes knows it too.
select test.is('without the stack''s schedule', test.pz('p9', 'updateSchedule', '{"id":"pz-2","enabled":false}') || ': ' || test.pz_next(), 'applied: 10 5, 10 5, 10 1');
delete from care.stack_item where stack_id = 'pz-s';
select test.is('it has left the stack', test.pz_speak(), 'silent 6, silent 6, speaks 1');
insert into care.stack_item (stack_id, product_id) values ('pz-s', 'pz-a');
select test.is('it is back', test.pz_speak(), 'speaks 7, speaks 7, speaks 1');
select test.is('the last is deleted: they are switched off', test.pz('p6', 'deleteSchedule', '{"id":"pz-3"}') || test.pz('p7', 'deleteSchedule', '{"id":"pz-1"}') || test.pz('p8', 'deleteSchedule', '{"id":"pz-2"}') || ' ' || test.pz_on(), 'appliedappliedapplied false, false, true');
-- What is in no stack any more, by an action, by a backend, and of the catalogue; a stack that is not filled yet.
insert into care.product (id, user_id, name) values ('em-a', 'em', 'a'), ('em-c', null, 'c');
insert into care.stack (id, user_id, name) values ('em-s', 'em', 's'), ('em-k', 'em', 'k'), ('em-n', 'em', 'not filled yet');
insert into care.stack_item (stack_id, product_id) values ('em-s', 'em-a'), ('em-k', 'em-c');
insert into care.schedule (id, user_id, stack_id, time) values ('em-ss', 'em', 'em-s', '08:00');
create function test.em(type text, doc jsonb) returns text language sql as $$ select test.short(test.act('em', gen_random_uuid()::text, type, doc)) $$;
create function test.em_speak() returns text language sql as $$
    select string_agg(n || ' ' || test.speaks('em-' || n), ', ' order by n) from generate_series(1, 3) as n $$;
select test.is('reminders of a stack, linked or not', string_agg(test.em('createReminder', doc || '{"delivery":"push"}'), ' '), 'applied applied applied')
from (values ('{"id":"em-1","stackId":"em-s","time":"14:00"}'::jsonb), ('{"id":"em-2","scheduleId":"em-ss"}'), ('{"id":"em-3","stackId":"em-k","time":"14:00"}')) as t(doc);
select test.is('a stack is emptied', test.em('updateStack', '{"id":"em-s","items":[]}') || ': ' || test.em_speak(), 'applied: 1 silent 2, 2 silent 2, 3 speaks 1');
select test.is('and filled again', test.em('updateStack', '{"id":"em-s","items":[{"productId":"em-a"}]}') || ': ' || test.em_speak(), 'applied: 1 speaks 3, 2 speaks 3, 3 speaks 1');
delete from care.stack_item where stack_id = 'em-s';
select test.is('emptied by a backend', test.em_speak(), '1 silent 4, 2 silent 4, 3 speaks 1');
select test.is('the last of the catalogue is archived', test.em('archiveMedication', '{"id":"em-c"}') || ': ' || test.em_speak(), 'applied: 1 silent 4, 2 silent 4, 3 silent 2');
select test.is('a stack that is not filled yet may have a reminder', test.em('createReminder', '{"id":"em-4","stackId":"em-n","time":"14:00","delivery":"push"}') || ' ' || test.speaks('em-4'), 'applied silent 1');
insert into care.stack_item (stack_id, product_id) values ('em-n', 'em-a');
select test.is('which speaks once it is', test.speaks('em-4'), 'speaks 2');
-- An upgrade finds what was stopped before.
begin;
alter table care.reminder_rule disable trigger user;
update care.reminder_rule set silent = false;
\ir ../migrations/0023_stopped_reminders.sql
select test.is('the migration says what the triggers say', (select string_agg(id, ' ' order by id) from care.reminder_rule where silent), (select string_agg(id, ' ' order by id) from care.reminder_rule where (schedule_id is null or stack_id is not null) and care.is_silent(user_id, product_id, stack_id)));
select test.is('which is some', (select count(*) from care.reminder_rule where silent) > 2, true);
rollback;
\ir ../functions/11_sync_clock.sql
