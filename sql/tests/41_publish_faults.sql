-- What goes wrong in publishing: the product's own tables, replacements, names of any kind, what earlier versions left.
create schema app;

-- The product's own tables.
select test.fails('not published by others: ' || t, format('select sync.publish_changes(%L, ''user_id'', ''mine'', ''mine'')', t), '42809') from unnest('{care.dose_occurrence,care.reminder_rule,care.reminder_occurrence,care.schedule,care.day_summary,care.user_settings,care.product}'::text[]) as t;
select test.fails('nor unpublished', $$select sync.unpublish_changes('care.dose_occurrence')$$, '42809');
select test.fails('nor withdrawn', $$select sync.withdraw('care.reminder_rule')$$, '42809');
create table app.dose_occurrence (id int primary key, user_id text);
select sync.publish_changes('app.dose_occurrence', 'user_id', 'own_doses', 'own');
insert into app.dose_occurrence values (1, 'own-doses');
select test.is('a table of one''s own of such a name is', test.told('own-doses', 'own_doses'), 'own.created {"id": 1, "rev": null}');
select sync.unpublish_changes('app.dose_occurrence');
update sync.published set topic = 'weight', builder = 'care.reminder_events' where relation = 'care.dose_occurrence'::regclass;
select test.is('one published otherwise is found', test.problems(), 'care.dose_occurrence: it is published otherwise than this product does: run carillon migrate');
set role carillon_owner;
\ir ../functions/80_publish_care.sql
reset role;
select test.is('and put right by migrate', test.problems(), '');
insert into care.dose_occurrence (id, user_id, scheduled_at, local_date) values ('shipped', 'shipped', now(), '2025-11-20');
select test.is('with its events', test.events('shipped', 'adherence'), 'occurrence.created shipped, adherence.summary_updated 2025-11-20');
alter table care.dose_occurrence disable trigger all;
alter table sync.ticket disable trigger flush;
delete from sync.published where relation = 'care.reminder_rule'::regclass;
select test.is('switched off, or gone: found', test.problems(), 'care.dose_occurrence: trigger sync_delete is missing, disabled or another: publish the table again; care.dose_occurrence: trigger sync_insert is missing, disabled or another: publish the table again; care.dose_occurrence: trigger sync_truncate is missing, disabled or another: publish the table again; care.dose_occurrence: trigger sync_update is missing, disabled or another: publish the table again; care.reminder_rule: it is not published: run carillon migrate; sync.ticket: its trigger flush is missing, disabled or another: run carillon migrate');
set role carillon_owner;
\ir ../functions/20_sync_flush.sql
\ir ../functions/59_care_triggers.sql
\ir ../functions/80_publish_care.sql
reset role;
alter table care.dose_occurrence enable trigger all;
set role carillon_owner;
\ir ../functions/59_care_triggers.sql
\ir ../functions/80_publish_care.sql
reset role;
select test.is('and put right', test.problems(), '');
alter table sync.event set unlogged;
select test.is('a log that a crash empties is found', test.problems(), 'sync.event: it is unlogged: a crash empties it: alter table … set logged');
alter table sync.event set logged;

-- Changed and dropped in one transaction.
create table app.gone (id int primary key, user_id text);
select sync.publish_changes('app.gone', 'user_id', 'gone', 'gone');
select test.fails('the commit says what to do first', 'insert into app.gone values (1, ''gone''); delete from app.gone; drop table app.gone; set constraints all immediate', '42P01');
select sync.unpublish_changes('app.gone');
drop table app.gone;

