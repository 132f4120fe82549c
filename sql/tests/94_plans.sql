-- Schedules become doses: what each change of a schedule, a stack or a zone does to them. The clock is set.
set timezone = 'UTC';
select test.set_clock('2025-11-20 10:00Z') \g /dev/null
insert into care.product (id, name) values ('p1', 'One'), ('p2', 'Two'), ('p3', 'Three');
-- A schedule's doses, a group for each run of days: its days, its times, its status; '*': cancelled by the planner.
create function test.doses(of_schedule text) returns text language sql volatile as $$
    select coalesce(string_agg(format('%s %s %s%s', days, at, status, mark), ', ' order by first, at, status), '') from (
        select min(local_date) as first, at, status, mark,
               to_char(min(local_date), 'MM-DD') || case when count(*) > 1 then '..' || to_char(max(local_date), 'MM-DD') || '=' || count(*) else '' end as days
        from (
            select local_date, to_char(scheduled_at, 'HH24:MI') || coalesce('/' || nullif(product_id, 'p1'), '') as at, status,
                   case when cancelled_by_plan then '*' else '' end as mark,
                   local_date - (row_number() over (partition by product_id, to_char(scheduled_at, 'HH24:MI'), status, cancelled_by_plan order by local_date))::int as run
            from care.dose_occurrence where schedule_id = of_schedule) as d
        group by run, at, status, mark) as runs $$;
-- What holds at any time: one dose in a slot that is not cancelled, and ids by their rule.
create function test.slots_hold(users text[]) returns boolean language sql volatile as $$
    select not exists (select from care.dose_occurrence where user_id = any(users) and status <> 'cancelled' group by schedule_id, product_id, local_date having count(*) > 1)
        and not exists (select from care.dose_occurrence as d join care.schedule as s on s.id = d.schedule_id
                        where d.user_id = any(users) and d.id not in (care.occurrence_id(s.id, d.local_date + d.local_time), care.occurrence_id(s.id, d.local_date + d.local_time, d.product_id))) $$;

-- How schedules repeat.
insert into care.schedule (id, user_id, product_id, time, repeat, repeat_on, starts_on, ends_on, enabled) values
    ('k-later', 'k', 'p1', '12:00', 'daily', null, null, null, true), ('k-earlier', 'k', 'p1', '08:00', 'daily', null, null, null, true),
    ('k-today', 'k', 'p1', '08:00', 'daily', null, '2025-11-20', null, true), ('k-weekdays', 'k', 'p1', '12:00', 'weekdays', null, null, null, true),
    ('k-sundays', 'k', 'p1', '12:00', 'custom', '{7}', null, null, true), ('k-needed', 'k', 'p1', null, 'as_needed', null, null, null, true),
    ('k-ends', 'k', 'p1', '12:00', 'daily', null, null, '2025-11-22', true), ('k-past', 'k', 'p1', '12:00', 'daily', null, '2025-11-17', '2025-11-18', true),
    ('k-starts', 'k', 'p1', '12:00', 'daily', null, '2025-12-03', null, true), ('k-far', 'k', 'p1', '12:00', 'daily', null, '2026-01-01', null, true),
    ('k-old', 'k', 'p1', '12:00', 'daily', null, '2020-01-01', '2025-11-21', true), ('k-paused', 'k', 'p1', '12:00', 'daily', null, '2025-11-01', null, false),
    ('k-ever', 'k', 'p1', '12:00', 'daily', null, '-infinity', 'infinity', true), ('k-never', 'k', 'p1', '12:00', 'daily', null, 'infinity', null, true),
    ('k-over', 'k', 'p1', '12:00', 'daily', null, null, '2025-11-01', true);
