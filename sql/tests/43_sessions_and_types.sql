-- Writers' sessions with settings of their own, and columns of any type.
create schema app;

-- Sessions with settings of their own, and ids of any type.
create type app.kind as enum ('x', 'y');
create domain app.code as varchar(20) check (value <> 'never');
create domain app.long_code as app.code;
create collation app.any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
create table app."Odd One" ();
-- A locale in which money has another text, where this server has one.
create function test.other_locale() returns text language plpgsql as $$
declare
    other text;
begin
    foreach other in array array(select collname from pg_collation where collprovider = 'c' and collname like '%.utf8' order by 1) || '{de_DE.UTF-8,fr_FR.UTF-8,ja_JP.UTF-8}' loop
        begin
            perform set_config('lc_monetary', other, true);
            if 1234.5::money::text <> '$1,234.50' then return other; end if;
        exception when others then null;
        end;
    end loop;
    return 'C';
end
$$;
create table test.odd_settings as
select s.name, s.setting from (values ('datestyle', 'SQL, DMY'), ('timezone', 'Asia/Kolkata'), ('intervalstyle', 'iso_8601'), ('extra_float_digits', '-15'),
    ('bytea_output', 'escape'), ('quote_all_identifiers', 'on'), ('array_nulls', 'off'), ('search_path', 'app, sync, care, public'), ('xmlbinary', 'hex'), ('xmloption', 'document'),
    ('standard_conforming_strings', 'off'), ('escape_string_warning', 'off'), ('lc_monetary', test.other_locale()), ('lc_numeric', test.other_locale()), ('lc_time', test.other_locale()),
    ('default_text_search_config', 'german'), ('timezone_abbreviations', 'India'), ('transform_null_equals', 'on'), ('plpgsql.extra_errors', 'all'), ('row_security', 'off'),
    ('session_replication_role', 'replica')) as s(name, setting);
reset lc_monetary;
create function test.odd_session() returns void language sql as $$ select set_config(name, setting, true) from test.odd_settings where name <> 'array_nulls' $$;
create function test.typed(type text, first text, second text) returns text language plpgsql as $$
declare
    who text := 'typed ' || type;
    result text;
begin
    execute format('create table app.typed (id %s primary key, u text, v int)', type);
    perform sync.publish_changes('app.typed', 'u', 'typed', 'typed');
    perform test.odd_session();
    execute format('insert into app.typed values (%L, %L, 1)', first, who);
    set constraints all immediate;
    update app.typed set v = 2;
    set constraints all immediate;
    execute format('update app.typed set id = %L', second);
    set constraints all immediate;
    set constraints all deferred;
    delete from app.typed;
    execute format('insert into app.typed values (%L, %L, 3)', second, who);
    set constraints all immediate;
    delete from app.typed;
    set constraints all immediate;
    set constraints all deferred;
    select string_agg(substr(name, 7, 1) || ' ' || (data ->> 'id'), ', ' order by data ->> 'id' <> first_id, o) into result
    from sync.event, (select data ->> 'id' as first_id from sync.event where user_id = who and o = 1) as f where user_id = who;
    perform sync.unpublish_changes('app.typed');
    drop table app.typed;
    return result;
