-- How ids are known: equal numbers are one, those that JSON clients cannot hold are text, and what cannot be told is refused in words.
create schema if not exists app;
create function test.ids(who text, topic text, after_o bigint default 0) returns text language sql as $$
    select coalesce(string_agg(split_part(e.name, '.', 2) || ' ' || (e.data -> 'id')::text, ', ' order by e.o), '')
    from sync.event as e where e.user_id = who and e.topic = ids.topic and e.o > after_o
$$;

-- Numbers.
create table app.amounts (id numeric primary key, u text, v text);
select sync.publish_changes('app.amounts', 'u', 'amounts', 'a');
insert into app.amounts values (1.0, 'n', 'x'), (2, 'n', 'x'), (0.10, 'n', 'x'), (1e16, 'n', 'x'), (0.1234567890123456789, 'n', 'x');
select test.is('a number as it is', test.ids('n', 'amounts'), 'created 0.1, created "0.1234567890123456789", created 1, created "10000000000000000", created 2');
select test.top('n', 'amounts') as at \gset
update app.amounts set id = 1 where id = 1;
select test.is('an equal number is the same id', test.ids('n', 'amounts', :at), 'updated 1');
update app.amounts set id = case when id < 3 then trim_scale(id) || '.00' else id::text end::numeric where id in (1, 2);
select test.is('also where several change', test.ids('n', 'amounts', :at), 'updated 1, updated 1, updated 2');
begin; delete from app.amounts where id = 2; insert into app.amounts values (2.000, 'n', 'y'); commit;
select test.is('deleted and made again', test.ids('n', 'amounts', :at + 3), 'updated 2');
begin; update app.amounts set v = 'z' where id = 1; update app.amounts set id = 1.0 where id = 1; update app.amounts set id = 5 where id = 2; commit;
select test.is('deletes come first', test.ids('n', 'amounts', :at + 4), 'deleted 2, updated 1, created 5');
select test.top('n', 'amounts') as at \gset
begin; update app.amounts set id = 30 where id = 5; update app.amounts set id = 4 where id = 1; commit;
select test.is('of several', test.ids('n', 'amounts', :at), 'deleted 1, deleted 5, created 30, created 4');
create table app.floats (id double precision primary key, u text);
select sync.publish_changes('app.floats', 'u', 'floats', 'f');
insert into app.floats values (0), (1.5); update app.floats set u = 'f';
select test.top('f', 'floats') as at \gset
update app.floats set id = '-0' where id = 0;
select test.is('so do zeros', test.ids('f', 'floats', :at), 'updated 0');
delete from app.floats where id = 0;
select test.is('in any spelling', test.ids('f', 'floats', :at + 1), 'deleted 0');
-- A builder of an app's own compares with the column's text.
create function app.build_amounts(changes sync.change[]) returns setof sync.draft language sql as $$
    select c.user_id, false, c.id, 'a.' || case when a.id is null then 'deleted' else 'updated' end, jsonb_build_object('id', c.id)
    from unnest(changes) as c left join app.amounts as a on a.id::text = c.id
$$;
select sync.publish_changes('app.amounts', 'u', 'amounts', 'a', builder => 'app.build_amounts');
select test.top('n', 'amounts') as at \gset
insert into app.amounts values (7.50, 'n', 'x');
select test.is('a builder of its own has the text', test.ids('n', 'amounts', :at), 'updated "7.50"');

