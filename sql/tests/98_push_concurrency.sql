-- Reminders that fire while others write, claim, or are killed; held apart by locks and not by time.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
select test.open(name, :'connection') from unnest('{one,two}'::text[]) as name \g /dev/null
create function test.one(statement text) returns text language sql as $$ select t.a from dblink('one', statement) as t(a text) $$;
create function test.two(statement text) returns text language sql as $$ select t.a from dblink('two', statement) as t(a text) $$;
create function test.due_at(rule text) returns text language sql as $$
    select coalesce((select to_char(d.due_at at time zone 'UTC', 'DD HH24:MI') from care.reminder_due as d where d.rule_id = rule), 'none') $$;
create function test.outbox(who text) returns text language sql as $$
    select coalesce(string_agg(p.device_id || ':' || p.state || ':' || p.attempt || ':' || to_char(p.start at time zone 'UTC', 'DD HH24:MI'), ' ' order by p.start, p.device_id), '') from care.push as p where p.user_id = who $$;
create function test.job() returns text language sql as $$ select $q$select done || ' ' || more from sync.job('fire_reminders', 100, null)$q$ $$;
create function test.claims(hub text, wanted int) returns text language sql as $$
    select format($q$select coalesce(string_agg(c.device_id || ':' || c.attempt, ' ' order by c.device_id), '') from sync.claim_pushes(%L, %s, '30 seconds') as c$q$, hub, wanted) $$;
delete from care.reminder_rule where delivery <> 'local';
delete from care.push;
delete from care.device;

insert into care.device (user_id, device_id, platform, token, registered_at) values ('qc', 'a', 'apns', 'qa', '2025-11-20 11:00Z'), ('qc', 'b', 'apns', 'qb', '2025-11-20 11:00Z');
insert into care.reminder_rule (id, user_id, time, timezone, delivery) values ('qc', 'qc', '12:30', 'UTC', 'push');
select test.set_clock('2025-11-20 12:30Z') \g /dev/null

-- Killed between the outbox rows and the commit: nothing of it stays, and the next one does it once.
select dblink_exec('one', 'begin') \g /dev/null
select test.is('a job that fires', test.one(test.job()), '1 false');
select test.is('another hub''s job does nothing meanwhile', test.two(test.job()), '0 false');
select dblink_disconnect('one') \g /dev/null
select test.is('killed, it leaves the rule due, and no push', test.due_at('qc') || test.outbox('qc'), '20 12:30');
-- Its locks may outlive it for a moment: the job is tried until it works.
create function test.until(wanted text, statement text) returns text language plpgsql as $$
declare
    deadline constant timestamptz := clock_timestamp() + interval '20 seconds';
    said text;
begin
    loop
        said := test.two(statement);
        exit when said = wanted or clock_timestamp() > deadline;
        perform pg_sleep(0.005);
    end loop;
    return said;
end
$$;
select test.is('the next job fires it', test.until('1 false', test.job()), '1 false');
select test.is('once for each device, and moves on', test.outbox('qc') || ', ' || test.due_at('qc'), 'a:waiting:0:20 12:30 b:waiting:0:20 12:30, 21 12:30');

-- Two claimers, and one that is killed.
select test.open('one', :'connection') \g /dev/null
select dblink_exec('one', 'begin') \g /dev/null
select test.is('a claimer', test.one(test.claims('h1', 1)), 'a:1');
select test.is('beside it another gets what is left, and waits for nothing', test.two(test.claims('h2', 9)), 'b:1');
select test.is('and then nothing', test.two(test.claims('h2', 9)), '');
select dblink_disconnect('one') \g /dev/null
select test.is('killed before its commit it has claimed nothing', test.until('a:1', test.claims('h3', 9)), 'a:1');
select test.open('one', :'connection') \g /dev/null
select test.set_clock('2025-11-20 12:30:31Z') \g /dev/null
select test.is('killed after it: when the lease has ended they go again', test.two(test.claims('h4', 9)), 'a:2 b:2');