select test.is('planned: ' || title, test.doses('k-' || title), want) from (values
    ('later', '11-20..12-04=15 12:00 scheduled'), ('earlier', '11-21..12-04=14 08:00 scheduled'), ('today', '11-20..12-04=15 08:00 scheduled'),
    ('weekdays', '11-20..11-21=2 12:00 scheduled, 11-24..11-28=5 12:00 scheduled, 12-01..12-04=4 12:00 scheduled'),
    ('sundays', '11-23 12:00 scheduled, 11-30 12:00 scheduled'), ('needed', ''), ('ends', '11-20..11-22=3 12:00 scheduled'),
    ('past', '11-17..11-18=2 12:00 scheduled'), ('starts', '12-03..12-04=2 12:00 scheduled'), ('far', ''),
    ('old', '08-22..11-21=92 12:00 scheduled'), ('paused', ''), ('ever', '08-22..12-04=105 12:00 scheduled'), ('never', ''), ('over', '')
) as t(title, want);
select test.is('ids are by their rule, the window as the schedule says', (select count(*) from care.dose_occurrence where schedule_id = 'k-later' and id = care.occurrence_id('k-later', local_date + time '12:00') and window_end = scheduled_at + interval '4 hours' and tz = 'UTC'), 15::bigint);
select test.fails('daily needs a time', $$insert into care.schedule (user_id, product_id) values ('x', 'p1')$$, '23514');
select test.fails('as needed has none', $$insert into care.schedule (user_id, product_id, time, repeat) values ('x', 'p1', '08:00', 'as_needed')$$, '23514');
select test.fails('a zone that nobody knows', $$insert into care.schedule (user_id, product_id, time, timezone, tz_mode) values ('x', 'p1', '08:00', 'Mars/Base', 'fixed')$$, '22023');

-- Edits, one after the other. Today's 08:00 has begun at 10:00 and freezes its slot; so do doses acted on.
insert into care.schedule (id, user_id, product_id, time, starts_on) values ('e', 'e', 'p1', '08:00', '2025-11-19');
update care.dose_occurrence set status = 'taken', taken_at = '2025-11-20 09:00Z' where schedule_id = 'e' and local_date = '2025-11-21';
update care.dose_occurrence set status = 'cancelled' where schedule_id = 'e' and local_date = '2025-11-22';
select test.top('e') as e \gset
update care.schedule set time = '09:00' where id = 'e';
select test.is('another time: those ahead go, the frozen stay', test.doses('e'),
    '11-19..11-20=2 08:00 scheduled, 11-21 08:00 taken, 11-22 08:00 cancelled, 11-22..12-04=13 09:00 scheduled, 11-23..12-04=12 08:00 cancelled*');
select test.is('told as cancelled and created', (select string_agg(name || '=' || n, ' ' order by name) from (select name, count(*) as n from sync.event where user_id = 'e' and o > :e and name like 'occ%' group by 1) as t), 'occurrence.cancelled=12 occurrence.created=13');
select test.top('e') as e \gset
update care.schedule set time = '08:00' where id = 'e';
select test.is('and back: ids come back, but not what a person cancelled', test.doses('e'),
    '11-19..11-20=2 08:00 scheduled, 11-21 08:00 taken, 11-22 08:00 cancelled, 11-22..12-04=13 09:00 cancelled*, 11-23..12-04=12 08:00 scheduled');
