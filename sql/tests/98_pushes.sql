-- Pushes: what is due, the job that fires it, claims, results, statuses, devices.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
create function test.due(rule text) returns text language sql as $$
    select coalesce((select to_char(d.due_at at time zone 'UTC', 'DD HH24:MI') from care.reminder_due as d where d.rule_id = rule), 'none') $$;
create function test.fire(clock timestamptz default null) returns text language plpgsql as $$
declare
    said text := (select done || case when more then ' more' else '' end from sync.job('fire_reminders', 100, clock));
begin
    -- Its events, without the commit.
    set constraints all immediate;
    set constraints all deferred;
    return said;
end
$$;
create function test.at(clock text) returns text language plpgsql as $$ begin perform test.set_clock(clock::timestamptz); return ''; end $$;
create function test.claim(hub text, wanted int default 100) returns text language sql as $$
    select coalesce(string_agg(c.device_id || ':' || c.token || ':' || c.attempt, ' ' order by c.device_id, c.id), '') from sync.claim_pushes(hub, wanted, '30 seconds') as c $$;
create function test.settle(hub text, device text, attempt int, result text, retry int default null, drop_before timestamptz default null) returns text language plpgsql as $$
declare
    last bigint := (select max(p.id) from care.push as p where p.device_id = device);
begin
    perform sync.settle_pushes(hub, array[last], array[attempt], array[result], array[retry], array[drop_before]);
    return (select p.state from care.push as p where p.id = last);
end
$$;
create function test.pushes(who text) returns text language sql as $$
    select coalesce(string_agg(p.device_id || ':' || p.state || ':' || to_char(p.start at time zone 'UTC', 'DD HH24:MI'), ' ' order by p.start, p.device_id), '') from care.push as p where p.user_id = who $$;
create function test.device(who text, device text, more jsonb default '{}') returns text language sql as $$
    select test.short(test.act(who, 'd' || md5(random()::text), 'registerDevice', jsonb_build_object('deviceId', device, 'platform', 'fcm', 'token', 't-' || device) || more)) $$;
create function test.statuses(who text) returns text language sql as $$
    select coalesce(string_agg(e.data ->> 'status', ' ' order by e.o), '') from sync.event as e where e.user_id = who and e.name = 'reminder.occurrence_updated' $$;
-- What other tests left.
delete from care.reminder_rule where delivery <> 'local';
delete from care.push;
delete from care.device;

-- What is due.
insert into care.reminder_rule (id, user_id, time, timezone, delivery) values ('pl', 'pl', '13:00', 'UTC', 'local'), ('pp', 'pp', '13:00', 'UTC', 'push');
select test.is('a rule that pushes is due, one of local notifications is not', test.due('pl') || ', ' || test.due('pp'), 'none, 20 13:00');
update care.reminder_rule set delivery = 'both' where id = 'pl';
select test.is('until it begins to push', test.due('pl'), '20 13:00');
update care.reminder_rule set enabled = false where id = 'pl';
select test.is('disabled it is not due', test.due('pl'), 'none');
update care.reminder_rule set time = '11:00' where id = 'pp';
select test.is('what is over today is due tomorrow', test.due('pp'), '21 11:00');
insert into care.reminder_occurrence (rule_id, day, status) values ('pp', '2025-11-21', 'cancelled');
select test.is('not where that is cancelled', test.due('pp'), '22 11:00');
update care.reminder_occurrence set status = 'scheduled', moved_to = '2025-11-20 18:00Z' where rule_id = 'pp';
select test.is('but where it is moved to', test.due('pp'), '20 18:00');
delete from care.reminder_occurrence where rule_id = 'pp';
select test.is('and as the rule says without it', test.due('pp'), '21 11:00');
insert into care.reminder_occurrence (rule_id, day, snoozed_until) values ('pp', '2025-11-20', '2025-11-20 12:10Z');
select test.is('snoozed it is due at the end of the snooze', test.due('pp'), '20 12:10');
delete from care.reminder_rule where id in ('pl', 'pp');
select test.is('a rule that is gone is not due', (select count(*) from care.reminder_due), 0::bigint);

