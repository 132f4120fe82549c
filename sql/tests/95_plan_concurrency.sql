-- The planner beside other writers, held apart by locks, and seeded histories of edits against what must hold at any time.
set timezone = 'UTC';
select test.set_clock('2025-11-20 10:00Z') \g /dev/null
select test.open(name, :'connection') from unnest('{one,two}'::text[]) as name \g /dev/null
insert into care.product (id, name) values ('c1', 'One'), ('c2', 'Two'), ('c3', 'Three');
insert into care.stack (id, user_id, name) values ('cs', 'pc', 'Morning');
insert into care.stack_item (stack_id, product_id) values ('cs', 'c1');
insert into care.schedule (id, user_id, product_id, stack_id, time) values ('ck', 'pc', 'c1', null, '12:00'), ('cstack', 'pc', null, 'cs', '12:00');
create function test.ahead(of_schedule text) returns text language sql volatile as $$
    select coalesce(string_agg(n || ' ' || at || coalesce('/' || product_id, '') || ' ' || status, ', ' order by at, product_id, status), '')
    from (select count(*) as n, to_char(scheduled_at, 'HH24:MI') as at, product_id, status from care.dose_occurrence where schedule_id = of_schedule group by 2, 3, 4) as d $$;
-- One session has done something and not committed; the other begins, waits, and goes on when the first commits.
create function test.after_each_other(first text, second text) returns text language plpgsql as $$
declare
    waited text;
begin
    perform dblink_exec('one', 'begin'), dblink_exec('one', first);
    perform dblink_send_query('two', second);
    waited := test.wait_blocked('two');
    perform dblink_exec('one', 'commit');
    return waited || ' ' || test.outcome('two');
end
$$;

select test.is('two edits of a schedule: one after the other', test.after_each_other($$update care.schedule set time = '13:00' where id = 'ck'$$, $$update care.schedule set time = '14:00' where id = 'ck'$$), 'blocked done');
select test.is('and the later one holds', test.ahead('ck'), '15 12:00/c1 cancelled, 15 13:00/c1 cancelled, 15 14:00/c1 scheduled');
select id as dose from care.dose_occurrence where schedule_id = 'ck' and status = 'scheduled' order by local_date limit 1 \gset
select test.is('an edit waits for who takes a dose', test.after_each_other(format('update care.dose_occurrence set status = ''taken'', taken_at = sync.clock() where id = %L', :'dose'), $$update care.schedule set time = '15:00' where id = 'ck'$$), 'blocked done');
select test.is('and leaves it and its slot', test.ahead('ck'), '15 12:00/c1 cancelled, 15 13:00/c1 cancelled, 14 14:00/c1 cancelled, 1 14:00/c1 taken, 14 15:00/c1 scheduled');
select id as dose from care.dose_occurrence where schedule_id = 'ck' and status = 'scheduled' order by local_date limit 1 \gset
select test.is('who takes a dose waits for an edit', test.after_each_other($$update care.schedule set time = '16:00' where id = 'ck'$$, format('select answer from sync.apply(''pc'', ''late'', null, null, ''markTaken'', %L, null, null, null)', jsonb_build_object('occurrenceId', :'dose'))), 'blocked done');
select test.is('and is told that it is gone', (select answer ->> 'code' from sync.action where user_id = 'pc' and key = 'late'), 'gone');

