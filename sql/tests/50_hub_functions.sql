-- What the hub asks: tail, positions, replay, hello, repair, retention.
select test.is('a database without events: positions at 0 in the epoch to come', (select top || ' ' || (epoch = (select epoch from sync.meta) || '.' || sync.lineage()) from sync.positions('{fresh}', '{t}')), '0 true');
create temp table prev as select snapshot from sync.hub_hello();
select test.is('an empty tail still has a row with a snapshot', (select count(*) || ' ' || count(t.user_id) || ' ' || count(t.snapshot) from prev, sync.tail(prev.snapshot, null, null, null, 100) as t), '1 0 1');

create table public.thing (id text primary key, u text, v int);
select sync.publish_changes('public.thing', 'u', 'things', 'thing');
insert into public.thing values ('1', 'B', 1), ('2', 'a', 1), ('3', 'é', 1), ('4', 'a.b', 1), ('5', 'a', 2), ('6', 'Z', 1);
select test.is('the tail, in byte order', (select string_agg(t.user_id || t.o, ' ') from prev, sync.tail(prev.snapshot, null, null, null, 100) as t), 'B1 Z1 a1 a2 a.b1 é1');
select test.is('its pages join', (
    with recursive page as (
        select p.snapshot, t.user_id, t.topic, t.o, 1 as n from prev as p cross join lateral sync.tail(p.snapshot, null, null, null, 1) as t
        union all
        select page.snapshot, t.user_id, t.topic, t.o, n + 1 from page cross join lateral sync.tail(page.snapshot, page.user_id, page.topic, page.o, 1) as t where page.user_id is not null and n < 20)
    select string_agg(user_id || o, ' ' order by n) || ' ' || max(n) from page), 'B1 Z1 a1 a2 a.b1 é1 7');
select test.is('news, the same', (select string_agg(t.user_id || t.o, ' ') from prev, sync.news(prev.snapshot, 6) as t), 'B1 Z1 a1 a2 a.b1 é1');
select test.is('news as large as a page are there, and the snapshot with each', (select count(t.user_id) || ' ' || count(distinct t.snapshot::text) || ' ' || bool_and(t.age > 0 and t.epoch = m.epoch) from prev, sync.meta as m, sync.news(prev.snapshot, 6) as t), '6 1 true');
select test.is('one more, and it is only told so', (select count(*) || ' ' || count(t.user_id) || ' ' || count(t.snapshot) || ' ' || max(t.o) from prev, sync.news(prev.snapshot, 5) as t), '1 0 1 6');
select test.is('no news are a row with a snapshot', (select count(*) || ' ' || count(t.user_id) || ' ' || count(t.o) || ' ' || count(t.snapshot) from sync.hub_hello() as h, sync.news(h.snapshot, 5) as t), '1 0 0 1');
select snapshot as prev from prev \gset
select snapshot as upto from sync.hub_hello() \gset
insert into public.thing values ('8', 'behind', 1);
create function pg_temp.fetched() returns text language plpgsql as $$
declare
    bulk refcursor := 'bulk';
    one record;
    found_ text := '';
begin
    loop
        fetch bulk into one;
        exit when not found;
        found_ := found_ || one.user_id || one.o || (one.data::jsonb ->> 'v') || ' ';
    end loop;
    return found_;
end
$$;
begin isolation level repeatable read read only;
select test.is('a bulk tells the epoch', sync.open_bulk(:'prev', :'upto') = (select epoch from sync.meta), true);
select test.is('all between the snapshots, in byte order, and nothing behind them', pg_temp.fetched(), 'B11 Z11 a11 a22 a.b11 é11 ');
commit;
delete from public.thing where id = '8';
delete from sync.event where user_id = 'behind';
select test.is('nothing twice: from the new snapshot nothing', (select count(t.user_id) from sync.hub_hello() as h, sync.tail(h.snapshot, null, null, null, 100) as t), 0::bigint);
select test.is('data is JSON text', (select (t.data::jsonb ->> 'v') from prev, sync.tail(prev.snapshot, 'a', 'things', 1, 1) as t), '2');
select test.is('an age is from when the event was written to this read', (select bool_and(t.age > 0 and t.age < 3600000000 and t.age <= (extract(epoch from clock_timestamp() - e.created_at) * 1e6)::bigint) from prev, sync.tail(prev.snapshot, null, null, null, 100) as t join sync.event as e using (user_id, topic, o)), true);
begin;
select pg_sleep(0.01);
insert into public.thing values ('7', 'late', 1);
set constraints all immediate;
select test.is('and that is at the end of the transaction, not at its start', (select created_at > now() + interval '10 ms' from sync.event where user_id = 'late'), true);
rollback;
select test.is('positions, in the order asked, with repeats', (select string_agg(user_id || '/' || topic || ':' || top, ' ') from sync.positions('{é,a,nobody,a}', '{things,things,things,other}')), 'é/things:1 a/things:2 nobody/things:0 a/other:0');
select test.is('one epoch before and after the first event', (select count(distinct epoch) from sync.positions('{a,nobody}', '{things,things}')), 1::bigint);
create function test.lineages() returns bigint language plpgsql as $$
declare calls bigint;
begin
    set local track_functions = 'all';
    perform set_config('sync.lineage', '', false);
    calls := pg_stat_get_xact_function_calls('sync.timeline()'::regprocedure);
    perform from sync.positions(array(select 'a' || n from generate_series(1, 1000) as n), array_fill('things'::text, '{1000}'));
    return pg_stat_get_xact_function_calls('sync.timeline()'::regprocedure) - coalesce(calls, 0);