select test.is('told as updated', (select string_agg(name || '=' || n, ' ' order by name) from (select name, count(*) as n from sync.event where user_id = 'e' and o > :e and name like 'occ%' group by 1) as t), 'occurrence.cancelled=13 occurrence.updated=12');
update care.schedule set enabled = false where id = 'e';
select test.is('a pause cancels those ahead', test.doses('e'), '11-19..11-20=2 08:00 scheduled, 11-21 08:00 taken, 11-22 08:00 cancelled, 11-22..12-04=13 09:00 cancelled*, 11-23..12-04=12 08:00 cancelled*');
select test.is('a paused schedule is never due', (select next_at from care.schedule_plan where schedule_id = 'e'), 'infinity'::timestamptz);
update care.schedule set enabled = true, ends_on = '2025-11-24', window_minutes = 60 where id = 'e';
select test.is('it goes on, until its end', test.doses('e'), '11-19..11-20=2 08:00 scheduled, 11-21 08:00 taken, 11-22 08:00 cancelled, 11-22..12-04=13 09:00 cancelled*, 11-23..11-24=2 08:00 scheduled, 11-25..12-04=10 08:00 cancelled*');
select test.is('the window of what lies ahead follows', (select string_agg(distinct (window_end - scheduled_at)::text, ' ') from care.dose_occurrence where schedule_id = 'e' and status = 'scheduled' and local_date > '2025-11-20'), '01:00:00');
update care.schedule set product_id = 'p2' where id = 'e';
select test.is('another product: under the same ids', test.doses('e'), '11-19..11-20=2 08:00 scheduled, 11-21 08:00 taken, 11-22 08:00 cancelled, 11-22..12-04=13 09:00 cancelled*, 11-23..11-24=2 08:00/p2 scheduled, 11-25..12-04=10 08:00 cancelled*');
update care.schedule set starts_on = '2025-11-24' where id = 'e';
select test.is('a later start', test.doses('e') ~ '11-23 08:00/p2 cancelled\*, 11-24 08:00/p2 scheduled', true);
select test.top('e') as e \gset
update care.schedule set updated_at = now() where id = 'e';
select test.is('what is not about times tells nothing', test.top('e'), :e::bigint);
delete from care.schedule where id = 'e';
select test.is('deleted: nothing ahead', (select string_agg(local_date || ' ' || status, ', ' order by local_date) from care.dose_occurrence where schedule_id = 'e' and status <> 'cancelled'), '2025-11-19 scheduled, 2025-11-20 scheduled, 2025-11-21 taken');
insert into care.schedule (id, user_id, product_id, time) values ('e', 'e', 'p1', '08:00');
select test.is('made again under its id: it revives', test.doses('e'), '11-19..11-20=2 08:00 scheduled, 11-21 08:00 taken, 11-22 08:00 cancelled, 11-22..12-04=13 09:00 cancelled*, 11-23..12-04=12 08:00 scheduled');
update care.dose_occurrence set status = 'taken' where schedule_id = 'e' and local_date = '2025-11-25' and to_char(scheduled_at, 'HH24:MI') = '09:00';
select test.is('a person takes what the planner cancelled: it has the slot', (select string_agg(to_char(scheduled_at, 'HH24:MI') || status || cancelled_by_plan, ' ' order by scheduled_at) from care.dose_occurrence where schedule_id = 'e' and local_date = '2025-11-25'), '08:00cancelledtrue 09:00takenfalse');
update care.schedule set time = '08:30' where id = 'e';
select test.is('and keeps it', (select count(*) from care.dose_occurrence where schedule_id = 'e' and local_date = '2025-11-25'), 2::bigint);
update care.schedule set user_id = 'e2' where id = 'e';
select test.is('another user: what lies ahead goes along', (select string_agg(distinct user_id || ' ' || (local_date > '2025-11-22'), ', ') from care.dose_occurrence where schedule_id = 'e' and status = 'scheduled'), 'e false, e2 false, e2 true');
update care.schedule set id = 'e3' where id = 'e';
select test.is('another id: other doses', (select count(*) from care.dose_occurrence where schedule_id = 'e3' and status = 'scheduled') || ' ' || (select count(*) from care.dose_occurrence where schedule_id = 'e' and status = 'scheduled' and scheduled_at > sync.clock()), '14 0');
delete from care.schedule where id = 'e3';

