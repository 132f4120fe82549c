-- Statistics, history, export, feedback: whose, of which days, in which order, and at what cost.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
grant usage on schema test to public;
insert into care.product (id, name) values ('qp', 'Iron, "red"'), ('qr', '=1+1');
insert into care.product (id, user_id, name) values ('qalien', 'q2', 'Alien');
insert into care.user_settings (user_id, zone) values ('q', 'Europe/Berlin'), ('qe', 'Pacific/Kiritimati');
insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, status, taken_at, note, reason) values
    ('q1', 'q', 'qp', '2025-11-17 07:00Z', 'taken', '2025-11-17 07:10Z', null, null), ('q2', 'q', 'qr', '2025-11-17 20:00Z', 'missed', null, '-secret', null),
    ('q3', 'q', 'qp', '2025-11-18 07:00Z', 'taken', '2025-11-18 07:10Z', null, null), ('q4', 'q', 'qr', '2025-11-18 20:00Z', 'made_up', '2025-11-19 07:00Z', null, 'late'),
    ('q5', 'q', 'qp', '2025-11-19 07:00Z', 'skipped', null, null, null), ('q6', 'q', 'qp', '2025-11-20 07:00Z', 'scheduled', null, null, null),
    ('q7', 'q', null, '2025-11-20 20:00Z', 'scheduled', null, null, null), ('q8', 'q', 'qp', '2025-11-19 09:00Z', 'cancelled', null, null, null),
    ('q9', 'q', 'qp', '2025-11-21 07:00Z', 'scheduled', null, null, null), ('qx', 'q2', 'qalien', '2025-11-18 07:00Z', 'taken', '2025-11-18 07:10Z', null, null);