-- A replacement is told.
create table app.told (id int primary key, u text, v int);
\setenv CONNECTION :connection
select sync.publish_changes('app.told', 'u', 'told', 'told');
\set notice `PGOPTIONS= psql -XqAt -d "$CONNECTION" -c "select sync.publish_changes('app.told', 'u', 'told', 'told')" 2>&1 | grep -c NOTICE`
select test.is('the same again: no notice', :'notice'::text, '0');
\set notice `PGOPTIONS= psql -XqAt -d "$CONNECTION" -c "select sync.publish_changes('app.told', 'u', 'other', 'told')" 2>&1 | grep NOTICE`
select test.is('another topic: a notice', :'notice'::text, 'NOTICE:  app.told was published already, on topic told as told.* by ' || builder || '; from now on it is on topic other as told.* by ' || builder) from sync.published where relation = 'app.told'::regclass;
create table app.uuid_only (uuid uuid primary key, u text);
\set notice `PGOPTIONS= psql -XqAt -d "$CONNECTION" -c "select sync.publish_changes('app.uuid_only', 'u', 'told', 'told')" 2>&1`
select test.is('a table without an id is told how', :'notice'::text like '%has no column id%HINT:  Name a column that identifies a row: id_column => ''…''. There is uuid.%', true);
create table app.daily (u text, day date, grams int, primary key (u, day));
\set notice `PGOPTIONS= psql -XqAt -d "$CONNECTION" -c "select sync.publish_changes('app.daily', 'u', 'daily', 'daily')" 2>&1`
select test.is('a key of several columns is told how', :'notice'::text like '%has no column id%HINT:  The key (u, day) identifies a row by several columns together%Add one, and name it: alter table app.daily add column row_id bigint generated always as identity unique; id_column => ''row_id''.%', true);
\set notice `PGOPTIONS= psql -XqAt -d "$CONNECTION" -c "select sync.publish_changes('app.daily', 'u', 'daily', 'daily', id_column => 'day')" 2>&1`
select test.is('so is one of its columns', :'notice'::text like '%column day needs to be not null and to have a unique index of its own%Add one, and name it: alter table app.daily%', true);
alter table app.daily add column row_id bigint generated always as identity unique;
select sync.publish_changes('app.daily', 'u', 'daily', 'daily', id_column => 'row_id');
insert into app.daily values ('daily', '2026-03-04', 70);
select test.is('and doing so helps', test.told('daily', 'daily'), 'daily.created {"id": 1, "day": "2026-03-04", "rev": null, "grams": 70}');
drop table app.daily;
select sync.withdraw(null);

-- A role without the grant.
drop role if exists carillon_test_stranger;
create role carillon_test_stranger;
grant usage on schema app to carillon_test_stranger;
create table app.theirs (id int primary key, u text);
alter table app.theirs owner to carillon_test_stranger;
\set notice `PGOPTIONS= psql -XqAt -d "$CONNECTION" -c "set role carillon_test_stranger" -c "select sync.publish_changes('app.theirs', 'u', 'theirs', 'theirs')" 2>&1`
select test.is('an owner without the grant is told which', :'notice'::text like '%the role carillon_test_stranger may not publish tables: it is not a member of carillon_owner%HINT:  A superuser types: grant carillon_owner to carillon_test_stranger.%', true);
\set notice `PGOPTIONS= psql -XqAt -d "$CONNECTION" -c "set role carillon_test_stranger" -c "select sync.unpublish_changes('app.theirs')" 2>&1`
select test.is('to end it, too', :'notice'::text like '%grant carillon_owner to carillon_test_stranger%', true);
select test.is('and may do nothing else there', string_agg(f.oid::regprocedure::text, ', ' order by f.oid::regprocedure::text), 'sync.publish_changes(regclass,name,text,text,name,name,name[],text,name,text,name[]), sync.refuse_strangers(), sync.unpublish_changes(regclass)')
from pg_proc as f where f.pronamespace = 'sync'::regnamespace and has_function_privilege('carillon_test_stranger', f.oid, 'execute');
select test.is('nor read or write', count(*), 0::bigint)
from pg_class as c where c.relnamespace in ('sync'::regnamespace, 'care'::regnamespace) and c.relkind in ('r', 'v', 'S', 'm') and case when c.relkind = 'S' then has_sequence_privilege('carillon_test_stranger', c.oid, 'usage, select, update') else has_any_column_privilege('carillon_test_stranger', c.oid, 'select, insert, update, references') end;
select test.is('nor make anything', has_schema_privilege('carillon_test_stranger', 'sync', 'create'), false);
drop table app.theirs;
revoke usage on schema app from carillon_test_stranger;
drop role carillon_test_stranger;
select test.fails('no such builder', $$select sync.publish_changes('app.told', 'u', 'told', 'told', builder => 'app.nothing')$$, '42883');
select test.fails('none of sync''s', $$select sync.publish_changes('app.told', 'u', 'told', 'told', builder => 'sync.drafts')$$, '42883');