-- A start that moves. At 10:00 today's 08:00 has begun.
insert into care.schedule (id, user_id, product_id, time, starts_on) values ('b', 'eb', 'p1', '08:00', '2025-11-22');
update care.schedule set starts_on = '2025-11-18' where id = 'b';
select test.is('an earlier start: the days before are filled', test.doses('b'), '11-18..12-04=17 08:00 scheduled');
update care.dose_occurrence set status = 'taken' where schedule_id = 'b' and local_date = '2025-11-19';
update care.schedule set starts_on = '2025-11-20' where id = 'b';
update care.schedule set starts_on = '2025-11-17', time = '09:00' where id = 'b';
select test.is('earlier again: what was there stays, and has its slot', test.doses('b'), '11-17 09:00 scheduled, 11-18 08:00 scheduled, 11-19 08:00 taken, 11-20 08:00 scheduled, 11-21..12-04=14 08:00 cancelled*, 11-21..12-04=14 09:00 scheduled');
update care.schedule set starts_on = '2020-01-01', ends_on = '2025-11-15' where id = 'b';
select test.is('90 days back at most, and not beyond the end', (select min(local_date) || ' ' || count(*) from care.dose_occurrence where schedule_id = 'b' and local_date < '2025-11-17' and status = 'scheduled'), '2025-08-22 86');
update care.schedule set starts_on = null where id = 'b';
update care.schedule set enabled = false, starts_on = '2019-01-01', ends_on = null where id = 'b';
select test.is('a start that was none is no later one; nor is a paused schedule filled', (select count(*) from care.dose_occurrence where schedule_id = 'b' and local_date < '2025-11-17'), 86::bigint);
delete from care.schedule where id = 'b';

-- A start that was put off by mistake, and put right days later: what the planner took away comes back, what a person cancelled does not.
create function test.restart(id text) returns void language sql as $$
    insert into care.schedule (id, user_id, product_id, time, starts_on) values (id, 'e', 'p1', '08:00', '2025-11-10') $$;
select test.restart(id) from unnest('{r,q}'::text[]) as id \g /dev/null
update care.dose_occurrence set status = 'cancelled' where schedule_id = 'r' and local_date = '2025-11-22';
update care.schedule set starts_on = '2025-11-25' where id = 'r';
delete from care.schedule where id = 'q';
select test.set_clock('2025-11-23 12:00Z') \g /dev/null
update care.schedule set starts_on = '2025-11-10' where id = 'r';
select test.is('an earlier start brings back what a later one took away', test.doses('r'), '11-10..11-21=12 08:00 scheduled, 11-22 08:00 cancelled, 11-23..12-07=15 08:00 scheduled');
select test.restart('q') \g /dev/null
select test.is('and so does a schedule that is made again', test.doses('q'), '11-10..12-07=28 08:00 scheduled');
update care.schedule set starts_on = '2025-11-30' where id = 'r';
update care.schedule set enabled = false where id = 'q';
select test.set_clock('2025-11-25 12:00Z') \g /dev/null
update care.schedule set starts_on = '2025-11-28', time = '07:00' where id = 'r';
update care.schedule set enabled = true where id = 'q';
select test.is('a start that is still ahead brings back nothing of before it', test.doses('r'), '11-10..11-21=12 08:00 scheduled, 11-22 08:00 cancelled, 11-23 08:00 scheduled, 11-24..12-07=14 08:00 cancelled*, 11-28..12-09=12 07:00 scheduled');
select test.is('nor is the time of a pause filled', test.doses('q'), '11-10..11-23=14 08:00 scheduled, 11-24..11-25=2 08:00 cancelled*, 11-26..12-09=14 08:00 scheduled');
delete from care.schedule where id in ('r', 'q');
select test.set_clock('2025-11-20 10:00Z') \g /dev/null
drop function test.restart(text);