-- Statistics.
create function test.q_stats(who text, first_day date default null, last_day date default null) returns jsonb language sql as $$ select body::jsonb from sync.adherence_stats(who, first_day, last_day) $$;
select test.is('the usual range is the 30 days that end today', (select concat_ws(' ', s ->> 'start', s ->> 'end', jsonb_array_length(s #> '{histogram,byDay}'), s #>> '{histogram,byDay,0,date}', s #>> '{histogram,byDay,29,date}') from test.q_stats('q') as s),
    '2025-10-22 2025-11-20 30 2025-10-22 2025-11-20');
select test.is('streaks and percentages are those of the day', (select s - '{start,end,adherencePct,onTimePct,lastSyncAt,histogram,byProduct}'::text[] from test.q_stats('q') as s), (select body::jsonb -> 'stats' from sync.adherence_day('q', null)));
select test.is('a day of the histogram', test.q_stats('q') #> '{histogram,byDay,28}', '{"date": "2025-11-19", "taken": 0, "madeUp": 0, "missed": 0, "pending": 0, "skipped": 1, "scheduled": 1, "adherencePct": null}'::jsonb);
select test.is('each day as the month has it', (select bool_and(d - 'date' = jsonb_build_object('scheduled', m -> 'scheduledCount', 'taken', m -> 'takenCount', 'missed', m -> 'missedCount', 'madeUp', m -> 'madeUpCount', 'skipped', m -> 'skippedCount', 'pending', m -> 'pendingCount', 'adherencePct', m -> 'adherencePct'))
    from jsonb_array_elements(test.q_stats('q', '2025-11-01', '2025-11-30') #> '{histogram,byDay}') as d
    join jsonb_array_elements((select body::jsonb from sync.adherence_month('q', '2025-11-01'))) as m on m ->> 'date' = d ->> 'date' having count(*) = 30), true);
-- At 12:00Z no window of today has ended but that of 07:00Z.
select test.is('the range as a whole', (select concat_ws(' ', s ->> 'adherencePct', s ->> 'onTimePct') from test.q_stats('q') as s), '60.0 40.0');
select test.is('one day of it', (select concat_ws(' ', s ->> 'adherencePct', s ->> 'onTimePct', s #>> '{histogram,byDay,0,date}') from test.q_stats('q', '2025-11-18', '2025-11-18') as s), '100.0 50.0 2025-11-18');
select test.is('24 hours of local time', (select string_agg((h ->> 'hour') || ':' || (h ->> 'scheduled') || '/' || (h ->> 'taken') || '/' || (h ->> 'adherencePct'), ' ' order by n) filter (where h ->> 'scheduled' <> '0') || ' of ' || count(*)
    from jsonb_array_elements(test.q_stats('q') #> '{histogram,byHour}') with ordinality as t(h, n)), '8:4/2/66.7 21:3/0/50.0 of 24');
select test.is('by product, the most frequent first', (select string_agg(coalesce(p ->> 'productId', 'none') || ':' || coalesce(p ->> 'productName', 'none') || ':' || (p ->> 'scheduled') || ':' || coalesce(p ->> 'adherencePct', 'null'), ' ' order by n)
    from jsonb_array_elements(test.q_stats('q') -> 'byProduct') with ordinality as t(p, n)), 'qp:Iron, "red":4:66.7 qr:=1+1:2:50.0 none:none:1:null');
select test.is('nobody', (select s - '{histogram,start,end}'::text[] from test.q_stats('nobody') as s), '{"byProduct": [], "onTimePct": null, "lastSyncAt": null, "doses30Pct": null, "adherencePct": null, "avg30DaysPct": null, "bestStreakDays": 0, "currentStreakDays": 0}'::jsonb);
select test.is('nobody acted yet', test.q_stats('q') ->> 'lastSyncAt', null);
select test.act('q', 'qa', 'markTaken', '{"occurrenceId":"q6","takenAt":"2025-11-20T07:30:00Z"}') \g /dev/null
select test.set_clock('2025-11-20 13:00Z') \g /dev/null
select test.act('q', 'qb', 'addNote', '{"occurrenceId":"q5","text":"third"}') \g /dev/null
select test.is('the newest action', test.q_stats('q') ->> 'lastSyncAt', '2025-11-20T13:00:00+00:00');
select test.is('a day judged anew', (select concat_ws(' ', s ->> 'adherencePct', s #>> '{histogram,byDay,29,adherencePct}', s #>> '{histogram,byDay,29,pending}') from test.q_stats('q') as s), '80.0 100.0 1');
select test.is('the position', (select top from sync.adherence_stats('q', null, null)), test.top('q'));
select test.is('the user''s own day', (select concat_ws(' ', s ->> 'start', s ->> 'end') from test.q_stats('qe') as s), '2025-10-23 2025-11-21');
select test.is('with a start alone, until today', (select concat_ws(' ', s ->> 'start', s ->> 'end') from test.q_stats('q', '2025-11-01') as s), '2025-11-01 2025-11-20');
select test.is('with a start ahead, that day', (select concat_ws(' ', s ->> 'start', s ->> 'end') from test.q_stats('q', '2025-12-01') as s), '2025-12-01 2025-12-01');
select test.is('with an end alone, 30 days', (select concat_ws(' ', s ->> 'start', s ->> 'end') from test.q_stats('q', null, '2025-11-10') as s), '2025-10-12 2025-11-10');
select test.is('the ends of the calendar', (select string_agg(concat_ws(' ', s ->> 'start', s ->> 'end'), ', ') from (select test.q_stats('q', null, '0001-01-02') as s union all select test.q_stats('q', '9999-12-31')) as t), '0001-01-01 0001-01-02, 9999-12-31 9999-12-31');
select test.is('366 days', jsonb_array_length(test.q_stats('q', '2024-01-01', '2024-12-31') #> '{histogram,byDay}'), 366);
select test.fails('367 days', $$select * from sync.adherence_stats('q', '2024-01-01', '2025-01-01')$$, 'UQ001');
select test.fails('an end before the start', $$select * from sync.adherence_stats('q', '2024-01-02', '2024-01-01')$$, 'UQ001');

-- History.
create function test.q_page(who text, first_day date default null, last_day date default null, product text default null, state text default null, place text default null, most bigint default 50) returns jsonb
    language sql as $$ select body::jsonb from sync.adherence_history(who, first_day, last_day, product, state, place, most) $$;
create function test.q_ids(page jsonb) returns text language sql as $$ select coalesce(string_agg(o ->> 'id', ' ' order by n), '') || case when page ->> 'next' is not null then ' …' else '' end from jsonb_array_elements(page -> 'items') with ordinality as t(o, n) $$;
select test.is('the newest first, until today, without the cancelled', test.q_ids(test.q_page('q')), 'q7 q6 q5 q4 q3 q2 q1');
select test.is('as answers show it', (select test.one('q', 'q5') @> o and o ? 'takenAt' from jsonb_array_elements(test.q_page('q') -> 'items') as o where o ->> 'id' = 'q5'), true);
select test.is('with its texts', (select concat_ws(' ', o ->> 'note', o ->> 'reason') from jsonb_array_elements(test.q_page('q') -> 'items') as o where o ->> 'id' = 'q2'), '-secret');
select test.is('days ahead, when asked', test.q_ids(test.q_page('q', null, '2025-12-31')), 'q9 q7 q6 q5 q4 q3 q2 q1');
select test.is('from one day to another', test.q_ids(test.q_page('q', '2025-11-18', '2025-11-19')), 'q5 q4 q3');
select test.is('of a product', test.q_ids(test.q_page('q', product => 'qr')), 'q4 q2');
select test.is('of a status', test.q_ids(test.q_page('q', state => 'scheduled')), 'q7');
select test.is('the cancelled, when asked', test.q_ids(test.q_page('q', state => 'cancelled')), 'q8');
select test.is('of both', test.q_ids(test.q_page('q', product => 'qp', state => 'taken')), 'q6 q3 q1');
select test.is('another''s are not', test.q_ids(test.q_page('q', product => 'qalien')), '');
select test.is('nobody', test.q_page('nobody'), '{"next": null, "items": []}'::jsonb);
create function test.q_walk(who text, most bigint, product text default null) returns text language plpgsql as $$
declare
    page jsonb := test.q_page(who, null, null, product, null, null, most);
    told text := test.q_ids(page);
begin
    while page ->> 'next' is not null loop
        page := test.q_page(who, null, null, product, null, page ->> 'next', most);
        told := told || ' | ' || test.q_ids(page);
    end loop;
    return told;
end
$$;
select test.is('page by page', test.q_walk('q', 3), 'q7 q6 q5 … | q4 q3 q2 … | q1');
select test.is('a last page that is full', test.q_walk('q', 7), 'q7 q6 q5 q4 q3 q2 q1');
select test.is('one by one', test.q_walk('q', 1, 'qp'), 'q6 … | q5 … | q3 … | q1');
-- Many at one instant, and one long ago, with ids of all kinds.
insert into care.dose_occurrence (id, user_id, scheduled_at) select 'at once ' || chr(32 + n) || 'ü', 'qs', '2025-11-20 08:00:00.123456Z' from generate_series(1, 90) as n;
insert into care.dose_occurrence (id, user_id, scheduled_at) values (repeat('x', 1000), 'qs', '0001-01-02 08:00Z');
select test.is('none twice and none left out at one instant', (select string_agg(o ->> 'id', ',' order by n) from jsonb_array_elements(test.q_page('qs', most => 200) -> 'items') with ordinality as t(o, n)),
    replace(replace((select string_agg(w, ',') from (with recursive w(page, depth) as (select test.q_page('qs', most => 7), 1 union all select test.q_page('qs', place => page ->> 'next', most => 7), depth + 1 from w where page ->> 'next' is not null)
        select (select string_agg(o ->> 'id', ',' order by n) from jsonb_array_elements(page -> 'items') with ordinality as t(o, n)) as w from w order by depth) as all_pages), ' |', ''), '…', ''));
select test.is('the last page ends it', (select (test.q_page('qs', most => 91) ->> 'next') is null and (test.q_page('qs', most => 90) ->> 'next') !~ '[^-A-Za-z0-9_]'), true);
select test.is('what stands at a cursor may go meanwhile', (with first as materialized (select test.q_page('q', most => 3) ->> 'next' as next), gone as materialized (select test.act('q', 'qc', 'addNote', '{"occurrenceId":"q4","text":"x"}'), next from first) select test.q_ids(test.q_page('q', place => next, most => 2)) from gone), 'q4 q3 …');
select test.fails('no cursor', format('select * from sync.adherence_history(%L, null, null, null, null, %L, 5)', 'q', place), 'UQ002')
from unnest(array['', 'x', 'zzzz', 'W10', '!!', translate(encode('["2025-11-20","nonsense","a"]', 'base64'), '+/=', '-_'), translate(encode('[1]', 'base64'), '+/=', '-_'), encode('\xff00', 'base64')]) as place;

-- Export.
create function test.q_export(who text, format text, first_day date default null, last_day date default null) returns text language plpgsql as $$
declare
    kind text := sync.adherence_export(who, format, first_day, last_day);
    export refcursor := 'export';
    part text;
    told text := kind || ' ';
begin
    loop
        fetch export into part;
        exit when not found;
        told := told || part;
    end loop;
    close export;
    return told;
end
$$;
select test.is('a spreadsheet', test.q_export('q', 'csv', '2025-11-17', '2025-11-18'), replace(replace($$text/csv; charset=utf-8; header=present date,time,timezone,product,strength,form,dose,status,taken_at,reason,note,as_needed,scheduled_at,id,product_id,schedule_id
2025-11-17,08:00,Europe/Berlin,"Iron, ""red""",,,,taken,2025-11-17T08:10:00+01:00,,,false,2025-11-17T08:00:00+01:00,q1,qp,
2025-11-17,21:00,Europe/Berlin,'=1+1,,,,missed,,,'-secret,false,2025-11-17T21:00:00+01:00,q2,qr,
2025-11-18,08:00,Europe/Berlin,"Iron, ""red""",,,,taken,2025-11-18T08:10:00+01:00,,,false,2025-11-18T08:00:00+01:00,q3,qp,
2025-11-18,21:00,Europe/Berlin,'=1+1,,,,made_up,2025-11-19T08:00:00+01:00,late,x,false,2025-11-18T21:00:00+01:00,q4,qr,
$$, 'present ', E'present \ufeff'), E'\n', E'\r\n'));
select test.is('a list of objects, as history has them', replace(test.q_export('q', 'json'), 'application/json ', '')::jsonb, (select jsonb_agg(o order by n desc) from jsonb_array_elements(test.q_page('q') -> 'items') with ordinality as t(o, n)));
select test.is('days ahead, when asked', (select jsonb_agg(o ->> 'id')::text from jsonb_array_elements(replace(test.q_export('q', 'json', '2025-11-20', '2025-11-30'), 'application/json ', '')::jsonb) as o), '["q6", "q7", "q9"]');
select test.is('nobody''s: a header', test.q_export('nobody', 'csv') ~ '^text/csv[^,]+,[^\n]+schedule_id\r\n$' and test.q_export('nobody', 'json') = 'application/json []', true);
select test.fails('a history that ends before its start', $$select * from sync.adherence_history('q', '2024-01-02', '2024-01-01', null, null, null, 5)$$, 'UQ001');
select test.fails('an export that ends before its start', $$select sync.adherence_export('q', 'csv', '2024-01-02', '2024-01-01')$$, 'UQ001');
select test.is('one day', test.q_export('nobody', 'json', '2024-01-01', '2024-01-01'), 'application/json []');
select test.is('fields', (select string_agg(care.csv_field(f), ' ' order by n) from unnest(array['a', 'a,b', 'a"b', E'a\nb', '=a', '+1', '-1', '@a', 'a=b', E'\tx', E'\rx', U&'\FF1D1+1', U&'\FF0Bx', U&'\FF0Dx', U&'\FF20x', U&'x\FF1D', null, '']) with ordinality as t(f, n)),
    E'a "a,b" "a""b" "a\nb" ''=a ''+1 ''-1 ''@a a=b ''\tx "''\rx" ''＝1+1 ''＋x ''－x ''＠x x＝  ');
select test.is('a quote first is no formula', care.csv_field('",='), '""",="');

-- As needed: in history and export, in no statistics.
insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, status, taken_at, as_needed) values
    ('qn1', 'qn', 'qp', '2025-11-20 07:00Z', 'missed', null, false), ('qn2', 'qn', 'qr', '2025-11-20 10:00Z', 'taken', '2025-11-20 10:00Z', true);
select test.is('what was taken as needed is in history', (select string_agg((o ->> 'id') || (o ->> 'asNeeded'), ' ' order by n) from jsonb_array_elements(test.q_page('qn') -> 'items') with ordinality as t(o, n)), 'qn2true qn1false');
select test.is('and in the table', test.q_export('qn', 'csv') like '%,true,2025-11-20T10:00:00+00:00,qn2,qr,%', true);
select test.is('and in no statistics', (select concat_ws(' ', s ->> 'adherencePct', s #>> '{histogram,byDay,29,scheduled}', s #>> '{histogram,byHour,10,scheduled}', jsonb_array_length(s -> 'byProduct')) from test.q_stats('qn') as s), '0.0 1 0 1');

-- Feedback.
create function test.dropped(users text[], objects jsonb[]) returns text
language sql volatile as $$
    select string_agg(concat_ws(' ', dropped, filled), ', ' order by filled nulls first) from sync.append_feedback(users, objects)
$$;
select test.is('how many were dropped', test.dropped(array_fill('q'::text, array[15]), array[
    '{"type":"tap"}', '{"type":"make-up","id":"f1","occurrenceId":"q4","timestamp":"2025-11-20T08:00:00+01:00","properties":{"screen":"today"}}', '{"type":"undo","timestamp":1763625600000,"deviceId":"phone","further":1}', '{"type":"makeUp","id":"f1"}',
    '{"type":"explode"}', '{"type":7}', '{}', '[]', '7', 'null', '{"type":"tap","timestamp":"yesterday"}', '{"type":"tap","id":""}', '{"type":"tap","properties":[]}', jsonb_build_object('type', 'tap', 'properties', jsonb_build_object('x', repeat('y', 2000))), jsonb_build_object('type', 'tap', 'occurrenceId', repeat('y', 201))]), '11');
select test.is('what is kept', (select string_agg(concat_ws(' ', type, event_id, occurrence_id, device_id, properties::text, at at time zone 'UTC'), ', ' order by type desc) from care.feedback where user_id = 'q'),
    'undo phone 2025-11-20 08:00:00, tap 2025-11-20 13:00:00, makeUp f1 q4 {"screen": "today"} 2025-11-20 07:00:00');
select test.is('an event that comes twice is not a mistake', test.dropped('{q,q2}', array['{"type":"tap","id":"f1"}', '{"type":"tap","id":"f1"}']::jsonb[]), '0');
select test.is('and is kept once for its user', (select string_agg(user_id || ' ' || type, ', ' order by user_id) from care.feedback where event_id = 'f1'), 'q makeUp, q2 tap');
select test.is('none', test.dropped('{}', '{}'), '0');
select test.is('90 days', (select concat_ws(' ', done, more) from care.job_retain_feedback(10, '2026-02-18 13:00Z')), '0 f');
select test.is('a batch', (select concat_ws(' ', done, more) from care.job_retain_feedback(3, '2026-02-18 13:01Z')), '3 t');
select test.is('and the rest', (select concat_ws(' ', done, more) from care.job_retain_feedback(3, '2026-02-18 13:01Z')), '1 f');

-- A user's total: who has as much is named, and keeps what is there; nobody else is held up.
insert into care.feedback (user_id, type, at, received_at) select 'qf', 'tap', '2025-11-20', '2025-11-20' from generate_series(1, care.feedback_max() - 2);
select test.is('below the bound', test.dropped('{qf,qg}', array_fill('{"type":"tap"}'::jsonb, array[2])), '0');
select test.is('at the bound and one past it', test.dropped('{qf,qg,qf,qf}', array['{"type":"view","id":"last"}', '{"type":"tap"}', '{"type":"skip"}', '{}']::jsonb[]), '2, 0 qf');
select test.is('the first of them is kept', (select string_agg(type, ' ') from care.feedback where user_id = 'qf' and type <> 'tap'), 'view');
select test.is('beyond it', test.dropped('{qf,qg}', array_fill('{"type":"tap"}'::jsonb, array[2])), '1, 0 qf');
select test.is('the other user has all', (select count(*) from care.feedback where user_id = 'qg'), 3::bigint);
delete from care.feedback where user_id in ('qf', 'qg');

set role carillon_hub;
select test.is('the hub may ask all of it', (select count(*) from sync.adherence_stats('x', null, null)) + (select count(*) from sync.adherence_history('x', null, null, null, null, null, 1)) + (select dropped from sync.append_feedback('{}', '{}')), 2::bigint);
begin transaction isolation level repeatable read read only;
select test.is('the hub may read an export', test.q_export('q', 'csv') like '%Iron%', true);
select test.is('and read only is enough', (select count(*) from sync.adherence_stats('q', null, null)) + (select count(*) from sync.adherence_history('q', null, null, null, null, null, 1)), 2::bigint);
commit;
reset role;
select test.fails('nobody else may', 'set local role carillon_hub; select * from care.feedback', '42501');

-- A page costs what it shows, beside 100,000 doses of others and years of the user's own.
begin;
alter table care.dose_occurrence disable trigger user;
insert into care.dose_occurrence (id, user_id, scheduled_at, tz, local_date, local_time, window_end)
select 'qmany' || n, case when n % 20 = 0 then 'qm' else 'crowd' || n % 997 end, timestamptz '2025-11-20 08:00Z' - make_interval(hours => n / 10), 'UTC', date '2025-11-20' - n / 240, '08:00', '2025-11-20 12:00Z' from generate_series(1, 100000) as n;
insert into care.day_summary select user_id, local_date, count(*), 0, 0, 0, 0, count(*) from care.dose_occurrence where user_id = 'qm' group by 1, 2;
select test.reads(c) from unnest('{"sync.adherence_stats(''qm'', null, null)","sync.adherence_history(''qm'', null, null, null, null, null, 50)"}'::text[]) as c \g /dev/null
select test.is('statistics touch few pages', test.reads('sync.adherence_stats(''qm'', null, null)') < 1500, true);
select test.is('a page of history touches few', test.reads('sync.adherence_history(''qm'', null, null, null, null, null, 50)') < 400, true);
select test.is('as does one in the middle', test.reads(format('sync.adherence_history(''qm'', null, null, null, null, %L, 50)', test.q_page('qm', null, '2024-12-01') ->> 'next')) < 400, true);
rollback;
reset timezone;
