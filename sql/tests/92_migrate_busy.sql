-- Migration 0006 on a database that is in use: no transaction fails, whatever order it locks in.
\setenv SQL :sql
\set migration `cat "$SQL/migrations/0006_lineage.sql"`
select test.is('types change with the functions that make them', :'migration' ~ 'alter type', false);
-- As the migrator: attempts that give up after 200 ms, and begin anew.
create function test.script(script text) returns text language plpgsql as $$
begin
    for attempt in 1..100 loop
        begin
            set local lock_timeout = '200ms';
            execute script;
            return 'done';
        exception when lock_not_available then
            perform pg_sleep(0.1);
        end;
    end loop;
    return 'given up';
end
$$;
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

-- The functions of another release on a database that is in use: \new is what they begin with, and all that locks the doses.
\set new `cat "$SQL"/functions/09_* "$SQL"/functions/14_* "$SQL"/functions/59_*`
select set_config('test.migration', :'new', false) \g /dev/null
insert into sync.function_set (checksum) values ('of another release');
select test.open(name, :'connection') from unnest('{busy,migrator,holder}'::text[]) as name \g /dev/null
create trigger audit_update after update on care.dose_occurrence for each statement execute function care.audit_doses();
select test.is('a writer of doses: dose, audit, ticket', test.crossing('care.dose_occurrence', '{care.dose_audit,sync.ticket}'), 'done');
select test.is('what the recorder does now is gone', (select count(*) from pg_trigger where tgname = 'audit_update' and tgrelid = 'care.dose_occurrence'::regclass), 0::bigint);
select test.is('one that wrote a reminder first: ticket, dose', test.crossing('sync.ticket', '{care.reminder_audit,care.dose_occurrence,care.dose_audit}'), 'done');
-- A commit that waits for its stream calls what the functions take away.
insert into care.reminder_rule (id, user_id, time) values ('busy', 'busy', '08:00');
select test.begin('holder', $$update sync.stream set top = top where user_id = 'busy'$$) \g /dev/null
select dblink_send_query('busy', $$update care.reminder_rule set label = 'busy' where id = 'busy'$$) \g /dev/null
select test.is('a commit waits for its stream', test.wait_blocked('busy'), 'blocked');
select dblink_send_query('migrator', format('select test.script(%L)', current_setting('test.migration') || 'alter function sync.tell_one rename to told_before')) \g /dev/null
select test.is('the functions wait for the commit', test.wait_blocked('migrator'), 'blocked');
select dblink_exec('holder', 'commit') \g /dev/null
select test.is('which does not fail', test.outcome('busy') || ' ' || test.outcome('migrator'), 'done done');
select test.is('and is told', test.events('busy', 'reminders', 1), 'reminder.updated busy');
alter function sync.told_before rename to tell_one;
delete from sync.function_set;
select dblink_disconnect(name) from unnest('{busy,migrator,holder}'::text[]) as name \g /dev/null