-- Stacks.
insert into care.stack (id, user_id, name) values ('st', 's', 'Morning');
insert into care.schedule (id, user_id, stack_id, time) values ('s', 's', 'st', '12:00');
select test.is('an empty stack gives nothing', test.doses('s'), '');
insert into care.stack_item (stack_id, product_id) values ('st', 'p1'), ('st', 'p2');
select test.is('items give doses', test.doses('s'), '11-20..12-04=15 12:00 scheduled, 11-20..12-04=15 12:00/p2 scheduled');
update care.stack_item set product_id = 'p3' where product_id = 'p2' and stack_id = 'st';
select test.is('one for another', test.doses('s'), '11-20..12-04=15 12:00 scheduled, 11-20..12-04=15 12:00/p2 cancelled*, 11-20..12-04=15 12:00/p3 scheduled');
delete from care.stack_item where product_id = 'p3' and stack_id = 'st';
select test.is('one less', test.doses('s'), '11-20..12-04=15 12:00 scheduled, 11-20..12-04=15 12:00/p2 cancelled*, 11-20..12-04=15 12:00/p3 cancelled*');
update care.schedule set stack_id = null, product_id = 'p2' where id = 's';
select test.is('a product instead of the stack', test.doses('s') || (select ' ' || count(*) from care.dose_occurrence where id = care.occurrence_id('s', '2025-11-30 12:00')), '11-20..12-04=15 12:00 cancelled*, 11-20..12-04=15 12:00/p2 cancelled*, 11-20..12-04=15 12:00/p2 scheduled, 11-20..12-04=15 12:00/p3 cancelled* 1');
update care.schedule set stack_id = 'st', product_id = null where id = 's';
delete from care.stack where id = 'st';
select test.is('a stack that goes takes its schedules and what lies ahead', test.doses('s') ~ 'scheduled', false);
insert into care.schedule (id, user_id, product_id, time) values ('gone', 's', 'p3', '12:00');
update care.dose_occurrence set status = 'taken', taken_at = scheduled_at where schedule_id = 'gone' and local_date = '2025-11-20';
select product_name as gone_name from care.dose_occurrence where schedule_id = 'gone' limit 1 \gset
delete from care.product where id = 'p3';
select test.is('a product that goes cancels what lies ahead', test.doses('gone'), '11-20 12:00/p3 taken, 11-21..12-04=14 12:00/p3 cancelled*');
select test.is('and rewrites nothing that was', (select distinct concat_ws(' ', product_id, product_name) from care.dose_occurrence where schedule_id = 'gone'), 'p3 ' || :'gone_name');

