-- Streaks and statistics: the days' own, late actions that repair or break them, the user's today.
set timezone = 'UTC';
select test.set_clock('2025-11-20 23:00Z') \g /dev/null
create function test.runs(who text) returns text language sql as $$
    select string_agg(run || '/' || best, ' ' order by date) from care.day_summary where user_id = who $$;
-- What the rows say, from the first day on: nothing of care.day_summary's own streaks.
create function test.streaks_hold() returns boolean language plpgsql as $$
declare
    s record;
    who text;
    run int;
    best int;
begin
    for s in select d.user_id, d.date, d.run, d.best, count(*) filter (where o.status in ('missed', 'scheduled')) as bad, count(*) filter (where o.status in ('taken', 'made_up')) as good
        from care.day_summary as d join care.dose_occurrence as o on o.user_id = d.user_id and o.local_date = d.date group by 1, 2, 3, 4 order by 1, 2
    loop
        if s.user_id is distinct from who then
            who := s.user_id; run := 0; best := 0;
        end if;
        run := case when s.bad > 0 then 0 when s.good > 0 then run + 1 else run end;
        best := greatest(best, run);
        if (run, best) <> (s.run, s.best) then
            return false;
        end if;
    end loop;
    return true;
end
$$;
create function test.stats(who text) returns text language sql as $$
    select concat_ws(' ', s ->> 'currentStreakDays', s ->> 'bestStreakDays', coalesce(s ->> 'avg30DaysPct', '-'), coalesce(s ->> 'doses30Pct', '-')) from (select care.stats(who) as s offset 0) as t $$;

select test.is('nobody', test.stats('st'), '0 0 - -');
select test.plan('st', 'st' || n, 'taken', '2025-11-10'::date + n) from generate_series(1, 9) as n \g /dev/null
select test.is('nine perfect days', test.runs('st') || ' ' || test.stats('st'), '1/1 2/2 3/3 4/4 5/5 6/6 7/7 8/8 9/9 9 9 100.0 100.0');
select test.plan('st', 'st10') \g /dev/null
select test.is('today is open: it breaks nothing', test.stats('st'), '9 9 100.0 100.0');
select test.act('st', '1', 'markTaken', '{"occurrenceId":"st10"}') \g /dev/null
select test.is('today perfect: it counts', test.stats('st'), '10 10 100.0 100.0');
update care.dose_occurrence set status = 'missed' where id = 'st5';
select test.is('a day in the middle is missed', test.runs('st'), '1/1 2/2 3/3 4/4 0/4 1/4 2/4 3/4 4/4 5/5');
select test.is('and its event has the statistics', (select data -> 'stats' from sync.event where user_id = 'st' and name = 'adherence.summary_updated' order by o desc limit 1), '{"currentStreakDays": 5, "bestStreakDays": 5, "avg30DaysPct": 88.9, "doses30Pct": 88.9}');
create temp table top_then as select test.top('st') as top;
select test.act('st', '2', 'makeUp', '{"occurrenceId":"st5"}') \g /dev/null
select test.is('made up days later: repaired', test.runs('st') || ' ' || test.stats('st'), '1/1 2/2 3/3 4/4 5/5 6/6 7/7 8/8 9/9 10/10 10 10 100.0 100.0');
select test.is('one summary event, of that day', (select test.events('st', 'adherence', top) from top_then), 'occurrence.updated st5, adherence.summary_updated 2025-11-15');
update care.dose_occurrence set status = 'skipped' where id = 'st3';
select test.is('a skipped day is passed over', test.runs('st') || ' ' || test.stats('st'), '1/1 2/2 2/2 3/3 4/4 5/5 6/6 7/7 8/8 9/9 9 9 100.0 100.0');
delete from care.dose_occurrence where id = 'st2';
select test.is('a day that goes', test.runs('st'), '1/1 1/1 2/2 3/3 4/4 5/5 6/6 7/7 8/8');
select test.plan('st', 'in', 'missed', '2025-11-12') \g /dev/null
select test.is('one that comes, missed', test.runs('st'), '1/1 0/1 0/1 1/1 2/2 3/3 4/4 5/5 6/6 7/7');
update care.dose_occurrence set status = 'cancelled' where id = 'in';
select test.is('cancelled: a day without a judgement', test.runs('st'), '1/1 1/1 1/1 2/2 3/3 4/4 5/5 6/6 7/7 8/8');
update care.dose_occurrence set status = case id when 'st4' then 'missed' else 'taken' end where user_id = 'st';
select test.is('many days at once', test.runs('st'), '1/1 2/2 3/3 0/3 1/3 2/3 3/3 4/4 5/5 6/6');
update care.dose_occurrence set local_date = '2025-11-14' where id = 'st7';
select test.is('a dose moved to a missed day', test.runs('st'), '1/1 2/2 3/3 0/3 1/3 2/3 3/3 4/4 5/5');
select test.act('st', '3', 'undo', '{"targetKey":"1"}') \g /dev/null
update care.dose_occurrence set status = 'missed' where id = 'st10';
select test.is('today missed is still open', test.stats('st'), '4 4 93.8 88.9');
select test.set_clock('2025-11-21 00:30Z') \g /dev/null
select test.is('and tomorrow it is not', test.stats('st'), '0 4 83.3 80.0');
insert into care.user_settings (user_id, zone) values ('st', 'America/New_York');
select test.is('by the day of the user''s zone', test.stats('st'), '4 4 93.8 88.9');