-- Firing.
select test.is('devices register', test.device('pf', 'phone') || ', ' || test.device('pf', 'tablet', '{"platform":"fcm"}') || ', ' || test.device('pf', 'quiet', '{"permission":"denied","token":null}'), 'applied, applied, applied');
insert into care.reminder_rule (id, user_id, label, time, timezone, delivery) values ('pf1', 'pf', 'Zinc', '13:00', 'UTC', 'both');
select test.is('nothing before it is due', test.fire('2025-11-20 12:59:59Z'), '0');
select test.is('no lag', sync.job_lag('fire_reminders', '2025-11-20 12:59Z'), 0::double precision);
select test.is('a lag', sync.job_lag('fire_reminders', '2025-11-20 13:01Z'), 60::double precision);
select test.at('2025-11-20 13:00:01Z');
select test.is('due, it fires', test.fire(), '1');
select test.is('for each device that has not declined', test.pushes('pf'), 'phone:waiting:20 13:00 tablet:waiting:20 13:00');
select test.is('and is due tomorrow', test.due('pf1'), '21 13:00');
select test.is('once', test.fire() || test.pushes('pf'), '0phone:waiting:20 13:00 tablet:waiting:20 13:00');
select test.is('which is no change of the rule', (select rev from care.reminder_rule where id = 'pf1') || test.events('pf', 'reminders'), '1reminder.created pf1');
select test.is('the state for gauges', (select concat_ws(' ', waiting, oldest_seconds, declined) from sync.push_state()), '2 0 1');

-- Claims.
select test.is('a claim has the tokens of its moment', test.device('pf', 'tablet', '{"platform":"fcm","token":"new"}') || ' ' || test.claim('hub-a', 1) || ' ' || test.claim('hub-b'), 'applied phone:t-phone:1 tablet:new:1');
select test.is('what is leased nobody else gets', test.claim('hub-b'), '');
select test.at('2025-11-20 13:00:32Z');
select test.is('until the lease ends', test.claim('hub-b'), 'phone:t-phone:2 tablet:new:2');
select test.is('a result of a lease that is over changes nothing', test.settle('hub-a', 'phone', 1, 'dead') || test.settle('hub-a', 'phone', 1, 'retry', 10) || test.settle('hub-a', 'phone', 2, 'dead'), 'waitingwaitingwaiting');
select test.is('but that it was sent', test.settle('hub-a', 'phone', 1, 'sent'), 'sent');
select test.is('sent it stays', test.settle('hub-b', 'phone', 2, 'dead'), 'sent');
select test.is('a retry waits', test.settle('hub-b', 'tablet', 2, 'retry', 60) || test.claim('hub-b'), 'waiting');
select test.at('2025-11-20 13:01:33Z');
select test.is('and comes again', test.claim('hub-c'), 'tablet:new:3');
select test.is('the job tells that it was sent', test.fire() || ' ' || test.statuses('pf'), '1 sent');
select test.is('once, whatever becomes of the others', test.settle('hub-c', 'tablet', 3, 'sent') || ' ' || test.fire() || ' ' || test.statuses('pf'), 'sent 1 sent');
select test.is('the occurrence has its status, and the rule is as it was', (select status || ' ' || (id = care.occurrence_id('pf1', '2025-11-20 13:00')) from care.reminder_occurrence where rule_id = 'pf1') || (select rev from care.reminder_rule where id = 'pf1'), 'sent true1');
select test.is('it is still due tomorrow', test.due('pf1'), '21 13:00');

-- How far the device should read, and the label where it is asked for.
select test.at('2025-11-21 13:00Z') || test.fire() \g /dev/null
select test.is('a claim tells how far to read', (select string_agg(distinct format('%s %s %s %s %s %s %s', c.top = test.top('pf', 'reminders'), c.epoch = p.epoch, c.kind, coalesce(c.title, '-'), coalesce(c.body, '-'), c.rule_id, c.occurrence_id = care.occurrence_id('pf1', '2025-11-21 13:00')), ', ')
    from sync.claim_pushes('h', 9, '1 second') as c, sync.positions('{pf}', '{reminders}') as p), 't t reminder - - pf1 t');
select test.at('2025-11-21 13:00:02Z') \g /dev/null
select test.is('the label only where it is asked for', (select string_agg(distinct c.title, ', ') from sync.claim_pushes('h', 9, '1 second', true) as c), 'Zinc');
select test.is('it expires four hours after its start', (select string_agg(distinct to_char(expires_at at time zone 'UTC', 'DD HH24:MI'), ', ') from care.push where user_id = 'pf' and start = '2025-11-21 13:00Z'), '21 17:00');

-- Dead everywhere: missed. A provider that accepted it after all: sent.
select test.settle('h', 'phone', 2, 'dead') || test.fire() \g /dev/null
select test.is('dead on one device is not missed', test.statuses('pf'), 'sent');
select test.is('nor while another waits; expired there it is', test.settle('h', 'tablet', 2, 'expired') || ' ' || test.fire() || ' ' || test.statuses('pf'), 'expired 1 sent missed');
select test.is('a late answer that it was sent wins', test.settle('z', 'tablet', 1, 'sent') || ' ' || test.fire() || ' ' || test.statuses('pf'), 'sent 1 sent missed sent');

