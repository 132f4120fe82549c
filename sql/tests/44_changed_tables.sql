-- Tables that are secured, swapped, renamed or changed after they were published.
create schema app;
drop role if exists carillon_test_plain;

-- Row level security after publishing: loud, and found.
create table app.secured (id int primary key, u text, v int);
insert into app.secured values (1, 'secured', 1);
create role carillon_test_plain;
alter table app.secured owner to carillon_test_plain;
select sync.publish_changes('app.secured', 'u', 'secured', 'secured');
alter table app.secured enable row level security;
select test.fails('a policy that would hide rows fails the commit', $$update app.secured set v = 2; set constraints all immediate$$, '42501');
select test.is('and is found', test.problems(), 'app.secured: row level security would hide its rows from carillon_owner');
alter table app.secured force row level security;
set row_security = off;
select test.fails('whatever the writer has set', $$update app.secured set v = 2; set constraints all immediate$$, '42501');
reset row_security;
alter role carillon_owner bypassrls;
update app.secured set v = 20;
select test.is('unless carillon_owner may bypass it', test.told('secured', 'secured') || test.problems(), 'secured.updated {"v": 20, "id": 1, "rev": null}');
alter role carillon_owner nobypassrls;
alter table app.secured no force row level security;
grant carillon_test_plain to carillon_owner;
update app.secured set v = 21;
select test.is('or is a member of its owner', test.told('secured', 'secured', 1) || test.problems(), 'secured.updated {"v": 21, "id": 1, "rev": null}');
revoke carillon_test_plain from carillon_owner;
delete from sync.event where user_id = 'secured';
delete from sync.stream where user_id = 'secured';
alter table app.secured disable row level security;
update app.secured set v = 3;
select test.is('without it, events again', test.told('secured', 'secured'), 'secured.updated {"v": 3, "id": 1, "rev": null}');
alter table app.secured owner to carillon_owner;
alter table app.secured enable row level security;
update app.secured set v = 4;
select test.is('carillon_owner''s own table is read past it', (select name from sync.event where user_id = 'secured' and o = 2), 'secured.updated');
drop table app.secured;
select sync.withdraw(null);

-- Swapped, renamed, changed.
create table app.swap (id int primary key, u text, v int);
select sync.publish_changes('app.swap', 'u', 'swap', 'swap');
insert into app.swap values (1, 'swap', 1);
create table app.swap_new (id int primary key, u text, v int);
insert into app.swap_new select id, u, v + 100 from app.swap;
alter table app.swap rename to swap_old;
select test.is('a renamed table is found', test.problems(), 'app.swap_old: it was published as app.swap: publish it again');
update app.swap_old set v = 2;
select test.is('and told as it is', test.told('swap', 'swap', 1), 'swap.updated {"v": 2, "id": 1, "rev": null}');
alter table app.swap_new rename to swap;
select test.is('a swapped one too', test.problems(), 'app.swap_old: it was published as app.swap, which is another table now: publish that one, and unpublish this one or publish it again');
update app.swap_old set v = 3;
select test.is('told of the table that was published', test.told('swap', 'swap', 2), 'swap.updated {"v": 3, "id": 1, "rev": null}');
select test.is('the new one is published in its place', (select sync.publish_changes('app.swap', 'u', 'swap', 'swap')::text), '');
select sync.unpublish_changes('app.swap_old');
select test.is('nothing more to complain of', test.problems(), '');
update app.swap set v = 200;
update app.swap_old set v = 300;
select test.is('and tells', test.told('swap', 'swap', 3), 'swap.updated {"v": 200, "id": 1, "rev": null}');
begin;
alter table app.swap rename to swap_away;
create table app.swap (like app.swap_away including all);
drop table app.swap_away;
commit;
select test.is('dropped, and another in its place', test.problems(), 'app.swap: it was dropped, and another has its name: publish that one, and then select sync.withdraw(null)');
select sync.publish_changes('app.swap', 'u', 'swap', 'swap');
select sync.withdraw(null);
insert into app.swap values (5, 'swap', 5);
select test.is('which tells', test.told('swap', 'swap', 4), 'swap.created {"v": 5, "id": 5, "rev": null}');
create schema elsewhere;
grant usage on schema elsewhere to carillon_owner;
alter table app.swap set schema elsewhere;
select test.is('another schema', test.problems(), 'elsewhere.swap: it was published as app.swap: publish it again');
select sync.publish_changes('elsewhere.swap', 'u', 'swap', 'swap');
select test.is('published again', test.problems(), '');
drop schema elsewhere cascade;
select sync.withdraw(null);