-- Percentages: 30 days before today, pending by the clock, half up, the mean of days beside the pool of doses.
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
insert into care.dose_occurrence (id, user_id, scheduled_at, window_end, local_date, status)
select 'pc' || n || '-' || i, 'pc', '2025-11-01', '2025-11-20 11:30Z'::timestamptz + make_interval(secs => i - 2), '2025-11-20'::date - n,
       case when n = 2 then 'scheduled' when n = 3 then 'skipped' when n = 4 and i = 1 then 'missed' else 'taken' end
from (values (0, 1), (1, 4), (2, 3), (3, 2), (4, 8), (30, 1), (31, 5)) as t(n, much) cross join lateral generate_series(1, much) as i;
update care.dose_occurrence set status = 'missed' where id in ('pc1-1', 'pc31-1', 'pc31-2');
select test.is('mean of 75, 0 (two of three over), 87.5 and 100; pool of 3, 0, 7 and 1 of 15', test.stats('pc'), '1 1 65.6 73.3');
select test.set_clock('2025-11-20 12:00:01Z') \g /dev/null
select test.is('the clock goes on', test.stats('pc'), '1 1 65.6 68.8');

-- A streak lives until its dose is missed: a day before today whose open doses have not ended is passed over.
insert into care.user_settings (user_id, zone) values ('lives', 'Europe/Berlin') on conflict (user_id) do update set zone = excluded.zone;
select test.set_clock('2025-11-15 12:00Z') \g /dev/null
select test.act('lives', 'k', 'createMedication', '{"id":"lives-p","name":"Ramipril","frequency":"daily","times":["23:30"],"startsOn":"2025-11-16"}') \g /dev/null
create function test.take_day(who text, day date) returns text language sql as $$
    select test.act(who, 'take' || day, 'markTaken', jsonb_build_object('occurrenceId', (select id from care.dose_occurrence where user_id = who and local_date = day)), client_time => null) ->> 'status' $$;
do $$
begin
    for n in 16..20 loop
        perform test.set_clock(format('2025-11-%s 22:35Z', n)::timestamptz);
        perform test.take_day('lives', format('2025-11-%s', n)::date);
    end loop;
end
$$;
create function test.lives(who text, at timestamptz) returns text language plpgsql as $$
begin
    perform test.set_clock(at);
    if (select body::jsonb -> 'stats' from sync.adherence_day(who, null)) <> care.stats(who)
        or care.stats(who) <> (select s.stats from care.stats_for(array[who], sync.clock()) as s)
        or (select body::jsonb ->> 'currentStreakDays' from sync.adherence_stats(who, null, null)) <> care.stats(who) ->> 'currentStreakDays'
    then
        return 'they differ';
    end if;
    return test.stats(who);
end
$$;
select test.is('five evenings, all taken', test.lives('lives', '2025-11-20 22:40Z'), '5 5 100.0 100.0');
select test.is(title, test.lives('lives', at::timestamptz), want) from (values
    (1, 'on the next day', '2025-11-21 12:00Z', '5 5 100.0 100.0'), (2, 'after midnight, the dose in its window', '2025-11-21 23:05Z', '5 5 100.0 100.0'),
    (3, 'at the end of its window', '2025-11-22 02:30Z', '5 5 100.0 100.0'), (4, 'in the grace after it', '2025-11-22 02:59:59Z', '5 5 100.0 100.0'),
    (5, 'it is over, although no job came by', '2025-11-22 03:00Z', '0 5 83.3 83.3')) as t(n, title, at, want) order by n;
