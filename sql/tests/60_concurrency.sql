-- Several sessions at once, held apart by locks and not by time. :connection is that of the runner.
select test.open(name, :'connection') from unnest('{one,two}'::text[]) as name \g /dev/null
insert into care.dose_occurrence (id, user_id, scheduled_at, local_date) select 'c' || n, 'cu', '2025-11-20 08:00+00', '2025-11-20' from generate_series(1, 4) as n;
insert into care.reminder_rule (id, user_id, time) values ('cr', 'cu', '08:00');

select dblink_exec('one', 'begin') || dblink_exec('one', $$update care.dose_occurrence set status = 'taken' where id = 'c1'$$) || dblink_exec('one', 'set constraints all immediate') \g /dev/null
select dblink_exec('two', 'begin') || dblink_exec('two', $$update care.dose_occurrence set status = 'taken' where id = 'c2'$$) || dblink_send_query('two', 'commit')::text \g /dev/null
select test.is('two transactions on one day: the second waits at its commit', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and commits', test.outcome('two'), 'done');
select test.is('both announce the truth', (select string_agg(data #>> '{summary,takenCount}', ' ' order by o) from sync.event where user_id = 'cu' and name = 'adherence.summary_updated' and o > 5), '1 2');

select dblink_exec('one', 'begin') || dblink_exec('one', $$update care.dose_occurrence set status = 'missed' where id = 'c1'$$) || dblink_exec('one', $$update care.reminder_rule set label = 'one' where id = 'cr'$$) \g /dev/null
insert into care.reminder_rule (id, user_id, time) values ('cr2', 'cu', '09:00');
select dblink_exec('two', 'begin') || dblink_exec('two', $$update care.reminder_rule set label = 'two' where id = 'cr2'$$) || dblink_exec('two', $$update care.dose_occurrence set status = 'missed' where id = 'c2'$$) \g /dev/null
select dblink_send_query('one', 'commit') + dblink_send_query('two', 'commit') \g /dev/null
select test.is('opposite orders of writing: no deadlock', test.outcome('one') || ' ' || test.outcome('two'), 'done done');

-- New streams, in opposite orders of their users.
select dblink_exec('one', 'begin') || dblink_exec('one', $$insert into care.dose_occurrence (user_id, scheduled_at) values ('new2', now())$$) || dblink_exec('one', $$insert into care.dose_occurrence (user_id, scheduled_at) values ('new1', now())$$) || dblink_exec('one', 'set constraints all immediate') \g /dev/null
select dblink_exec('two', 'begin') || dblink_exec('two', $$insert into care.dose_occurrence (user_id, scheduled_at) values ('new1', now())$$) || dblink_exec('two', $$insert into care.dose_occurrence (user_id, scheduled_at) values ('new2', now())$$) || dblink_send_query('two', 'commit')::text \g /dev/null
select test.is('streams being born: the second waits', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and gets the next numbers', test.outcome('two') || ' ' || test.top('new1') || ' ' || test.top('new2'), 'done 4 4');

-- The tail beside a transaction held open.
create temp table polls (n int, snapshot pg_snapshot);
insert into polls select 0, snapshot from sync.hub_hello();
select dblink_exec('one', 'begin') || dblink_exec('one', $$update care.dose_occurrence set note = 'held' where id = 'c3'$$) \g /dev/null
insert into care.dose_occurrence (id, user_id, scheduled_at, local_date) values ('quick', 'quick', now(), '2025-11-20');
create temp table seen (n int, user_id text, o bigint, snapshot pg_snapshot);
insert into seen select 1, t.user_id, t.o, t.snapshot from polls, sync.news(polls.snapshot, 100) as t;
select test.is('a long transaction hides nobody else', (select string_agg(user_id || o, ' ') from seen where n = 1), 'quick1 quick2');
insert into seen select 2, t.user_id, t.o, t.snapshot from (select min(snapshot::text)::pg_snapshot as snapshot from seen where n = 1) as p, sync.news(p.snapshot, 100) as t;
select test.is('nothing twice while it lasts', (select count(user_id) from seen where n = 2), 0::bigint);
select dblink_exec('one', 'commit') \g /dev/null
insert into seen select 3, t.user_id, t.o, t.snapshot from (select snapshot from seen where n = 2) as p, sync.news(p.snapshot, 100) as t;
select test.is('and its events come when it commits', (select string_agg(user_id, ' ') || ' ' || (max(o) = test.top('cu')) from seen where n = 3), 'cu cu true');
insert into seen select 4, t.user_id, t.o, t.snapshot from (select min(snapshot::text)::pg_snapshot as snapshot from seen where n = 3) as p, sync.news(p.snapshot, 100) as t;
select test.is('once', (select count(user_id) from seen where n = 4), 0::bigint);

-- A bulk between two snapshots: what ran at the first and ended by the second is in it, what ends later is not.
select snapshot as prev from sync.hub_hello() \gset
select dblink_exec(name, 'begin') || dblink_exec(name, format($$insert into care.dose_occurrence (user_id, scheduled_at) values (%L, now())$$, 'bulk' || name)) || dblink_exec(name, 'set constraints all immediate') from unnest('{one,two}'::text[]) as name \g /dev/null
insert into care.dose_occurrence (user_id, scheduled_at) values ('bulkthree', now());
select snapshot as running from sync.hub_hello() \gset
select dblink_exec('one', 'commit') \g /dev/null
select snapshot as upto from sync.hub_hello() \gset
select dblink_exec('two', 'commit') \g /dev/null
create function pg_temp.users() returns text language plpgsql as $$
declare
    bulk refcursor := 'bulk';
    one record;
    users text[] := '{}';
begin
    loop
        fetch bulk into one;
        exit when not found;
        users := users || (one.user_id || one.o);
    end loop;
    return users;
end
$$;
begin isolation level repeatable read read only;
select sync.open_bulk(:'prev', :'upto') \g /dev/null
select test.is('a bulk has what ended between its snapshots', pg_temp.users(), '{bulkone1,bulkone2,bulkthree1,bulkthree2}');
commit;
begin isolation level repeatable read read only;
select sync.open_bulk(:'running', :'upto') \g /dev/null
select test.is('also what was running at the first', pg_temp.users(), '{bulkone1,bulkone2}');
commit;
select test.is('and the rest is news', (select string_agg(user_id || o, ' ') from sync.news(:'upto', 100)), 'bulktwo1 bulktwo2');

-- REPEATABLE READ must retry when another came first.
select dblink_exec('one', 'begin isolation level repeatable read') || (select max(t.n) from dblink('one', 'select count(*)::text from care.dose_occurrence') as t(n text)) \g /dev/null
update care.dose_occurrence set note = 'between' where id = 'c4';
select dblink_exec('one', $$update care.dose_occurrence set note = 'mine' where id = 'c3'$$) \g /dev/null
select dblink_send_query('one', 'commit') \g /dev/null
select test.is('repeatable read: 40001, to be retried', test.outcome('one'), '40001');
select dblink_exec('one', 'begin isolation level repeatable read') || dblink_exec('one', $$update care.dose_occurrence set note = 'mine' where id = 'c3'$$) || dblink_exec('one', 'commit') \g /dev/null
select test.is('alone it commits', (select note from care.dose_occurrence where id = 'c3'), 'mine');

-- A rule that changes owner while an exception is being written: the second transaction sees the first.
select dblink_exec('one', 'begin') || dblink_exec('one', $$update care.reminder_rule set user_id = 'cv' where id = 'cr'$$) \g /dev/null
select dblink_send_query('two', $$insert into care.reminder_occurrence (rule_id, original_local) values ('cr', '2030-01-07 08:00')$$) \g /dev/null
select test.is('an exception waits for its rule', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and is written', test.outcome('two'), 'done');
select test.is('for the new owner', (select user_id from care.reminder_occurrence where rule_id = 'cr'), 'cv');
select dblink_exec('two', 'begin') || dblink_exec('two', $$insert into care.reminder_occurrence (rule_id, original_local) values ('cr', '2030-01-08 08:00')$$) \g /dev/null
select dblink_send_query('one', $$update care.reminder_rule set user_id = 'cw' where id = 'cr'$$) \g /dev/null
select test.is('a move waits for an exception', test.wait_blocked('one'), 'blocked');
select dblink_exec('two', 'commit') \g /dev/null
select test.is('and goes on', test.outcome('one'), 'done');
select test.is('with it', (select string_agg(user_id, ' ') from care.reminder_occurrence where rule_id = 'cr'), 'cw cw');

-- Two-phase commit, with notify off.
select dblink_exec('one', 'begin') || dblink_exec('one', $$update care.dose_occurrence set note = '2pc' where id = 'c4'$$) \g /dev/null
select dblink_send_query('one', $$prepare transaction 'carillon_test'$$) \g /dev/null
select test.is('prepare transaction is refused with notify', test.outcome('one'), '0A000');
select dblink_exec('one', 'set sync.notify = off') || dblink_exec('one', 'begin') || dblink_exec('one', $$update care.dose_occurrence set note = '2pc' where id = 'c4'$$) || dblink_exec('one', $$prepare transaction 'carillon_test'$$) \g /dev/null
commit prepared 'carillon_test';
select test.is('and goes through without', (select note from care.dose_occurrence where id = 'c4'), '2pc');

-- NOTIFY: once per transaction, empty, and not where it is switched off.
select dblink_exec('two', 'listen sync') \g /dev/null
begin; update care.dose_occurrence set note = 'n1' where id = 'c1'; update care.dose_occurrence set note = 'n2' where id = 'c2'; commit;
select * from dblink('two', 'select 1') as round_trip(one int) \g /dev/null
select test.is('one empty notification a transaction', (select count(*) || '[' || string_agg(extra, ',') || ']' from dblink_get_notify('two') where notify_name = 'sync'), '1[]');
set sync.notify = off;
update care.dose_occurrence set note = 'n3' where id = 'c1';
reset sync.notify;
select * from dblink('two', 'select 1') as round_trip(one int) \g /dev/null
select test.is('none when switched off', (select count(*) from dblink_get_notify('two')), 0::bigint);

select dblink_disconnect(name) from unnest('{one,two}'::text[]) as name \g /dev/null
select test.is('streams are contiguous', test.contiguous(), true);
select test.is('stored summaries are those of the rows', test.summaries_hold(), true);
select test.is('nothing touched is left', (select count(*) from sync.touched) + (select count(*) from sync.ticket), 0::bigint);

-- A SERIALIZABLE writer of a dose that reads the tickets of all others would fail each of them, and they it.
insert into care.dose_occurrence (id, user_id, scheduled_at) values ('alone', 'alone', '2025-11-20 08:00+00');
begin isolation level serializable;
update care.dose_occurrence set status = 'taken' where id = 'alone';
select test.is('a change of a dose reads no ticket', (select count(*) from pg_locks where mode = 'SIReadLock' and pid = pg_backend_pid() and relation in ('sync.ticket'::regclass, 'sync.ticket_pkey'::regclass)), 0::bigint);
select test.is('and writes its own, and the audit', (select t.id || ' ' || t.rev || ' ' || a.was_status || ' ' || a.status from sync.ticket as t join care.dose_audit as a on a.occurrence_id = t.id where t.xid = pg_current_xact_id() and a.was_rev = t.rev), 'alone 1 scheduled taken');
commit;