-- A device tells its token while the answer to the old one is settled.
select test.begin('one', $$update care.device set token = 'qa2', registered_at = '2025-11-20 12:30:31Z' where user_id = 'qc' and device_id = 'a'$$) \g /dev/null
create function test.settle_two() returns text language sql as $q$
    select $$select coalesce(string_agg(p.device_id, ' '), 'none') from sync.settle_pushes('h4', array(select id from care.push where user_id = 'qc' order by device_id), '{2,2}', '{dead,sent}', '{null,null}', '{2025-11-20 12:30:40Z,null}') as left_over join care.push as p on p.id = left_over$$ $q$;
select test.is('the settling leaves its push, and holds up no other', test.two(test.settle_two()) || ', ' || test.outbox('qc'), 'a, a:waiting:2:20 12:30 b:sent:2:20 12:30');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('told again, it drops no token that is newer', test.two(test.settle_two()) || ', ' || (select string_agg(token, ' ' order by token) from care.device where user_id = 'qc'), 'none, qa2 qb');
select test.is('and the push goes to that one', test.outbox('qc') || ', ' || test.two(test.claims('h5', 9)), 'a:waiting:2:20 12:30 b:sent:2:20 12:30, a:3');
select test.begin('one', $$update care.push set hub = hub where user_id = 'qc' and device_id = 'a'$$) \g /dev/null
create function test.settle_one() returns text language sql as $q$
    select $$select coalesce(string_agg(p.device_id, ' '), 'none') from sync.settle_pushes('h5', array(select id from care.push where user_id = 'qc' and device_id = 'a'), '{3}', '{sent}', '{null}', '{null}') as left_over join care.push as p on p.id = left_over$$ $q$;
select test.is('a push that somebody holds is left, too', test.two(test.settle_one()), 'a');
select dblink_exec('one', 'rollback') \g /dev/null
select test.is('and settled later', test.two(test.settle_one()) || ', ' || test.outbox('qc'), 'none, a:sent:3:20 12:30 b:sent:2:20 12:30');

-- Statuses wait for nobody.
select test.begin('one', $$update care.reminder_rule set label = 'x' where id = 'qc'$$) \g /dev/null
select test.is('a rule that somebody edits is left for later', test.two(test.job()), '0 false');
select dblink_exec('one', 'rollback') \g /dev/null
insert into care.reminder_rule (id, user_id, time, timezone) values ('qc-other', 'qc', '12:30', 'UTC');
select test.begin('one', $$update care.reminder_rule set label = 'x' where id = 'qc-other'; set constraints all immediate$$) \g /dev/null
select test.is('and a user whose stream somebody holds', test.two(test.job()), '0 false');
select dblink_exec('one', 'rollback') \g /dev/null
select test.is('then told', test.two(test.job()), '2 false');
select test.is('as sent', (select string_agg(status, ' ') from care.reminder_occurrence where rule_id = 'qc'), 'sent');

-- What others hold stands in nobody's way, however much of it is older.
insert into care.reminder_rule (id, user_id, time, timezone, delivery) values ('qh', 'qh', '18:00', 'UTC', 'push'), ('qi', 'qi', '18:00', 'UTC', 'push');
insert into care.push (user_id, device_id, kind, rule_id, day, occurrence_id, start, expires_at, next_at, created_at, state, settled_at)
select 'qh', 'p', 'reminder', 'qh', date '2025-11-01' + n, care.occurrence_id('qh', date '2025-11-01' + n + time '18:00'), timestamptz '2025-11-01 18:00Z' + n * interval '1 day', timestamptz '2026-11-20 12:00Z', timestamptz '2025-11-20 12:00Z', timestamptz '2025-11-20 12:00Z', 'sent', timestamptz '2025-11-20 12:00Z' + n * interval '1 second' from generate_series(1, 120) as n
union all select 'qi', 'p', 'reminder', 'qi', '2025-11-02', care.occurrence_id('qi', '2025-11-02 18:00'), '2025-11-02 18:00Z', '2026-11-20 12:00Z', '2025-11-20 12:00Z', '2025-11-20 12:00Z', 'sent', '2025-11-20 12:10Z';
select test.begin('one', $$update care.reminder_rule set label = 'x' where id = 'qh'$$) \g /dev/null
create function test.stored_status(rule text) returns text language sql as $$ select coalesce((select string_agg(distinct x.status, ' ') from care.reminder_occurrence as x where x.rule_id = rule), 'none') $$;
-- One call may look at some of them alone: it ends after 20 ms.
create function test.told_status(rule text) returns text language plpgsql as $$
declare
    deadline constant timestamptz := clock_timestamp() + interval '60 seconds';