-- Zones. At 10:00 UTC it is 11:00 in Berlin, 05:00 in New York, 19:00 in Tokyo.
insert into care.user_settings (user_id, zone) values ('z', 'Europe/Berlin');
insert into care.schedule (id, user_id, product_id, time, tz_mode) values ('z-08', 'z', 'p1', '08:00', 'follow'), ('z-12', 'z', 'p1', '12:00', 'follow'), ('z-fixed', 'z', 'p1', '12:00', 'fixed');
select test.is('the user''s zone', (select string_agg(timezone, ' ') from care.schedule where user_id = 'z'), 'Europe/Berlin Europe/Berlin Europe/Berlin');
select string_agg(id, ' ' order by id) as ids from care.dose_occurrence where user_id = 'z' and local_date between '2025-11-21' and '2025-12-04' \gset
update care.user_settings set zone = 'Asia/Tokyo' where user_id = 'z';
select test.is('eastwards: today''s 12:00 is past there and stays, the others move', test.doses('z-12'), '11-20 11:00 scheduled, 11-21..12-04=14 03:00 scheduled');
select test.is('in place, with their ids', (select string_agg(id, ' ' order by id) from care.dose_occurrence where user_id = 'z' and local_date between '2025-11-21' and '2025-12-04'), :'ids');
select test.is('08:00 there is 23:00 of the day before in UTC', (select string_agg(distinct to_char(scheduled_at, 'HH24:MI') || tz || local_time, ' ') from care.dose_occurrence where schedule_id = 'z-08'), '23:00Asia/Tokyo08:00:00');
select test.is('a fixed one stays', test.doses('z-fixed') || (select string_agg(distinct tz, '') from care.dose_occurrence where schedule_id = 'z-fixed'), '11-20..12-04=15 11:00 scheduledEurope/Berlin');
update care.user_settings set zone = 'America/New_York' where user_id = 'z';
select test.is('westwards: today''s 12:00 lies ahead in both', test.doses('z-12'), '11-20..12-04=15 17:00 scheduled');
select test.is('today''s 08:00 had none and gets one', test.doses('z-08'), '11-20..12-04=15 13:00 scheduled');
update care.schedule set timezone = 'Asia/Tokyo' where id = 'z-12';
select test.is('a zone of its own is for fixed ones', (select timezone from care.schedule where id = 'z-12'), 'America/New_York');
update care.schedule set timezone = 'Asia/Tokyo', tz_mode = 'fixed' where id = 'z-12';
select test.is('which move by it', (select string_agg(distinct tz, ' ') from care.dose_occurrence where schedule_id = 'z-12' and local_date > '2025-11-21'), 'Asia/Tokyo');
select test.is('a begun dose does not move', (select count(*) from care.dose_occurrence where schedule_id = 'z-12' and local_date = '2025-11-20' and tz = 'America/New_York'), 1::bigint);
insert into care.schedule (id, user_id, product_id, time, timezone, tz_mode) values ('z-cet', 'z', 'p1', '12:00', 'CET', 'fixed');
select test.is('an abbreviation is a zone with summer time', (select timezone from care.schedule where id = 'z-cet') || (select string_agg(distinct tz, '') from care.dose_occurrence where schedule_id = 'z-cet'), 'Europe/BrusselsEurope/Brussels');
select test.is(zone, (select string_agg(to_char(w.day, 'MM-DD ') || care.local_iso(w.at, w.zone), ', ' order by w.day)
    from care.slots(jsonb_populate_record(null::care.schedule, jsonb_build_object('id', 'r', 'product_id', 'p1', 'time', wall, 'repeat', 'daily', 'window_minutes', 240, 'enabled', true, 'timezone', zone)), day, day + 2) as w), want)
from (values
    ('Pacific/Apia', time '08:00', date '2011-12-29', '12-29 2011-12-29T08:00:00-10:00, 12-31 2011-12-31T08:00:00+14:00'),
    ('America/New_York', '02:30', '2025-03-08', '03-08 2025-03-08T02:30:00-05:00, 03-09 2025-03-09T03:30:00-04:00, 03-10 2025-03-10T02:30:00-04:00'),
    ('America/New_York', '01:30', '2025-11-01', '11-01 2025-11-01T01:30:00-04:00, 11-02 2025-11-02T01:30:00-04:00, 11-03 2025-11-03T01:30:00-05:00'),
    ('Europe/Dublin', '01:30', '2026-03-28', '03-28 2026-03-28T01:30:00+00:00, 03-29 2026-03-29T02:30:00+01:00, 03-30 2026-03-30T01:30:00+01:00'),
    ('Australia/Lord_Howe', '02:15', '2025-10-04', '10-04 2025-10-04T02:15:00+10:30, 10-05 2025-10-05T02:45:00+11:00, 10-06 2025-10-06T02:15:00+11:00')
) as t(zone, wall, day, want);

-- The job: days pass.
select test.set_clock('2025-11-22 00:30Z') \g /dev/null
create function test.job(clock timestamptz) returns text language plpgsql as $$
declare
    r record;
    total bigint := 0;
begin
    loop
        select * into r from care.job_plan_doses(100, clock) as r;
        total := total + r.done;
        exit when not r.more;
    end loop;
    return total::text;
