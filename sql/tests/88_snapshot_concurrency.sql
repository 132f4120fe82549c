-- A commit that lands in the middle of a snapshot: all of it or nothing, position included. Sessions are held apart by
-- an advisory lock for which the clock waits where a session asks for that.
set timezone = 'UTC';
create or replace function sync.clock() returns timestamptz language plpgsql as $$
begin
    if current_setting('test.pause', true) = 'on' then
        perform pg_catalog.pg_advisory_xact_lock_shared(77);
    end if;
    return '2025-11-20 12:00Z';
end
$$;
select test.open(name, :'connection') from unnest('{one,two}'::text[]) as name \g /dev/null
select dblink_exec('two', $$set test.pause = 'on'$$) \g /dev/null
create function test.late(session text) returns table(epoch text, top bigint, body jsonb) language plpgsql as $$
begin
    select r.epoch, r.top, r.body into epoch, top, body from dblink_get_result(session) as r(epoch text, top bigint, body jsonb);
    perform from dblink_get_result(session) as r(epoch text, top bigint, body jsonb);
    return next;
end
$$;
insert into care.dose_occurrence (id, user_id, scheduled_at) select 'sc' || n, 'sc', '2025-11-20 08:00Z' from generate_series(1, 3) as n;
insert into care.reminder_rule (id, user_id, time, timezone, label) values ('scr', 'sc', '08:00', 'UTC', 'before');

create temp table before as select test.top('sc') as top, body::jsonb from sync.adherence_day('sc', null);
select pg_advisory_lock(77) \g /dev/null
select dblink_send_query('two', $$select epoch, top, body::jsonb from sync.adherence_day('sc', null)$$) \g /dev/null
select test.is('a day is being read', test.wait_blocked('two'), 'blocked');
update care.dose_occurrence set status = 'taken' where id = 'sc1';
insert into care.dose_occurrence (id, user_id, scheduled_at) values ('sc4', 'sc', '2025-11-20 09:00Z');
select pg_advisory_unlock(77) \g /dev/null
create temp table late as select * from test.late('two');
select test.is('it is what was before', (select l.top = b.top and l.body - 'stats' = b.body - 'stats' from late as l, before as b), true);
select test.is('the next is what is now', (select d.top = test.top('sc') and jsonb_array_length(d.body::jsonb -> 'occurrences') = 4 and d.body::jsonb #>> '{summary,takenCount}' = '1' from sync.adherence_day('sc', null) as d), true);

-- As hubs ask: the statistics too.
select dblink_exec('two', $$set default_transaction_isolation = 'repeatable read'; set default_transaction_read_only = on$$) \g /dev/null
truncate before, late;
insert into before select test.top('sc'), body::jsonb from sync.adherence_day('sc', null);
select pg_advisory_lock(77) \g /dev/null
select dblink_send_query('two', $$select epoch, top, body::jsonb from sync.adherence_day('sc', null)$$) \g /dev/null
select test.is('a day is being read', test.wait_blocked('two'), 'blocked');
update care.dose_occurrence set status = 'taken' where user_id = 'sc';
select pg_advisory_unlock(77) \g /dev/null
insert into late select * from test.late('two');
select test.is('statistics and all of what was before', (select l.top = b.top and l.body = b.body from late as l, before as b), true);
select test.is('which were others', (select b.body -> 'stats' <> d.body::jsonb -> 'stats' from before as b, sync.adherence_day('sc', null) as d), true);

truncate before, late;
insert into before select test.top('sc', 'reminders'), body::jsonb from sync.reminders('sc');
select pg_advisory_lock(77) \g /dev/null
select dblink_send_query('two', $$select epoch, top, body::jsonb from sync.reminders('sc')$$) \g /dev/null
select test.is('reminders are being read', test.wait_blocked('two'), 'blocked');
update care.reminder_rule set label = 'after' where id = 'scr';
insert into care.reminder_occurrence (rule_id, user_id, original_local, status) values ('scr', 'sc', '2025-11-21 08:00', 'cancelled');
select pg_advisory_unlock(77) \g /dev/null
insert into late select * from test.late('two');
select test.is('they are what was before', (select l.top = b.top and l.body = b.body from late as l, before as b), true);
select test.is('and then what is now', (select r.top = test.top('sc', 'reminders') and r.body::jsonb #>> '{items,0,label}' = 'after' and jsonb_array_length(r.body::jsonb -> 'occurrences') = 1 from sync.reminders('sc') as r), true);

-- A writer that has numbered events and not committed: nobody waits for it, and nobody sees them.
select dblink_exec('one', 'begin') || dblink_exec('one', $$update care.dose_occurrence set status = 'missed' where id = 'sc2'$$) || dblink_exec('one', 'set constraints all immediate') \g /dev/null
create temp table open as select test.top('sc') as top, (select d.top from sync.adherence_day('sc', null) as d) as read, (select o.body::jsonb ->> 'status' from sync.adherence_occurrence('sc', 'sc2') as o) as status;
select dblink_exec('one', 'commit') \g /dev/null
select test.is('an open transaction is not seen', (select read = top and status = 'taken' and top < test.top('sc') from open), true);
select test.is('a committed one is', (select o.body::jsonb ->> 'status' || (o.top = test.top('sc')) from sync.adherence_occurrence('sc', 'sc2') as o), 'missedtrue');
select test.is('and in the month', (select m.body::jsonb #>> '{19,missedCount}' from sync.adherence_month('sc', '2025-11-01') as m), '1');
select dblink_disconnect(name) from unnest('{one,two}'::text[]) as name \g /dev/null
\ir ../functions/11_sync_clock.sql
reset timezone;