-- Expiry.
select test.at('2025-11-22 13:00Z') || test.fire() \g /dev/null
select test.is('a retry that would come too late is expired', test.claim('h') || ' ' || test.settle('h', 'phone', 1, 'retry', 14400), 'phone:t-phone:1 tablet:new:1 expired');
select test.at('2025-11-22 17:00Z') \g /dev/null
select test.is('what expired is claimed by nobody', test.claim('h'), '');
select test.is('it is missed', (select string_agg(p.state, ' ') from care.push as p where p.user_id = 'pf' and p.start = '2025-11-22 13:00Z') || ' ' || test.fire() || ' ' || test.statuses('pf'), 'expired expired 2 sent missed sent missed');
select test.at('2025-11-25 12:00Z') \g /dev/null
select test.is('after days without a hub each day is told', test.fire() || ' ' || test.pushes('pf'), '6 phone:sent:20 13:00 tablet:sent:20 13:00 phone:dead:21 13:00 tablet:sent:21 13:00 phone:expired:22 13:00 tablet:expired:22 13:00 phone:expired:23 13:00 tablet:expired:23 13:00 phone:expired:24 13:00 tablet:expired:24 13:00');
select test.is('as missed', test.claim('h') || test.fire() || ' ' || test.statuses('pf') || ' ' || test.due('pf1'), '0 sent missed sent missed missed missed 25 13:00');

-- Doses.
delete from care.reminder_rule where id = 'pf1';
delete from care.push where user_id = 'pf';
insert into care.product (id, user_id, name) values ('pdp', 'pd', 'a');
insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, window_end) values ('pd1', 'pd', 'pdp', '2025-11-26 08:00Z', '2025-11-26 10:30Z'), ('pd2', 'pd', 'pdp', '2025-11-26 08:05Z', '2025-11-26 10:00Z'),
    ('pd3', 'pd', 'pdp', '2025-11-27 08:00Z', '2025-11-27 12:00Z'), ('pd4', 'pd', 'pdp', '2025-11-28 08:00Z', '2025-11-28 12:00Z');
insert into care.reminder_rule (id, user_id, product_id, time, timezone, delivery) values ('pdr', 'pd', 'pdp', '08:00', 'UTC', 'push');
select test.device('pd', 'pd-phone') \g /dev/null
update care.dose_occurrence set status = 'taken', taken_at = '2025-11-26 07:30Z' where id = 'pd1';
select test.at('2025-11-26 08:00Z') || test.fire() \g /dev/null
select test.is('of two doses one is acted on: it goes, until the last window ends', (select p.state || to_char(expires_at at time zone 'UTC', ' HH24:MI') from care.push as p where user_id = 'pd'), 'waiting 10:30');
select test.is('claimed', test.claim('h'), 'pd-phone:t-pd-phone:1');
update care.dose_occurrence set status = 'skipped' where id = 'pd2';
select test.is('it is not repeated once all are acted on', test.settle('h', 'pd-phone', 1, 'retry', 1) || test.at('2025-11-26 08:00:05Z') || test.claim('h') || ' ' || test.pushes('pd'), 'waiting pd-phone:dropped:26 08:00');
update care.dose_occurrence set status = 'taken', taken_at = '2025-11-27 07:30Z' where id = 'pd3';
select test.is('all acted on before: no push, and no status', test.at('2025-11-27 08:00Z') || test.fire() || ' ' || test.pushes('pd') || ' ' || test.statuses('pd') || test.due('pdr'), '1 pd-phone:dropped:26 08:00 28 08:00');
update care.dose_occurrence set status = 'missed' where id = 'pd4';
select test.is('a miss is no act: it can be made up', test.at('2025-11-28 08:00Z') || test.fire() || ' ' || test.claim('h'), '1 pd-phone:t-pd-phone:1');
insert into care.reminder_occurrence (rule_id, day, snoozed_until) values ('pdr', '2025-11-28', '2025-11-28 08:10Z');
select test.is('snoozed on another device it is not repeated before', test.settle('h', 'pd-phone', 1, 'retry', 1) || test.at('2025-11-28 08:00:05Z') || test.claim('h') || ' ' || test.due('pdr'), 'waiting 28 08:10');
select test.is('but then it is', test.at('2025-11-28 08:10Z') || test.fire() || ' ' || test.claim('h') || ' ' || test.pushes('pd'), '1 pd-phone:t-pd-phone:1 pd-phone:dropped:26 08:00 pd-phone:dropped:28 08:00 pd-phone:waiting:28 08:10');
update care.reminder_occurrence set status = 'cancelled' where rule_id = 'pdr';
select test.is('nor is one that was cancelled', test.settle('h', 'pd-phone', 1, 'retry', 1) || test.at('2025-11-28 08:10:05Z') || test.claim('h') || ' ' || test.settle('h', 'pd-phone', 1, 'dead'), 'waiting dropped');
select test.is('and that stays its status', test.fire() || ' ' || test.statuses('pd'), '0 scheduled cancelled');
delete from care.reminder_rule where id = 'pdr';
select test.at('2025-11-29 08:00Z') \g /dev/null

