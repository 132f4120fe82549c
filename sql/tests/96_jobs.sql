-- Jobs: missed doses, retention, and the audit of doses. The clock is the job's argument.
set timezone = 'UTC';
create function test.miss(clock timestamptz, batch int default 100) returns text language sql as $$
    select done || case when more then ' more' else '' end from sync.job('miss_doses', batch, clock) $$;
create function test.history(who text, dose text) returns text language sql as $$
    select string_agg(concat_ws(' ', e ->> 'actor', e ->> 'deviceId', e ->> 'key',
                                coalesce(e #>> '{before,status}', '-') || '>' || coalesce(e #>> '{after,status}', '-')), ', ' order by n)
    from sync.adherence_occurrence(who, dose) as o, jsonb_array_elements(o.body::jsonb -> 'history') with ordinality as t(e, n) $$;
create function test.miss_all(clock timestamptz default '2200-01-01Z') returns bigint language plpgsql as $$
declare
    missed bigint := 0;
    r record;
begin
    loop
        select * into r from sync.job('miss_doses', 1000, clock);
        missed := missed + r.done;
        exit when not r.more;
    end loop;
    return missed;
end
$$;
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
select count(*) as before from care.dose_audit where actor = 'system' and was_status = 'scheduled' and status = 'missed' and user_id <> '' \gset
select test.miss_all() as missed \gset
select test.is('what other tests left is missed, each once', (select count(*) - :before from care.dose_audit where actor = 'system' and was_status = 'scheduled' and status = 'missed' and user_id <> '')
    + (select count(*) from care.dose_occurrence where status = 'missed' and coalesce(user_id, '') = '') >= :missed, true);
select test.is('and no dose is open', (select count(*) from care.dose_occurrence where status = 'scheduled'), 0::bigint);

-- Windows end at 11:00; the grace ends at 11:30.
select test.plan('job', 'job' || n) from generate_series(1, 6) as n \g /dev/null
insert into care.dose_occurrence (id, scheduled_at, window_end) values ('job-nobody', '2025-11-20 08:00Z', '2025-11-20 11:00Z');
select test.is('no lag before the grace ends', sync.job_lag('miss_doses', '2025-11-20 11:29Z'), 0::double precision);
select test.is('nothing before the grace ends', test.miss('2025-11-20 11:29:59.999999Z'), '0');
select test.is('a lag after it', sync.job_lag('miss_doses', '2025-11-20 11:31Z'), 60::double precision);
select test.is('a batch', test.miss('2025-11-20 11:30Z', 4), '4 more');
select test.is('and the rest, that of nobody with it', test.miss('2025-11-20 11:30Z', 4), '3');
select test.is('and no more', test.miss('2025-11-20 11:30Z', 4), '0');
select test.is('all missed, once, by no action', (select string_agg(concat_ws(' ', status, rev, status_rev, changed_key), ',') from care.dose_occurrence where user_id = 'job'), 'missed 2 2,missed 2 2,missed 2 2,missed 2 2,missed 2 2,missed 2 2');
select test.is('no lag then', sync.job_lag('miss_doses', null), 0::double precision);
select test.is('one event for each', (select string_agg(n::text, ' ') from (select count(*) as n from sync.event where user_id = 'job' and name = 'occurrence.updated' group by data ->> 'occurrenceId') as e), '1 1 1 1 1 1');
select test.is('its day is counted', (select concat_ws(' ', missed_count, pending_count) from care.day_summary where user_id = 'job'), '6 0');
select test.is('the actor is the system''s, and stays in the job', test.history('job', 'job1') || ' ' || coalesce(current_setting('sync.actor', true), ''), 'backend ->scheduled, system scheduled>missed ');

select test.fails('no such job', $$select * from sync.job('mow_lawn', 10, null)$$, '22023');
select test.fails('a job of null', $$select * from sync.job(null, 10, null)$$, '22023');
select test.fails('no batch', $$select * from sync.job('miss_doses', 0, null)$$, '22023');
select test.is('a lag that nobody knows', sync.job_lag('retain_events', null), null);

-- An offline phone comes late: taken within the window. Its undo brings back the missed dose; one of a dose that was open
-- opens it again, and it is missed again.
select test.is('a late markTaken', test.short(test.act('job', 'late', 'markTaken', '{"occurrenceId":"job1","takenAt":"2025-11-20T09:00:00Z"}', device => 'phone')), 'applied');
select test.is('undoes the miss', test.row('job1'), 'taken 09:00 3 3 1 late');
select test.is('and stands', test.miss('2025-11-20 12:00Z'), '0');
select test.is('undone', test.short(test.act('job', 'u', 'undo', '{"targetKey":"late"}')), 'applied');
select test.is('it is missed as before', test.row('job1'), 'missed 4 4 1 u');
select test.plan('job', 'reopened') \g /dev/null
select test.is('taken, then undone after its end', test.short(test.act('job', 't', 'markTaken', '{"occurrenceId":"reopened"}')) || test.miss('2025-11-20 11:31Z') || test.short(test.act('job', 'ut', 'undo', '{"targetKey":"t"}')), 'applied0applied');
select test.is('is open again', (select status from care.dose_occurrence where id = 'reopened'), 'scheduled');
select test.is('and missed by the next batch', test.miss('2025-11-20 11:31Z') || ' ' || test.miss('2025-11-20 11:31Z'), '1 0');
select test.is('all of it is its history', test.history('job', 'reopened'), 'backend ->scheduled, user t scheduled>taken, user ut taken>scheduled, system scheduled>missed');
select test.is('with devices', test.history('job', 'job1'), 'backend ->scheduled, system scheduled>missed, user phone late missed>taken, user u taken>missed');

-- A batch ends when its time is over, whatever it was asked for: its users' devices wait for it.
create function test.slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.001); return new; end $$;
create trigger slow before update on care.dose_occurrence for each row when (new.user_id = 'jobslow') execute function test.slow();
select test.plan('jobslow', 'jobslow' || n) from generate_series(1, 30) as n \g /dev/null
select test.is('ten doses took ten milliseconds: the others are for the next batches', test.miss('2025-11-20 12:00Z', 30), '10 more');
drop trigger slow on care.dose_occurrence;
select test.is('which do them: as many as there is time for', test.miss_all('2025-11-20 12:00Z'), 20::bigint);

-- Corrections: what the hub counts.
create function test.corrections(key text, type text, payload jsonb) returns text language sql as $$
    select a.status || ' ' || a.corrections from sync.apply('job', key, null, null, type, payload::text, null, null, null) as a $$;
select test.is('a correction is counted', test.corrections('c1', 'markTaken', '{"occurrenceId":"job2","takenAt":"2025-11-20T09:00:00Z"}'), 'applied 1');
select test.is('not again for a repeat', test.corrections('c1', 'markTaken', '{"occurrenceId":"job2","takenAt":"2025-11-20T09:00:00Z"}'), 'applied 0');
select test.is('of many', test.corrections('c2', 'bulkMarkAll', '{"occurrenceIds":["job2","job3","job4"],"takenAt":"2025-11-20T09:00:00Z"}'), 'applied 2');
select test.is('a make-up is none', test.corrections('c3', 'makeUp', '{"occurrenceId":"job5"}'), 'applied 0');
select test.is('nor is an undo', test.corrections('c4', 'undo', '{"targetKey":"c1"}'), 'applied 0');
select test.is('nor what is too late', test.corrections('c5', 'markTaken', '{"occurrenceId":"job6"}'), 'conflict 0');

-- The audit: what of a dose changed, and nothing else.
update care.dose_occurrence set note = 'secret words' where id = 'job6';
update care.dose_occurrence set note = note where id = 'job6';
select test.is('a note is told without its text', (select a #>> '{before,hasNote}' || ' ' || (a #>> '{after,hasNote}') || ' ' || (a::text ~ 'secret') from (select care.audit_json(l) as a from care.dose_audit as l where occurrence_id = 'job6' order by n desc limit 1) as x), 'false true false');
create function test.details(dose text) returns text language sql as $$
    select concat_ws(' ', was_details ->> 'productId', was_details ->> 'dose', was_details ->> 'windowEnd', '>', details ->> 'productId', details ->> 'dose', details ->> 'windowEnd')
    from care.dose_audit where occurrence_id = dose order by n desc limit 1 $$;
select test.is('what it is of did not change', test.details('job6'), '>');
insert into care.product (id, name) values ('job-p', 'One'), ('job-q', 'Other');
insert into care.dose_occurrence (id, user_id, product_id, dose, scheduled_at, window_end) values ('job-of', 'job', 'job-p', '1', '2030-01-01 08:00Z', '2030-01-01 12:00Z'), ('job-of2', 'job', 'job-p', '1', '2030-01-01 08:00Z', '2030-01-01 12:00Z');
set timezone = 'Asia/Kathmandu';
update care.dose_occurrence set product_id = 'job-q', dose = '2' where id = 'job-of';
select test.is('another product: before and after', test.details('job-of'), 'job-p 1 2030-01-01T12:00:00+00:00 > job-q 2 2030-01-01T12:00:00+00:00');
reset timezone;
update care.dose_occurrence set window_end = window_end + interval '1 hour' where id like 'job-of%';
select test.is('another window, of many', test.details('job-of') || ', ' || test.details('job-of2'), 'job-q 2 2030-01-01T12:00:00+00:00 > job-q 2 2030-01-01T13:00:00+00:00, job-p 1 2030-01-01T12:00:00+00:00 > job-p 1 2030-01-01T13:00:00+00:00');
update care.dose_occurrence set status = 'skipped' where id = 'job-of2';
select test.is('an update of its status has none', test.details('job-of2'), '>');
select test.is('a history shows them', (select concat_ws(' ', h #>> '{-2,before,windowEnd}', h #>> '{-2,after,windowEnd}', (h #> '{-1,after}' ? 'windowEnd')::text) from (select body::jsonb -> 'history' as h from sync.adherence_occurrence('job', 'job-of2')) as o), '2030-01-01T12:00:00+00:00 2030-01-01T13:00:00+00:00 false');
update care.dose_occurrence set status = 'scheduled' where id = 'job-of2';
create function test.names(dose text) returns text language sql as $$
    select concat_ws(' ', was_details ->> 'productName', '>', details ->> 'productName') from care.dose_audit where occurrence_id = dose order by n desc limit 1 $$;
update care.product set name = 'New' where id = 'job-p';
select care.job_spread_products(1000, sync.clock()) \g /dev/null
select test.is('a product has a new name', test.names('job-of2'), 'One > New');
update care.dose_occurrence set status = 'taken', taken_at = now() where id = 'job-of2';
update care.product set name = 'Newer' where id = 'job-p';
select care.job_spread_products(1000, sync.clock()) \g /dev/null
select test.is('a dose that was taken keeps what was true', test.names('job-of2'), '>');
update care.dose_occurrence set status = 'scheduled', taken_at = null where id = 'job-of2';
select test.is('one that is scheduled again follows its product', test.names('job-of2'), 'New > Newer');
select test.is('nobody else writes the revision of the details', (select d.details_rev = a.rev from care.dose_occurrence as d join care.dose_audit as a on a.occurrence_id = d.id where d.id = 'job-of2' order by a.n desc limit 1), true);
update care.dose_occurrence set details_rev = 0 where id = 'job-of2';
select test.is('it stays', test.names('job-of2') || ' ' || (select details_rev > 0 from care.dose_occurrence where id = 'job-of2')::text, '> true');
delete from care.dose_occurrence where id like 'job-of%';
select test.is('a deleted dose leaves what it was of', test.details('job-of'), 'job-q 2 2030-01-01T13:00:00+00:00 >');
update care.dose_occurrence set user_id = 'job-other' where id = 'job6';
select test.is('a dose that goes to another user ends for the one', (select string_agg(concat_ws(' ', was_status, '>', status), ', ' order by n) from care.dose_audit where occurrence_id = 'job6' and user_id = 'job'), '> scheduled, scheduled > missed, missed > missed, missed >');
select test.is('and begins for the other', test.history('job-other', 'job6'), 'backend ->missed');
delete from care.dose_occurrence where id = 'job6';
select test.is('a deletion is kept', (select concat_ws(' ', was_status, was_rev, status) from care.dose_audit where occurrence_id = 'job6' order by n desc limit 1), 'missed 4');
insert into care.dose_occurrence (id, user_id, scheduled_at) select 'job-long', 'job', '2030-01-01 08:00Z';
do $$ begin for i in 1..250 loop update care.dose_occurrence set reason = i::text where id = 'job-long'; end loop; end $$;
select test.is('the history is the last two hundred', (select concat_ws(' ', jsonb_array_length(h), h #>> '{0,after,reason}', h #>> '{-1,after,reason}') from (select body::jsonb -> 'history' as h from sync.adherence_occurrence('job', 'job-long')) as o), '200 51 250');
insert into care.dose_occurrence (id, user_id, scheduled_at) select 'jobmany' || n, 'jobmany' || n % 7, '2030-01-01 08:00Z' from generate_series(1, 500) as n;
update care.dose_occurrence set status = 'skipped' where id like 'jobmany%';
select test.is('a statement for many', (select count(*) || ' ' || count(distinct occurrence_id) from care.dose_audit where occurrence_id like 'jobmany%'), '1000 500');
select test.fails('no row of it is changed', 'update care.dose_audit set status = null', '42501');
select test.fails('nor deleted', $$delete from care.dose_audit where user_id = 'job'$$, '42501');
select test.fails('nor truncated', 'truncate care.dose_audit', '42501');
select test.fails('nor erased while there are doses', $$select care.erase_audit('job')$$, '55000');
delete from care.dose_occurrence where user_id = 'jobmany1';
select test.is('what is of a user who is gone may be erased', care.erase_audit('jobmany1'), 216::bigint);
select test.is('all of it', (select count(*) from care.dose_audit where user_id = 'jobmany1'), 0::bigint);
select test.fails('and that is over', $$delete from care.dose_audit where user_id = 'jobmany2'$$, '42501');

-- Retention.
create function test.job(name text, batch int, clock timestamptz) returns text language plpgsql as $$
begin
    return (select done || ' ' || more from sync.job(name, batch, clock));
end
$$;
select test.is('no action is old', test.job('retain_actions', 10000, '2020-01-01Z'), '0 false');
insert into sync.action (user_id, key, type, digest, status, answer, created_at) select 'retain', n::text, 'skip', '', 'noop', '{}', '2020-01-01Z' from generate_series(1, 5) as n;
select test.is('ninety days after', (select string_agg(test.job('retain_actions', 3, '2020-04-01Z'), ', ') from generate_series(1, 3)), '3 true, 2 false, 0 false');
select test.is('events stay seven days', test.job('retain_events', 10000, now() + interval '6 days'), '0 false');
set sync.retain_days = '3';
select test.is('or as many as are set', test.job('retain_events', 1, now() + interval '4 days'), '1 true');
reset sync.retain_days;

-- Beside others. A dose that somebody holds is left alone; who waits for a job decides by what it left.
select test.open(name, :'connection') from unnest('{one,two,three}'::text[]) as name \g /dev/null
select test.plan('jc', 'jc' || n) from generate_series(1, 6) as n \g /dev/null
create function test.sent(session text, statement text) returns int language sql as $$ select dblink_send_query(session, statement) $$;
create function test.opened(session text, statement text) returns text language plpgsql as $$
begin
    perform dblink_exec(session, 'begin');
    return (select t.answer from dblink(session, statement) as t(answer text));
end
$$;
create function test.job_call() returns text language sql as $$ select 'select done || '' '' || more from sync.job(''miss_doses'', 100, ''2025-11-20 12:00Z'')'::text $$;
create function test.taken(dose text) returns text language sql as $$ select format($f$select answer from sync.apply('jc', %L, null, null, 'markTaken', '{"occurrenceId":"%s","takenAt":"2025-11-20T09:00:00Z"}', null, null, null)$f$, 'k-' || dose, dose) $$;
create function test.text_of(session text) returns text language plpgsql as $$
declare
    a text;
begin
    select t.answer into a from dblink_get_result(session) as t(answer text);
    perform * from dblink_get_result(session) as t(answer text);
    return a;
end
$$;
-- 1: the action first. It holds its dose, and the stream too, for it has flushed: the job leaves all doses of that user.
select test.plan('jcalm', 'jcalm1') \g /dev/null
select test.opened('one', test.taken('jc1')) \g /dev/null
select test.is('the job waits for no stream, and takes what is of others', (select a from dblink('two', test.job_call()) as t(a text)), '1 false');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('the rest is for the next call', test.miss('2025-11-20 12:00Z'), '5');
select test.is('the action stands', (select status from care.dose_occurrence where id = 'jc1'), 'taken');
-- 2: the job first. The action waits for its dose, and undoes the miss.
select test.plan('jc', 'jd' || n) from generate_series(1, 2) as n \g /dev/null
select test.is('the job holds two doses', test.opened('one', test.job_call()), '2 false');
select test.sent('two', test.taken('jd1')) \g /dev/null
select test.is('the action waits for its dose', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and is applied', test.short(test.text_of('two')::jsonb), 'applied');
select test.is('to a missed dose', test.history('jc', 'jd1'), 'backend ->scheduled, system scheduled>missed, user k-jd1 missed>taken');
-- 3: two jobs at once.
select test.plan('jc', 'je' || n) from generate_series(1, 2) as n \g /dev/null
select test.is('a job', test.opened('one', test.job_call()), '2 false');
select test.is('another at the same time does nothing, and waits for nobody', (select a from dblink('two', test.job_call()) as t(a text)), '0 false');
select test.is('without the lock, it finds the doses held', (select a from dblink('two', $$select done || ' ' || more from care.job_miss_doses(100, '2025-11-20 12:00Z')$$) as t(a text)), '0 false');
select dblink_exec('one', 'rollback') \g /dev/null
select test.is('a job that is killed leaves them open', (select string_agg(status, ' ') from care.dose_occurrence where id in ('je1', 'je2')), 'scheduled scheduled');
select test.is('and the next one takes them', (select a from dblink('two', test.job_call()) as t(a text)), '2 false');
-- 4: an import that has flushed holds one stream, and then wants doses and streams that the job could have.
select test.plan('jz' || n, 'jf' || n) from generate_series(1, 3) as n \g /dev/null
select dblink_exec('one', 'begin') || dblink_exec('one', $$update care.dose_occurrence set note = 'import' where id = 'jf3'$$) || dblink_exec('one', 'set constraints all immediate') \g /dev/null
select test.is('the job waits for nobody', test.opened('two', test.job_call()), '2 false');
select test.sent('one', $$update care.dose_occurrence set note = 'import' where id in ('jf1', 'jf2')$$) \g /dev/null
select test.is('the import waits for the job', test.wait_blocked('one'), 'blocked');
select dblink_exec('two', 'commit') \g /dev/null
select test.is('and there is no deadlock', test.outcome('one'), 'done');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('what was held is for the next call', test.miss('2025-11-20 12:00Z'), '1');
-- 5: an import has the streams of many users. Their doses are looked at once, and one behind them is done.
select test.plan('jl' || n, 'jl' || n) from generate_series(1, 3000) as n \g /dev/null
select test.plan('jlast', 'jlast') \g /dev/null
update care.dose_occurrence set window_end = '2025-11-20 11:00:01Z' where id = 'jlast';
insert into care.dose_occurrence (id, scheduled_at, window_end) values ('jlast-nobody', '2025-11-20 08:00Z', '2025-11-20 11:00:02Z');
select dblink_exec('one', 'begin') || dblink_exec('one', $$do 'begin perform from sync.stream where user_id like ''jl%'' and user_id <> ''jlast'' for update; end'$$) \g /dev/null
begin;
-- Counters may hold those of transactions before this one, which PostgreSQL tells at most once a second.
select idx_tup_fetch as looked from pg_stat_xact_all_tables where relid = 'care.dose_occurrence'::regclass \gset
select test.is('the job reaches what is behind many that are held', test.miss('2025-11-20 12:00Z', 1000), '2');
select test.is('and has looked at each of them once', (select case when idx_tup_fetch - :looked between 3000 and 7000 then 'yes' else format('%s by an index, %s by %s scans', idx_tup_fetch - :looked, seq_tup_read, seq_scan) end from pg_stat_xact_all_tables where relid = 'care.dose_occurrence'::regclass), 'yes');
commit;
select dblink_exec('one', 'rollback') \g /dev/null
do $$ begin while (select more from sync.job('miss_doses', 1000, '2025-11-20 12:00Z')) loop commit; end loop; end $$;
select test.is('all of them are done when they are free', (select count(*) from care.dose_occurrence where user_id like 'jl%' and status = 'missed'), 3001::bigint);
select test.is('no stream is left behind', test.miss('2025-11-20 12:00Z'), '0');
select dblink_disconnect(name) from unnest('{one,two,three}'::text[]) as name \g /dev/null
select test.is('no dose of all has two misses in a row', (select count(*) from (select status = 'missed' and lag(status) over (partition by occurrence_id order by n) = 'missed' and actor = 'system' as twice from care.dose_audit) as x where twice), 0::bigint);
select test.is('summaries are those of the rows', test.summaries_hold(), true);
drop function test.miss_all(timestamptz), test.text_of(text), test.opened(text, text), test.sent(text, text);