-- Columns of any name.
create table app.names (id int primary key, "user" text, n int, o int, t text, v text, r int, c text, p text, op text, k text, "new" int, "old" int, new_rows int, old_rows int, changes text, source int, user_id text, context text, xid int, topic text, found bool, tg_op text, "row" text, draft text, id_1 int, named text, "$1" text, "Mixed Case" text, "ünï" text);
select sync.publish_changes('app.names', 'user', 'names', 'name');
insert into app.names (id, "user", n, o) values (1, 'names', 1, 2);
update app.names set n = 2;
update app.names set o = 3, "Mixed Case" = 'x', "ünï" = 'y';
update app.names set id = 2;
delete from app.names;
select test.is('columns of any name', (select string_agg(name || ' ' || (data ->> 'id') || coalesce(' ' || (data ->> 'n') || (data ->> 'o'), ''), ', ' order by o) from sync.event where user_id = 'names'), 'name.created 1 12, name.updated 1 22, name.updated 1 23, name.deleted 1, name.created 2 23, name.deleted 2');
create schema "An App.of=Ours";
create table "An App.of=Ours"."The ""Table"".n" ("o" text primary key, "n" text, rev int);
select sync.publish_changes('"An App.of=Ours"."The ""Table"".n"', 'n', 'quoted', 'q', id_column => 'o');
insert into "An App.of=Ours"."The ""Table"".n" values ('1', 'quoted', 1);
update "An App.of=Ours"."The ""Table"".n" set rev = 2;
select test.is('tables and schemas of any name', test.told('quoted', 'quoted'), 'q.created {"id": "1", "rev": 1}; q.updated {"id": "1", "rev": 2}');
drop schema "An App.of=Ours" cascade;
select sync.withdraw(null);

create table app."%s %1$s %% 100% ab3456789012345678901234567890123456789012345678" ("%I" int primary key, "%s" text, "a'b""c\d" int, "truncated" boolean, e int, g int, d int, came int, balance int, contexts text, excluded int, summary int, data int, name int, "$sql$" int, "D" int, "select" int, "$_1" int, "ñandú_ñ" int, "x12345678901234567890123456789012345678901234567890123456789012" int, hardest int, one int, whole int, "current_user" int, "id" text, "rev" int, "Rev" int, "iD" int, used int, col int, present int, ctid_ int, "table" text, "_" int);
select sync.publish_changes(oid, '%s', 'percents', 'p', id_column => '%I') from pg_class where relname like '%100\% ab%' and relkind = 'r';
do $$ declare t text := (select oid::regclass from pg_class where relname like '%100\% ab%' and relkind = 'r');
begin
    execute 'insert into ' || t || ' ("%I", "%s") values (1, ''percent''), (2, ''percent'')'; set constraints all immediate;
    execute 'update ' || t || ' set e = 2'; set constraints all deferred; set constraints all immediate;
    execute 'update ' || t || ' set g = 1, rev = 2 where "%I" = 1'; set constraints all deferred; set constraints all immediate;
    execute 'delete from ' || t || ' where "%I" = 1';
end $$;
select test.is('names that are formats, and as long as can be', test.events('percent', 'percents') || test.problems(), 'p.created 1, p.created 2, p.updated 1, p.updated 2, p.updated 1, p.deleted 1');