select test.is('a schedule of a stack waits for an item that is added', test.after_each_other($$insert into care.stack_item (stack_id, product_id) values ('cs', 'c2')$$, $$insert into care.schedule (id, user_id, stack_id, time) values ('cs2', 'pc', 'cs', '18:00')$$), 'blocked done');
select test.is('and has it', test.ahead('cs2'), '15 18:00/c1 scheduled, 15 18:00/c2 scheduled');
select test.is('an item waits for a schedule that is added', test.after_each_other($$insert into care.schedule (id, user_id, stack_id, time) values ('cs3', 'pc', 'cs', '19:00')$$, $$insert into care.stack_item (stack_id, product_id) values ('cs', 'c3')$$), 'blocked done');
select test.is('and is in it', test.ahead('cs3'), '15 19:00/c1 scheduled, 15 19:00/c2 scheduled, 15 19:00/c3 scheduled');
select test.is('an item waits for an edit', test.after_each_other($$update care.schedule set time = '20:00' where id = 'cs3'$$, $$delete from care.stack_item where stack_id = 'cs' and product_id = 'c3'$$), 'blocked done');
select test.is('and both hold', test.ahead('cs3') ~ '15 20:00/c1 scheduled, 15 20:00/c2 scheduled, 15 20:00/c3 cancelled', true);
select test.is('an edit waits for an item', test.after_each_other($$delete from care.stack_item where stack_id = 'cs' and product_id = 'c2'$$, $$update care.schedule set time = '21:00' where id = 'cs3'$$), 'blocked done');
select test.is('both hold again', test.ahead('cs3') ~ '15 21:00/c1 scheduled$', true);
insert into care.user_settings (user_id, zone) values ('pc', 'UTC');
select test.is('a schedule waits for its user''s journey', test.after_each_other($$update care.user_settings set zone = 'Asia/Tokyo' where user_id = 'pc'$$, $$insert into care.schedule (id, user_id, product_id, time) values ('cz', 'pc', 'c1', '12:00')$$), 'blocked done');
select test.is('and is there', (select timezone from care.schedule where id = 'cz'), 'Asia/Tokyo');
select test.is('a journey waits for a schedule', test.after_each_other($$insert into care.schedule (id, user_id, product_id, time) values ('cz2', 'pc', 'c1', '12:00')$$, $$update care.user_settings set zone = 'UTC' where user_id = 'pc'$$), 'blocked done');
select test.is('and takes it along', (select timezone from care.schedule where id = 'cz2') || test.ahead('cz2'), 'UTC15 12:00/c1 scheduled');

-- The job waits for nobody, and works once. A batch ends after 20 ms, so there may be many.
create function test.job_done(clock timestamptz) returns bigint language plpgsql as $$
declare
    r record;
    total bigint := 0;
begin
    loop
        select * into r from sync.job('plan_doses', 1000, clock) as r;
        total := total + r.done;
        exit when not r.more;
    end loop;
    return total;
end
$$;
select dblink_exec('one', 'begin') || dblink_exec('one', $$update care.schedule set dose = 'one' where id = 'cz'$$) \g /dev/null
select test.job_done('2025-11-21 10:00Z') \g /dev/null
select test.is('the job leaves a schedule that is being written', (select max(d.local_date) from care.dose_occurrence as d where schedule_id = 'cz'), '2025-12-04'::date);
select test.is('and plans others', (select max(d.local_date) from care.dose_occurrence as d where schedule_id = 'cz2'), '2025-12-05'::date);
select dblink_exec('one', 'commit') \g /dev/null
begin;
select test.is('then it too', test.job_done('2025-11-21 10:00Z'), 1::bigint);
select test.is('two hubs at once: the other does nothing', (select t.done from dblink('two', $$select done from sync.job('plan_doses', 1000, '2025-11-22 10:00Z')$$) as t(done bigint)), 0::bigint);
rollback;
select test.is('killed before its commit, it has lost nothing', test.job_done('2025-11-21 10:00Z'), 1::bigint);
select test.is('no day is there twice or missing', (select max(local_date) || ' ' || count(*) from care.dose_occurrence where schedule_id = 'cz'), '2025-12-05 16');
select dblink_disconnect(name) from unnest('{one,two}'::text[]) as name \g /dev/null

