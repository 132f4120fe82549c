-- Reading a stream's log past the window: pages, bounds, other lives.
create table public.page (id text primary key, u text, v text);
select sync.publish_changes('public.page', 'u', 'pages', 'page');
insert into public.page select n::text, 'reader', 'x' from generate_series(1, 10) as n;
create function test.read(after_o bigint, up_to bigint, page int default 256, bytes int default 262144) returns text language sql as $$
    select string_agg(coalesce(r.o::text, '-'), ' ') || ' of ' || max(r.top) from sync.read_log('reader', 'pages', after_o, up_to, page, bytes) as r
$$;
select test.is('from an offset to an offset', test.read(3, 6), '4 5 6 of 10');
select test.is('no further than the log', test.read(8, 99), '9 10 of 10');
select test.is('bounded in events', test.read(0, 10, page => 4), '1 2 3 4 of 10');
select test.is('bounded in bytes: at least one event', test.read(0, 10, bytes => 1), '1 of 10');
select test.is('bounded in bytes: none after the one that reaches the bound', test.read(0, 10, bytes => (select (sum(octet_length(data::text)) + 1)::int from sync.event where user_id = 'reader' and o <= 2)), '1 2 3 of 10');
select test.is('nothing there: one row that says where it stands', test.read(10, 10), '- of 10');
select test.is('a stream unborn', (select (epoch = (select epoch from sync.meta) || '.' || sync.lineage()) || ' ' || top || ' ' || (o is null) from sync.read_log('nobody', 'pages', 0, 5, 256, 1000)), 'true 0 true');
select test.is('the epoch is that of sync.positions', (select count(distinct p.epoch || r.epoch) || ' ' || bool_and(p.epoch = r.epoch) from sync.positions('{reader}', '{pages}') as p, sync.read_log('reader', 'pages', 0, 10, 256, 262144) as r), '1 true');
select test.is('data is what replay has', (select bool_and(r.data = p.data and r.name = p.name) from sync.replay('reader', 'pages', 0, 99) as p join sync.read_log('reader', 'pages', 0, 99, 256, 262144) as r on r.o = p.o), true);
-- What the console asks: without data unless it says so.
create function test.logged(up_to bigint, most int, shows boolean) returns jsonb language sql as $$
    select jsonb_build_object('top', l.top, 'events', l.body::jsonb) from sync.logged_events('reader', 'pages', up_to, most, shows) as l
$$;
select test.is('the last ones, the newest first', (select string_agg(e ->> 'o', ' ') || ' of ' || max(top) from (select l -> 'top' #>> '{}' as top, jsonb_array_elements(l -> 'events') as e from test.logged(null, 3, false) as l) as t), '10 9 8 of 10');
select test.is('one of them', (select string_agg(e ->> 'o', ' ') from jsonb_array_elements(test.logged(7, 1, false) -> 'events') as e), '7');
select test.is('a name, a size and an age, and no data', (select string_agg(key, ' ' order by key) from jsonb_object_keys(test.logged(7, 1, false) #> '{events,0}') as key), 'ageMs bytes name o');
select test.is('its size is that of what is sent', (select (l #>> '{events,0,bytes}')::int = octet_length(e.data::text) and l #>> '{events,0,name}' = e.name from test.logged(7, 1, false) as l, sync.event as e where e.user_id = 'reader' and e.topic = 'pages' and e.o = 7), true);
select test.is('the data where it is asked for', (select l #> '{events,0,data}' = e.data from test.logged(7, 1, true) as l, sync.event as e where e.user_id = 'reader' and e.topic = 'pages' and e.o = 7), true);
select test.is('many at once, and only the data of the one', (select string_agg(e ->> 'o', ' ') from jsonb_array_elements(test.logged(7, 9, true) -> 'events') as e), '7');
select test.is('no data without a number', test.logged(null, 9, true) -> 'events', '[]'::jsonb);
select test.is('another''s stream is empty, and has a position', (select l.top || ' ' || l.body from sync.logged_events('nobody', 'pages', null, 5, true) as l), '0 []');
delete from sync.event where user_id = 'reader' and o <= 4;
select test.is('nor that of an older one where it is gone', test.logged(4, 1, true) -> 'events', '[]'::jsonb);
select test.is('what is no longer kept is missing at the front', test.read(2, 10), '5 6 7 8 9 10 of 10');
create temp table before_epoch as select epoch from sync.positions('{reader}', '{pages}');
select sync.new_epoch() \g /dev/null
select test.is('another epoch shows in the same row', (select bool_and(r.epoch <> b.epoch) from before_epoch as b, sync.read_log('reader', 'pages', 4, 10, 256, 262144) as r), true);

-- A million events of others, and many of this stream, must not be looked at.
insert into sync.event (user_id, topic, o, xid, name, data) select 'crowd' || n % 1000, 'old', n, '1', 'x', '{}' from generate_series(1, 200000) as n;
insert into sync.event (user_id, topic, o, xid, name, data) select 'reader', 'pages', n, '1', 'x', '{}' from generate_series(11, 20000) as n;
analyze sync.event;
create function test.read_buffers() returns bigint language plpgsql as $$
declare plan json;
begin
    execute 'explain (analyze, buffers, format json) select * from sync.read_log(''reader'', ''pages'', 10000, 20000, 10, 1000000)' into plan;
    return (plan #>> '{0,Plan,Shared Hit Blocks}')::bigint + (plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
end
$$;
select test.read_buffers() \g /dev/null
select test.is('ten events of a large log touch few pages', test.read_buffers() < 40, true);
select test.open('hub', :'connection') \g /dev/null
select dblink_exec('hub', 'set role carillon_hub') \g /dev/null
select test.is('a hub may call it', (select n from dblink('hub', $$select count(*) from sync.read_log('reader', 'pages', 0, 5, 256, 1000)$$) as t(n bigint)), 1::bigint);
select test.is('and the console''s', (select n from dblink('hub', $$select jsonb_array_length(body::jsonb) from sync.logged_events('reader', 'pages', null, 5, false)$$) as t(n bigint)), 5::bigint);
select dblink_disconnect('hub') \g /dev/null
-- Nor may what lies behind the bound in bytes be unpacked: 256 events of 60 kB.
insert into sync.event (user_id, topic, o, xid, name, data)
select 'reader', 'big', n, '1', 'x', jsonb_build_object('x', (select string_agg(md5(n || '.' || k), '') from generate_series(1, 1900) as k)) from generate_series(1, 256) as n;
create function test.big_buffers(bytes int) returns bigint language plpgsql as $$
declare plan json;
begin
    execute format('explain (analyze, buffers, format json) select * from sync.read_log(''reader'', ''big'', 0, 256, 256, %s)', bytes) into plan;
    return (plan #>> '{0,Plan,Shared Hit Blocks}')::bigint + (plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
end
$$;
select test.big_buffers(1) \g /dev/null
select test.is('what comes after the bound in bytes is not unpacked', test.big_buffers(1) < 60, true);
select test.is('five of them', (select count(*) || ' ' || bool_and(r.data = e.data::text) from sync.read_log('reader', 'big', 0, 256, 256, 262144) as r join sync.event as e on e.user_id = 'reader' and e.topic = 'big' and e.o = r.o), '5 true');
delete from sync.event where topic in ('old', 'pages', 'big');
delete from sync.stream where topic = 'pages';
select sync.unpublish_changes('public.page');
drop table public.page;