end
$$;
select test.is('a thousand positions ask for the lineage once', test.lineages(), 1::bigint);
select test.is('the topics of published tables, each once, and the epoch in which streams begin', (select ((topics ~ '(^|,)things(,|$)') and topics = (select string_agg(distinct p.topic, ',' order by p.topic) from sync.published as p) and t.epoch = (select epoch from sync.positions('{nobody}', '{t}')))::text from sync.topics(1000) as t), 'true');
select test.is('no more of them than asked for', (select topics = split_part((select topics from sync.topics(1000)), ',', 1) and topics <> '' from sync.topics(1)), true);
begin;
delete from sync.published;
select test.is('none', (select topics from sync.topics(1000)), '');
rollback;
select test.is('replay', (select string_agg(o || name, ' ') from sync.replay('a', 'things', 1, 10)), '2thing.created');
select test.is('replay, bounded', (select string_agg(o::text, ' ') from sync.replay('a', 'things', 0, 1)), '1');
select test.is('hello', (select (schema_version = (select max(version) from sync.migration), in_recovery, database = current_database(), system_identifier = (select system_identifier::text from pg_control_system()), timeline)::text from sync.hub_hello()), '(t,f,t,t,1)');

select test.is('repair without cause does nothing', sync.repair_after_restore(), 0::bigint);
create temp table old_epoch as select epoch from sync.meta;
update sync.event set xid = (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 1000000)::text::xid8 where user_id = 'a' and topic = 'things';
select test.is('events of a future transaction are repaired', sync.repair_after_restore(), 2::bigint);
select test.is('the tail is quiet again', (select count(t.user_id) from sync.hub_hello() as h, sync.tail(h.snapshot, null, null, null, 100) as t), 0::bigint);
select test.is('and all epochs have changed', (select count(*) from sync.positions('{a,nobody}', '{things,things}') as p, old_epoch as o where p.epoch like o.epoch || '.%') + (select count(*) from sync.meta, old_epoch where meta.epoch = old_epoch.epoch), 0::bigint);
create temp table before_it as select snapshot, epoch from sync.hub_hello();
select sync.new_epoch() as fresh \gset
select test.is('hello, the tail and news tell the new epoch', (select (h.epoch = :'fresh' and t.epoch = :'fresh' and n.epoch = :'fresh' and b.epoch <> :'fresh')::text from before_it as b, sync.hub_hello() as h, sync.tail(b.snapshot, null, null, null, 100) as t, sync.news(b.snapshot, 100) as n), 'true');
select test.is('a new epoch is everyone''s', :'fresh' || '.' || sync.lineage() = all (select epoch from sync.positions('{a,nobody}', '{things,things}') union all select (sync.position('a', 'things') ->> 'epoch') union all select epoch from sync.read_log('a', 'things', 0, 9, 9, 9)), true);

update sync.event set xid = '0', created_at = now() - interval '8 days' where user_id in ('a', 'B') and topic = 'things';
select test.is('retention in batches', (select string_agg(sync.retain(7, 2)::text, ' ') from generate_series(1, 3)), '2 1 0');
select test.is('what is younger stays', (select count(*) from sync.event where topic = 'things'), 3::bigint);
select test.fails('retention of nothing', 'select sync.retain(0, 10)', '22023');

-- A million old events must not be looked at.
insert into sync.event (user_id, topic, o, xid, name, data) select 'million' || n % 1000, 'old', n, '1', 'x', '{}' from generate_series(1, 1000000) as n;
analyze sync.event;
create function test.news_buffers(prev pg_snapshot default pg_current_snapshot()) returns bigint language plpgsql as $$
declare plan json;
begin
    execute format('explain (analyze, buffers, format json) select * from sync.news(%L, 500)', prev) into plan;
    return (plan #>> '{0,Plan,Shared Hit Blocks}')::bigint + (plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
end
$$;
select test.news_buffers() \g /dev/null
select test.is('news beside a million old events touch few pages', test.news_buffers() < 40, true);
-- Nor a bulk where only its being one is asked, nor a large transaction that is still running, with each look.
select snapshot as prev from sync.hub_hello() \gset
insert into sync.event (user_id, topic, o, name, data) select 'bulk', 'old', n, 'x', '{}' from generate_series(1, 50000) as n;
select test.is('that a bulk is one is found out by few pages', test.news_buffers(:'prev') < 100, true);
select test.open('running', :'connection');
select dblink_exec('running', 'begin') || dblink_exec('running', $$insert into sync.event (user_id, topic, o, name, data) select 'running', 'old', n, 'x', '{}' from generate_series(1, 50000) as n$$) \g /dev/null
-- One that ends: the next snapshot lists the other as running.
select pg_current_xact_id() \g /dev/null
select snapshot as prev from sync.hub_hello() \gset
select test.is('a transaction that is running costs nothing', test.news_buffers(:'prev') < 40, true);
select dblink_exec('running', 'commit') \g /dev/null
select test.is('and is seen when it ends', (select max(t.o) from sync.news(:'prev', 500) as t), 501::bigint);
select test.is('also from the middle of a bulk', (select count(t.user_id) from sync.hub_hello() as h, sync.tail(h.snapshot, 'million5', 'old', 5, 100) as t), 0::bigint);
select dblink_disconnect('running') \g /dev/null
delete from sync.event where topic = 'old';
delete from public.thing;
select sync.unpublish_changes('public.thing');
drop table public.thing;
delete from sync.event where topic = 'things';
delete from sync.stream where topic = 'things';