select test.set_clock('2025-11-21 23:05Z') \g /dev/null
select test.is('taken after midnight', test.take_day('lives', '2025-11-21') || ' ' || test.lives('lives', '2025-11-21 23:06Z'), 'applied 6 6 100.0 100.0');
select test.is('the event says the same', (select data -> 'stats' ->> 'currentStreakDays' from sync.event where user_id = 'lives' and name = 'adherence.summary_updated' order by o desc limit 1), '6');
select test.is('undone, in its window', test.short(test.act('lives', 'back', 'undo', '{"targetKey":"take2025-11-21"}')) || ' ' || test.lives('lives', '2025-11-21 23:08Z'), 'applied 5 5 100.0 100.0');
select test.is('the event of that says so', (select data -> 'stats' ->> 'currentStreakDays' from sync.event where user_id = 'lives' and name = 'adherence.summary_updated' order by o desc limit 1), '5');
select test.is('today counts beyond a day that is open', test.take_day('lives', '2025-11-22') || ' ' || test.lives('lives', '2025-11-21 23:10Z'), 'applied 6 6 100.0 100.0');
select test.set_clock('2025-11-22 03:00Z') \g /dev/null
select done from care.job_miss_doses(100, sync.clock()) \g /dev/null
select test.is('missed: it ends the streak, and the day after begins one', test.lives('lives', '2025-11-22 03:00Z'), '1 5 83.3 83.3');
-- Where the window is of another zone than the day: a dose of Los Angeles' evening, a person in Tokyo; and of Tokyo's morning, a
-- person in Los Angeles.
insert into care.user_settings (user_id, zone) values ('pin', 'Asia/Tokyo'), ('pinned', 'America/Los_Angeles');
insert into care.dose_occurrence (id, user_id, scheduled_at, tz, status)
select who || n, who, (day + time + make_interval(days => n)) at time zone tz, tz, case when n < 3 then 'taken' else 'scheduled' end
from (values ('pin', '2025-11-10'::date, '20:00'::time, 'America/Los_Angeles'), ('pinned', '2025-11-11', '08:00', 'Asia/Tokyo')) as t(who, day, time, tz) cross join generate_series(0, 3) as n;
select test.is(title, test.lives(who, at::timestamptz), want) from (values
    (1, 'due now, of a date before today''s', 'pin', '2025-11-14 04:05Z', '3 3 100.0 100.0'), (2, 'in its grace', 'pin', '2025-11-14 08:29Z', '3 3 100.0 100.0'), (3, 'over', 'pin', '2025-11-14 08:30Z', '0 3 75.0 75.0'),
    (4, 'of tomorrow''s date', 'pinned', '2025-11-13 23:05Z', '3 3 100.0 100.0'), (5, 'of today''s date, over', 'pinned', '2025-11-14 09:00Z', '3 3 100.0 100.0'), (6, 'of yesterday''s', 'pinned', '2025-11-15 09:00Z', '0 3 75.0 75.0')) as t(n, title, who, at, want) order by n;
-- Random histories of one user against the rows.
select setseed(0.42) \g /dev/null
do $$
begin
    for i in 1..400 loop
        case floor(random() * 5)
            when 0 then insert into care.dose_occurrence (id, user_id, scheduled_at, local_date, status) values ('rnd' || i, 'rnd', now(), '2025-11-01'::date + (random() * 15)::int, (array['scheduled', 'taken', 'missed', 'made_up', 'skipped'])[1 + floor(random() * 5)]);
            when 1 then delete from care.dose_occurrence where id = 'rnd' || (random() * i)::int;
            when 2 then update care.dose_occurrence set local_date = '2025-11-01'::date + (random() * 15)::int where id = 'rnd' || (random() * i)::int;
            else update care.dose_occurrence set status = (array['scheduled', 'taken', 'taken', 'missed', 'made_up', 'skipped', 'cancelled'])[1 + floor(random() * 7)] where user_id = 'rnd' and random() < 0.3;
        end case;
        set constraints all immediate;
        set constraints all deferred;
        if not test.streaks_hold() then
            raise exception 'streaks differ after step % of seed 0.42', i;
        end if;
    end loop;
end
$$;
select test.is('streaks are those of the rows, after every step and for everybody', test.streaks_hold(), true);

-- Many days of a flush are one walk through the later ones: each row is written at most twice.
insert into care.dose_occurrence (id, user_id, scheduled_at, window_end, local_date, status)
select 'far' || n, 'far', day + time '08:00', day + time '11:00', day, case when n <= 400 and n % 2 = 0 then 'scheduled' else 'taken' end
from generate_series(1, 1400) as n cross join lateral (select '2022-01-01'::date + n as day) as d;
begin;
select pg_stat_get_xact_tuples_updated('care.day_summary'::regclass) as updated \gset
select test.is('two hundred days at once', test.short(test.act('far', 'all', 'bulkMarkAll', (select jsonb_build_object('occurrenceIds', jsonb_agg('far' || n)) from generate_series(2, 400, 2) as n))), 'applied');
select test.is('before a thousand others', pg_stat_get_xact_tuples_updated('care.day_summary'::regclass) - :updated <= 1400 + 200, true);
commit;
select test.is('have the streaks they make', (select max(run) || ' ' || max(best) from care.day_summary where user_id = 'far'), '1400 1400');
update care.dose_occurrence set status = 'missed' where user_id = 'far' and id in ('far7', 'far900');
delete from care.dose_occurrence where user_id = 'far' and id in ('far1', 'far8', 'far1400');
select test.is('and so do days far apart, some of which go', test.streaks_hold(), true);

