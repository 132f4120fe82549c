-- What devices fetch: bodies as the events have it, positions, whose.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
insert into care.product (id, name) values ('sp', 'Iron');
insert into care.user_settings (user_id, zone) values ('sn', 'America/New_York'), ('se', 'Pacific/Kiritimati');
select test.is('nobody''s day: nothing, at 0 in the epoch to come', (select (body::jsonb - 'stats')::text || top || (epoch = (select m.epoch from sync.meta as m) || '.' || sync.lineage()) from sync.adherence_day('sn', null)),
    '{"summary": {"date": "2025-11-20", "onTimePct": null, "takenCount": 0, "madeUpCount": 0, "missedCount": 0, "adherencePct": null, "pendingCount": 0, "skippedCount": 0, "scheduledCount": 0}, "elsewhere": [], "occurrences": []}0true');
select test.is('today is the user''s', (select string_agg(d.body::jsonb #>> '{summary,date}', ' ' order by u) from unnest('{nobody,se,sn}'::text[]) as u, sync.adherence_day(u, null) as d), '2025-11-20 2025-11-21 2025-11-20');

insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, note) values
    ('sn-2', 'sn', 'sp', '2025-11-20 13:00Z', 'secret'), ('sn-1', 'sn', 'sp', '2025-11-20 13:00Z', null), ('sn-0', 'sn', null, '2025-11-20 12:59Z', null),
    ('sn-9', 'sn', 'sp', '2025-11-20 20:00Z', null), ('sn-later', 'sn', 'sp', '2025-11-21 13:00Z', null), ('sn-alien', 'sn2', 'sp', '2025-11-20 13:00Z', null);
update care.dose_occurrence set status = 'cancelled' where id = 'sn-9';
update care.dose_occurrence set status = 'taken', taken_at = '2025-11-20 13:05Z' where id = 'sn-1';
create function test.day(who text, day date default null) returns jsonb language sql as $$ select body::jsonb from sync.adherence_day(who, day) $$;
select test.is('doses in the order of their times, without the cancelled', (select string_agg(o ->> 'id', ' ' order by n) from jsonb_array_elements(test.day('sn') -> 'occurrences') with ordinality as t(o, n)), 'sn-0 sn-1 sn-2');
select test.is('a dose as occurrence.created has it', (select o - 'note' from jsonb_array_elements(test.day('sn') -> 'occurrences') as o where o ->> 'id' = 'sn-2'),
    (select data -> 'occurrence' from sync.event where user_id = 'sn' and name = 'occurrence.created' and data ->> 'occurrenceId' = 'sn-2'));
select test.is('and as occurrence.updated has it', (select o - '{id,userId,note}'::text[] from jsonb_array_elements(test.day('sn') -> 'occurrences') as o where o ->> 'id' = 'sn-1'),
    (select data -> 'updates' from sync.event where user_id = 'sn' and name = 'occurrence.updated' and data ->> 'occurrenceId' = 'sn-1'));
select test.is('and their notes', (select string_agg(coalesce(o ->> 'note', '-'), ' ' order by n) from jsonb_array_elements(test.day('sn') -> 'occurrences') with ordinality as t(o, n)), '- - secret');
select test.is('summary and statistics as the last event has them', (select (test.day('sn') -> 'summary')::text || (test.day('sn') -> 'stats')::text),
    (select (data -> 'summary')::text || (data -> 'stats')::text from sync.event where user_id = 'sn' and data ->> 'date' = '2025-11-20' order by o desc limit 1));
select test.is('the position is that of the stream', (select p::text from sync.positions('{sn}', '{adherence}') as p), (select row('sn', 'adherence', epoch, top)::text from sync.adherence_day('sn', null)));
select test.is('another day', (select string_agg(o ->> 'id', ' ') from jsonb_array_elements(test.day('sn', '2025-11-21') -> 'occurrences') as o), 'sn-later');
select test.is('the ends of the calendar', (test.day('sn', '0001-01-01') #>> '{summary,date}') || ' ' || (test.day('sn', '9999-12-31') #>> '{summary,date}'), '0001-01-01 9999-12-31');

create function test.month(who text, day date) returns jsonb language sql as $$ select body::jsonb from sync.adherence_month(who, day) $$;
select test.is('a month has all its days', (select string_agg(jsonb_array_length(test.month('sn', d)) || ' ' || (test.month('sn', d) #>> '{0,date}') || ' ' || (test.month('sn', d) #>> '{-1,date}'), ', ')
    from unnest('{2025-11-01,2024-02-01,2025-02-01,0001-01-01,9999-12-01}'::date[]) as d),
    '30 2025-11-01 2025-11-30, 29 2024-02-01 2024-02-29, 28 2025-02-01 2025-02-28, 31 0001-01-01 0001-01-31, 31 9999-12-01 9999-12-31');
select test.is('each as the day has it', (select bool_and(m = test.day('sn', (m ->> 'date')::date) -> 'summary') from jsonb_array_elements(test.month('sn', '2025-11-01')) as m), true);
select test.is('two with doses', (select string_agg((m ->> 'date') || ':' || (m ->> 'scheduledCount'), ' ') from jsonb_array_elements(test.month('sn', '2025-11-01')) as m where m ->> 'scheduledCount' <> '0'), '2025-11-20:3 2025-11-21:1');
select test.is('of this user', (select sum((m ->> 'scheduledCount')::int) from jsonb_array_elements(test.month('sn2', '2025-11-01')) as m), 1::bigint);
select test.is('its position', (select top from sync.adherence_month('sn', '2025-11-01')), test.top('sn'));

create function test.one(who text, dose text) returns jsonb language sql as $$ select body::jsonb from sync.adherence_occurrence(who, dose) $$;
select test.act('sn', 'note-b', 'addNote', '{"occurrenceId":"sn-2","text":"second"}') \g /dev/null
select test.set_clock('2025-11-20 12:01Z') \g /dev/null
select test.act('sn', 'note-a', 'markTaken', '{"occurrenceId":"sn-2","note":"third"}') \g /dev/null
select test.is('a dose as answers have it, and its notes', test.one('sn', 'sn-2') - 'history', (select answer -> 'result' from sync.action where user_id = 'sn' and key = 'note-a')
    || '{"notes": [{"key": "note-b", "text": "second", "createdAt": "2025-11-20T12:00:00+00:00"}, {"key": "note-a", "text": "third", "createdAt": "2025-11-20T12:01:00+00:00"}], "notesNext": null}');
select test.is('no notes: none', test.one('sn', 'sn-1') -> 'notes', '[]'::jsonb);

-- Notes: as many as a dose may have, one past that, and what was there before there was a bound.
insert into care.product (id, name) values ('nt-p', 'N');
insert into care.dose_occurrence (id, user_id, product_id, scheduled_at) select 'nt-' || n, 'nt', 'nt-p', '2025-11-20 11:00Z' from generate_series(1, 4) as n;
select test.act('nt', 'n' || n, 'addNote', jsonb_build_object('occurrenceId', 'nt-1', 'text', repeat(E'\x01', 4000))) from generate_series(1, care.notes_page()) as n \g /dev/null
select test.is('all are one page, and it fits', (select concat_ws(' ', jsonb_array_length(b -> 'notes'), b -> 'notesNext', octet_length(b::text) between 2400000 and 4 << 20) from test.one('nt', 'nt-1') as b), '100 null t');
insert into care.dose_note (user_id, occurrence_id, key, text, created_at) select 'nt', 'nt-1', 'old' || n, 'x', '2025-11-20' from generate_series(1, care.notes_max() - care.notes_page() - 1) as n;
select test.is('the last one', test.short(test.act('nt', 'last', 'addNote', '{"occurrenceId":"nt-1","text":"x"}')), 'applied');
select test.is('one more has a code', test.short(test.act('nt', 'more', 'addNote', '{"occurrenceId":"nt-1","text":"x"}')), 'rejected too_many');
select test.is('an undone note makes room', concat_ws(' ', test.short(test.act('nt', 'unlast', 'undo', '{"targetKey":"last"}')), test.short(test.act('nt', 'again', 'addNote', '{"occurrenceId":"nt-1","text":"y"}'))), 'applied applied');
select test.is('for one', test.short(test.act('nt', 'more2', 'addNote', '{"occurrenceId":"nt-1","text":"x"}')), 'rejected too_many');
select test.is('a dose is taken whatever its notes', test.short(test.act('nt', 'take', 'markTaken', '{"occurrenceId":"nt-1","note":"with food"}')), 'applied');
select test.is('its note stands on the dose alone', (select concat_ws(' ', b ->> 'status', b ->> 'note', (select count(*) from care.dose_note where key = 'take')) from test.one('nt', 'nt-1') as b), 'taken with food 0');
select test.is('and is undone with it', test.short(test.act('nt', 'untake', 'undo', '{"targetKey":"take"}')), 'applied');
select test.is('all of it', (select status || ' ' || note from care.dose_occurrence where id = 'nt-1'), 'scheduled y');
select test.is('other doses have room', test.short(test.act('nt', 'other', 'addNote', '{"occurrenceId":"nt-2","text":"x"}')), 'applied');
insert into care.dose_note (user_id, occurrence_id, key, text, created_at)
    select 'nt', 'nt-3', 'k' || lpad(n::text, 3, '0'), repeat('x', 4000), '2025-11-20 11:00Z'::timestamptz + n / 10 * interval '1 minute' from generate_series(1, 900) as n;
with recursive page(n, b) as (
    select 1, test.one('nt', 'nt-3')
    union all
    select n + 1, (select body::jsonb from sync.adherence_occurrence('nt', 'nt-3', b ->> 'notesNext')) from page where b ->> 'notesNext' is not null
) select test.is('older notes come by pages, each once', concat_ws(' ', count(*), max(octet_length(b::text)) < 1 << 20, (select string_agg(e ->> 'key', ' ' order by p.n desc, e.place) = (select string_agg('k' || lpad(g::text, 3, '0'), ' ' order by g) from generate_series(1, 900) as g)
    from page as p, jsonb_array_elements(p.b -> 'notes') with ordinality as e(e, place))), '9 t t') from page;
select test.fails('what is not a cursor: ' || place, format('select * from sync.adherence_occurrence(''nt'', ''nt-3'', %L)', place), 'UQ002') from unnest(array['x', '!', '', care.cursor_text('["2025-11-20"]'), care.cursor_text('["someday", "k"]'), care.cursor_text('[null, "k"]'), care.cursor_text('{}')]) as place;
update care.dose_occurrence set note = repeat(E'\x01', 4000) where user_id = 'nt';
insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, note) select 'nu-' || n, 'nt', 'nt-p', '2025-11-20 11:01Z', repeat(E'\x01', 4000) from generate_series(1, 300) as n;
select test.is('a day fits: beyond 2 MiB of notes they are left out', (select concat_ws(' ', count(*), count(*) filter (where e ->> 'note' is null and (e ->> 'hasNote')::boolean), octet_length(max(b::text)) < 4 << 20)
    from test.day('nt', '2025-11-20') as b, jsonb_array_elements(b -> 'occurrences') as e), '304 217 t');
select test.is('a page of history ends before 2 MiB of texts', (select concat_ws(' ', jsonb_array_length(body::jsonb -> 'items'), body::jsonb ->> 'next' is not null) from sync.adherence_history('nt', null, null, null, null, null, 200)), '87 t');
delete from care.dose_occurrence where user_id = 'nt';

select test.is('a cancelled dose is one', test.one('sn', 'sn-9') ->> 'status', 'cancelled');
select test.is('unknown, and another''s: null, with a position', (select string_agg(coalesce(o.body, 'null') || ' ' || o.top, ', ' order by i) from unnest('{"",sn-alien,nothing}'::text[]) as i, sync.adherence_occurrence('sn', i) as o), 'null ' || test.top('sn') || ', null ' || test.top('sn') || ', null ' || test.top('sn'));

insert into care.reminder_rule (id, user_id, product_id, label, time, timezone, created_at) values
    ('snr1', 'sn', 'sp', 'old', '08:00', 'America/New_York', '2025-11-01Z'), ('snr2', 'sn', null, 'new', '21:30', 'Europe/Berlin', '2025-11-02Z'), ('snrx', 'sn2', null, 'sn-alien', '08:00', 'UTC', '2025-11-02Z');
insert into care.reminder_occurrence (id, rule_id, user_id, original_local, status, snoozed_until, moved_to) values
    ('sx-old', 'snr1', 'sn', '2025-11-16 08:00', 'sent', null, null), ('sx-snoozed', 'snr1', 'sn', '2025-11-18 09:00', 'sent', '2025-11-20 11:00Z', null),
    ('sx-moved', 'snr1', 'sn', '2025-11-17 08:00', 'scheduled', null, '2025-11-22 08:00Z'), ('sx-off', 'snr2', 'sn', '2025-11-21 21:30', 'cancelled', null, null),
    ('sx-ahead', 'snr1', 'sn', '2025-11-24 08:00', 'scheduled', null, '2025-11-19 08:00Z'), ('sx-both', 'snr1', 'sn', '2025-11-15 07:00', 'sent', '2025-11-18 13:00Z', '2025-11-18 12:30Z');
create function test.rules(who text) returns jsonb language sql as $$ select body::jsonb from sync.reminders(who) $$;
select test.is('rules, the newest first', jsonb_path_query_array(test.rules('sn'), '$.items[*].label')::text, '["new", "old"]');
select test.is('a rule as its event has it', test.rules('sn') #> '{items,1}' #- '{nextOccurrences}' #- '{upcoming}', (select data - '{_sync,nextOccurrences,upcoming}'::text[] from sync.event where user_id = 'sn' and name = 'reminder.created' and data ->> 'id' = 'snr1'));
select test.is('its next times, exceptions applied', test.rules('sn') #>> '{items,0,nextOccurrences,1}', '2025-11-22T21:30:00+01:00');
select test.is('occurrences that differ, as long as they matter', jsonb_path_query_array(test.rules('sn'), '$.occurrences[*].occurrenceId')::text, '["sx-moved", "sx-snoozed", "sx-off", "sx-ahead"]');
select test.is('as their events have them', test.rules('sn') #> '{occurrences,0}', (select data - '_sync' from sync.event where user_id = 'sn' and name = 'reminder.occurrence_updated' and data ->> 'occurrenceId' = 'sx-moved'));
-- A day ago is 12:01 UTC of the 19th.
insert into care.reminder_rule (id, user_id, label, time, timezone) values ('szw1', 'sz', 'w', '00:01', 'Etc/GMT+12'), ('szw2', 'sz', 'w', '00:02', 'Etc/GMT+12'),
    ('sze1', 'sz', 'e', '02:01', 'Etc/GMT-14'), ('sze2', 'sz', 'e', '02:02', 'Etc/GMT-14'), ('sze3', 'sz', 'e', '02:03', 'Etc/GMT-14');
insert into care.reminder_occurrence (id, rule_id, user_id, original_local, status, moved_to) values
    ('sz-w-over', 'szw1', 'sz', '2025-11-19 00:01', 'sent', null), ('sz-w', 'szw2', 'sz', '2025-11-19 00:02', 'sent', null),
    ('sz-e-over', 'sze1', 'sz', '2025-11-20 02:01', 'sent', null), ('sz-e', 'sze2', 'sz', '2025-11-20 02:02', 'sent', null),
    ('sz-moved-back', 'sze3', 'sz', '2025-11-20 02:03', 'sent', '2025-11-10 00:00Z'), ('sz-both-over', 'sze3', 'sz', '2025-11-01 02:03', 'sent', '2025-11-10 00:00Z');
select test.is('a day ago in the rule''s zone, whichever', jsonb_path_query_array(test.rules('sz'), '$.occurrences[*].occurrenceId')::text, '["sz-w", "sz-e", "sz-moved-back"]');
select test.is('the position, in the body too', (select (body::jsonb -> 'position') = jsonb_build_object('epoch', epoch, 'offset', top) and top = test.top('sn', 'reminders') from sync.reminders('sn')), true);
select test.is('nobody has none', test.rules('nobody') - 'position', '{"items": [], "occurrences": []}'::jsonb);

set role carillon_hub;
select test.is('the hub may ask', (select count(*) from sync.adherence_day('x', null)) + (select count(*) from sync.adherence_month('x', '2025-11-01')) + (select count(*) from sync.adherence_occurrence('x', 'y')) + (select count(*) from sync.reminders('x')), 4::bigint);
reset role;
begin transaction isolation level repeatable read read only;
select test.is('and read only is enough', (select count(*) from sync.adherence_day('sn', null)) + (select count(*) from sync.adherence_month('sn', '2025-11-01')) + (select count(*) from sync.adherence_occurrence('sn', 'sn-1')) + (select count(*) from sync.reminders('sn')), 4::bigint);
commit;

-- A user's day is found by its index, whatever else there is.
create function test.reads(call text) returns bigint language plpgsql as $$
declare plan json;
begin
    execute 'explain (analyze, buffers, format json) select * from ' || call into plan;
    return (plan #>> '{0,Plan,Shared Hit Blocks}')::bigint + (plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
end
$$;
begin;
alter table care.dose_occurrence disable trigger user;
insert into care.dose_occurrence (id, user_id, scheduled_at, tz, local_date, local_time, window_end)
select 'crowd' || n, 'crowd' || n % 1000, '2025-11-20 08:00Z', 'UTC', '2025-11-20', '08:00', '2025-11-20 12:00Z' from generate_series(1, 100000) as n;
select test.reads(c) from unnest('{"sync.adherence_day(''sn'', null)","sync.adherence_month(''sn'', ''2025-11-01'')","sync.adherence_occurrence(''sn'', ''sn-1'')","sync.reminders(''sn'')"}'::text[]) as c \g /dev/null
select test.is('snapshots beside 100,000 doses touch few pages', (select max(test.reads(c)) from unnest('{"sync.adherence_day(''sn'', null)","sync.adherence_month(''sn'', ''2025-11-01'')","sync.adherence_occurrence(''sn'', ''sn-1'')","sync.reminders(''sn'')"}'::text[]) as c) < 250, true);
rollback;

-- Three years of exceptions cost what none do.
begin;
alter table care.reminder_rule disable trigger user;
alter table care.reminder_occurrence disable trigger user;
insert into care.reminder_rule (id, user_id, label, time, timezone) select 'sy' || n, 'sy', 'x', '08:00', 'America/New_York' from generate_series(1, 20) as n;
create function test.rules_reads() returns bigint language sql as $$ select min(test.reads('sync.reminders(''sy'')')) from generate_series(1, 3) $$;
create temp table without as select test.rules_reads() as n;
insert into care.reminder_occurrence (id, rule_id, user_id, original_local, day, status, moved_to, snoozed_until)
select 'sy' || r || '-' || d, 'sy' || r, 'sy', timestamp '2025-11-17 08:00' - make_interval(days => d), date '2025-11-17' - d, 'sent', timestamptz '2025-11-17 14:00Z' - make_interval(days => d),
    case when d % 2 = 0 then timestamptz '2025-11-17 15:00Z' - make_interval(days => d) end
from generate_series(1, 20) as r, generate_series(0, 1094) as d;
analyze care.reminder_occurrence;
select test.is('beside 22,000 past exceptions a snapshot touches few pages more', (select test.rules_reads() < 2 * n + 200 from without), true);
update care.reminder_occurrence set moved_to = '2025-11-22 14:00Z' where id = 'sy7-1000';
select test.is('and tells the one that matters', jsonb_path_query_array(test.rules('sy'), '$.occurrences[*].occurrenceId')::text, '["sy7-1000"]');
rollback;
reset timezone;

-- Once windows have ended: one body never contradicts itself, and says what an event of that moment would.
set timezone = 'UTC';
select test.set_clock('2025-11-20 09:00Z') \g /dev/null
select test.plan('end', 'end' || n, 'scheduled', '2025-11-20'::date - (n - 1) / 2) from generate_series(1, 8) as n \g /dev/null
update care.dose_occurrence set status = 'taken' where id in ('end1', 'end3', 'end5');
update care.dose_occurrence set status = 'skipped' where id = 'end8';
create function test.judged(who text) returns text language sql as $$
    select string_agg((m ->> 'adherencePct') || '/' || (m ->> 'onTimePct') || '/' || (m ->> 'pendingCount'), ' ' order by m ->> 'date') from jsonb_array_elements(test.month(who, '2025-11-01')) as m where m ->> 'scheduledCount' <> '0' $$;
select test.is('days of which one is open', test.judged('end'), '0.0/0.0/1 50.0/50.0/1 50.0/50.0/1 100.0/100.0/1');
select test.set_clock('2025-11-20 11:29:59Z') \g /dev/null
select test.is('half an hour after the end of today''s window, and before', test.judged('end'), '0.0/0.0/1 50.0/50.0/1 50.0/50.0/1 100.0/100.0/1');
select test.set_clock('2025-11-20 11:30Z') \g /dev/null
select test.is('the moment at which today''s dose has ended', test.judged('end'), '0.0/0.0/1 50.0/50.0/1 50.0/50.0/1 50.0/50.0/1');
select test.is('nothing is stored by that', (select string_agg(adherence_pct::text, ' ' order by date) from care.day_summary where user_id = 'end'), '0.0 50.0 50.0 100.0');
select test.is('the day as the month has it', (select bool_and(m = test.day('end', (m ->> 'date')::date) -> 'summary') from jsonb_array_elements(test.month('end', '2025-11-01')) as m), true);
-- The only day of thirty: its percentage is theirs.
select test.plan('one', 'one1', 'taken', '2025-11-19'), test.plan('one', 'one2', 'scheduled', '2025-11-20') \g /dev/null
update care.dose_occurrence set local_date = '2025-11-19', window_end = '2025-11-20 11:30Z' where id = 'one2';
create function test.both(who text, day date) returns text language sql as $$ select concat_ws(' ', b #>> '{summary,adherencePct}', b #>> '{stats,avg30DaysPct}', b #>> '{stats,doses30Pct}') from test.day(who, day) as b $$;
select test.is('before the end', test.both('one', '2025-11-19'), '100.0 100.0 100.0');
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
select test.is('and after', test.both('one', '2025-11-19'), '50.0 50.0 50.0');
create temp table shown as select test.day('one', '2025-11-19') as body;
update care.dose_occurrence set product_id = 'sp' where id = 'one2';
select test.is('an event of that moment says the same', (select (data -> 'summary')::text || (data -> 'stats')::text from sync.event where user_id = 'one' and name = 'adherence.summary_updated' order by o desc limit 1), (select (body -> 'summary')::text || (body -> 'stats')::text from shown));
select test.is('as does the one of its dose', (select (data -> 'daySummary') - 'month' from sync.event where user_id = 'one' and name = 'occurrence.updated' order by o desc limit 1), (select body -> 'summary' from shown));
update care.dose_occurrence set status = 'cancelled' where id = 'one1';
select test.is('nothing but a dose whose window is over', test.both('one', '2025-11-19'), '0.0 0.0 0.0');
update care.dose_occurrence set status = 'skipped' where id = 'one2';
select test.is('nothing due', test.both('one', '2025-11-19'), '');

-- Today: what falls on the day where the person is, and what is due now, whatever date it has.
insert into care.user_settings (user_id, zone) values ('day-d', 'Asia/Tokyo'), ('day-l', 'America/Los_Angeles'), ('day-b', 'Europe/Berlin');
insert into care.dose_occurrence (id, user_id, scheduled_at, tz) select 'td' || n, 'day-d', ('2025-11-10'::date + n + time '20:00') at time zone 'America/Los_Angeles', 'America/Los_Angeles' from generate_series(1, 6) as n;
insert into care.dose_occurrence (id, user_id, scheduled_at, tz) select 'tl' || n, 'day-l', ('2025-11-10'::date + n + time '08:00') at time zone 'Asia/Tokyo', 'Asia/Tokyo' from generate_series(1, 6) as n;
insert into care.dose_occurrence (id, user_id, scheduled_at, tz, status) select 'tb' || n, 'day-b', ('2025-11-10'::date + n + time '23:30') at time zone 'Europe/Berlin', 'Europe/Berlin', case when n = 1 then 'taken' else 'scheduled' end from generate_series(1, 6) as n;
insert into care.dose_occurrence (id, user_id, scheduled_at, tz, status, as_needed) values ('tb-log', 'day-b', '2025-11-12 22:40Z', 'Europe/Berlin', 'taken', true);
create function test.listed(who text, at timestamptz) returns text language plpgsql as $$
begin
    perform test.set_clock(at);
    return (select concat_ws(' | ', coalesce(b ->> 'date', b #>> '{summary,date}'), coalesce(jsonb_path_query_array(b, '$.occurrences[*].id') ->> 0, '-') || coalesce(' ' || (jsonb_path_query_array(b, '$.occurrences[*].id') ->> 1), ''),
                             coalesce(jsonb_path_query_array(b, '$.elsewhere[*].id') ->> 0, '-')) from test.day(who) as b);
end
$$;
create function test.due(who text, at timestamptz, tz text default null) returns text language plpgsql as $$
declare
    told text;
begin
    perform test.set_clock(at);
    begin
        select test.items(test.act(who, 'all', 'bulkMarkAll', '{"criteria":{}}', tz => due.tz)) into told;
        raise exception using errcode = 'ZZ001';
    exception when sqlstate 'ZZ001' then
        return told;
    end;
end
$$;
select test.is(title, test.listed(who, at::timestamptz) || ' | ' || coalesce(test.due(who, at::timestamptz), '-'), want) from (values
    (1, 'Tokyo, five minutes into Los Angeles'' evening', 'day-d', '2025-11-14 04:05Z', '2025-11-14 | td3 | td4 | td3:applied'), (2, 'before it', 'day-d', '2025-11-14 03:55Z', '2025-11-14 | td3 | td4 | -'),
    (3, 'when its window has ended, it is still the day''s', 'day-d', '2025-11-14 08:00Z', '2025-11-14 | td3 | td4 | td3:applied'), (4, 'the next morning it is not', 'day-d', '2025-11-14 15:05Z', '2025-11-15 | td4 | td5 | -'),
    (5, 'Los Angeles, the afternoon of Tokyo''s next morning', 'day-l', '2025-11-13 23:05Z', '2025-11-13 | tl4 | tl3 | tl4:applied'), (6, 'and at noon', 'day-l', '2025-11-13 20:00Z', '2025-11-13 | tl4 | tl3 | -'),
    (7, 'Berlin, ten minutes after midnight: last evening''s', 'day-b', '2025-11-13 23:10Z', '2025-11-14 | tb3 tb4 | - | tb3:applied'), (8, 'until its window ends', 'day-b', '2025-11-14 02:29:59Z', '2025-11-14 | tb3 tb4 | - | tb3:applied'),
    (9, 'and not then', 'day-b', '2025-11-14 02:30Z', '2025-11-14 | tb4 | - | -'), (10, 'one that was taken is shown as long, and not taken again', 'day-b', '2025-11-11 23:10Z', '2025-11-12 | tb1 tb2 | - | -'),
    (11, 'before midnight', 'day-b', '2025-11-13 22:50Z', '2025-11-13 | tb3 | - | tb3:applied')) as t(n, title, who, at, want) order by n;
select test.is('what was taken as needed before midnight is not due', test.listed('day-b', '2025-11-12 23:10Z'), '2025-11-13 | tb2 tb3 | -');
select test.is('a date is the calendar''s', test.short(test.act('day-d', 'by date', 'bulkMarkAll', '{"criteria":{"date":"2025-11-14"}}')) || ' ' || (jsonb_path_query_array(test.day('day-d', '2025-11-14'), '$.occurrences[*].id') || jsonb_path_query_array(test.day('day-d', '2025-11-14'), '$.elsewhere'))::text, 'noop ["td4"]');
select test.is('the device''s zone counts', coalesce(test.due('day-b', '2025-11-14 08:10Z'), '-') || ' ' || test.due('day-b', '2025-11-14 08:10Z', 'Pacific/Kiritimati'), '- tb3:applied');
update care.dose_occurrence set local_date = '2025-11-15' where id = 'tb4';
select test.is('a date that a writer has moved stays moved', test.listed('day-b', '2025-11-14 10:00Z') || ', ' || test.listed('day-b', '2025-11-15 10:00Z'), '2025-11-14 | - | -, 2025-11-15 | tb4 tb5 | -');
-- A night of 25 hours and one of 23, and an hour that is there twice.
insert into care.dose_occurrence (id, user_id, scheduled_at, tz) values ('tb-fall', 'day-b', '2025-10-25 21:30Z', 'Europe/Berlin'), ('tb-spring', 'day-b', '2026-03-28 22:30Z', 'Europe/Berlin');
select test.is('the night of the clocks', test.listed('day-b', '2025-10-25 22:10Z') || ', ' || test.due('day-b', '2025-10-25 22:10Z') || ', ' || test.listed('day-b', '2026-03-28 23:10Z'), '2025-10-26 | tb-fall | -, tb-fall:applied, 2026-03-29 | tb-spring | -');
-- What is in the list may be taken ahead of its time, also at six in the morning, when no zone has its date yet.
select test.set_clock('2025-11-13 14:00Z') \g /dev/null
select test.is('of the list, early: ' || n, test.short(test.act('day-l', 'early ' || n, type, payload)), want) from (values
    (1, 'markTaken', '{"occurrenceId":"tl4"}'::jsonb, 'applied'), (2, 'bulkMarkAll', '{"occurrenceIds":["tl4"]}', 'noop'), (3, 'markTaken', '{"occurrenceId":"tl5"}', 'rejected not_due'),
    (4, 'bulkMarkAll', '{"occurrenceIds":["tl5"]}', 'rejected not_due')) as t(n, type, payload, want) order by n;
