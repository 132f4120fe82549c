-- Writers' sessions with settings of their own, and columns of any type.
create schema app;

-- Sessions with settings of their own, and ids of any type.
create type app.kind as enum ('x', 'y');
create domain app.code as varchar(20) check (value <> 'never');
create collation app.any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
create function test.typed(type text, first text, second text) returns text language plpgsql as $$
declare
    who text := 'typed ' || type;
    result text;
begin
    execute format('create table app.typed (id %s primary key, u text, v int)', type);
    perform sync.publish_changes('app.typed', 'u', 'typed', 'typed');
    perform set_config(s.name, s.setting, true) from (values ('datestyle', 'SQL, DMY'), ('timezone', 'Asia/Kolkata'),
        ('intervalstyle', 'iso_8601'), ('extra_float_digits', '-15'), ('bytea_output', 'escape')) as s(name, setting);
    execute format('insert into app.typed values (%L, %L, 1)', first, who);
    set constraints all immediate;
    update app.typed set v = 2;
    set constraints all immediate;
    execute format('update app.typed set id = %L', second);
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
select test.is('an id of type ' || type, test.typed(type, first, second), format('c %1$s, u %1$s, d %1$s, c %2$s, d %2$s', a, b)) from (values
    ('timestamptz', '2025-11-20 08:00:00.123456+00', '2025-03-04 05:06+00', '2025-11-20T08:00:00.123456+00:00', '2025-03-04T05:06:00+00:00'),
    ('timestamp', '2025-11-20 08:00', '2025-03-04 05:06', '2025-11-20T08:00:00', '2025-03-04T05:06:00'),
    ('date', '2025-11-20', '2025-03-04', '2025-11-20', '2025-03-04'),
    ('time', '08:00', '09:00', '08:00:00', '09:00:00'),
    ('interval', '1 day 02:03:04', '24 hours', '1 day 02:03:04', '24:00:00'),
    ('float8', '0.1', '0.30000000000000004', '0.1', '0.30000000000000004'),
    ('bytea', '\x00ff', '\x01', '\x00ff', '\x01'),
    ('uuid', '6ba7b810-9dad-11d1-80b4-00c04fd430c8', '6ba7b811-9dad-11d1-80b4-00c04fd430c8', '6ba7b810-9dad-11d1-80b4-00c04fd430c8', '6ba7b811-9dad-11d1-80b4-00c04fd430c8'),
    ('text', 'ärger ☃ ''"\', 'Z', 'ärger ☃ ''"\', 'Z'),
    ('char(5)', 'ab', 'abc', 'ab   ', 'abc  '),
    ('numeric', '1.0', '1.00', '1.0', '1.00'),
    ('smallint', '1', '2', '1', '2'), ('bigint', '5000000000', '2', '5000000000', '2'),
    ('boolean', 'true', 'false', 'true', 'false'), ('app.kind', 'x', 'y', 'x', 'y'), ('app.code', 'a', 'b', 'a', 'b'),
    ('int[]', '{1,2}', '{3}', '[1, 2]', '[3]'), ('inet', '10.0.0.1', '::1', '10.0.0.1', '::1'), ('jsonb', '{"a": 1.0}', '{"a": 1.00}', '{"a": 1.0}', '{"a": 1.00}'),
    ('name', 'a', 'b', 'a', 'b'), ('text collate app.any_case', 'anna', 'ANNA', 'anna', 'ANNA')) as t(type, first, second, a, b) where type <> 'char(5)';
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