-- Integers that a double does not hold.
create table app.big (id bigint primary key, u text, amount bigint, price numeric(12, 2), note text);
select sync.publish_changes('app.big', 'u', 'bigs', 'b', "text" => '{amount,price}');
insert into app.big values (9007199254740991, 'b', 9007199254740993, 1.50, null), (9007199254740992, 'b', null, null, null), (9007199254740993, 'b', 1, 0, repeat('x', 12000)), (-9007199254740992, 'b', 1, 0, null), (7, 'b', 1, 0, null);
select test.is('up to 2^53 - 1 a number, beyond it text', test.ids('b', 'bigs'), 'created "-9007199254740992", created 7, created 9007199254740991, created "9007199254740992", created "9007199254740993"');
select test.is('a pointer has the same id', (select data - '_sync' from sync.event where topic = 'bigs' and data ? 'truncated'), '{"id": "9007199254740993", "rev": null, "truncated": true}');
select test.is('columns as text', (select data - '_sync' from sync.event where topic = 'bigs' and data -> 'id' = '9007199254740991'), '{"id": 9007199254740991, "rev": null, "amount": "9007199254740993", "price": "1.50", "note": null}');
select test.is('null stays null', (select data -> 'amount' from sync.event where topic = 'bigs' and data ->> 'id' = '9007199254740992'), 'null'::jsonb);
delete from app.big where id = 9007199254740993;
select test.is('and so has a delete', test.ids('b', 'bigs', 5), 'deleted "9007199254740993"');
select sync.publish_changes('app.big', 'u', 'bigs', 'b', ids => 'text');
select test.top('b', 'bigs') as at \gset
update app.big set amount = 2 where id = 7; delete from app.big where id = 7;
select test.is('text, always', test.ids('b', 'bigs', :at), 'updated "7", deleted "7"');
select test.is('an answer of its own names it alike', (select string_agg(sync.json_id(id)::text, ' ' order by id) from app.big), '"-9007199254740992" 9007199254740991 "9007199254740992"');
select test.is('of any type', concat_ws(' ', sync.json_id(7), sync.json_id(1.0), sync.json_id('a'::text), sync.json_id(true), sync.json_id(null::int), sync.json_id('{9007199254740993,1}'::bigint[])), '7 1 "a" true null ["9007199254740993", 1]');
select test.fails('ids is one of two', $$select sync.publish_changes('app.big', 'u', 'bigs', 'b', ids => 'uuid')$$, '22023');
select test.fails('text names columns', $$select sync.publish_changes('app.big', 'u', 'bigs', 'b', "text" => '{nothing}')$$, '42703');
select test.fails('that are sent', $$select sync.publish_changes('app.big', 'u', 'bigs', 'b', columns => '{note}', "text" => '{amount}')$$, '22023');
select test.fails('and not the id', $$select sync.publish_changes('app.big', 'u', 'bigs', 'b', text => '{id}')$$, '22023');
select test.fails('a builder has its own way', $$select sync.publish_changes('app.amounts', 'u', 'amounts', 'a', builder => 'app.build_amounts', ids => 'text')$$, '22023');

-- A composite id with a null inside.
create type app.slot as (day date, place bigint);
create table app.slots (id app.slot primary key, u text, v int);
select sync.publish_changes('app.slots', 'u', 'slots', 's');
insert into app.slots values (row('2025-11-20', null), 's', 1), (row(null, null), 's', 1), (row('2025-11-21', 9007199254740993), 's', 1);
select test.is('it is created', test.ids('s', 'slots'), 'created {"day": null, "place": null}, created {"day": "2025-11-20", "place": null}, created {"day": "2025-11-21", "place": "9007199254740993"}');
update app.slots set v = 2; update app.slots set v = 3 where u = 's' and (id).day = '2025-11-20'; update app.slots set v = v;
select test.is('and updated', test.ids('s', 'slots', 3), 'updated {"day": null, "place": null}, updated {"day": "2025-11-20", "place": null}, updated {"day": "2025-11-21", "place": "9007199254740993"}, updated {"day": "2025-11-20", "place": null}');
delete from app.slots;
select test.is('and deleted', test.ids('s', 'slots', 7), 'deleted {"day": null, "place": null}, deleted {"day": "2025-11-20", "place": null}, deleted {"day": "2025-11-21", "place": "9007199254740993"}');

