-- Rules, their times, their exceptions.
insert into care.user_settings (user_id, zone) values ('berlin', 'Europe/Berlin');
insert into care.reminder_rule (id, user_id, client_id, label, time, repeat, repeat_on, tz_mode)
values ('r1', 'berlin', 'c1', 'Zinc', '08:30', 'custom', '{1,3}', 'follow');
select test.is('created', test.events('berlin', 'reminders'), 'reminder.created r1');
select test.is('the whole rule', (select data - 'nextOccurrences' - 'upcoming' - 'createdAt' - 'updatedAt' from sync.event where user_id = 'berlin' and topic = 'reminders' and o = 1),
    '{"id": "r1", "userId": "berlin", "clientId": "c1", "productId": null, "stackId": null, "appliesTo": "item", "preset": null, "label": "Zinc",
      "time": "08:30", "timezone": "Europe/Berlin", "tzMode": "follow", "repeat": "custom", "repeatOn": [1, 3], "snoozeMinutes": null,
      "delivery": "local", "enabled": true, "scheduleId": null, "silent": false, "rev": 1, "_sync": {"o": 1, "k": null}}'::jsonb);
select test.is('ten next times', (select jsonb_array_length(data -> 'nextOccurrences') from sync.event where user_id = 'berlin' and topic = 'reminders' and o = 1), 10);
select test.is('on Mondays and Wednesdays at 08:30 there', (select bool_and(extract(isodow from left(t, 10)::date) in (1, 3) and t ~ 'T08:30:00\+0[12]:00$')
    from sync.event, jsonb_array_elements_text(data -> 'nextOccurrences') as t where user_id = 'berlin' and topic = 'reminders' and o = 1), true);
update care.user_settings set zone = 'America/New_York' where user_id = 'berlin';
select test.is('a rule that follows moves with its user', (select data ->> 'timezone' from sync.event where user_id = 'berlin' and topic = 'reminders' and o = 2), 'America/New_York');
update care.reminder_rule set enabled = false where id = 'r1';
select test.is('a disabled rule has no times', (select data -> 'nextOccurrences' from sync.event where user_id = 'berlin' and topic = 'reminders' and o = 3), '[]'::jsonb);
update care.reminder_rule set enabled = true, timezone = 'UTC' where id = 'r1';

insert into care.reminder_occurrence (rule_id, original_local, status, moved_to)
values ('r1', '2030-01-07 08:30', 'cancelled', null), ('r1', '2030-01-09 08:30', 'scheduled', '2030-01-09 10:00+00');
select test.is('ids and users of exceptions come from the rule', (select count(*) from care.reminder_occurrence where id = care.occurrence_id('r1', original_local) and user_id = 'berlin'), 2::bigint);
select test.is('the exceptions are told', (select string_agg(name || ' ' || (data ->> 'start') || ' ' || (data ->> 'status'), ', ' order by data ->> 'start') from sync.event where user_id = 'berlin' and topic = 'reminders' and o > 4),
    'reminder.occurrence_updated 2030-01-07T08:30:00+00:00 cancelled, reminder.occurrence_updated 2030-01-09T10:00:00+00:00 scheduled');
select test.is('and applied', (select array_agg(t at time zone 'UTC') from care.next_occurrences((select r from care.reminder_rule as r where id = 'r1'), '2030-01-05 00:00+00', 3) as t)::text,
    '{"2030-01-09 10:00:00","2030-01-14 08:30:00","2030-01-16 08:30:00"}');