-- What the migration computes for rows from before is the same, and it tells nobody.
create temp table computed as select user_id, date, run, best from care.day_summary;
create temp table told as select count(*) as n from sync.event;
create temp table doses as select id, rev, updated_at, note from care.dose_occurrence;
create temp table triggers as select tgname, tgenabled from pg_trigger where tgrelid = 'care.dose_occurrence'::regclass;
update care.day_summary set run = 0, best = 0;
\set backfill `sed -n '/^-- The streaks of days from before/,$p' :'sql'/migrations/0003_actions.sql`
begin;
set local role carillon_owner;
:backfill
commit;
select test.is('streaks of rows from before', (select count(*) from care.day_summary as s join computed as c using (user_id, date) where (s.run, s.best) = (c.run, c.best)) || ' of ' || (select count(*) from computed),
    (select count(*) || ' of ' || count(*) from computed));
select test.is('no dose is changed by it', (select count(*) from care.dose_occurrence as d join doses as w using (id) where (d.rev, d.updated_at, d.note) is distinct from (w.rev, w.updated_at, w.note)), 0::bigint);
select test.is('nobody is told', (select count(*) from sync.event) - n, 0::bigint) from told;
select test.is('triggers are as they were', (select count(*) from pg_trigger as t join triggers as w using (tgname) where t.tgrelid = 'care.dose_occurrence'::regclass and t.tgenabled = w.tgenabled), (select count(*) from triggers));

-- What is kept of statistics beside the stream is what a new computation says, whatever was written in between.
insert into care.user_settings (user_id, zone) values ('kept', 'Asia/Tokyo');
insert into care.dose_occurrence (id, user_id, status, scheduled_at, window_end)
select 'kept' || n, 'kept', 'taken', sync.clock() + make_interval(days => n / 2 - 35, hours => n % 2), sync.clock() + make_interval(days => n / 2 - 34)
from generate_series(0, 75) as n;
create table test.kept (n int, what text, told jsonb, anew jsonb, kept boolean);
do $$
declare
    what text;
begin
    perform setseed(0.25);
    for n in 1..150 loop
        what := case when n % 25 = 0 then 'zone' when n % 10 = 0 then 'many' when n % 7 = 0 then 'moved' when n % 11 = 0 then 'gone' else 'one' end;
        if what = 'zone' then
            update care.user_settings set zone = case zone when 'Asia/Tokyo' then 'Pacific/Apia' else 'Asia/Tokyo' end where user_id = 'kept';
        elsif what = 'many' then
            update care.dose_occurrence set status = (array['taken', 'missed'])[1 + (n / 10) % 2] where user_id = 'kept' and random() < 0.5;
        elsif what = 'moved' then
            update care.dose_occurrence set local_date = local_date + 1 where id = 'kept' || (random() * 75)::int;
        elsif what = 'gone' then
            delete from care.dose_occurrence where id = 'kept' || (random() * 75)::int;
        end if;
        update care.dose_occurrence as d
        set status = (array['taken', 'taken', 'missed', 'skipped', 'made_up', 'scheduled'])[1 + floor(random() * case when n % 40 > 30 then 6 else 5 end)::int], note = n::text
        where d.id = (select o.id from care.dose_occurrence as o where o.user_id = 'kept' order by abs(o.local_date - current_date + 12 * (n % 4)), random() limit 1);
        commit;
        insert into test.kept
        select n, what, (select e.data -> 'stats' from sync.event as e where e.user_id = 'kept' and e.name = 'adherence.summary_updated' order by e.o desc limit 1),
               (select t.stats from care.stats_for('{kept}', sync.clock()) as t), s.kept_for is not null
        from sync.stream as s where s.user_id = 'kept' and s.topic = 'adherence';
    end loop;
end
$$;
select test.is('statistics told are those computed anew', (select string_agg(format('%s %s: %s, not %s', n, what, told, anew), '; ') from (select * from test.kept where told <> anew order by n limit 3) as wrong), null);
select test.is('many of them were kept', (select count(*) > 20 from test.kept where kept), true);
-- A change that leaves its day as good as it was, when the statistics that were kept are for another zone.
insert into care.dose_occurrence (id, user_id, scheduled_at, status) select 'counted' || n, 'counted', current_date + 5 + time '08:00', case n when 1 then 'taken' else 'missed' end from generate_series(1, 3) as n;
insert into care.user_settings (user_id, zone) values ('counted', 'Asia/Tokyo');
update care.dose_occurrence set status = 'skipped' where id = 'counted2';
select test.is('the day is counted all the same', (select concat_ws(' ', taken_count, missed_count, skipped_count) from care.day_summary where user_id = 'counted'), '1 1 1');