begin
    loop
        perform test.two(test.job());
        exit when test.stored_status(rule) <> 'none' or clock_timestamp() > deadline;
    end loop;
    return test.stored_status(rule);
end
$$;
create function test.told_days(rule text) returns text language sql as $$ select string_agg(to_char(x.day, 'DD ') || x.status, ', ' order by x.day) from care.reminder_occurrence as x where x.rule_id = rule $$;
select test.is('pushes behind those of a rule that is held are judged', test.told_status('qi') || ' ' || test.stored_status('qh'), 'sent none');
select dblink_exec('one', 'rollback') \g /dev/null
delete from care.push where user_id = 'qh' and day > '2025-11-03';
insert into care.reminder_occurrence (rule_id, day, snooze_count) values ('qh', '2025-11-02', 1);
select test.begin('one', $$update care.reminder_occurrence set snooze_count = 2 where rule_id = 'qh'$$) \g /dev/null
select test.is('an exception that somebody writes is left, and not waited for', test.two(test.job()) || ' ' || test.told_days('qh'), '1 true 02 scheduled, 03 sent');
select dblink_exec('one', 'rollback') \g /dev/null
select test.is('it is told later', test.two(test.job()) || ' ' || test.stored_status('qh'), '1 false sent');
select test.begin('one', $$insert into care.reminder_occurrence (rule_id, day, snooze_count) values ('qi', '2025-11-05', 1)$$) \g /dev/null
insert into care.push (user_id, device_id, kind, rule_id, day, occurrence_id, start, expires_at, next_at, created_at, state, settled_at)
values ('qi', 'p', 'reminder', 'qi', '2025-11-05', care.occurrence_id('qi', '2025-11-05 18:00'), '2025-11-05 18:00Z', '2026-11-20 12:00Z', '2025-11-20 12:00Z', '2025-11-20 12:00Z', 'sent', '2025-11-20 12:10Z');
select test.is('nor is one that is being made', test.two(test.job()) || ' ' || (select count(*) from care.push where user_id = 'qi' and not judged), '0 false 1');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('later it has its status', test.two(test.job()) || ' ' || test.told_days('qi'), '1 false 02 sent, 05 sent');
delete from care.reminder_rule where user_id in ('qh', 'qi');
delete from care.push where user_id in ('qh', 'qi');

