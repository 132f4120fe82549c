-- When reminders fire: exceptions by day, moves as wall time, snoozes; whose an occurrence's id is; which doses a reminder is about.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
create function test.fires(rule text, since timestamptz, wanted int default 3) returns text language sql as $$
    select string_agg(to_char(u.start at time zone 'UTC', 'DD HH24:MI') || case u.status when 'scheduled' then '' else ' ' || u.status end, ', ' order by u.start)
    from care.reminder_rule as r, care.upcoming(r, since, wanted) as u where r.id = rule $$;
create function test.found(who text, id text) returns text language sql as $$
    select string_agg(f.rule_id || ' ' || f.day, ', ') from care.find_reminder_occurrence(who, id) as f $$;

insert into care.user_settings (user_id, zone) values ('rt', 'Europe/Berlin');
insert into care.reminder_rule (id, user_id, time, timezone, tz_mode) values ('rt1', 'rt', '08:30', 'Europe/Berlin', 'follow'), ('rt2', 'rt', '21:00', 'UTC', 'fixed');
insert into care.reminder_occurrence (rule_id, original_local, status) values ('rt1', '2025-11-22 08:30', 'cancelled');
insert into care.reminder_occurrence (rule_id, day, moved_local) values ('rt1', '2025-11-21', '2025-11-21 10:15');
select test.is('a cancelled day and a moved one', test.fires('rt1', '2025-11-20 12:00Z'), '21 09:15, 23 07:30, 24 07:30');
select test.is('an exception named by its day has the rule''s time, and its id', (select original_local || ' ' || (id = care.occurrence_id('rt1', '2025-11-21 08:30')) from care.reminder_occurrence where rule_id = 'rt1' and day = '2025-11-21'), '2025-11-21 08:30:00 true');
update care.reminder_rule set time = '09:00' where id = 'rt1';
select test.is('both stand when the time is edited', test.fires('rt1', '2025-11-20 12:00Z'), '21 09:15, 23 08:00, 24 08:00');
select test.is('under the ids that they had', (select string_agg(u.id, ',') = care.occurrence_id('rt1', '2025-11-21 08:30') from care.reminder_rule as r, care.upcoming(r, '2025-11-20 12:00Z', 1) as u where r.id = 'rt1'), true);
select test.fails('a day has one exception', $$insert into care.reminder_occurrence (rule_id, original_local) values ('rt1', '2025-11-22 09:00')$$, '23505');
update care.user_settings set zone = 'America/New_York' where user_id = 'rt';
select test.is('a move of a rule that follows is wall time', test.fires('rt1', '2025-11-20 15:00Z'), '21 15:15, 23 14:00, 24 14:00');
select test.is('and events tell it so', (select concat_ws(' ', data ->> 'start', data ->> 'movedTo', data ->> 'date', (data ->> 'id' = data ->> 'occurrenceId')::text) from sync.reminders('rt') as s, jsonb_path_query(s.body::jsonb, '$.occurrences[*] ? (@.date == "2025-11-21")') as data), '2025-11-21T10:15:00-05:00 2025-11-21T10:15 2025-11-21 true');
insert into care.reminder_occurrence (rule_id, day, moved_to) values ('rt1', '2025-11-24', '2025-11-24 16:00Z'), ('rt2', '2025-11-21', '2025-11-21 16:00Z');
select test.is('an instant that a backend writes becomes wall time where the rule follows', (select string_agg(coalesce(moved_local::text, 'none'), ', ' order by rule_id) from care.reminder_occurrence where moved_to::date in ('2025-11-24', '2025-11-21') and moved_to::time = '16:00'), '2025-11-24 11:00:00, none');
update care.user_settings set zone = 'UTC' where user_id = 'rt';
select test.is('so it moves along', test.fires('rt1', '2025-11-23 12:00Z', 1) || ', ' || test.fires('rt2', '2025-11-20 22:00Z', 1), '24 11:00, 21 16:00');
update care.reminder_occurrence set moved_to = null where rule_id = 'rt1' and day = '2025-11-24';
select test.is('moved back', test.fires('rt1', '2025-11-23 12:00Z', 1) || coalesce((select moved_local::text from care.reminder_occurrence where rule_id = 'rt1' and day = '2025-11-24'), ''), '24 09:00');

