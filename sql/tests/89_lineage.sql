-- Which database this is: an epoch of its own for each restore, copy and promotion, with any hub that says hello first.
create function test.lineage(n int) returns text language sql as $$ select split_part(lineage, '.', n) from sync.meta $$;
create function test.epoch() returns text language sql as $$ select epoch from sync.meta $$;
-- What a hub does, and whether the epoch is another afterwards.
create function test.hello() returns text language plpgsql as $$
declare
    before text := test.epoch();
    repaired bigint := sync.repair_after_restore();
begin
    return repaired || ' ' || case when test.epoch() = before then 'same' else 'fresh' end;
end
$$;
select test.is('migrated: the lineage is this database''s, and nobody fetches anew', test.hello(), '0 same');
select test.is('it names cluster, timeline, database and transaction', lineage, concat_ws('.', (select to_hex(system_identifier) from pg_control_system()), 1,
    (select oid from pg_database where datname = current_database()), m.xmin)) from sync.meta as m;

-- What a restore brings back is the row of the moment of the backup. Each part by itself.
create function test.was(n int, value text) returns void language sql as $$
    update sync.meta set lineage = (select string_agg(case when place = n then value when place = 4 then pg_current_xact_id()::xid::text else part end, '.' order by place)
                                    from regexp_split_to_table(lineage, '\.') with ordinality as t(part, place)) $$;
select test.was(4, 'x') \g /dev/null
select test.is('a row that another transaction wrote', test.hello() || ', ' || test.hello(), '0 fresh, 0 same');
select test.was(1, 'abc') \g /dev/null
select test.is('another cluster', test.hello() || ', ' || test.hello(), '0 fresh, 0 same');
select test.was(2, '7') \g /dev/null
select test.is('another timeline', test.hello() || ', ' || test.hello(), '0 fresh, 0 same');
select test.was(3, '1') \g /dev/null
select test.is('another database', test.hello() || ', ' || test.hello(), '0 fresh, 0 same');
select test.was(9, 'x') \g /dev/null
select test.is('all as it was: the same', test.hello(), '0 same');
update sync.meta set lineage = null;
select test.is('none known', test.hello() || ', ' || test.hello(), '0 fresh, 0 same');

-- Two dumps restored, one after the other: as many epochs.
create temp table dump as select one, epoch, lineage from sync.meta;
create temp table seen as select epoch from sync.meta;
delete from sync.meta;
insert into sync.meta select * from dump;
select test.is('a dump restored into this database', test.hello(), '0 fresh');
insert into seen select epoch from sync.meta;
delete from sync.meta;
insert into sync.meta select * from dump;
select test.is('and once more', test.hello(), '0 fresh');
insert into seen select epoch from sync.meta;
select test.is('three epochs', (select count(distinct epoch) from seen), 3::bigint);
vacuum full sync.meta;
vacuum (freeze) sync.meta;
select test.is('the row rewritten by vacuum is the same', test.hello(), '0 same');
select sync.new_epoch() \g /dev/null
select test.is('an epoch begun by hand is not begun twice', test.hello(), '0 same');
begin;
savepoint s;
select sync.new_epoch() \g /dev/null
commit;
select test.is('nor one that was begun behind a savepoint', test.hello(), '0 same');
insert into sync.event (user_id, topic, o, xid, name, data) values ('lin', 'adherence', 1, (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 1000000)::text::xid8, 'x', '{}');
update sync.meta set lineage = 'dumped';
select test.is('both signs of a restore: one epoch', test.hello() || ', ' || test.hello(), '1 fresh, 0 same');
delete from sync.event where user_id = 'lin';

-- One epoch for all, whatever is under way.
select test.is('positions are in it, with a stream or without', (select count(distinct p.epoch) || ' ' || bool_and(p.epoch = test.epoch() || '.' || sync.lineage()) from sync.positions('{lin,nobody}', '{adherence,adherence}') as p), '1 true');
select test.open(name, :'connection') from unnest('{one,two}'::text[]) as name \g /dev/null
select dblink_exec('one', 'begin') \g /dev/null
select dblink_exec('one', $$insert into care.dose_occurrence (id, user_id, scheduled_at) values ('lin1', 'lin', now())$$) \g /dev/null
select dblink_exec('one', 'set constraints all immediate') \g /dev/null
select sync.new_epoch() \g /dev/null
select dblink_exec('one', 'commit') \g /dev/null
select test.is('a stream that is born while the epoch changes is in the new one', (select p.epoch || ' ' || p.top from sync.positions('{lin}', '{adherence}') as p), test.epoch() || '.' || sync.lineage() || ' ' || test.top('lin'));

-- Two hubs at once.
update sync.meta set lineage = 'restored';
select dblink_exec('one', 'begin') \g /dev/null
create temp table hub as select t.epoch as before, null::text as after from dblink('one', 'select epoch from sync.meta') as t(epoch text);
select t.n from dblink('one', 'select sync.repair_after_restore()') as t(n bigint) \g /dev/null
update hub set after = (select t.epoch from dblink('one', 'select epoch from sync.meta') as t(epoch text));
select dblink_send_query('two', 'select sync.repair_after_restore()::text') \g /dev/null
select test.is('the second hub waits for the first', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and changes nothing', test.outcome('two') || ' ' || (test.epoch() = after and after <> before), 'done true') from hub;
update sync.meta set lineage = 'restored';
truncate hub;
insert into hub select epoch from sync.meta;
select dblink_exec('one', 'begin') \g /dev/null
select t.n from dblink('one', 'select sync.repair_after_restore()') as t(n bigint) \g /dev/null
select dblink_send_query('two', 'select sync.repair_after_restore()::text') \g /dev/null
select test.is('the first hub''s transaction fails', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'rollback') \g /dev/null
select test.is('and the second begins the epoch', test.outcome('two') || ' ' || (test.epoch() <> before), 'done true') from hub;
select dblink_disconnect(name) from unnest('{one,two}'::text[]) as name \g /dev/null

-- A session that may only read: nothing to write is no failure, and what must be written is not passed over.
begin transaction read only;
select test.is('a read-only session of the same database', sync.repair_after_restore(), 0::bigint);
commit;
update sync.meta set lineage = 'restored';
begin transaction read only;
select test.fails('and of another', 'select sync.repair_after_restore()', '25006');
commit;
select test.hello() \g /dev/null
grant usage on schema test to public;
grant execute on all functions in schema test to public;
set role carillon_hub;
select test.is('the hub may ask', sync.repair_after_restore(), 0::bigint);
select test.fails('and not by itself: ' || f, 'select ' || f, '42501') from unnest('{sync.new_epoch(),sync.lineage_here(''1'')}'::text[]) as f;
reset role;
delete from care.dose_occurrence where id = 'lin1';
