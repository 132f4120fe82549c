-- Migration 0006 on a database that is in use: no transaction fails, whatever order it locks in.
\setenv SQL :sql
\set migration `cat "$SQL/migrations/0006_lineage.sql"`
select test.is('types change with the functions that make them', :'migration' ~ 'alter type', false);
create function test.script(script text) returns text language plpgsql as $$ begin execute script; return 'done'; end $$;
create function test.before_0006() returns text language plpgsql as $$
begin
    alter table sync.meta drop column lineage;
    alter table sync.device drop column used_at;
    return 'done';
end
$$;
-- A session that holds one table and then wants the others, while the migration waits.
create function test.crossing(first text, others text[]) returns text language plpgsql as $$
declare
    other text;
begin
    perform dblink_exec('busy', 'begin'), dblink_exec('busy', format('lock table %s in row exclusive mode', first));
    perform dblink_send_query('migrator', format('select test.script(%L)', current_setting('test.migration')));
    perform test.wait_blocked('migrator');
    foreach other in array others loop
        perform dblink_exec('busy', format('lock table %s in row exclusive mode', other));
    end loop;
    perform dblink_exec('busy', 'commit');
    return test.outcome('migrator');
exception when others then
    return sqlerrm;
end
$$;
select set_config('test.migration', :'migration', false) \g /dev/null
select test.open(name, :'connection') from unnest('{busy,migrator}'::text[]) as name \g /dev/null
select test.before_0006() \g /dev/null
select test.is('an action: device, stream, meta', test.crossing('sync.device', '{sync.stream,sync.meta}'), 'done');
select test.before_0006() \g /dev/null
select test.is('a commit that makes a stream: stream, meta', test.crossing('sync.stream', '{sync.meta}'), 'done');
select test.before_0006() \g /dev/null
select test.is('positions: meta, stream', test.crossing('sync.meta', '{sync.stream}'), 'done');
select test.is('it has migrated', (select count(*) from pg_attribute where (attrelid, attname) in (('sync.meta'::regclass, 'lineage'), ('sync.device'::regclass, 'used_at'))), 2::bigint);
select dblink_disconnect(name) from unnest('{busy,migrator}'::text[]) as name \g /dev/null