-- Snoozes.
insert into care.reminder_occurrence (rule_id, day, snoozed_until) values ('rt2', '2025-11-22', '2025-11-22 21:10Z');
select test.is('a snoozed occurrence fires at the end of the snooze', test.fires('rt2', '2025-11-22 21:05Z', 2) || ' | ' || test.fires('rt2', '2025-11-22 20:00Z', 1), '22 21:10, 23 21:00 | 22 21:10');
select test.is('also as times', (select string_agg(to_char(t at time zone 'UTC', 'DD HH24:MI'), ', ') from care.reminder_rule as r, care.next_occurrences(r, '2025-11-22 21:05Z', 2) as t where r.id = 'rt2'), '22 21:10, 23 21:00');
update care.reminder_occurrence set status = 'sent' where rule_id = 'rt2' and day = '2025-11-22';
update care.reminder_occurrence set snoozed_until = '2025-11-22 21:20Z' where rule_id = 'rt2' and day = '2025-11-22';
select test.is('snoozed again after it was sent it is scheduled again', (select status from care.reminder_occurrence where rule_id = 'rt2' and day = '2025-11-22'), 'scheduled');
insert into care.reminder_occurrence (rule_id, day, moved_to) values ('rt2', '2025-11-10', '2025-11-20 18:00Z'), ('rt2', '2025-12-30', '2025-11-20 19:00Z');
select test.is('moved to today from far away, before and after', test.fires('rt2', '2025-11-20 12:00Z', 3), '20 18:00, 20 19:00, 20 21:00');
update care.reminder_rule set repeat = 'custom', repeat_on = '{4}' where id = 'rt2';
select test.is('exceptions of days that the rule gives no more sleep', test.fires('rt2', '2025-11-20 12:00Z', 3), '20 21:00, 27 21:00, 04 21:00');
update care.reminder_rule set repeat = 'daily', repeat_on = null where id = 'rt2';

-- Whose an id is.
select test.is('by the rule and day', test.found('rt', care.occurrence_id('rt2', '2025-11-25 21:00')), 'rt2 2025-11-25');
select test.is('from two days ago to forty ahead', coalesce(test.found('rt', care.occurrence_id('rt2', '2025-11-18 21:00')), '-') || ', ' || coalesce(test.found('rt', care.occurrence_id('rt2', '2025-12-30 21:00')), '-') || ', ' || coalesce(test.found('rt', care.occurrence_id('rt2', '2026-02-01 21:00')), '-'), 'rt2 2025-11-18, rt2 2025-12-30, -');
select test.is('an exception by its id, though the time is another', test.found('rt', care.occurrence_id('rt1', '2025-11-22 08:30')), 'rt1 2025-11-22');
select test.is('so is one whose time was edited since the device made the id', test.found('rt', care.occurrence_id('rt1', '2025-11-26 08:30')), 'rt1 2025-11-26');
select test.is('another''s is not found', test.found('rt-other', care.occurrence_id('rt2', '2025-11-25 21:00')), null);
select test.is('nor is nonsense', coalesce(test.found('rt', ''), test.found('rt', 'x')), null);

-- Doses of a reminder.
create function test.doses(rule text, day date) returns text language sql as $$
    select coalesce(string_agg(d.id, ' ' order by d.id), '') from care.reminder_rule as r, care.rule_doses(r, day) as d where r.id = rule $$;
insert into care.product (id, user_id, name) values ('rd-a', 'rd', 'a'), ('rd-b', 'rd', 'b'), ('rd-c', 'rd', 'c');
insert into care.stack (id, user_id, name) values ('rd-s', 'rd', 's');
insert into care.stack_item (stack_id, product_id) values ('rd-s', 'rd-a'), ('rd-s', 'rd-b');
insert into care.reminder_rule (id, user_id, product_id, stack_id, applies_to, time, timezone) values
    ('rd-item', 'rd', 'rd-a', null, 'item', '08:00', 'UTC'), ('rd-stack', 'rd', null, 'rd-s', 'stack', '08:00', 'UTC'), ('rd-none', 'rd', null, null, 'item', '08:00', 'UTC');
insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, window_start, window_end, status, as_needed) values
    ('rd1', 'rd', 'rd-a', '2025-11-21 09:00Z', null, '2025-11-21 13:00Z', 'scheduled', false),
    ('rd2', 'rd', 'rd-a', '2025-11-21 09:00:01Z', null, '2025-11-21 13:00Z', 'scheduled', false),
    ('rd3', 'rd', 'rd-a', '2025-11-21 04:00Z', null, '2025-11-21 08:00Z', 'scheduled', false),
    ('rd4', 'rd', 'rd-a', '2025-11-21 04:00Z', null, '2025-11-21 07:59Z', 'scheduled', false),
    ('rd5', 'rd', 'rd-b', '2025-11-21 08:00Z', '2025-11-21 07:00Z', '2025-11-21 12:00Z', 'taken', false),
    ('rd6', 'rd', 'rd-b', '2025-11-21 10:00Z', '2025-11-21 08:00Z', '2025-11-21 12:00Z', 'scheduled', false),
    ('rd7', 'rd', 'rd-a', '2025-11-21 08:00Z', null, '2025-11-21 12:00Z', 'cancelled', false),
    ('rd8', 'rd', 'rd-a', '2025-11-21 08:00Z', null, '2025-11-21 12:00Z', 'taken', true),
    ('rd9', 'rd', 'rd-c', '2025-11-21 08:00Z', null, '2025-11-21 12:00Z', 'scheduled', false),
    ('rdx', 'rd-other', 'rd-a', '2025-11-21 08:00Z', null, '2025-11-21 12:00Z', 'scheduled', false);