end
$$;
insert into care.schedule (id, user_id, product_id, time) values ('j', 'j', 'p1', '12:00');
select test.job('2025-11-22 00:30Z') \g /dev/null
select test.is('nothing is due twice', test.job('2025-11-22 00:30Z'), '0');
select test.is('one day more', test.job('2025-11-23 00:30Z')::int > 10 and test.doses('j') = '11-22..12-07=16 12:00 scheduled', true);
select test.job('2025-12-20 06:00Z') \g /dev/null
select test.is('after weeks without the job: no day is missing', test.doses('j'), '11-22..01-03=43 12:00 scheduled');
select test.set_clock('2026-01-20 13:00Z') \g /dev/null
update care.schedule set time = '14:00' where id = 'j';
select test.is('also where an edit comes first: by what it was until then', test.doses('j'), '11-22..01-20=60 12:00 scheduled, 01-21..02-03=14 14:00 scheduled');
select test.job('2026-01-21 00:00Z') \g /dev/null

-- Another time zone database: the doses on disk and what is known of the zone are by the older one.
insert into care.schedule (id, user_id, product_id, time, timezone, tz_mode) values ('tz', 'tz', 'p1', '09:00', 'Europe/Dublin', 'fixed');
select test.job('2026-01-21 00:00Z') \g /dev/null
update care.dose_occurrence set scheduled_at = scheduled_at - interval '1 hour', window_end = window_end - interval '1 hour' where schedule_id = 'tz';
update care.zone_rules set transitions = 'older', read_by = '-infinity' where zone = 'Europe/Dublin';
select set_config('carillon.zones_read', '', false) \g /dev/null
select string_agg(id, ' ' order by id) as ids from care.dose_occurrence where schedule_id = 'tz' \gset
select test.is('other rules: those schedules are planned again', test.job('2026-01-21 00:00Z'), (select count(*)::text from care.schedule where timezone = 'Europe/Dublin'));
select test.is('their times are right', test.doses('tz'), '01-21..02-04=15 09:00 scheduled');
select test.is('under their ids', (select string_agg(id, ' ' order by id) from care.dose_occurrence where schedule_id = 'tz'), :'ids');
select test.is('and once', test.job('2026-01-21 00:00Z'), '0');
-- Both were written at the same time, and neither saw the other. What the job brings along counts: hubs are told of it.
insert into care.user_settings (user_id, zone) values ('jf', 'Asia/Tokyo');
insert into care.schedule (id, user_id, product_id, time) values ('jf', 'jf', 'p1', '12:00');
alter table care.schedule disable trigger user;
update care.schedule set timezone = 'UTC' where id = 'jf';
update care.schedule_plan set next_at = '-infinity' where schedule_id = 'jf';
alter table care.schedule enable trigger user;
alter table care.schedule enable always trigger bump_rev;
select test.set_clock('2026-01-21 00:00Z') \g /dev/null
select test.is('one that should follow its user is counted', test.job('2026-01-21 00:00Z'), '1');
select test.is('and does', (select timezone from care.schedule where id = 'jf'), 'Asia/Tokyo');
select test.set_clock('2026-01-20 13:00Z') \g /dev/null
update care.schedule_plan set next_at = '-infinity', zone = 'Gone/Zone' where schedule_id = 'tz';
alter table care.schedule disable trigger user;
update care.schedule set timezone = 'Gone/Zone' where id = 'tz';
update care.schedule_plan set next_at = '-infinity' where schedule_id = 'j';
alter table care.schedule enable trigger user;
alter table care.schedule enable always trigger bump_rev;
set client_min_messages = error;
select test.is('a zone that is gone holds up no other', test.job('2026-01-21 00:00Z'), '1');
reset client_min_messages;
select test.is('and is tried again in an hour', (select next_at from care.schedule_plan where schedule_id = 'tz'), '2026-01-21 01:00Z'::timestamptz);
delete from care.schedule where id in ('tz', 'j') or user_id in ('k', 'z');
select test.is('every slot has one dose', test.slots_hold('{k,e,e2,s,z,j,tz}'), true);
select test.is('summaries are those of the rows', test.summaries_hold() and test.contiguous(), true);
