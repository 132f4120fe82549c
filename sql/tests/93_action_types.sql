-- Action types of an app's own: who may register one, what is checked, and that all which holds of care's holds of them.
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
select test.open(name, :'connection') from unnest('{one,two}'::text[]) as name \g /dev/null
create schema app;
grant usage, create on schema app to carillon_owner;
set role carillon_owner;
create table app.weight (id bigint generated always as identity primary key, user_id text not null, grams int not null);
create table app.mood (id bigint generated always as identity primary key, user_id text not null, mood text);
select sync.publish_changes('app.weight', 'user_id', 'weight', 'weight'), sync.publish_changes('app.mood', 'user_id', 'mood', 'mood') \g /dev/null
create function app.weigh(who text, key text, type text, doc jsonb, base jsonb, client_time jsonb, tz text) returns sync.verdict language plpgsql as $$
declare
    v sync.verdict;
begin
    if doc ? 'says' then
        v.status := doc ->> 'says';
        v.answer := doc -> 'answer';
        v.early := (doc ->> 'early')::boolean;
        return v;
    end if;
    insert into app.weight (user_id, grams) values (who, (doc ->> 'grams')::int);
    if type = 'weighHappily' then
        insert into app.mood (user_id, mood) values (who, 'good');
    end if;
    v.status := 'applied';
    v.answer := jsonb_build_object('result', jsonb_build_object('type', type, 'base', base, 'clientTime', client_time, 'tz', tz));
    return v;