update care.reminder_occurrence set snoozed_until = '2030-01-09 10:10+00', snooze_count = 1 where original_local = '2030-01-09 08:30';
select test.is('a snooze', (select data ->> 'snoozedUntil' from sync.event where user_id = 'berlin' and topic = 'reminders' and o = 7), '2030-01-09T10:10:00+00:00');
delete from care.reminder_occurrence where original_local = '2030-01-07 08:30';
select test.is('an exception removed', (select (data ->> 'removed') || (data ->> 'ruleId') from sync.event where user_id = 'berlin' and topic = 'reminders' and o = 8), 'truer1');
delete from care.reminder_rule where id = 'r1';
select test.is('deleted with its exceptions: one event', (select string_agg(name || (data - '_sync')::text, ', ') from sync.event where user_id = 'berlin' and topic = 'reminders' and o > 8), 'reminder.deleted{"id": "r1", "rev": 4}');
select test.fails('a client id is unique per user', $$insert into care.reminder_rule (user_id, client_id, time) values ('x', 'c', '08:00'), ('x', 'c', '09:00')$$, '23505');
select test.fails('custom needs days', $$insert into care.reminder_rule (user_id, time, repeat) values ('x', '08:00', 'custom')$$, '23514');
select test.fails('a stack rule needs a stack', $$insert into care.reminder_rule (user_id, time, applies_to) values ('x', '08:00', 'stack')$$, '23514');
insert into care.reminder_rule (id, user_id, time, repeat, timezone) values ('w', 'w', '07:00', 'weekdays', 'UTC');
select test.is('weekdays are Monday to Friday', (select string_agg(extract(isodow from t)::text, '') from care.next_occurrences((select r from care.reminder_rule as r where id = 'w'), '2025-11-20 12:00+00', 7) as t), '5123451');

-- A rule that changes owner takes its exceptions along.
insert into care.reminder_rule (id, user_id, time, timezone) values ('m', 'mover-a', '07:00', 'UTC'), ('m2', 'mover-c', '07:00', 'UTC');
insert into care.reminder_occurrence (rule_id, user_id, original_local) values ('m', 'somebody else', '2030-01-07 07:00'), ('m', null, '2030-01-08 07:00');
select test.is('an exception is its rule''s user''s, whatever the writer says', (select string_agg(distinct user_id, ' ') from care.reminder_occurrence where rule_id = 'm'), 'mover-a');
update care.reminder_rule set user_id = 'mover-b' where id = 'm';
select test.is('a rule that changes owner takes its exceptions along', (select string_agg(distinct user_id, ' ') from care.reminder_occurrence where rule_id = 'm'), 'mover-b');
select test.is('the old owner is told of the rule only', (select string_agg(name, ' ' order by o) from sync.event where user_id = 'mover-a' and o > 3), 'reminder.deleted');
select test.is('the new one of all', (select string_agg(name, ' ' order by o) from sync.event where user_id = 'mover-b'), 'reminder.created reminder.occurrence_updated reminder.occurrence_updated');
update care.reminder_occurrence set status = 'sent' where rule_id = 'm' and original_local = '2030-01-07 07:00';
delete from care.reminder_occurrence where rule_id = 'm' and original_local = '2030-01-08 07:00';
select test.is('and the old one never again', test.top('mover-a', 'reminders') || ' ' || test.top('mover-b', 'reminders'), '4 5');
update care.reminder_occurrence set user_id = 'mover-a' where rule_id = 'm';
select test.is('an exception cannot leave its rule''s user', (select user_id from care.reminder_occurrence where rule_id = 'm') || ' ' || test.top('mover-a', 'reminders') || ' ' || test.top('mover-b', 'reminders'), 'mover-b 4 5');
update care.reminder_occurrence set rule_id = 'm2' where rule_id = 'm';
select test.is('moved to another rule it follows that', (select string_agg(user_id || ' ' || name || ' ' || (data ->> 'ruleId'), ', ' order by user_id) from sync.event
    where name = 'reminder.occurrence_updated' and (user_id, o) in (('mover-b', 6), ('mover-c', 2))), 'mover-b reminder.occurrence_updated m, mover-c reminder.occurrence_updated m2');
begin;
alter table care.reminder_occurrence disable trigger user;
update care.reminder_occurrence set user_id = 'mover-a' where rule_id = 'm2';
alter table care.reminder_occurrence enable trigger user, enable always trigger bump_rev;
select sync.attach('care.reminder_occurrence', recorder) from sync.published where relation = 'care.reminder_occurrence'::regclass \g /dev/null
update care.reminder_occurrence set status = 'missed' where rule_id = 'm2';
set constraints all immediate;
select test.is('nobody is told of another''s rule', test.top('mover-a', 'reminders'), 4::bigint);
rollback;
select test.is('streams are contiguous', test.contiguous(), true);