-- No device.
insert into care.reminder_rule (id, user_id, time, timezone, delivery) values ('pn1', 'pn', '09:00', 'UTC', 'push'), ('pn2', 'pn2', '09:00', 'UTC', 'both');
select test.is('a rule that only pushes, without a device: missed', test.at('2025-11-29 09:00Z') || test.fire() || ' ' || test.statuses('pn') || test.statuses('pn2'), '3 missed');
select test.is('a device that goes before the claim: dead', test.device('pn2', 'pn-phone') || test.at('2025-11-30 09:00Z') || test.fire() || test.short(test.act('pn2', 'rm', 'removeDevice', '{"deviceId":"pn-phone"}')) || test.claim('h') || ' ' || test.pushes('pn2') || ' ' || test.fire() || ' ' || test.statuses('pn2'), 'applied3applied pn-phone:dead:30 09:00 1 missed');
select test.is('removed again', test.short(test.act('pn2', 'rm2', 'removeDevice', '{"deviceId":"pn-phone"}')), 'noop');
delete from care.reminder_rule where user_id in ('pn', 'pn2');

-- Where no hub claims, the job tells what has expired; what is old goes.
insert into care.reminder_rule (id, user_id, time, timezone, delivery) values ('px', 'px', '09:10', 'UTC', 'both');
select test.device('px', 'px-phone') || test.at('2025-11-30 09:10Z') || test.fire() || test.pushes('px') || test.at('2025-11-30 13:09:59Z') || test.fire() \g /dev/null
select test.is('a push that nobody claims waits until it expires', test.pushes('px') || ' ' || test.statuses('px'), 'px-phone:waiting:30 09:10 ');
select test.at('2025-11-30 13:10Z') || test.fire() \g /dev/null
select test.is('then it is missed', test.pushes('px') || ' ' || test.statuses('px'), 'px-phone:expired:30 09:10 missed');
select test.is('for thirty days it is kept', (select done from sync.job('retain_actions', 1000, '2025-12-30 13:09Z')) is not null and exists (select from care.push where user_id = 'px'), true);
select test.is('and no longer', (select done from sync.job('retain_actions', 1000, '2025-12-30 13:11Z')) > 0 , true);
select test.is('which are those that are settled', (select count(*) from care.push where user_id = 'px'), 0::bigint);
delete from care.reminder_rule where id = 'px';
select test.at('2025-11-30 09:10Z') \g /dev/null

-- Late jobs and edits.
insert into care.reminder_rule (id, user_id, time, timezone, delivery) values ('pe', 'pe', '10:00', 'UTC', 'push');
select test.device('pe', 'pe-phone') || test.at('2025-12-01 10:30Z') \g /dev/null
update care.reminder_rule set label = 'other' where id = 'pe';
select test.is('an edit of the label leaves what is due', test.due('pe'), '30 10:00');
update care.reminder_rule set delivery = 'both' where id = 'pe';
select test.is('so does any that leaves its time in the past', test.due('pe'), '30 10:00');
update care.reminder_rule set time = '10:15' where id = 'pe';
select test.is('it is that day''s, as the rule says now', test.due('pe'), '30 10:15');
select test.is('each day once', test.fire() || ' ' || test.pushes('pe') || ' ' || test.due('pe'), '3 pe-phone:expired:30 10:15 pe-phone:waiting:01 10:15 02 10:15');
update care.reminder_rule set time = '10:29' where id = 'pe';
select test.is('what has fired does not fire again at an earlier time', test.due('pe'), '02 10:29');
update care.reminder_rule set time = '10:31' where id = 'pe';
select test.is('set to later today, it does', test.due('pe'), '01 10:31');
insert into care.reminder_due (rule_id, user_id, due_at) values ('pe', 'pe', '-infinity') on conflict (rule_id) do update set day = null, occurrence_id = null, due_at = '-infinity';
select test.is('a row from the migration is looked up', sync.job_lag('fire_reminders', null) || ' ' || test.fire() || ' ' || test.due('pe'), '0 1 01 10:31');
delete from care.reminder_rule where id = 'pe';
delete from care.push where user_id = 'pe';