select test.is('those of its product in whose span it starts', test.doses('rd-item', '2025-11-21'), 'rd1 rd3');
select test.is('of a stack those of its products', test.doses('rd-stack', '2025-11-21'), 'rd1 rd3 rd5 rd6');
select test.is('of no product none, and of no day', test.doses('rd-none', '2025-11-21') || test.doses('rd-item', '2025-11-22'), '');
insert into care.reminder_occurrence (rule_id, day, moved_to, snoozed_until) values ('rd-item', '2025-11-21', '2025-11-21 08:30Z', '2025-11-21 14:00Z');
select test.is('where it was moved to counts, a snooze does not', test.doses('rd-item', '2025-11-21'), 'rd1 rd2');
-- Of a linked rule: its schedule's of that day, whatever their spans.
insert into care.schedule (id, user_id, product_id, time, timezone) values ('rd-sched', 'rd', 'rd-c', '20:00', 'UTC');
insert into care.reminder_rule (id, user_id, product_id, schedule_id, time, timezone) values ('rd-linked', 'rd', 'rd-c', 'rd-sched', '20:00', 'UTC');
update care.dose_occurrence set scheduled_at = '2025-11-21 06:00Z', window_end = '2025-11-21 07:00Z' where schedule_id = 'rd-sched' and local_date = '2025-11-21';
select test.is('of a linked rule those of its schedule, moved ones too', (select string_agg(concat_ws(' ', d.schedule_id, d.local_date, to_char(d.scheduled_at at time zone 'UTC', 'HH24:MI')), ', ') from care.reminder_rule as r, care.rule_doses(r, '2025-11-21') as d where r.id = 'rd-linked'), 'rd-sched 2025-11-21 06:00');
update care.dose_occurrence set status = 'cancelled' where schedule_id = 'rd-sched' and local_date = '2025-11-21';
select test.is('and no cancelled one', test.doses('rd-linked', '2025-11-21'), '');

-- What was said of a day is forgotten after 90 days, and nobody is told.
insert into care.reminder_rule (id, user_id, time, timezone, delivery) values ('rg1', 'rg', '08:00', 'UTC', 'push');
insert into care.reminder_occurrence (rule_id, day, status) select 'rg1', date '2025-08-20' + n, 'sent' from generate_series(0, 5) as n;
insert into care.reminder_occurrence (rule_id, day, moved_to) values ('rg1', '2025-08-10', '2025-11-21 10:00Z'), ('rg1', '2025-08-11', '2025-08-12 10:00Z');
select test.top('rg', 'reminders') as before, (select max(n) from care.reminder_occurrence_audit) as audited, (select due_at from care.reminder_due where rule_id = 'rg1') as due \gset
select test.set_clock('2025-11-21 12:00Z') \g /dev/null
do $$ begin while (select more from sync.job('retain_actions', 2, null)) loop commit; end loop; end $$;
select test.is('days of long ago are forgotten, but for one that was moved', (select string_agg(day::text, ' ' order by day) from care.reminder_occurrence where rule_id = 'rg1'), '2025-08-10 2025-08-23 2025-08-24 2025-08-25');
select test.is('no device is told, and nothing else is due', test.top('rg', 'reminders') || ' ' || (select max(n) from care.reminder_occurrence_audit) || ' ' || (select due_at = :'due' from care.reminder_due where rule_id = 'rg1')::text, :'before' || ' ' || :'audited' || ' true');
-- It forgets these and nothing else: what its transaction deletes besides is told, and is due again.
insert into care.reminder_rule (id, user_id, time, timezone, delivery) values ('fg', 'fg', '08:00', 'UTC', 'push');
insert into care.reminder_occurrence (rule_id, day, status) values ('fg', '2025-11-22', 'cancelled'), ('fg', '2025-11-23', 'cancelled'), ('fg', '2025-08-13', 'sent');
select test.top('fg', 'reminders') as before \gset
begin;
delete from care.reminder_occurrence where rule_id = 'fg' and day = '2025-11-23';
select done from sync.job('retain_actions', 1000, null) \g /dev/null
delete from care.reminder_occurrence where rule_id = 'fg' and day = '2025-11-22';
commit;
select test.is('what is deleted beside the job is told, once each', (select string_agg((data ->> 'id' = care.occurrence_id('fg', day + time '08:00'))::text || ' ' || (data ->> 'removed'), ', ') from sync.event as e join unnest(array['2025-11-22', '2025-11-23']::date[]) as day on data ->> 'id' = care.occurrence_id('fg', day + time '08:00') where user_id = 'fg' and topic = 'reminders' and o > :before)
    || ' ' || (select count(*) from sync.event where user_id = 'fg' and topic = 'reminders' and o > :before), 'true true, true true 2');
select test.is('and its day is due again', (select due_at from care.reminder_due where rule_id = 'fg'), '2025-11-22 08:00Z'::timestamptz);