-- Names that would end what is generated.
create table app."odd $recorder$" (id int primary key, u text);
select test.fails('a table of such a name', $$select sync.publish_changes('app."odd $recorder$"', 'u', 'odd', 'odd')$$, '22023');
create table app.odd (id int primary key, u text, "a$builder$" int);
select test.fails('a column', $$select sync.publish_changes('app.odd', 'u', 'odd', 'odd')$$, '22023');

-- Passed over by the first migration that asked for types.
create table app.passed (id int primary key, u text);
select sync.publish_changes('app.passed', 'u', 'passed', 'passed');
update sync.published set id_type = null, hardest = null where relation = 'app.passed'::regclass;
select test.is('functions of an earlier version are found', test.problems(), 'app.passed: its functions are of an earlier version: publish the table again');
select sync.publish_changes('app.passed', 'u', 'passed', 'passed');
select test.is('and put right', test.problems(), '');
select test.open('holder', :'connection') \g /dev/null
select dblink_exec('holder', 'begin'), dblink_exec('holder', 'lock table app.passed in access exclusive mode') \g /dev/null
set lock_timeout = '100ms';
select test.fails('a lock that cannot be had stops it', 'select sync.regenerate()', '55P03');
reset lock_timeout;
select dblink_exec('holder', 'rollback') \g /dev/null
begin;
lock table sync.published in share row exclusive mode;
select dblink_send_query('holder', $$select sync.unpublish_changes('app.passed')::text$$) \g /dev/null
select test.is('an unpublisher waits', test.wait_blocked('holder'), 'blocked');
select test.is('and holds no table that a publisher needs', (select count(*) from pg_locks where relation = 'app.passed'::regclass and mode = 'AccessExclusiveLock'), 0::bigint);
commit;
select test.is('and goes on', test.outcome('holder'), 'done');
select dblink_disconnect('holder') \g /dev/null

-- An installation from before: names without a number, rows recorded by the functions of then.
create table app.former (id int primary key, u text, v int, rev int default 1);
select sync.publish_changes('app.former', 'u', 'former', 'former');
do $$
declare p sync.published;
begin
    select * into p from sync.published where relation = 'app.former'::regclass;
    execute format('alter function sync.%I() rename to record_app_former_abcdef', p.recorder);
    execute format('alter function %s(sync.change[]) rename to build_app_former_abcdef', p.builder);
    update sync.published set recorder = 'record_app_former_abcdef', builder = 'sync.build_app_former_abcdef', id_type = null where source = p.source;
end
$$;
set role carillon_owner;
\ir ../functions/80_publish_care.sql
reset role;
insert into app.former values (1, 'former', 1), (2, 'former', 1);
begin;
insert into sync.touched (xid, source, user_id, id, topic, op, rev) select pg_current_xact_id(), source, 'former', '1', 'former', 'U', 1 from sync.published where relation = 'app.former'::regclass;
insert into sync.ticket values (pg_current_xact_id());
update app.former set v = 2, rev = rev + 1;
commit;
delete from app.former where id = 1;
select test.is('goes on under its names', test.events('former', 'former') || test.problems(), 'former.created 1, former.created 2, former.updated 1, former.updated 2, former.deleted 1');
select sync.publish_changes('app.former', 'u', 'former', 'later');
update app.former set v = 5;
select test.is('also when published again', test.events('former', 'former', 5), 'later.updated 2');
select sync.unpublish_changes('app.former');
select test.is('and leaves nothing behind', to_regprocedure('sync.record_app_former_abcdef()') is null and to_regprocedure('sync.build_app_former_abcdef(sync.change[])') is null, true);

drop schema app cascade;
select sync.withdraw(null);
select test.is('nothing touched is left', (select count(*) from sync.touched) + (select count(*) from sync.ticket), 0::bigint);