-- Tokens.
insert into care.push (user_id, device_id, kind, occurrence_id, start, expires_at, next_at, created_at) select 'pt', d, 'notify', 'o', sync.clock(), sync.clock() + interval '1 hour', sync.clock(), sync.clock() from unnest('{pt1,pt2,pt3,pt4}'::text[]) as d;
select test.device('pt', d) from unnest('{pt1,pt2,pt3,pt4}'::text[]) as d \g /dev/null
select test.is('claimed with the tokens of 10:30', test.claim('h'), 'pt1:t-pt1:1 pt2:t-pt2:1 pt3:t-pt3:1 pt4:t-pt4:1');
select test.is('a device tells its token anew', test.at('2025-12-01 10:31Z') || test.device('pt', 'pt2', '{"token":"fresh"}') || ' ' || test.device('pt', 'pt3'), 'applied noop');
select test.settle('h', d, 1, 'dead', null, '2025-12-01 10:40Z') from unnest('{pt1,pt2,pt3}'::text[]) as d \g /dev/null
select test.settle('h', 'pt4', 1, 'dead', null, '2025-12-01 10:29Z') \g /dev/null
select test.is('a push that is dead for an earlier token goes to the one that was told since', test.pushes('pt'), 'pt1:dead:01 10:30 pt2:waiting:01 10:30 pt3:waiting:01 10:30 pt4:dead:01 10:30');
select test.is('at once, and dead for that one it is dead', test.claim('h') || ' ' || test.settle('h', 'pt3', 2, 'dead', null, '2025-12-01 10:29Z'), 'pt2:fresh:2 pt3:t-pt3:2 dead');
delete from care.push where user_id = 'pt';
select test.is('a token is dropped that was sent to, and told before', (select string_agg(device_id, ' ' order by device_id) from care.device where user_id = 'pt'), 'pt2 pt3 pt4');
select test.device('pt-b', 'found', '{"token":"fresh"}') \g /dev/null
select test.device('pt-s', 'sms', '{"platform":"webhook","token":"fresh"}') \g /dev/null
select test.device('pt-c', 'sms', '{"platform":"webhook","token":"fresh"}') \g /dev/null
select test.is('a number of the webhook may be two people''s, and takes no other platform''s token', (select string_agg(user_id || ' ' || platform, ', ' order by user_id) from care.device where token = 'fresh'), 'pt-b fcm, pt-c webhook, pt-s webhook');
delete from care.device where platform = 'webhook';
select test.is('a token is of one device', (select string_agg(user_id || ' ' || device_id, ', ' order by user_id, device_id) from care.device where user_id like 'pt%'), 'pt pt3, pt pt4, pt-b found');
select test.device('pm', 'm' || n) || test.at('2025-12-01 11:00Z') from generate_series(1, 21) as n \g /dev/null
select test.is('of a user twenty devices are kept', (select count(*) || ' ' || bool_or(device_id = 'm21') from care.device where user_id = 'pm'), '20 true');
select test.is(title, test.device('pv', 'v', more), want) from (values
    ('no platform', '{"platform":null}'::jsonb, 'rejected invalid payload.platform'), ('another platform', '{"platform":"pigeon"}', 'rejected invalid payload.platform'),
    ('no token', '{"token":null}', 'rejected invalid payload.token'), ('a token with a line', '{"token":"a\nb"}', 'rejected invalid payload.token'), ('a number for a token', '{"token":7}', 'rejected invalid payload.token'),
    ('a bad environment', '{"environment":"moon"}', 'rejected invalid payload.environment'), ('a bad topic', '{"topic":"a b"}', 'rejected invalid payload.topic'), ('a bad permission', '{"permission":"maybe"}', 'rejected invalid payload.permission'),
    ('no device', '{"deviceId":null}', 'rejected invalid payload.deviceId'),
    ('for APNs, digits of half a byte', '{"platform":"apns","token":"00a","topic":"a.b"}', 'rejected invalid payload.token'), ('for APNs, what is no hexadecimal', '{"platform":"apns","token":"00xy","topic":"a.b"}', 'rejected invalid payload.token'),
    ('for APNs, no topic', '{"platform":"apns","token":"00aF"}', 'rejected invalid payload.topic'), ('for APNs, both', '{"platform":"apns","token":"00aF","topic":"a.b"}', 'applied'), ('declined, neither', '{"platform":"apns","token":null,"permission":"denied"}', 'applied'),
    ('declined, with a bad token', '{"platform":"apns","token":"x","permission":"denied"}', 'rejected invalid payload.token'), ('all of it', '{"environment":"sandbox","topic":"com.example.app","permission":"granted"}', 'applied')
) as t(title, more, want);
select test.is('no answer shows a token', (select count(*) from sync.action where answer::text like '%t-phone%'), 0::bigint);