-- Histories: edits, pauses, journeys, stacks, takings, cancellations and days that pass, from seeds.
create function test.pick(variadic texts text[]) returns text language sql volatile as $$ select texts[1 + floor(random() * cardinality(texts))::int] $$;
create function test.one_edit(who text) returns text language plpgsql as $$
declare
    s text := (select id from care.schedule where user_id = who order by random() limit 1);
    d text := (select id from care.dose_occurrence where user_id = who and status in ('scheduled', 'missed') order by random() limit 1);
    what text := test.pick('time', 'time', 'pause', 'repeat', 'ends', 'starts', 'product', 'stack', 'item', 'less', 'zone', 'mode', 'take', 'skip', 'cancel', 'reopen', 'new', 'delete', 'day', 'day', 'job', 'miss');
    zones constant text[] := '{UTC,Asia/Tokyo,America/New_York,Pacific/Apia,Australia/Lord_Howe,Pacific/Honolulu}';
begin
    case what
        when 'time' then update care.schedule set time = test.pick('00:10', '07:00', '08:00', '12:00', '20:00', '23:50')::time where id = s and repeat <> 'as_needed';
        when 'pause' then update care.schedule set enabled = not enabled where id = s;
        when 'repeat' then update care.schedule set repeat = test.pick('daily', 'weekdays', 'custom'), repeat_on = '{2,6}' where id = s;
        when 'ends' then update care.schedule set ends_on = case when ends_on is null then sync.clock()::date + (random() * 10)::int end where id = s;
        when 'starts' then update care.schedule set starts_on = sync.clock()::date + (random() * 6)::int - 3 where id = s;
        when 'product' then update care.schedule set product_id = test.pick('c1', 'c2'), stack_id = null where id = s;
        when 'stack' then update care.schedule set product_id = null, stack_id = 'h' || who where id = s;
        when 'item' then insert into care.stack_item (stack_id, product_id) values ('h' || who, test.pick('c1', 'c2', 'c3')) on conflict do nothing;
        when 'less' then delete from care.stack_item where stack_id = 'h' || who and product_id = test.pick('c1', 'c2', 'c3');
        when 'zone' then insert into care.user_settings (user_id, zone) values (who, test.pick(variadic zones)) on conflict (user_id) do update set zone = excluded.zone;
        when 'mode' then update care.schedule set tz_mode = test.pick('follow', 'fixed'), timezone = test.pick(variadic zones) where id = s;
        when 'take' then update care.dose_occurrence set status = 'taken', taken_at = sync.clock() where id = d;
        when 'skip' then update care.dose_occurrence set status = 'skipped' where id = d;
        when 'cancel' then update care.dose_occurrence set status = 'cancelled' where id = d and status = 'scheduled';
        when 'reopen' then update care.dose_occurrence set status = 'taken', taken_at = sync.clock() where id = (select id from care.dose_occurrence as o where o.user_id = who and o.status = 'cancelled'
            and not exists (select from care.dose_occurrence as x where (x.schedule_id, x.product_id, x.local_date) = (o.schedule_id, o.product_id, o.local_date) and x.status not in ('cancelled', 'scheduled')) order by random() limit 1);
        when 'new' then insert into care.schedule (id, user_id, product_id, time, starts_on) select who || n, who, 'c1', '09:00', case when random() < 0.5 then sync.clock()::date - 3 end from count_schedules(who) as n where n < 5 on conflict do nothing;
        when 'delete' then delete from care.schedule where id = s and random() < 0.3;
        when 'day' then perform test.set_clock(sync.clock() + random() * interval '2 days');
        when 'job' then perform test.job_done(sync.clock());
        else perform sync.job('miss_doses', 1000, sync.clock());
    end case;
    return what;
end
$$;
create function count_schedules(who text) returns bigint language sql volatile as $$ select count(*) from care.schedule where user_id = who $$;
-- Runs a history; the first thing that does not hold, or null. A dose whose time had come, or that was acted on, is after each
-- edit as it was before, but for what the edit itself says of it; and one that nobody has acted on gives way to a dose of its
-- slot that comes back.
create function test.history_fault(seed int, edits int) returns text language plpgsql as $$
declare
    who text := 'hist' || seed;
    what text;
    fault text;
    before timestamptz;