end
$$;
select test.is('a type that nobody has registered', (select a - 'key' - 'message' from test.act('w', 'k0', 'weigh', '{"grams":1}') as a), '{"code": "invalid", "path": "type", "status": "rejected"}');
insert into sync.action_type values ('weigh', 'app.weigh', '{weight}'), ('weighHappily', 'app.weigh', '{weight,mood}'), ('peek', 'app.weigh', '{}');
select test.is('what was decided before stays decided', test.short(test.act('w', 'k0', 'weigh', '{"grams":1}')), 'rejected invalid type replayed');
select test.is('from its registration on it is carried out, with all that came', test.act('w', 'k1', 'weigh', '{"grams":71500}', '{"rev":1}', 'phone', 1, '"2025-11-20T11:00Z"', 'Asia/Tokyo') -> 'result', '{"type": "weigh", "base": {"rev": 1}, "clientTime": "2025-11-20T11:00Z", "tz": "Asia/Tokyo"}');
select test.is('the answer tells where its streams stand', (select answer #>> '{positions,user.w.weight,offset}' || ' ' || (select count(*) from jsonb_object_keys(answer -> 'positions')) from sync.action where user_id = 'w' and key = 'k1'), '1 1');
select test.is('its events carry the key', (select data #>> '{_sync,k}' from sync.event where user_id = 'w' and topic = 'weight'), 'k1');
select test.is('a repeat gets what is stored', test.short(test.act('w', 'k1', 'weigh', '{"grams":71500}', '{"rev":1}', 'phone', 1)) || ' ' || test.top('w', 'weight'), 'applied replayed 1');
select test.is('another action under its key', test.short(test.act('w', 'k1', 'peek', '{"grams":71500}', '{"rev":1}')), 'rejected key_reused');
select test.is('the device''s order holds', test.short(test.act('w', 'k3', 'weigh', '{"grams":1}', device => 'phone', n => 3)), 'retry out_of_order 2');
select test.is('several streams, each where it stands', (select a #>> '{positions,user.w.weight,offset}' || ' ' || (a #>> '{positions,user.w.mood,offset}') from test.act('w', 'k2', 'weighHappily', '{"grams":71000}') as a), '2 1');
select test.is('or none', test.act('w', 'k4', 'peek', '{"says":"noop","answer":{}}') -> 'positions', '{}');
select test.is('a conflict tells them too, a rejection none', (select string_agg(test.short(a) || coalesce(' ' || (a #>> '{positions,user.w.weight,offset}'), ''), ', ' order by s) from unnest('{conflict,noop,partial,rejected}'::text[]) as s, test.act('w', 's' || s, 'weigh', jsonb_build_object('says', s, 'answer', '{"code":"c"}'::jsonb)) as a), 'conflict c 2, noop c 2, partial c 2, rejected c');
select test.is('an early answer without a number is not kept', test.short(test.act('w', 'e', 'weigh', '{"says":"rejected","answer":{},"early":true}')) || (select count(*) from sync.action where user_id = 'w' and key = 'e'), 'rejected0');
select test.fails(format('what is no verdict fails the action: %s', doc), format('select test.act(''w'', ''bad'', ''weigh'', %L)', doc), '22000') from unnest(array['{"says":null}', '{"says":"done","answer":{}}', '{"says":"retry","answer":{}}', '{"says":"applied"}', '{"says":"applied","answer":[]}']) as doc;
select test.is('and leaves nothing', (select count(*) from sync.action where user_id = 'w' and key = 'bad'), 0::bigint);
select test.is('a refused one is stored', (select test.short(answer::jsonb) from sync.refuse('w', 'no', null, null, 'weigh', '{"grams":1}', null, null, null)), 'rejected invalid');

-- What cannot be called is not registered.
create function app.six(text, text, text, jsonb, jsonb, text) returns sync.verdict language sql as 'select null::sync.verdict';
create function app.other(text, text, text, jsonb, jsonb, jsonb, text) returns text language sql as 'select null';
create function app.many(text, text, text, jsonb, jsonb, jsonb, text) returns setof sync.verdict language sql as 'select null::sync.verdict';
create function sync.inside(text, text, text, jsonb, jsonb, jsonb, text) returns sync.verdict language sql as 'select null::sync.verdict';
create function app."an odd name"(text, text, text, jsonb, jsonb, jsonb, text) returns sync.verdict language sql as $$ select row('noop', '{}', null, false)::sync.verdict $$;
select test.fails(format('no such function: %s', f), format('insert into sync.action_type values (''x'', %L, ''{}'')', f), '42883') from unnest(array['app.six', 'app.other', 'app.many', 'sync.inside', 'app.nothing', 'weigh', '', 'app.weigh(text)', 'app.weigh; drop table app.mood', null]) as f;
select test.fails(format('no such type: %s', t), format('insert into sync.action_type values (%L, ''app.weigh'', ''{}'')', t), case when t is null then '23502' else '23514' end) from unnest(array['', 'a b', repeat('x', 65), 'é', null]) as t;
select test.fails(format('no such topics: %s', t), format('insert into sync.action_type values (''x'', ''app.weigh'', %L)', t), case when t is null then '23502' else '23514' end) from unnest(array['{A}', '{NULL}', '{""}', '{a,b c}', '{{a}}', '{a.b}', null]) as t;
insert into sync.action_type values ('odd:1', 'app."an odd name"', '{}');
select test.is('names are written as SQL has them', (select function from sync.action_type where type = 'odd:1') || ' ' || test.short(test.act('w', 'o', 'odd:1', '{}')), 'app."an odd name" noop');
select test.fails('neither by an update', $$update sync.action_type set function = 'app.six' where type = 'weigh'$$, '42883');
reset role;
create function app.closed(text, text, text, jsonb, jsonb, jsonb, text) returns sync.verdict language sql as 'select null::sync.verdict';
revoke execute on function app.closed(text, text, text, jsonb, jsonb, jsonb, text) from public;
select test.fails('one that carillon_owner may not call', $$insert into sync.action_type values ('x', 'app.closed', '{}')$$, '42501');
create schema shut;
create function shut.f(text, text, text, jsonb, jsonb, jsonb, text) returns sync.verdict language sql as 'select null::sync.verdict';
select test.fails('nor reach', $$insert into sync.action_type values ('x', 'shut.f', '{}')$$, '42501');
create function test.hint(statement text) returns text language plpgsql as $$
declare
    told text;
begin
    execute statement;
    return null;
exception when others then
    get stacked diagnostics told = pg_exception_hint;
    return sqlerrm || ': ' || told;
end
$$;
select test.is('the error says what to do', test.hint($$insert into sync.action_type values ('x', 'app.closed', '{}')$$), 'carillon_owner may not call app.closed: GRANT EXECUTE ON FUNCTION app.closed(text,text,text,jsonb,jsonb,jsonb,text) TO carillon_owner;');
select test.is('and here', test.hint($$insert into sync.action_type values ('x', 'weigh', '{}')$$), 'weigh is no function of (text, text, text, jsonb, jsonb, jsonb, text) that returns sync.verdict, outside of schema sync: Write its schema too: ''schema.function''.');

-- Who may: the owner of the schema.
create role carillon_test_app;
grant usage on schema sync to carillon_test_app;
select dblink_exec('one', 'set role carillon_hub') || dblink_exec('two', 'set role carillon_test_app') \g /dev/null
select test.fails(format('%s may not %s', who, statement), format('select dblink_exec(%L, %L)', who, statement), '42501') from unnest('{one,two}'::text[]) as who, unnest(array['insert into sync.action_type values (''x'', ''app.weigh'', ''{}'')', 'update sync.action_type set topics = ''{}''', 'delete from sync.action_type', 'truncate sync.action_type', 'select sync.dispatch()', 'select sync.act(null, null, null, null, null, null, null)']) as statement;
select dblink_exec('one', 'reset role') || dblink_exec('two', 'reset role') \g /dev/null
drop owned by carillon_test_app;
drop role carillon_test_app;

-- Two at once: both are in force. The second would otherwise write sync.act without the first's.
select dblink_exec('one', 'begin') || dblink_exec('one', $$insert into sync.action_type values ('first', 'app.weigh', '{}')$$) \g /dev/null
select dblink_send_query('two', $$insert into sync.action_type values ('second', 'app.weigh', '{}')$$) \g /dev/null
select test.is('the second waits', test.wait_blocked('two'), 'blocked');
select test.is('what is not committed is not in force', test.short(test.act('w', 'f0', 'first', '{"says":"noop","answer":{}}')), 'rejected invalid type');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and both are in force', test.outcome('two') || ' ' || test.short(test.act('w', 'f1', 'first', '{"says":"noop","answer":{}}')) || ' ' || test.short(test.act('w', 'f2', 'second', '{"says":"noop","answer":{}}')), 'done noop noop');
begin isolation level repeatable read;
select test.fails('a snapshot of before would leave out others''', $$delete from sync.action_type where type = 'first'$$, '25001');
rollback;

-- A session that has carried out actions learns of a change with its next one.
create function test.far(session text, key text, type text) returns text language sql as $$
    select a from dblink(session, format('select test.short(test.act(''far'', %L, %L, ''{"says":"noop","answer":{}}''))', key, type)) as t(a text) $$;
select test.is('known', test.far('one', 'a', 'first'), 'noop');
delete from sync.action_type where type = 'first';
select test.is('gone', test.far('one', 'b', 'first'), 'rejected invalid type');
insert into sync.action_type values ('first', 'app.weigh', '{weight}');
select test.is('there again', test.far('one', 'c', 'first'), 'noop');
drop function app."an odd name"(text, text, text, jsonb, jsonb, jsonb, text);
select test.fails('a function that was dropped is an error of the action''s', $$select test.act('w', 'gone', 'odd:1', '{}')$$, '42883');
delete from sync.action_type where type = 'odd:1';

-- Migrating again: the product's own are put right, the app's stay.
delete from sync.action_type;
select test.is('without any', test.short(test.act('w', 'none', 'markTaken', '{}')), 'rejected invalid type');
insert into sync.action_type values ('weigh', 'app.weigh', '{weight}'), ('skip', 'app.weigh', '{weight}');
set role carillon_owner;
\ir ../functions/79_sync_dispatch.sql
reset role;
select test.is('all are there', (select string_agg(type || ' ' || function || ' ' || topics::text, ', ' order by type) from sync.action_type where type in ('skip', 'undo', 'weigh')) || ' ' || (select count(*) from sync.action_type), 'skip care.act {adherence}, undo care.act {adherence}, weigh app.weigh {weight} 28');
select test.is('and in force', test.short(test.act('w', 'after', 'skip', '{"occurrenceId":"nothing"}')), 'conflict gone');
create temp table was as select xmin::text as x from sync.action_type order by type;
set role carillon_owner;
\ir ../functions/79_sync_dispatch.sql
reset role;
select test.is('once more, and no row is written', (select array_agg(xmin::text order by type) from sync.action_type) = (select array_agg(x) from was), true);
delete from sync.action_type where type = 'weigh';
select dblink_disconnect(name) from unnest('{one,two}'::text[]) as name \g /dev/null