-- An edit beside the firing.
select test.set_clock('2025-11-21 12:30Z') \g /dev/null
select dblink_exec('one', 'begin') \g /dev/null
select test.one(test.job()) \g /dev/null
select dblink_send_query('two', $$update care.reminder_rule set time = '12:10' where id = 'qc'$$) \g /dev/null
select test.is('an edit waits for the job that fires', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and what has fired does not fire again: it ends', test.outcome('two'), 'done');
select test.is('and what has fired does not fire again', test.due_at('qc') || ' ' || (select count(*) from care.push where rule_id = 'qc' and start = '2025-11-21 12:30Z'), '22 12:10 2');
select test.set_clock('2025-11-22 12:10Z') \g /dev/null
select test.begin('one', $$update care.reminder_rule set time = '13:00' where id = 'qc'$$) \g /dev/null
select test.is('the job leaves a rule that is being edited', test.two(test.job()), '0 false');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('it fires as the edit says', test.two(test.job()) || ' ' || test.due_at('qc'), '2 false 22 13:00');

-- A rule begins to push while one of its days is cancelled: neither sees the other.
insert into care.reminder_rule (id, user_id, time, timezone) values ('qd', 'qd', '18:00', 'UTC');
select test.begin('one', $$update care.reminder_rule set delivery = 'push' where id = 'qd'$$) \g /dev/null
select dblink_send_query('two', $$insert into care.reminder_occurrence (rule_id, day, status) values ('qd', '2025-11-22', 'cancelled')$$) \g /dev/null
select test.is('the later one waits', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and sees both', test.outcome('two') || ' ' || test.due_at('qd'), 'done 23 18:00');
update care.reminder_rule set delivery = 'local' where id = 'qd';
select test.begin('one', $$insert into care.reminder_occurrence (rule_id, day, status) values ('qd', '2025-11-23', 'cancelled')$$) \g /dev/null
select dblink_send_query('two', $$update care.reminder_rule set delivery = 'push' where id = 'qd'$$) \g /dev/null
select test.is('the other way round too', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('both count', test.outcome('two') || ' ' || test.due_at('qd'), 'done 24 18:00');

-- Two exceptions of one rule.
select test.begin('one', $$insert into care.reminder_occurrence (rule_id, day, status) values ('qd', '2025-11-24', 'cancelled')$$) \g /dev/null
select dblink_send_query('two', $$insert into care.reminder_occurrence (rule_id, day, status) values ('qd', '2025-11-25', 'cancelled')$$) \g /dev/null
select test.is('two exceptions: the second waits', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and both are left out', test.outcome('two') || ' ' || test.due_at('qd'), 'done 26 18:00');

-- A token that two users tell at once is the later one's.
create function test.register(who text) returns text language sql as $$
    select format($q$select (care.register_device(%L, '{"deviceId":"p","platform":"apns","token":"shared"}', '2025-11-22 12:00Z')).status$q$, who) $$;
select dblink_exec('one', 'begin') \g /dev/null
select test.one(test.register('qe')) \g /dev/null
select dblink_send_query('two', test.register('qf')) \g /dev/null
select test.is('a token that two users tell at once: the second waits', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and has it alone: it ends', test.outcome('two'), 'done');
select test.is('and has it alone', (select string_agg(user_id, ' ') from care.device where token = 'shared'), 'qf');

-- Two that swap their tokens: both lock the lesser row first.
delete from care.device;
insert into care.device (user_id, device_id, platform, token, registered_at) values ('qg', 'p', 'apns', 't1', '2025-11-22 11:00Z'), ('qh', 'p', 'apns', 't2', '2025-11-22 11:00Z');
create function test.swap(who text, token text) returns text language sql as $$
    select format($q$select (care.register_device(%L, '{"deviceId":"p","platform":"apns","token":"%s"}', '2025-11-22 12:00Z')).status$q$, who, token) $$;
select test.open('three', :'connection') \g /dev/null
select test.begin('three', $$update care.device set topic = topic where user_id = 'qg'$$) \g /dev/null
select dblink_send_query('one', test.swap('qh', 't1')) \g /dev/null
select test.is('of two that swap their tokens, one waits for the lesser row', test.wait_blocked('one'), 'blocked');
select dblink_send_query('two', test.swap('qg', 't2')) \g /dev/null
select test.is('and so does the other', test.wait_blocked('two'), 'blocked');
select dblink_exec('three', 'commit') \g /dev/null
select test.is('both end', test.outcome('one') || ' ' || test.outcome('two'), 'done done');
select dblink_disconnect('three') \g /dev/null
delete from care.reminder_rule where user_id in ('qc', 'qd');
delete from care.device;
select dblink_disconnect(name) from unnest('{one,two}'::text[]) as name \g /dev/null