-- An enum whose value gets another name.
create type app.part as enum ('morning', 'noon', 'evening');
create table app.parts (id app.part primary key, u text);
select sync.publish_changes('app.parts', 'u', 'parts', 'p');
insert into app.parts values ('noon', 'p');
alter type app.part add value 'night' before 'noon';
select test.is('a new value does not matter', test.problems(), '');
alter type app.part rename value 'noon' to 'midday';
select test.is('a value renamed is told', test.problems(), 'app.parts: a value of an enum in column id or u has another name now, and devices keep the rows by the old one: publish the table again, then select sync.new_epoch()');
select sync.publish_changes('app.parts', 'u', 'parts', 'p');
select test.is('until it is published again', test.problems(), '');
alter type app.part rename value 'morning' to 'x'; alter type app.part rename value 'evening' to 'morning'; alter type app.part rename value 'x' to 'evening';
select test.is('two that change names', (select count(*) from sync.check_published()), 1::bigint);
drop table app.parts; select sync.withdraw(null) \g /dev/null

-- Changed and dropped in one transaction: refused in words that say what to do.
create function test.dropped(change text) returns text language plpgsql as $$
begin
    create table app.gone (id int primary key, u text);
    perform sync.publish_changes('app.gone', 'u', 'gone', 'g');
    insert into app.gone values (1, 'g'), (2, 'g');
    set constraints sync.flush immediate; set constraints sync.flush deferred;
    execute change;
    drop table app.gone;
    set constraints sync.flush immediate;
    return 'told';
exception when others then
    return sqlstate || ' ' || sqlerrm;
end
$$;
select test.is(change, test.dropped(change), '42P01 app.gone was changed and dropped in one transaction: select sync.unpublish_changes before it is dropped')
from (values ($$insert into app.gone values (3, 'g')$$), ($$insert into app.gone values (3, 'g'), (4, 'h')$$), ($$update app.gone set u = 'h' where id = 1$$), ($$update app.gone set u = 'i'$$),
             ($$delete from app.gone where id = 1$$), ($$insert into app.gone values (3, 'g'); delete from app.gone where id = 3$$)) as t(change);
select test.is('unpublished before', test.dropped($$insert into app.gone values (3, 'g'); select sync.unpublish_changes('app.gone')$$), 'told');

-- The bound of ids.
create table app.long (id text primary key, u text, v int default 0);
select sync.publish_changes('app.long', 'u', 'long', 'l');
create function test.random_text(bytes int) returns text language sql as $$ select left(string_agg(md5(random()::text || n), ''), bytes) from generate_series(1, bytes / 32 + 1) as n $$;
insert into app.long values ('1', test.random_text(2599)), (test.random_text(2000), test.random_text(600));
select test.is('2600 bytes together are told', (select count(*) from sync.event where topic = 'long'), 2::bigint);
create function test.refusal(statement text) returns text language plpgsql as $$
begin
    execute statement;
    return 'accepted';
exception when others then
    return sqlstate || ' ' || sqlerrm;
end
$$;
select test.is('3200 are not', test.refusal($$insert into app.long values ('2', test.random_text(3200))$$), '22001 a row of app.long has a user''s id of 3200 bytes and an id of 1 bytes: together they may have 2600');
select test.is('nor by an update', test.refusal($$update app.long set u = test.random_text(3200) where id = '1'$$), '22001 a row of app.long has a user''s id of 3200 bytes and an id of 1 bytes: together they may have 2600');
alter table app.long disable trigger all;
insert into app.long values ('3', test.random_text(3200)), ('4', test.random_text(3200));
alter table app.long enable trigger all; select sync.publish_changes('app.long', 'u', 'long', 'l');
select test.is('nor one that was there before', test.refusal($$update app.long set v = 1 where id = '3'$$), '22001 a row of app.long has a user''s id of 3200 bytes and an id of 1 bytes: together they may have 2600');
select test.is('nor among several', split_part(test.refusal($$update app.long set v = 1$$), ' ', 1), '22001');
update app.long set u = 'short' where id = '3'; delete from app.long where id = '4';
select test.is('it may become shorter, or go', test.ids('short', 'long'), 'created "3"');
select test.is('several', test.refusal($$insert into app.long values ('5', 'a'), ('6', test.random_text(3200))$$), '22001 a row of app.long has a user''s id of 3200 bytes and an id of 1 bytes: together they may have 2600');
drop schema app cascade; select sync.withdraw(null) \g /dev/null