create table app.grows (id int primary key, u text, v int);
select sync.publish_changes('app.grows', 'u', 'grows', 'grows');
insert into app.grows values (1, 'grows', 1);
alter table app.grows alter id type bigint;
insert into app.grows values (5000000000, 'grows', 1);
update app.grows set v = 2;
delete from app.grows where id > 1;
select test.is('an id that grew: events go on', test.events('grows', 'grows') || test.problems(), 'grows.created 1, grows.created 5000000000, grows.updated 1, grows.updated 5000000000, grows.deleted 5000000000');
alter table app.grows alter id type text;
select test.is('one of another kind is found', test.problems(), 'app.grows: column id is of type text now: publish the table again');
select sync.publish_changes('app.grows', 'u', 'grows', 'grows');
update app.grows set v = 3;
select test.is('and published again', test.events('grows', 'grows', 5) || test.problems(), 'grows.updated 1');
alter table app.grows alter v type jsonb using to_jsonb(v);
select test.is('a column of another kind is found', test.problems(), 'app.grows: a column has another type: publish the table again');
select sync.publish_changes('app.grows', 'u', 'grows', 'grows');
create table app.longer (id varchar(3) primary key, u text, v int);
select sync.publish_changes('app.longer', 'u', 'longer', 'longer');
alter table app.longer alter id type varchar(30);
insert into app.longer values ('abcdef', 'longer', 1);
alter table app.longer alter id type text;
update app.longer set v = 2;
select test.is('a text that grew', test.events('longer', 'longer') || test.problems(), 'longer.created abcdef, longer.updated abcdef');
alter table app.longer rename id to code;
select test.is('a renamed id is found', test.problems(), 'app.longer: column id is gone: publish the table again');
set role carillon_owner;
set client_min_messages = error;
\ir ../functions/80_publish_care.sql
reset client_min_messages;
reset role;
select test.is('and stops no migrate', (select count(*) from sync.published where relation = 'app.longer'::regclass), 1::bigint);
select sync.publish_changes('app.longer', 'u', 'longer', 'longer', id_column => 'code');
update app.longer set v = 3;
select test.is('published again', test.events('longer', 'longer', 2) || test.problems(), 'longer.updated abcdef');
alter table app.longer drop constraint longer_pkey;
select test.is('an id that is not unique any more is found', test.problems(), 'app.longer: column code needs to be not null and to have a unique index of its own');
drop table app.longer;
select sync.withdraw(null);