insert into care.push (user_id, device_id, kind, occurrence_id, start, expires_at, next_at, created_at) values ('pw', 'pw', 'notify', 'o', sync.clock(), sync.clock() + interval '1 hour', sync.clock(), sync.clock());
select test.device('pw', 'pw') || test.claim('h1') || test.at('2025-12-01 11:01Z') || test.device('pw', 'pw', '{"token":"next"}') \g /dev/null
select test.is('the next claim sends to the next token', test.claim('h2'), 'pw:next:2');
select test.is('a late answer to the first one drops nothing', test.settle('h1', 'pw', 1, 'dead', null, 'infinity') || (select count(*) from care.device where user_id = 'pw'), 'waiting1');
select test.is('an answer to the second does', test.settle('h2', 'pw', 2, 'dead', null, 'infinity'), 'dead');
select test.is('at once', (select count(*) from care.device where user_id = 'pw'), 0::bigint);

-- Two claims of one push in one settlement.
create function test.settle_both(results text[]) returns text language plpgsql as $$
declare
    made bigint;
begin
    delete from care.push where user_id = 'po';
    insert into care.push (user_id, device_id, kind, occurrence_id, start, expires_at, next_at, created_at, state, attempt, hub) values ('po', 'po', 'notify', 'o', sync.clock(), sync.clock() + interval '1 hour', sync.clock(), sync.clock(), 'waiting', 2, 'h') returning id into made;
    perform sync.settle_pushes('h', array[made, made], '{1,2}', results, '{60,60}', '{null,null}');
    return (select p.state || case when p.next_at > sync.clock() then ' later' else '' end from care.push as p where p.id = made);
end
$$;
select test.is('sent by one of two claims, it is sent', test.settle_both('{sent,retry}') || ', ' || test.settle_both('{retry,sent}') || ', ' || test.settle_both('{sent,dead}'), 'sent, sent, sent');
select test.is('sent by none, the later claim counts', test.settle_both('{retry,dead}') || ', ' || test.settle_both('{dead,retry}'), 'dead, waiting later');
delete from care.push where user_id = 'po';
select test.is('what is gone is settled', (select count(*) from sync.settle_pushes('h', '{-1}', '{1}', '{sent}', '{null}', '{null}')), 0::bigint);

-- Platforms.
select test.device('pq', d, jsonb_build_object('platform', d, 'token', 'aa', 'topic', 'a.b')) from unnest('{apns,fcm,webhook}'::text[]) as d \g /dev/null
insert into care.reminder_rule (id, user_id, time, timezone, delivery) values ('pq1', 'pq', '11:10', 'UTC', 'push'), ('pq2', 'pq', '11:11', 'UTC', 'push');
select test.at('2025-12-01 11:12Z') || test.fire() \g /dev/null
create function test.rooms(rooms int[]) returns text language sql as $$
    select coalesce(string_agg(c.device_id || ' ' || to_char(c.start at time zone 'UTC', 'MI'), ', ' order by c.device_id, c.start), '') from sync.claim_pushes('h', rooms, '30 seconds') as c $$;
select test.is('each platform has its room, the longest due first', test.rooms('{0,2,1}'), 'fcm 10, fcm 11, webhook 10');
select test.is('and the others what is left', test.rooms('{9,9,9}'), 'apns 10, apns 11, webhook 11');
select test.fails('no room at all', $$select * from sync.claim_pushes('h', '{0,0,0}'::int[], '1 second')$$, '22023');
update care.reminder_rule set delivery = 'local' where id = 'pq1';
select sync.settle_pushes('h', array_agg(id), array_agg(attempt), array_agg('sent'::text), array_agg(0), array_agg(null::timestamptz)) from care.push where user_id = 'pq' \g /dev/null
select test.is('a rule that is local by now stores no status', test.fire() || ' ' || test.statuses('pq'), '6 sent');
delete from care.reminder_rule where user_id = 'pq';
delete from care.push where user_id = 'pq';
delete from care.device where user_id = 'pq';
select test.at('2025-12-01 11:01Z') \g /dev/null