begin
    perform setseed(seed / 1000.0), test.set_clock('2025-11-20 10:00Z');
    insert into care.stack (id, user_id, name) values ('h' || who, who, 'Morning');
    insert into care.schedule (id, user_id, product_id, time) values (who || 'a', who, 'c1', '08:00'), (who || 'b', who, 'c2', '20:00');
    create temp table if not exists was (like care.dose_occurrence);
    for n in 1..edits loop
        truncate was;
        insert into was select * from care.dose_occurrence where user_id = who;
        before := sync.clock();
        what := test.one_edit(who);
        select format('seed %s edit %s %s: history changed', seed, n, what) into fault
        from was join care.dose_occurrence as d using (id)
        where was.status <> 'cancelled' and (was.status <> 'scheduled' or was.scheduled_at <= before) and d.* *<> was.* and what not in ('take', 'skip', 'cancel', 'miss', 'reopen')
            and not (was.status = 'scheduled' and d.status = 'cancelled' and d.cancelled_by_plan and exists (
                select from was as x join care.dose_occurrence as y using (id)
                where (y.schedule_id, y.product_id, y.local_date) = (was.schedule_id, was.product_id, was.local_date)
                    and x.status = 'cancelled' and x.cancelled_by_plan and y.status = 'scheduled' and y.window_end > sync.clock()));
        exit when fault is not null;
        select format('seed %s edit %s %s: two doses in a slot', seed, n, what) into fault
        from care.dose_occurrence where user_id = who and status <> 'cancelled' group by schedule_id, product_id, local_date having count(*) > 1;
        exit when fault is not null;
        select format('seed %s edit %s %s: an id', seed, n, what) into fault from care.dose_occurrence where user_id = who
            and id not in (care.occurrence_id(schedule_id, local_date + local_time), care.occurrence_id(schedule_id, local_date + local_time, product_id));
        exit when fault is not null;
        select format('seed %s edit %s %s: a person''s cancellation came back', seed, n, what) into fault
        from was join care.dose_occurrence as d using (id) where was.status = 'cancelled' and not was.cancelled_by_plan and d.status = 'scheduled';
        exit when fault is not null;
        -- What a schedule gives ahead, within its horizon, is there, or its slot or its id is taken, or a person cancelled a dose of its
        -- slot (a begun one had kept it from being made), or one of a schedule that has it no more is asked for instead; and nothing else is ahead, but for what stays because today's new time has passed.
        select format('seed %s edit %s %s: a dose is missing: %s', seed, n, what, w) into fault
        from care.schedule as s join care.schedule_plan as p on p.schedule_id = s.id cross join lateral care.slots(s, before::date - 1, p.planned_until) as w
        where s.user_id = who and w.at > sync.clock() and not exists (select from care.dose_occurrence as d where d.id = w.id and (not d.cancelled_by_plan or d.status <> 'cancelled'))
            and not exists (select from care.dose_occurrence as d where d.schedule_id = w.schedule_id and d.product_id = w.product_id and d.local_date = w.day and (d.status <> 'cancelled' or not d.cancelled_by_plan))
            and not exists (select from care.dose_occurrence as d where d.user_id = who and d.product_id = w.product_id and d.local_date = w.day and d.local_time = w.wall and d.status <> 'cancelled'
                            and not exists (select from care.schedule as s where s.id = d.schedule_id and s.time = d.local_time and s.enabled));
        exit when fault is not null;
        select format('seed %s edit %s %s: a dose too many: %s', seed, n, what, d.id) into fault
        from care.dose_occurrence as d where d.user_id = who and d.status = 'scheduled' and d.scheduled_at > sync.clock()
            and not exists (select from care.schedule as s cross join lateral care.slots(s, d.local_date, d.local_date) as w
                            where s.id = d.schedule_id and (w.id = d.id or w.at <= sync.clock() and w.product_id = d.product_id));
        exit when fault is not null;
    end loop;
    return fault;
end
$$;
select test.is('history ' || n, test.history_fault(n, 60), null) from generate_series(1, 6) as n;
select test.is('their summaries are those of the rows', test.summaries_hold(), true);
delete from care.schedule where user_id in ('pc') or user_id like 'hist%';
