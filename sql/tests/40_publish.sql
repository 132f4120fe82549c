-- Any table of anyone, with one statement; and those that cannot be.
create schema app;
drop role if exists carillon_test_app, carillon_test_writer;
create role carillon_test_app; create role carillon_test_writer;
create table app.weight (id bigint generated always as identity primary key, owner uuid, weight_kg numeric, taken_at timestamptz, extra json, rev int not null default 1);
select sync.publish_changes('app.weight', 'owner', 'weight', 'weight');
insert into app.weight (owner, weight_kg, taken_at, extra) values ('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 71.5, '2025-11-20 08:00+00', '{"a": 1}');
update app.weight set weight_kg = 72, rev = rev + 1;
update app.weight set extra = '{"a": 1}';
delete from app.weight;
select test.is('a superuser''s table: created, updated, deleted', (select string_agg(name || ' ' || (data - '_sync')::text, '; ' order by o) from sync.event where topic = 'weight'),
    'weight.created {"id": 1, "rev": 1, "extra": {"a": 1}, "takenAt": "2025-11-20T08:00:00+00:00", "weightKg": 71.5}; weight.updated {"id": 1, "rev": 2, "extra": {"a": 1}, "takenAt": "2025-11-20T08:00:00+00:00", "weightKg": 72}; weight.deleted {"id": 1, "rev": 2}');
select test.is('the stream is the user''s', (select min(user_id) from sync.event where topic = 'weight'), '6ba7b810-9dad-11d1-80b4-00c04fd430c8');

create table app."Odd Table" ("The Id" text primary key, "user" text, "a_b_c" int, "it's" text);
select sync.publish_changes('app."Odd Table"', 'user', 'odd_topic', 'odd', id_column => 'The Id', columns => '{a_b_c,it''s}');
insert into app."Odd Table" values ('o1', 'someone', 1, 'q');
select test.is('odd names, chosen columns, no rev', (select data - '_sync' from sync.event where topic = 'odd_topic'), '{"id": "o1", "rev": null, "aBC": 1, "it''s": "q"}'::jsonb);
select sync.publish_changes('app."Odd Table"', 'user', 'odd_topic', 'odder', id_column => 'The Id');
update app."Odd Table" set a_b_c = 2;
select test.is('published again: the new way', (select name from sync.event where topic = 'odd_topic' and o = 2), 'odder.updated');
select test.is('nothing to complain of', (select count(*) from sync.check_published()), 0::bigint);
alter table app."Odd Table" disable trigger sync_update;
select test.is('a disabled trigger is found', (select string_agg(relation || ' ' || problem, '; ') from sync.check_published()), 'app."Odd Table" trigger sync_update is missing, disabled or another: publish the table again');
select sync.publish_changes('app."Odd Table"', 'user', 'odd_topic', 'odder', id_column => 'The Id');
select test.is('and healed by publishing again', (select count(*) from sync.check_published()), 0::bigint);
alter table app."Odd Table" drop column a_b_c;
select test.is('a lost column is found', (select problem from sync.check_published()), 'column a_b_c is gone: publish the table again');
select sync.unpublish_changes('app."Odd Table"');
update app."Odd Table" set "it's" = 'z';
select test.is('unpublished: silence', test.top('someone', 'odd_topic'), 2::bigint);
truncate app."Odd Table";
select test.fails('unpublished twice is an error', $$select sync.unpublish_changes('app."Odd Table"')$$, '42704');
create table app.dropped (id int primary key, u text);
select sync.publish_changes('app.dropped', 'u', 'dropped', 'dropped');
drop table app.dropped;
select test.is('a dropped table is found', (select count(*) from sync.check_published() where problem like '%dropped%'), 1::bigint);
select sync.withdraw(null);
select test.is('and forgotten', (select count(*) from sync.check_published()), 0::bigint);

create table app.legacy (id int, uuid text primary key, u text, rev text, version int);
select sync.publish_changes('app.legacy', 'u', 'legacy', 'legacy', id_column => 'uuid', rev_column => 'version');
insert into app.legacy values (7, 'the-id', 'legacy', 'old', 3);
select test.is('what identifies wins over columns of its name', (select data - '_sync' from sync.event where topic = 'legacy'), '{"id": "the-id", "rev": 3}'::jsonb);
create table app.twins (id int primary key, u text, taken_at int, "takenAt" int);
select test.fails('two columns of one name in events', $$select sync.publish_changes('app.twins', 'u', 'twins', 'twins')$$, '42701');
select test.is('unless one is left out', (select sync.publish_changes('app.twins', 'u', 'twins', 'twins', columns => '{id,taken_at}')::text), '');
select test.fails('a rev that is no integer', $$select sync.publish_changes('app.legacy', 'u', 'legacy', 'legacy', id_column => 'uuid', rev_column => 'rev')$$, '22023');

-- Types whose operators only their own schema has. Recorders look in pg_catalog.
create extension ltree schema app;
create table app.tree (id app.ltree primary key, u text);
select test.fails('an id that pg_catalog cannot compare', $$select sync.publish_changes('app.tree', 'u', 'tree', 'tree')$$, '22023');
insert into app.tree values ('a.b', 'tree');
update app.tree set u = 'tree2';
select test.is('and its writers go on', test.top('tree', 'tree') || ' ' || (select count(*) from pg_trigger where tgrelid = 'app.tree'::regclass), '0 0');
create type app.kind as enum ('x', 'y');
create domain app.code as text check (value <> '');
create table app.typed (id app.code primary key, u app.ltree, kind app.kind, v int);
select sync.publish_changes('app.typed', 'u', 'typed', 'typed');
insert into app.typed values ('c1', 'one.two', 'x', 1);
update app.typed set v = 2;
select test.is('a user of any type, an id of a domain', (select string_agg(name, ' ' order by o) from sync.event where user_id = 'one.two'), 'typed.created typed.updated');

-- Builders of one's own answer for the users they were asked about, and the key of an action has a limit.
create table app.own (id int primary key, u text);
create function app.own_events(changes sync.change[]) returns setof sync.draft language sql as $$
    select case when id = '66' then 'another' else user_id end, false, id, 'own.changed', '{}'::jsonb from unnest(changes)
$$;
select sync.publish_changes('app.own', 'u', 'own', 'own', builder => 'app.own_events');
insert into app.own values (1, 'own');
insert into app.own values (2, 'own'), (3, 'own2');
select test.fails('a draft for another user', $$insert into app.own values (66, 'own'); set constraints all immediate$$, '22000');
select test.fails('nor among several', $$insert into app.own values (4, 'own'), (66, 'own'); set constraints all immediate$$, '22000');
create or replace function app.own_events(changes sync.change[]) returns setof sync.draft language sql as $$
    select user_id, false, id, case when id <> '67' then 'own.changed' end, '{}'::jsonb from unnest(changes)
$$;
select test.fails('a draft without a name', $$insert into app.own values (67, 'own'); set constraints all immediate$$, '22000');
select test.fails('nor is one among several', $$insert into app.own values (4, 'own'), (67, 'own'); set constraints all immediate$$, '22000');
create function app.odd_events(changes sync.change[]) returns setof sync.draft language sql as $$ select user_id, false, id, 'odd', case id when '1' then '[1]'::jsonb when '2' then '"s"' when '3' then 'null' else '{}' end from unnest(changes) $$;
create table app.odd_data (id int primary key, u text);
select sync.publish_changes('app.odd_data', 'u', 'odd_data', 'odd', builder => 'app.odd_events');
select test.fails('data that is no object', format('insert into app.odd_data values (%s, ''own''); set constraints all immediate', n), '22000') from generate_series(1, 3) as n;
insert into app.odd_data values (4, 'own');
select test.is('an empty object is one', (select data from sync.event where topic = 'odd_data'), '{"_sync": {"k": null, "o": 1}}'::jsonb);
select sync.unpublish_changes('app.odd_data');
select test.is('refused altogether', test.top('own', 'own') || ' ' || test.top('another', 'own'), '2 0');
set sync.key = '';
select set_config('sync.key', repeat('ü', 100), false) \g /dev/null
insert into app.own values (10, 'own');
select test.is('a key of 200 bytes', (select octet_length(data #>> '{_sync,k}') from sync.event where user_id = 'own' and o = 3), 200);
select set_config('sync.key', repeat('ü', 100) || 'k', false) \g /dev/null
select test.fails('one of 201', $$insert into app.own values (11, 'own'); set constraints all immediate$$, '22001');
reset sync.key;

create table app.plain (id int, u text);
create table app.wide (id int primary key, u text);
do $$ begin for n in 1..120 loop execute format('alter table app.wide add c_%s int default %s', n, n); end loop; end $$;
select sync.publish_changes('app.wide', 'u', 'wide', 'wide');
insert into app.wide values (1, 'wide');
select test.is('120 columns', (select (data ->> 'c120') || ' ' || (select count(*) from jsonb_object_keys(data)) from sync.event where topic = 'wide'), '120 123');
create view app.a_view as select * from app.plain;
create table app.part (id int primary key, u text) partition by range (id);
create table app.part1 partition of app.part for values from (0) to (10);
create table app.child () inherits (app.wide);
create unlogged table app.unlogged (id int primary key, u text);
create temp table temporary (id int primary key, u text);
create table app.rls (id int primary key, u text); alter table app.rls enable row level security;
create foreign data wrapper test_fdw; create server test_server foreign data wrapper test_fdw;
create foreign table app.abroad (id int, u text) server test_server;
select test.fails('not ' || relation, format('select sync.publish_changes(%L, ''u'', ''t'', ''t'')', relation), state) from (values
    ('app.plain', '22023'), ('app.a_view', '42809'), ('app.part', '42809'), ('app.part1', '42809'), ('app.child', '42809'), ('app.unlogged', '42809'),
    ('temporary', '42809'), ('app.rls', '42809'), ('app.abroad', '42809'), ('sync.event', '42809'), ('app.missing', '42P01')) as t(relation, state);
drop table app.child;
select test.fails('topic ' || topic, format('select sync.publish_changes(''app.weight'', ''owner'', %L, ''w'')', topic), '22023') from unnest('{Weight,a.b,"",ü}'::text[]) as topic;
select test.fails('an unknown column', $$select sync.publish_changes('app.weight', 'nobody', 'weight', 'w')$$, '42703');
create subscription test_sub connection 'dbname=nowhere' publication p with (connect = false);
insert into pg_subscription_rel values ((select oid from pg_subscription), 'app.weight'::regclass, 'i', null);
select test.fails('not the target of a subscription', $$select sync.publish_changes('app.weight', 'owner', 'weight', 'weight')$$, '42809');
select test.is('nor once published', (select count(*) from sync.check_published() where problem like '%subscription%'), 1::bigint);
delete from pg_subscription_rel; alter subscription test_sub disable; alter subscription test_sub set (slot_name = none); drop subscription test_sub;

grant create, usage on schema app to carillon_test_app;
set role carillon_test_app;
create table app.mine (id int primary key, u text);
reset role;
grant usage on schema test to public; grant execute on all functions in schema test to public;
set role carillon_test_app;
select test.fails('an owner who is no member of carillon_owner', $$select sync.publish_changes('app.mine', 'u', 'mine', 'mine')$$, '42501');
reset role;
grant carillon_owner to carillon_test_app;
set role carillon_test_app;
select sync.publish_changes('app.mine', 'u', 'mine', 'mine');
select test.fails('a member, but not the table''s owner', $$select sync.publish_changes('app.weight', 'owner', 'weight', 'weight')$$, '42501');
reset role;
grant usage on schema app, care to carillon_test_writer;
grant select, insert, update, delete on app.mine, care.dose_occurrence to carillon_test_writer;
set role carillon_test_writer;
insert into app.mine values (1, 'mine');
insert into care.dose_occurrence (id, user_id, scheduled_at) values ('w', 'writer', '2025-11-20 08:00+00');
update care.dose_occurrence set status = 'taken' where id = 'w';
select test.fails('a writer may not read the outbox', 'select * from sync.event', '42501');
select test.fails('nor call its functions', $$select * from sync.positions('{}', '{}')$$, '42501');
reset role;
select test.is('a member''s table is told', test.events('mine', 'mine'), 'mine.created 1');
select test.is('a writer without rights on sync is told', test.events('writer', 'adherence'), 'occurrence.created w, adherence.summary_updated 2025-11-20, occurrence.updated w, adherence.summary_updated 2025-11-20');
revoke carillon_owner from carillon_test_app;

set role carillon_hub;
select test.fails('hub: no table', 'select * from sync.event', '42501');
select test.fails('hub: no dose', 'select * from care.dose_occurrence', '42501');
select test.fails('hub: no publishing', $$select sync.publish_changes('app.mine', 'u', 'mine', 'mine')$$, '42501');
select test.fails('hub: no new epoch', 'select sync.new_epoch()', '42501');
select test.fails('hub: no table of its own', 'create table sync.x ()', '42501');
select test.is('hub: its functions', (select count(*) > 0 from sync.tail('1:1:', null, null, null, 10)) and (select count(*) = 1 from sync.hub_hello())
    and (select count(*) = 0 from sync.replay('x', 'y', 0, 10)) and sync.repair_after_restore() = 0 and sync.retain(7, 10) = 0 and (select count(*) = 0 from sync.check_published()), true);
begin isolation level repeatable read read only;
select sync.open_bulk('1:1:', pg_current_snapshot()) \g /dev/null
fetch 3 from bulk \g /dev/null
\set fetched :ROW_COUNT
commit;
select test.is('and the cursor that one of them opens', :fetched, 3);
reset role;
select test.is('the hub may execute these and no others; three are everybody''s, and refuse it', (select string_agg(p.proname, ' ' order by p.proname) from pg_proc as p where p.pronamespace in ('sync'::regnamespace, 'care'::regnamespace)
    and p.proowner = 'carillon_owner'::regrole and has_function_privilege('carillon_hub', p.oid, 'execute')), 'adherence_day adherence_export adherence_history adherence_month adherence_occurrence adherence_stats announce append_feedback apply apply_all apply_by_app check_published claim_pushes claim_pushes clock hub_hello job job_lag logged_events medication medications news open_bulk positions preview_reminder publish_changes push_state read_log refuse refuse_strangers reminder reminders repair_after_restore replay retain revocations schedule schedules settings settle_pushes stack stacks tail topics unpublish_changes');
drop schema app cascade;
select sync.withdraw(null);
drop owned by carillon_test_app, carillon_test_writer;
drop role carillon_test_app, carillon_test_writer;
select test.is('camel case', (select string_agg(sync.camel(n), ' ') from unnest('{taken_at,id,_x_y,a__b,A_b,__}'::text[]) as n), 'takenAt id xY aB AB __');