-- Very many that are not to be sent any more: a call ends, says that there is more, and what it judged stays judged.
select test.device('pb', 'pb') \g /dev/null
insert into care.push (user_id, device_id, platform, kind, rule_id, day, occurrence_id, start, expires_at, next_at, created_at)
select 'pb', 'pb', 'fcm', 'reminder', 'none', '2025-12-01'::date, 'pb' || n, sync.clock(), sync.clock() + interval '1 hour', sync.clock() - interval '1 minute', sync.clock() - interval '1 minute' from generate_series(1, 5000) as n
union all select 'pb', 'pb', 'fcm', 'notify', null, null, 'pb', sync.clock(), sync.clock() + interval '1 hour', sync.clock(), sync.clock();
create table test.cut (id bigint);
insert into test.cut (id) select c.id from sync.claim_pushes('h', '{0,1,0}'::int[], '30 seconds') as c;
select test.is('a call ends before it has judged all', (select count(*) || ' ' || bool_and(id is null) from test.cut) || ' ' || (select bool_or(state = 'dropped') || ' ' || (count(*) filter (where state = 'waiting') > 1) from care.push where user_id = 'pb'), '1 true true true');
do $$
begin
    while exists (select from test.cut where id is null) loop
        truncate test.cut;
        insert into test.cut (id) select c.id from sync.claim_pushes('h', '{0,1,0}'::int[], '30 seconds') as c;
    end loop;
end $$;
select test.is('called again and again it comes to what is to be sent', (select p.occurrence_id || ' ' || (select count(*) from care.push where user_id = 'pb' and state = 'dropped') from test.cut as c join care.push as p on p.id = c.id), 'pb 5000');
delete from care.push where user_id = 'pb';
delete from care.device where user_id = 'pb';

-- Users take turns.
select test.device(who, who, '{"platform":"webhook","token":"+1"}') from unnest('{pr1,pr2,pr3}'::text[]) as who \g /dev/null
create function test.push_many(who text, many int, late interval) returns void language sql as $$
    insert into care.push (user_id, device_id, platform, kind, occurrence_id, start, expires_at, next_at, created_at)
    select who, who, 'webhook', 'notify', who || late || n, sync.clock(), sync.clock() + interval '1 hour', sync.clock() - late, sync.clock() from generate_series(1, many) as n $$;
create function test.turns(room int, share int, lanes text[] default '{}', users text[] default '{}') returns text language sql as $$
    select coalesce(string_agg(t.user_id || ':' || t.n, ' ' order by t.user_id), '') from (
        select c.user_id, count(*) as n from sync.claim_pushes('h', array[0, 0, room], '30 seconds', false, share, lanes, users) as c group by c.user_id) as t $$;
select test.push_many('pr1', 800, '2 hours'), test.push_many('pr2', 2, '1 minute'), test.push_many('pr3', 20, '0') \g /dev/null
select test.is('of one user no more than a share is claimed, however many are due before those of others', test.turns(500, 16), 'pr1:16 pr2:2 pr3:16');
select test.is('whom a hub has its share of gets no more', test.turns(500, 16, '{webhook}', '{pr1}'), 'pr3:4');
select test.is('on that platform', test.turns(500, 16, '{apns,webhook}', '{pr1,pr2}'), 'pr1:16');
select test.is('where there is little room, the longest due first', test.turns(3, 16), 'pr1:3');
select test.is('a call of before', (select count(*) from sync.claim_pushes('h', '{0,0,500}'::int[], '30 seconds')), 16::bigint);
select test.is('all the same where one is alone', test.turns(800, 1000), 'pr1:' || 800 - 16 - 16 - 3 - 16);
select test.fails('no share', $$select * from sync.claim_pushes('h', '{0,0,1}'::int[], '1 second', false, 0)$$, '22023');
delete from care.push where user_id like 'pr_';
insert into care.push (user_id, device_id, platform, kind, rule_id, day, occurrence_id, start, expires_at, next_at, created_at)
select 'pr1', 'pr1', 'webhook', 'reminder', 'none', '2025-12-01'::date, 'pr' || n, sync.clock(), sync.clock() + interval '1 hour', sync.clock() - interval '1 minute', sync.clock() - interval '1 minute' from generate_series(1, 3000) as n;
select test.push_many('pr2', 1, '0') \g /dev/null
select test.is('behind thousands of one user that are not to be sent any more, another''s goes at once', test.turns(1, 16), 'pr2:1');
select test.is('when a share of them was looked at', (select count(*) from care.push where user_id = 'pr1' and state = 'dropped'), 16::bigint);
delete from care.push where user_id like 'pr_';
delete from care.device where user_id like 'pr_';