-- A column that a writer's statement needs no more, and the functions do.
create table app.columns (id int primary key, u text, grams int, n int);
select sync.publish_changes('app.columns', 'u', 'columns', 'columns', columns => '{grams}');
insert into app.columns values (1, 'columns', 1, 1);
alter table app.columns rename n to count;
update app.columns set count = 2;
select test.is('a column that is not sent', test.events('columns', 'columns', 1) || test.problems(), 'columns.updated 1');
begin;
alter table app.columns rename grams to weight;
\set ON_ERROR_STOP off
\o /dev/null
savepoint before;
update app.columns set weight = 2;
\set message :LAST_ERROR_MESSAGE
\set state :LAST_ERROR_SQLSTATE
rollback to before;
insert into app.columns (id, u) values (2, 'columns');
\set inserting :LAST_ERROR_MESSAGE
rollback to before;
delete from app.columns;
\set deleting :LAST_ERROR_MESSAGE
rollback;
begin;
update app.columns set grams = 3;
alter table app.columns rename grams to weight;
commit;
\set committing :LAST_ERROR_MESSAGE
\o
\set ON_ERROR_STOP on
select test.is('a renamed one: the writer is told by whom, and of what', :'message'::text, 'Carillon publishes the table app.columns, of which the column grams is gone');
select test.is('as of a column that is missing', :'state'::text, '42703');
select test.is('at each kind of write', :'inserting'::text || :'deleting'::text, repeat('Carillon publishes the table app.columns, of which the column grams is gone', 2));
select test.is('and at a commit', :'committing'::text, 'Carillon publishes the table app.columns, of which the column grams is gone');
alter table app.columns rename u to person;
select test.fails('the user''s', 'update app.columns set grams = 4', '42703');
alter table app.columns rename to columns_now;
select test.fails('in a table that was renamed too', 'update app.columns_now set grams = 4', '42703');
select sync.publish_changes('app.columns_now', 'person', 'columns', 'columns');
update app.columns_now set grams = 4;
select test.is('published again', test.events('columns', 'columns', 2) || test.problems(), 'columns.updated 1');
alter table app.columns_now drop count;
select test.fails('a dropped one', 'update app.columns_now set grams = 5', '42703');
drop table app.columns_now;
select sync.withdraw(null);

create collation app.any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
create table app.collated (id text primary key, u text, v int, rev int default 1);
select sync.publish_changes('app.collated', 'u', 'collated', 'collated');
alter table app.collated alter id type text collate app.any_case;
select test.is('an id of which others are equal is found', test.problems(), 'app.collated: column id is of type text collate app.any_case now: publish the table again');
select sync.publish_changes('app.collated', 'u', 'collated', 'collated');
insert into app.collated values ('a', 'collated', 1);
update app.collated set id = 'A';
update app.collated set v = 2;
select test.is('and published again', test.events('collated', 'collated') || test.problems(), 'collated.created a, collated.deleted a, collated.created A, collated.updated A');
alter table app.collated alter rev type text;
select test.is('a rev that is no integer is found', test.problems(), 'app.collated: rev column rev needs to be an integer');
create domain app.small as smallint;
create domain app.smaller as app.small;
alter table app.collated alter rev drop default;
alter table app.collated alter rev type app.smaller using rev::int;
select test.is('a domain of a domain is one', test.problems(), 'app.collated: a column has another type: publish the table again');
select test.is('and published', (select sync.publish_changes('app.collated', 'u', 'collated', 'collated', rev_column => 'rev')::text), '');
update app.collated set v = 3, rev = 7;
select test.is('with its rev', test.told('collated', 'collated', 4), 'collated.updated {"v": 3, "id": "A", "rev": 7}');
drop table app.collated;
select sync.withdraw(null);