end
$$;
select test.is('an id of type ' || type, test.typed(type, first, second), format('c %1$s, u %1$s, d %1$s, c %2$s, u %2$s, d %2$s', a, b)) from (values
    ('timestamptz', '2025-11-20 08:00:00.123456+00', '2025-03-04 05:06+00', '2025-11-20T08:00:00.123456+00:00', '2025-03-04T05:06:00+00:00'),
    ('timestamp', '2025-11-20 08:00', '2025-03-04 05:06', '2025-11-20T08:00:00', '2025-03-04T05:06:00'),
    ('date', '2025-11-20', '2025-03-04', '2025-11-20', '2025-03-04'),
    ('time', '08:00', '09:00', '08:00:00', '09:00:00'),
    ('interval', '1 day 02:03:04', '24 hours', '1 day 02:03:04', '24:00:00'),
    ('float8', '0.1', '0.30000000000000004', '0.1', '0.30000000000000004'),
    ('bytea', '\x00ff', '\x01', '\x00ff', '\x01'),
    ('uuid', '6ba7b810-9dad-11d1-80b4-00c04fd430c8', '6ba7b811-9dad-11d1-80b4-00c04fd430c8', '6ba7b810-9dad-11d1-80b4-00c04fd430c8', '6ba7b811-9dad-11d1-80b4-00c04fd430c8'),
    ('text', 'ärger ☃ ''"\', 'Z', 'ärger ☃ ''"\', 'Z'),
    ('char(5)', 'ab', 'abc', 'ab', 'abc'), ('app.long_code', 'x', 'y', 'x', 'y'),
    ('numeric', '1.0', '2.50', '1', '2.5'),
    ('smallint', '1', '2', '1', '2'), ('bigint', '5000000000', '2', '5000000000', '2'),
    ('boolean', 'true', 'false', 'true', 'false'), ('app.kind', 'x', 'y', 'x', 'y'), ('app.code', 'a', 'b', 'a', 'b'),
    ('int[]', '{1,2}', '{3}', '[1, 2]', '[3]'), ('regclass', 'sync.event', 'app."Odd One"', 'sync.event', 'app."Odd One"'), ('inet', '10.0.0.1', '::1', '10.0.0.1', '::1'), ('jsonb', '{"a": 1.0}', '{"a": 1.00}', '{"a": 1.0}', '{"a": 1.00}'),
    ('name', 'a', 'b', 'a', 'b'), ('text collate app.any_case', 'anna', 'ANNA', 'anna', 'ANNA')) as t(type, first, second, a, b);
create table app.lists (id text[] primary key, u text, v int);
select sync.publish_changes('app.lists', 'u', 'lists', 'list');
set array_nulls = off;
insert into app.lists values (array['a', null], 'lists', 1);
update app.lists set v = 2;
begin;
delete from app.lists;
insert into app.lists values (array['a', null], 'lists', 3);
commit;
delete from app.lists;
reset array_nulls;
select test.is('null in an id, whatever the writer takes it for', (select string_agg(name || ' ' || (data ->> 'id'), ', ' order by o) from sync.event where user_id = 'lists'), 'list.created ["a", null], list.updated ["a", null], list.updated ["a", null], list.deleted ["a", null]');
create table app.folded (id int primary key, u text collate app.any_case, v int);
select sync.publish_changes('app.folded', 'u', 'folded', 'folded');
insert into app.folded values (1, 'anna', 1), (2, 'Bob', 1), (3, 'bob', 1);
update app.folded set u = 'ANNA', v = 2 where id = 1;
update app.folded set v = 2 where u = 'bob';
select test.is('owners differ by their bytes: one loses it', test.events('anna', 'folded'), 'folded.created 1, folded.deleted 1');
select test.is('another gets it', test.events('ANNA', 'folded'), 'folded.created 1');
select test.is('and each its own', test.events('Bob', 'folded') || '; ' || test.events('bob', 'folded'), 'folded.created 2, folded.updated 2; folded.created 3, folded.updated 3');

create table app.values (id int primary key, u text, at timestamptz, span interval, f float8, b bytea);
select sync.publish_changes('app.values', 'u', 'values', 'values');
insert into app.values values (1, 'plain', '2025-11-20 08:00+00', '1 day 02:03:04', 0.30000000000000004, '\x00ff');
set datestyle = 'German'; set timezone = 'America/New_York'; set intervalstyle = 'sql_standard'; set extra_float_digits = -5; set bytea_output = 'escape';
insert into app.values values (2, 'odd', '2025-11-20 08:00 UTC', '1 day 02:03:04', 0.30000000000000004, '\x00ff');
reset datestyle; reset timezone; reset intervalstyle; reset extra_float_digits; reset bytea_output;
select test.is('a writer''s settings do not show in values', (select data - 'id' from sync.event where user_id = 'odd' and topic = 'values'), (select data - 'id' from sync.event where user_id = 'plain' and topic = 'values'));

-- No setting at all: one row with all types, under each setting that a writer may set.
create domain app.price as money;
create type app.item as (price app.price, of regclass, at timestamptz, span interval);
create table app.template (
    a_money money, a_price app.price, moneys money[], item app.item, items app.item[], doc xml, a_class regclass, classes regclass[], a_proc regproc, a_procedure regprocedure,
    an_oper regoper, an_operator regoperator, a_type regtype, a_role regrole, a_namespace regnamespace, a_config regconfig, a_dictionary regdictionary, a_collation regcollation,
    span interval, spans interval[], a_timetz timetz, a_time time, a_stamp timestamp, a_stamptz timestamptz, stamps timestamptz[], a_date date, stamp_range tstzrange,
    stamp_ranges tstzmultirange, date_range daterange, num_range numrange, f4 float4, f8 float8, f8s float8[], b bytea, bs bytea[], a_json json, a_jsonb jsonb, an_inet inet, a_cidr cidr, mac macaddr, mac8 macaddr8,
    words tsvector, query tsquery, a_bit bit(3), bits varbit, a_point point, a_box box, a_circle circle, a_path path, a_polygon polygon, a_line line, a_lseg lseg, a_uuid uuid, lsn pg_lsn,
    snap pg_snapshot, x8 xid8, an_xid xid, a_tid tid, an_oid oid, a_name name, a_char "char", padded char(5), texts text[], n numeric, ns numeric[], yes boolean, kind app.kind, code app.code, vec oidvector, a_jsonpath jsonpath);
insert into app.template values (1234.5, 1234.5, '{1234.5,NULL}', row(1234.5, 'app."Odd One"', '2025-11-20 08:00+00', '1 day 02:03:04'), array[row(1, 'app.template', '2025-11-20 08:00+00', '-1 day')::app.item], '<a b="c">&lt;\</a>', 'app.template', '{app.template,sync.event}', 'sync.flush', 'sync.camel(text)',
    'pg_catalog.||/', '+(int,int)', 'app.kind', 'carillon_owner', 'app', 'german', 'simple', 'app.any_case',
    '1 mon -2 days 03:04:05.678', '{1 day,-02:00:00}', '08:00+05:30', '08:00', '2025-11-20 08:00', '2025-11-20 08:00:00.5+00', '{2025-03-04 05:06+00}', '2025-03-04', '[2025-03-04 05:06+00,2025-11-20 08:00+00)',
    '{[2025-03-04 05:06+00,2025-11-20 08:00+00)}', '[2025-03-04,2025-11-20)', '[1.50,2.5)', 0.1, 0.30000000000000004, '{0.1,NaN,-0}', '\x00ff5c', '{"\\x00ff"}', '{"a": "2025-03-04",  "a": 1}', '{"a": [1.0, null]}', '10.0.0.1/8', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05',
    'a:1 ''b c'':2A', 'a & !b', '101', '1101', '(0.1,0.30000000000000004)', '((0,0),(1,0.1))', '<(0,0),0.1>', '((0,0),(1,0.1))', '((0,0),(1,0.1),(2,2))', '{1,0.1,3}', '[(0,0),(1,0.1)]', '6ba7b810-9dad-11d1-80b4-00c04fd430c8', '0/16B3748',
    '1:1:', '5', '5', '(0,1)', 1259, 'select', 'c', 'ab', '{NULL,"null","it''s \\"}', 1.500, '{1.0,NaN}', true, 'x', 'a', '1 2', '$.a[*] ? (@ > 1.0)');
create table app.everything (id int primary key, u text, like app.template);
select sync.publish_changes('app.everything', 'u', 'everything', 'e');
-- The event of that row, written under these settings; all is undone.
create function test.written_under(names text[], settings text[]) returns text language plpgsql as $$
declare
    result text;
begin
    perform set_config(s.name, s.setting, true) from unnest(names, settings) as s(name, setting);
    insert into app.everything select 1, 'every', t.* from app.template as t;
    set constraints all immediate;
    select e.data::text into result from sync.event as e where e.user_id = 'every';
    raise sqlstate 'TTTTT';
exception when sqlstate 'TTTTT' then
    return result;
end
$$;
create table test.plainly as select test.written_under('{}', '{}') as event;
select test.is('every column is in the event', (select (select count(*) from jsonb_object_keys(event::jsonb)) || ' ' || (event::jsonb ->> 'aMoney') || ' ' || (event::jsonb ->> 'aClass') from test.plainly), '73 $1,234.50 app.template');
select test.is('all odd settings at once: the same bytes', test.written_under(array_agg(name order by name), array_agg(setting order by name)), (select event from test.plainly)) from test.odd_settings;
select test.is('each by itself', (select string_agg(name || ' = ' || setting, ', ') from test.odd_settings where test.written_under(array[name], array[setting]) <> (select event from test.plainly)), null);
select test.is('and each value of each other setting', (
    select string_agg(s.name || ' = ' || v, ', ')
    from pg_settings as s cross join unnest(coalesce(s.enumvals, '{on,off}')) as v
    where s.context in ('user', 'superuser') and s.vartype in ('bool', 'enum') and s.name !~ '^(log_|debug_[^p]|trace_|client_min|exit_on|transaction_read_only|transaction_isolation|transaction_deferrable|allow_in_place)'
        and test.written_under(array[s.name], array[v]) is distinct from (select event from test.plainly)), null);
alter table app.everything drop column a_money, drop column a_price, drop column moneys, drop column item, drop column items;
alter table app.template drop column a_money, drop column a_price, drop column moneys, drop column item, drop column items;
select sync.publish_changes('app.everything', 'u', 'everything', 'e');
drop table test.plainly;
create table test.plainly as select test.written_under('{}', '{}') as event;
select test.is('also without money', test.written_under(array_agg(name order by name), array_agg(setting order by name)), (select event from test.plainly)) from test.odd_settings;
select test.fails('money is no id', $$create table app.coins (id money primary key, u text); select sync.publish_changes('app.coins', 'u', 'coins', 'coin')$$, '22023');
select test.fails('nor a user', $$create table app.coins (id int primary key, u app.price); select sync.publish_changes('app.coins', 'u', 'coins', 'coin')$$, '22023');
create table app.prices (id int primary key, u text, v numeric(8,2), e regclass);
select sync.publish_changes('app.prices', 'u', 'prices', 'price', columns => '{id,v}');
alter table app.prices alter v type money;
select test.is('a column that became money is found', test.problems(), 'app.prices: a column has another type: publish the table again');
drop table app.prices;
select sync.withdraw(null);

-- A publisher's session.
set quote_all_identifiers = on;
create table app."Quoted" ("Id" int primary key, u text, v int);
select sync.publish_changes('app."Quoted"', 'u', 'quoted', 'q', id_column => 'Id');
set role carillon_owner;
\ir ../functions/59_care_triggers.sql
\ir ../functions/80_publish_care.sql
reset role;
insert into app."Quoted" values (1, 'quoting', 1);
select test.is('who publishes with quote_all_identifiers publishes', test.events('quoting', 'quoted') || test.problems(), 'q.created 1');
reset quote_all_identifiers;
select test.is('and is understood', test.problems(), '');
set quote_all_identifiers = on;
select sync.unpublish_changes('app."Quoted"');
reset quote_all_identifiers;
select test.is('nothing of it is left', (select count(*) from pg_proc where proname like '%_app_quoted'), 0::bigint);
set standard_conforming_strings = off; set escape_string_warning = off;
create table app."odd $recorder$" (id int primary key, u text);
select test.fails('names that end a function are refused, however strings are read', 'select sync.publish_changes(''app."odd $recorder$"'', ''u'', ''odd'', ''odd'')', '22023');
reset standard_conforming_strings; reset escape_string_warning;
select sync.withdraw(null);

-- A hub's session reads strings as they were read once (ALTER DATABASE … SET standard_conforming_strings = off).
insert into care.dose_occurrence (id, user_id, scheduled_at) values ('strings', 'strings', now());
select test.is('actions are read alike, however strings are read', t.answer, 'applied')
from dblink(:'connection' || ' options=''-c standard_conforming_strings=off -c escape_string_warning=off''', format($$
    select test.short(test.act('strings', 'k' || n, 'markTaken', payload::jsonb)) from (values
        (1, '{"occurrenceId": "strings", "n": 1e+100, "say": "\\\\ 1e+100", "takenAt": "%1$sx123456789Z"}'),
        (2, '{"occurrenceId": "strings", "n": 1, "takenAt": "%1$s.123456789Z"}')) as a(n, payload) order by n$$, to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS'))) as t(answer text)
where t.answer not like 'rejected invalid payload.takenAt%';
delete from care.dose_occurrence where user_id = 'strings';

-- A context of any day.
create table app.days (id int primary key, u text, day date, v int);
create function app.day_events(changes sync.change[]) returns setof sync.draft language sql as $$ select user_id, false, id, 'day', jsonb_build_object('was', context) from unnest(changes) $$;
insert into app.days values (1, 'days', 'infinity'), (2, 'days', '0044-03-15 BC'), (3, 'days', '-infinity'), (4, 'days', '20000-01-01'), (5, 'days', '0001-01-01'), (6, 'days', null);
select sync.publish_changes('app.days', 'u', 'days', 'day', builder => 'app.day_events', context_column => 'day');
set datestyle = 'SQL, DMY';
update app.days set v = 2;
reset datestyle;
select test.is('a context is a day that can be read again', (select string_agg(coalesce(data ->> 'was', 'null'), ', ' order by o) from sync.event where user_id = 'days'), 'infinity, 0044-03-15 BC, -infinity, 20000-01-01, 0001-01-01, null');
drop table app.days;
select sync.withdraw(null);

-- What jsonb cannot hold.
create table app.documents (id int primary key, u text, doc json, docs json[], rev int default 1);
select sync.publish_changes('app.documents', 'u', 'documents', 'doc');
insert into app.documents values (1, 'json', '{"a": "\u0000"}', null);
insert into app.documents values (2, 'json', '{"n": 1e999999}', null);
insert into app.documents values (3, 'json', '"\ud800"', null);
insert into app.documents values (4, 'json', ('' || repeat('[', 5000) || repeat(']', 5000))::json, null);
insert into app.documents values (5, 'json', '{"a": 1, "a": 2}', null);
insert into app.documents values (6, 'json', null, array['"\u0000"']::json[]);
insert into app.documents values (7, 'json', '[1e100000, 1e100000]', null);
select test.is('a pointer, not a failed commit', (select string_agg(case when data ? 'truncated' then (data - '_sync')::text else data ->> 'doc' end, ', ' order by o) from sync.event where user_id = 'json' and o <> 4),
    '{"id": 1, "rev": 1, "truncated": true}, {"id": 2, "rev": 1, "truncated": true}, {"id": 3, "rev": 1, "truncated": true}, {"a": 2}, {"id": 6, "rev": 1, "truncated": true}, {"id": 7, "rev": 1, "truncated": true}');
update app.documents set rev = 2;
select test.is('among others, which are whole', (select string_agg(name, ' ') || max(data ->> 'rev') from sync.event where user_id = 'json' and o > 7 and data ? 'doc' and data ->> 'id' = '5'), 'doc.updated2');
select test.is('each once', (select count(*) || ' ' || count(distinct data ->> 'id') from sync.event where user_id = 'json' and o > 7), '7 7');
delete from app.documents;
select test.is('deleted as any', (select count(*) from sync.event where user_id = 'json' and name = 'doc.deleted'), 7::bigint);
insert into app.documents select g, 'json' || g % 2, case when g = 700 then '{"a": "\u0000"}' else '{}' end::json, null from generate_series(1, 1000) as g;
select test.is('one among a thousand', (select count(*) || ' ' || count(*) filter (where data ? 'truncated') from sync.event where user_id like 'json_' and topic = 'documents'), '1000 1');
select test.is('no event of more than 10,000 bytes', (select max(octet_length(data::text)) <= 10100 from sync.event), true);

drop schema app cascade;
select sync.withdraw(null);
select test.is('nothing touched is left', (select count(*) from sync.touched) + (select count(*) from sync.ticket), 0::bigint);