-- Zones.
insert into care.user_settings (user_id, zone) values ('pz', 'UTC');
insert into care.reminder_rule (id, user_id, time, timezone, tz_mode, delivery) values ('pz1', 'pz', '18:00', 'UTC', 'follow', 'push'), ('pz2', 'pz', '18:00', 'UTC', 'fixed', 'push');
update care.user_settings set zone = 'America/New_York' where user_id = 'pz';
select test.is('what follows its user is due by the user''s zone', test.due('pz1') || ', ' || test.due('pz2'), '01 23:00, 01 18:00');
delete from care.reminder_rule where user_id = 'pz';

-- By hand: the app's alone.
create function test.by_app(who text, key text, doc jsonb) returns jsonb language sql as $$
    select a.answer::jsonb from sync.apply_by_app(who, key, null, null, 'notify', doc::text, null, null, null) as a $$;
select test.is('a user may not', test.short(test.act('pt', 'n0', 'notify', '{"body":"Bring the card."}')) || ', ' || test.short(test.act('pt', 'n0', 'notify', '{"body":"Bring the card."}')) || ', ' || (select count(*) from care.push where user_id = 'pt'), 'rejected forbidden type, rejected forbidden type replayed, 0');
select test.is('a device''s numbers go on behind it', test.short(test.act('pt', 'n-1', 'notify', '{"body":"x"}', device => 'mine', n => 1)) || ', ' || test.short(test.act('pt', 'n-2', 'removeDevice', '{"deviceId":"none"}', device => 'mine', n => 2)), 'rejected forbidden type, noop');
select test.is('a text of its own', test.by_app('pt', 'n1', '{"title":"Hello","body":"Bring the card."}') #>> '{result,pushes}' || ' ' || (select string_agg(distinct concat_ws(' ', c.kind, c.title, c.body, c.occurrence_id), ', ') from sync.claim_pushes('h', 9, '1 minute') as c), '2 notify Hello Bring the card. n1');
select test.is('once for its key', test.by_app('pt', 'n1', '{"title":"Hello","body":"Bring the card."}') ->> 'replayed', 'true');
select test.is('to nobody', test.short(test.by_app('pt-none', 'n1', '{"body":"x"}')), 'noop');
select test.is(title, test.short(test.by_app('pt', 'n' || md5(title), doc)), want) from (values
    ('no text', '{}'::jsonb, 'rejected invalid payload.body'), ('a blank one', '{"body":" "}', 'rejected invalid payload.body'), ('no such occurrence', '{"occurrenceId":"nope"}', 'rejected invalid payload.occurrenceId'),
    ('a long title', jsonb_build_object('title', repeat('x', 201), 'body', 'x'), 'rejected invalid payload.title'), ('no time', '{"body":"x","expiresInSeconds":0}', 'rejected invalid payload.expiresInSeconds')
) as t(title, doc, want);
insert into care.reminder_rule (id, user_id, time, timezone) values ('pth', 'pt', '12:00', 'UTC');
select test.is('of an occurrence', test.by_app('pt', 'n3', jsonb_build_object('occurrenceId', care.occurrence_id('pth', '2025-12-01 12:00'))) #>> '{result,pushes}' || ' ' || (select string_agg(distinct concat_ws(' ', c.kind, c.rule_id, c.occurrence_id = care.occurrence_id('pth', '2025-12-01 12:00')), ', ') from sync.claim_pushes('h', 9, '1 minute') as c), '2 notify pth t');

select test.fails('no such result', $$select sync.settle_pushes('h', '{1}', '{1}', '{lost}', '{null}', '{null}')$$, '22023');
select test.fails('a claim of none', $$select * from sync.claim_pushes('h', 0, '1 second')$$, '22023');
select test.fails('a lease of no time', $$select * from sync.claim_pushes('h', 1, '0 seconds')$$, '22023');

-- What is not due costs nothing.
create function test.job_reads() returns bigint language plpgsql as $$
declare plan json;
begin
    execute $q$explain (analyze, buffers, format json) select * from sync.job('fire_reminders', 100, null)$q$ into plan;
    return (plan #>> '{0,Plan,Shared Hit Blocks}')::bigint + (plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
end
$$;
begin;
alter table care.reminder_due disable trigger all;
insert into care.reminder_due select 'crowd' || n, 'crowd', 'x', '2030-01-01', '2030-01-01Z' from generate_series(1, 50000) as n;
select test.job_reads() \g /dev/null
select test.is('beside 50,000 reminders that are not due the job touches few pages', test.job_reads() < 100, true);
rollback;