create table app.parent (id int not null, u text, v int) partition by range (id);
create table app.heir (id int not null, u text, v int);
create table app.change (id int primary key, u text, v int);
select sync.publish_changes('app.change', 'u', 'change', 'change');
select test.is('fine so far', test.problems(), '');
alter table app.parent attach partition app.change for values from (0) to (1000);
select test.is('ATTACH PARTITION is found', test.problems(), 'app.change: it is a partition');
alter table app.parent detach partition app.change;
alter table app.heir inherit app.change;
select test.is('INHERIT is found', test.problems(), 'app.change: it takes part in inheritance');
alter table app.heir no inherit app.change;
alter table app.change set unlogged;
select test.is('SET UNLOGGED is found', test.problems(), 'app.change: it is unlogged: a crash empties it without an event');
alter table app.change set logged;
alter table app.change disable trigger user;
select test.is('DISABLE TRIGGER is found', (select count(*) from sync.check_published()), 4::bigint);
alter table app.change enable trigger user;
select test.is('ENABLE without ALWAYS too', (select count(*) from sync.check_published()), 4::bigint);
select sync.publish_changes('app.change', 'u', 'change', 'change');
create or replace trigger sync_update after update of u on app.change for each statement execute function sync.refuse_truncate();
alter table app.change enable always trigger sync_update;
select test.is('another trigger of the name too', test.problems(), 'app.change: trigger sync_update is missing, disabled or another: publish the table again');
drop trigger sync_update on app.change;
select sync.publish_changes('app.change', 'u', 'change', 'change');
alter trigger sync_insert on app.change rename to renamed;
alter trigger sync_truncate on app.change rename to sync_;
select test.is('a renamed trigger is found', (select count(*) from sync.check_published()), 2::bigint);
select sync.publish_changes('app.change', 'u', 'change', 'change');
select test.is('and is not there twice', (select string_agg(tgname, ' ' order by tgname) from pg_trigger where tgrelid = 'app.change'::regclass) || test.problems(), 'sync_delete sync_insert sync_truncate sync_update');
alter trigger sync_delete on app.change rename to renamed;
select sync.unpublish_changes('app.change');
select test.is('nor stays', (select count(*) from pg_trigger where tgrelid = 'app.change'::regclass), 0::bigint);
select sync.publish_changes('app.change', 'u', 'change', 'change');
revoke select on app.change from carillon_owner;
alter table app.change owner to carillon_test_plain;
select test.is('a right taken away is found', test.problems(), 'app.change: carillon_owner may not read the table');
create function app.change_events(changes sync.change[]) returns setof sync.draft language sql as $$ select null::sync.draft where false $$;
select sync.publish_changes('app.change', 'u', 'change', 'change', builder => 'app.change_events');
drop function app.change_events;
select test.is('a builder that is gone is found', test.problems(), 'app.change: its builder app.change_events is gone: publish the table again');
drop table app.change;
select sync.withdraw(null);

create table app.ends (id int primary key, u text);
select sync.publish_changes('app.ends', 'u', 'ends', 'ends');
begin;
insert into app.ends values (1, 'ends');
select sync.unpublish_changes('app.ends');
insert into app.ends values (2, 'ends');
commit;
select test.is('what was written before the end is told', test.events('ends', 'ends'), 'ends.created 1');

-- What the check costs: it runs where live events are read. Catalogs are read by their keys, however large they are.
create domain app.checked_id as int;
create table app.checked (id app.checked_id primary key, u text, v int);
select sync.publish_changes('app.checked', 'u', 'checked', 'checked');
create table test.catalog as select oid from pg_class where relnamespace = 'pg_catalog'::regnamespace and relkind in ('r', 'i');
create function test.catalog_reads() returns bigint language sql volatile as $$
    select sum(pg_stat_get_xact_blocks_fetched(oid))::bigint from test.catalog
$$;
-- How many blocks one check reads. The first of three fills caches.
create function test.check_reads() returns bigint language plpgsql as $$
declare
    before bigint;
    least bigint;
begin
    for attempt in 1..3 loop
        before := test.catalog_reads();
        perform count(*) from sync.check_published();
        least := least(least, test.catalog_reads() - before);
    end loop;
    return least;
end
$$;
begin;
create table test.reads as select test.check_reads() as of_few;
do $$ begin for n in 1..2000 loop execute format('create table app.other_%s ()', n); end loop; end $$;
select test.is('it reads no more with 2,000 other tables', (select greatest(test.check_reads() - of_few, 10) from test.reads), 10::bigint);
rollback;

drop schema app cascade;
select sync.withdraw(null);
drop role carillon_test_plain;
select test.is('nothing touched is left', (select count(*) from sync.touched) + (select count(*) from sync.ticket), 0::bigint);
