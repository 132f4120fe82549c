-- What is run again changes nothing and disturbs nobody.
begin;
set local role carillon_owner;
\ir ../functions/12_sync_change.sql
\ir ../functions/13_care_intent.sql
\ir ../functions/20_sync_flush.sql
\ir ../functions/52_care_before_write.sql
\ir ../functions/59_care_triggers.sql
\ir ../functions/80_publish_care.sql
reset role;
select test.is('functions again: no lock that stops writers', (
    select count(*) from pg_locks as l join pg_class as c on c.oid = l.relation
    where l.pid = pg_backend_pid() and c.relnamespace in ('care'::regnamespace, 'sync'::regnamespace) and c.relkind = 'r'
        and c.relname <> 'published' and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')), 0::bigint);
commit;
select test.is('and every trigger once', (select count(*) from pg_trigger where not tgisinternal and tgrelid in (select oid from pg_class where relnamespace = 'care'::regnamespace)), 86::bigint);
drop trigger complete on care.reminder_rule;
create trigger complete before insert on care.reminder_rule for each row execute function care.complete_dose();
alter table care.product disable trigger bump_rev;
set role carillon_owner;
\ir ../functions/59_care_triggers.sql
reset role;
select test.is('another trigger of the name is replaced', (select tgfoid::regprocedure::text from pg_trigger where tgrelid = 'care.reminder_rule'::regclass and tgname = 'complete'), 'care.complete_reminder()');
select test.is('a disabled one enabled', (select tgenabled from pg_trigger where tgrelid = 'care.product'::regclass and tgname = 'bump_rev'), 'A'::"char");

-- The demonstration has doses from today on, at any hour.
set role carillon_owner;
\ir ../demo.sql
\ir ../demo.sql
reset role;
set timezone = 'UTC';
select test.is('demo: six doses at least for today, in UTC and there', (
    select min(n) from (
        select (select count(*) from care.dose_occurrence as d where d.user_id = s.user_id and d.local_date = day) as n
        from care.user_settings as s
        cross join lateral (select current_date as day union all select (now() at time zone s.zone)::date) as days
        where s.user_id in ('demo', 'demo2')) as counted) >= 6, true);
select test.is('and again: no dose more', (select count(*) - count(distinct (schedule_id, product_id, local_date)) from care.dose_occurrence where user_id in ('demo', 'demo2')), 0::bigint);
reset timezone;
