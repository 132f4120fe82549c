-- Revoking a user's access, and how hubs learn of it.
create temp table start as select snapshot from sync.hub_hello();
create function test.revoked(prev pg_snapshot) returns text language sql as $$
    select coalesce(string_agg(r.user_id, ' ' order by r.user_id), '') from sync.revocations(prev, null, 100) as r
$$;
select test.is('none: one row with a snapshot', (select count(*) || ' ' || count(r.user_id) || ' ' || count(r.snapshot) from sync.revocations(null, null, 100) as r), '1 0 1');
select test.is('nor since a snapshot', (select count(*) || ' ' || count(r.user_id) || ' ' || count(r.snapshot) from start, sync.revocations(start.snapshot, null, 100) as r), '1 0 1');
select test.is('the moment is now unless given', sync.revoke('ann') between now() and clock_timestamp(), true);
select test.is('the greatest stands', (select sync.revoke('ann', '2024-01-01 00:00+00') > now() - interval '1 minute'), true);
select sync.revoke('bob', '2025-11-20 08:00:00.000001+00') \g /dev/null
select test.is('a moment given, in microseconds', (select before from sync.revocations(null, 'ann', 1)), 1763625600000001);
select test.is('pages', (select string_agg(r.user_id, ' ') from sync.revocations(null, 'ann', 1) as r), 'bob');
select test.is('all', test.revoked(null), 'ann bob');
select test.is('what is new since a snapshot', test.revoked(snapshot), 'ann bob') from start;
create temp table between_them as select snapshot from sync.hub_hello();
select test.is('nothing twice', test.revoked(snapshot), '') from between_them;
select sync.revoke('bob', '2025-11-19 00:00+00') \g /dev/null
select test.is('an earlier moment is no news', test.revoked(snapshot), '') from between_them;
select sync.revoke('bob') \g /dev/null
select test.is('a later one is', test.revoked(snapshot), 'bob') from between_them;

-- A revocation that is committed late is not passed over.
select test.open(name, :'connection') from unnest('{one,two}'::text[]) as name \g /dev/null
select dblink_exec('one', 'begin') || (select t.at from dblink('one', $$select sync.revoke('late')::text$$) as t(at text)) \g /dev/null
select sync.revoke('soon') \g /dev/null
create temp table held as select snapshot from sync.hub_hello();
select dblink_exec('one', 'commit') \g /dev/null
select test.is('one committed late is not passed over', test.revoked(snapshot), 'late') from held;

select test.fails('no user', 'select sync.revoke(null)', '22023');
select test.fails('an empty user', $$select sync.revoke('')$$, '22023');
select test.fails('no time', $$select sync.revoke('ann', null)$$, '22023');
select test.fails('never', $$select sync.revoke('ann', '-infinity')$$, '22023');
select test.fails('for ever', $$select sync.revoke('ann', 'infinity')$$, '22023');
select test.fails('far ahead', $$select sync.revoke('ann', now() + interval '2 days')$$, '22023');
select dblink_exec('two', 'set role carillon_hub') \g /dev/null
select test.is('a hub reads', (select n from dblink('two', 'select count(*) from sync.revocations(null, null, 100)') as t(n bigint)), 4::bigint);
select test.fails('and revokes nobody', $$select * from dblink('two', 'select sync.revoke(''ann'')::text') as t(at text)$$, '42501');
select test.fails('nor looks at the table', $$select * from dblink('two', 'select count(*)::text from sync.revocation') as t(n text)$$, '42501');

-- Commits are durable whatever the session says, and somebody is told.
select dblink_exec('one', 'set synchronous_commit = off') || dblink_exec('one', 'begin') || (select t.at from dblink('one', $$select sync.revoke('dur')::text$$) as t(at text)) \g /dev/null
select test.is('the commit is raised', (select t.s from dblink('one', 'show synchronous_commit') as t(s text)), 'on');
select dblink_exec('one', 'rollback') \g /dev/null
select dblink_exec('one', 'listen sync') \g /dev/null
select sync.revoke('told') \g /dev/null
select n from dblink('one', 'select 1') as t(n int) \g /dev/null
select test.is('a notification without a payload', (select string_agg(notify_name || '<' || extra || '>', ' ') from dblink_get_notify('one')), 'sync<>');
select dblink_disconnect(name) from unnest('{one,two}'::text[]) as name \g /dev/null

-- A dump restored elsewhere: ids that this cluster has not reached.
create temp table old_life as select epoch from sync.meta;
update sync.revocation set xid = (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 1000000)::text::xid8 where user_id = 'ann';
select test.is('revocations of a future transaction are repaired', sync.repair_after_restore(), 1::bigint);
select test.is('quiet again', test.revoked((select snapshot from sync.hub_hello())), '');
select test.is('it was a restore: the epochs rotate', (select m.epoch <> o.epoch from sync.meta as m, old_life as o), true);

-- Kept for 90 days since it was written, whatever moment it names, by the clock that other tests may have set.
select sync.revoke('old' || n) from generate_series(1, 3) as n \g /dev/null
update sync.revocation set written_at = sync.clock() - interval '91 days' where user_id like 'old%';
select sync.revoke('young') \g /dev/null
update sync.revocation set written_at = sync.clock() - interval '89 days' where user_id = 'young';
select sync.revoke('past', sync.clock() - interval '200 days') \g /dev/null
select sync.revoke('renewed', sync.clock() - interval '2 days') \g /dev/null
update sync.revocation set written_at = sync.clock() - interval '91 days' where user_id = 'renewed';
select sync.revoke('renewed', sync.clock() - interval '1 day') \g /dev/null
select test.is('retention in batches', (select string_agg(sync.retain(3650, 2)::text, ' ') from generate_series(1, 3)), '2 1 0');
select test.is('what is younger stays', test.revoked(null), 'ann bob late past renewed soon told young');
delete from sync.revocation;
