-- What one transaction on care.dose_occurrence tells, by first operation and what is there at commit.
create function test.dose(who text, dose text, day date default '2025-11-20') returns void language sql as $$
    insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, local_date)
    values (dose, who, 'p', day + time '08:00', day)
$$;
create function test.data(who text, topic text, place bigint) returns jsonb language sql as $$
    select data from sync.event as e where e.user_id = who and e.topic = data.topic and o = place
$$;

insert into care.product (id, name) values ('p', 'Magnesium');
insert into care.user_settings (user_id, zone) values ('ny', 'America/New_York');

insert into care.dose_occurrence (user_id, product_id, scheduled_at, local_date) values ('min', 'p', now(), '2025-11-20');
select test.is('an insert with four columns is enough', (select name from sync.event where user_id = 'min' and o = 1), 'occurrence.created');

insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, note) values ('n1', 'ny', 'p', '2025-11-21 01:00+00', 'secret');
select test.is('the day is that of the user''s zone', (select (local_date, local_time, tz)::text from care.dose_occurrence where id = 'n1'), '(2025-11-20,20:00:00,America/New_York)');
select test.is('the window is four hours by default', (select window_end - scheduled_at from care.dose_occurrence where id = 'n1'), interval '4 hours');
select test.is('created carries the whole dose',
    (test.data('ny', 'adherence', 1) #- '{occurrence,createdAt}' #- '{occurrence,updatedAt}' #- '{updates,createdAt}' #- '{updates,updatedAt}')::jsonb,
    '{"_sync": {"o": 1, "k": null}, "userId": "ny", "occurrenceId": "n1",
      "occurrence": {"id": "n1", "userId": "ny", "rev": 1, "status": "scheduled", "takenAt": null, "hasNote": true, "productId": "p",
        "productName": "Magnesium", "strength": null, "form": null, "dose": null, "asNeeded": false, "scheduleId": null, "scheduledAt": "2025-11-21T01:00:00+00:00", "timeLocal": "2025-11-20T20:00:00-05:00",
        "timezone": "America/New_York", "localDate": "2025-11-20", "windowStart": null, "windowEnd": "2025-11-21T05:00:00+00:00",
        "takenAtLocal": null, "changedBy": {"actor": "backend", "deviceId": null}},
      "updates": {"rev": 1, "status": "scheduled", "takenAt": null, "hasNote": true, "productId": "p",
        "productName": "Magnesium", "strength": null, "form": null, "dose": null, "asNeeded": false, "scheduleId": null, "scheduledAt": "2025-11-21T01:00:00+00:00", "timeLocal": "2025-11-20T20:00:00-05:00",
        "timezone": "America/New_York", "localDate": "2025-11-20", "windowStart": null, "windowEnd": "2025-11-21T05:00:00+00:00",
        "takenAtLocal": null, "changedBy": {"actor": "backend", "deviceId": null}},
      "daySummary": {"month": "2025-11", "date": "2025-11-20", "scheduledCount": 1, "takenCount": 0, "missedCount": 0, "madeUpCount": 0,
        "skippedCount": 0, "pendingCount": 1, "adherencePct": 0.0, "onTimePct": 0.0}}'::jsonb);
select test.is('the summary follows', test.data('ny', 'adherence', 2) - '_sync',
    '{"userId": "ny", "date": "2025-11-20", "summary": {"date": "2025-11-20", "scheduledCount": 1, "takenCount": 0, "missedCount": 0,
      "madeUpCount": 0, "skippedCount": 0, "pendingCount": 1, "adherencePct": 0.0, "onTimePct": 0.0},
      "stats": {"currentStreakDays": 0, "bestStreakDays": 0, "avg30DaysPct": null, "doses30Pct": null}}'::jsonb);
select test.is('no event carries the text of a note', (select count(*) from sync.event where data::text like '%secret%'), 0::bigint);

set timezone = 'Asia/Kolkata';
set datestyle = 'SQL, DMY';
update care.dose_occurrence set status = 'taken', taken_at = '2025-11-21 01:05+00' where id = 'n1';
reset timezone;
reset datestyle;
select test.is('the writer''s zone and date style do not show', test.data('ny', 'adherence', 3) #>> '{updates,takenAt}', '2025-11-21T01:05:00+00:00');
update care.dose_occurrence set status = 'scheduled', taken_at = null where id = 'n1';
select test.is('an undo sends takenAt null', test.data('ny', 'adherence', 5) #> '{updates,takenAt}', 'null'::jsonb);
select test.is('rev grows with each change', (test.data('ny', 'adherence', 5) #> '{updates,rev}')::int, 3);
update care.dose_occurrence set status = 'scheduled' where id = 'n1';
select test.is('an update that changes nothing tells nothing', test.top('ny'), 6::bigint);
update care.dose_occurrence set rev = 10, note = 'x' where id = 'n1';
select test.is('a writer that raises rev by itself is left alone', (select rev from care.dose_occurrence where id = 'n1'), 10::bigint);

select test.dose('a', 'a1'), test.dose('a', 'a2') \g /dev/null
select test.is('entities first, summaries last', test.events('a', 'adherence'),
    'occurrence.created a1, occurrence.created a2, adherence.summary_updated 2025-11-20');
begin;
update care.dose_occurrence set status = 'taken' where id = 'a1';
update care.dose_occurrence set status = 'missed' where id = 'a1';
update care.dose_occurrence set note = 'n' where id = 'a2';
commit;
select test.is('several statements on a row are one event', test.events('a', 'adherence', 3),
    'occurrence.updated a1, occurrence.updated a2, adherence.summary_updated 2025-11-20');
begin;
select test.dose('a', 'gone') \g /dev/null
delete from care.dose_occurrence where id = 'gone';
commit;
select test.is('inserted and deleted: nothing', test.top('a'), 6::bigint);
begin;
select test.dose('a', 'a3') \g /dev/null
update care.dose_occurrence set status = 'taken' where id = 'a3';
commit;
select test.is('inserted and updated: created', test.events('a', 'adherence', 6), 'occurrence.created a3, adherence.summary_updated 2025-11-20');
begin;
delete from care.dose_occurrence where id = 'a3';
select test.dose('a', 'a3') \g /dev/null
commit;
select test.is('deleted and inserted again: updated', test.events('a', 'adherence', 8), 'occurrence.updated a3, adherence.summary_updated 2025-11-20');
delete from care.dose_occurrence where id = 'a3';
select test.is('deleted: cancelled', test.events('a', 'adherence', 10), 'occurrence.cancelled a3, adherence.summary_updated 2025-11-20');
select test.is('a deleted dose: status cancelled, last rev, its day', (test.data('a', 'adherence', 11) -> 'updates')::text || (test.data('a', 'adherence', 11) #>> '{daySummary,scheduledCount}'), '{"rev": 1, "status": "cancelled"}2');
update care.dose_occurrence set status = 'cancelled' where id = 'a2';
select test.is('status cancelled: cancelled, and not counted', test.events('a', 'adherence', 12) || ' ' || (test.data('a', 'adherence', 13) #>> '{daySummary,scheduledCount}'), 'occurrence.cancelled a2, adherence.summary_updated 2025-11-20 1');

begin;
savepoint s;
update care.dose_occurrence set status = 'taken' where id = 'a1';
rollback to s;
commit;
select test.is('a savepoint rolled back tells nothing', test.top('a'), 14::bigint);
begin;
update care.dose_occurrence set status = 'taken' where id = 'a1';
savepoint s;
delete from care.dose_occurrence where id = 'a1';
rollback to s;
release s;
commit;
select test.is('what a savepoint undid is not told', test.events('a', 'adherence', 14), 'occurrence.updated a1, adherence.summary_updated 2025-11-20');
begin;
update care.dose_occurrence set status = 'missed' where id = 'a1';
rollback;
select test.is('a rollback returns the number', test.top('a'), 16::bigint);

update care.dose_occurrence set user_id = 'b' where id = 'a1';
select test.is('moved to another user: cancelled for the old', test.events('a', 'adherence', 16), 'occurrence.cancelled a1, adherence.summary_updated 2025-11-20');
select test.is('and created for the new', test.events('b', 'adherence'), 'occurrence.created a1, adherence.summary_updated 2025-11-20');
begin;
update care.dose_occurrence set user_id = 'c' where id = 'a1';
update care.dose_occurrence set user_id = 'b' where id = 'a1';
commit;
select test.is('moved there and back: updated', test.events('b', 'adherence', 2), 'occurrence.updated a1, adherence.summary_updated 2025-11-20');
select test.is('and nothing for who had it meanwhile', test.top('c'), 0::bigint);
update care.dose_occurrence set local_date = '2025-11-22' where id = 'a1';
select test.is('moved to another day: both summaries', test.events('b', 'adherence', 4), 'occurrence.updated a1, adherence.summary_updated 2025-11-20, adherence.summary_updated 2025-11-22');
update care.dose_occurrence set user_id = null where id = 'a1';
select test.is('a row that loses its user: cancelled', test.events('b', 'adherence', 7), 'occurrence.cancelled a1, adherence.summary_updated 2025-11-22');
update care.dose_occurrence set note = 'still nobody' where id = 'a1';
insert into care.dose_occurrence (id, scheduled_at) values ('nobody', now());
delete from care.dose_occurrence where id = 'nobody';
select test.is('rows without a user are skipped', (select count(*) from sync.stream where user_id is null or user_id = ''), 0::bigint);
update care.dose_occurrence set id = 'a2-renamed' where id = 'a2';
select test.is('a new id: one goes, one comes', test.events('a', 'adherence', 18), 'occurrence.cancelled a2, occurrence.created a2-renamed, adherence.summary_updated 2025-11-20');

select test.dose('dots.and-=;@ü.', 'odd') \g /dev/null
select test.is('odd user ids', test.events('dots.and-=;@ü.', 'adherence'), 'occurrence.created odd, adherence.summary_updated 2025-11-20');
begin;
set local sync.key = 'key-1';
update care.dose_occurrence set status = 'taken' where id = 'odd';
commit;
select test.is('the origin''s key travels', test.data('dots.and-=;@ü.', 'adherence', 3) -> '_sync', '{"o": 3, "k": "key-1"}'::jsonb);
begin;
update care.dose_occurrence set status = 'missed' where id = 'odd';
set constraints all immediate;
update care.dose_occurrence set status = 'made_up' where id = 'odd';
set constraints all deferred;
update care.dose_occurrence set status = 'skipped' where id = 'odd';
commit;
select test.is('early flushes: one event each, and the last at commit', test.events('dots.and-=;@ü.', 'adherence', 4),
    'occurrence.updated odd, adherence.summary_updated 2025-11-20, occurrence.updated odd, adherence.summary_updated 2025-11-20, occurrence.updated odd, adherence.summary_updated 2025-11-20');

select count(test.dose('bulk' || n % 2, 'bulk' || n, date '2025-12-01' + n % 3)) from generate_series(1, 60) as n \g /dev/null
update care.dose_occurrence set status = 'taken' where id like 'bulk%';
select test.is('a bulk update over two users', (select count(*) filter (where name = 'occurrence.updated') || ' ' || count(*) filter (where name = 'adherence.summary_updated' and o > 33) from sync.event where user_id = 'bulk0'), '30 3');
select test.is('day summary, taken', (select (scheduled_count, taken_count, adherence_pct, on_time_pct)::text from care.day_summary where user_id = 'bulk0' and date = '2025-12-01'), '(10,10,100.0,100.0)');
update care.dose_occurrence set status = case id when 'bulk6' then 'missed' when 'bulk12' then 'made_up' when 'bulk18' then 'skipped' else 'scheduled' end,
    window_end = case when id = 'bulk24' then now() + interval '1 day' else window_end end
    where user_id = 'bulk0' and local_date = '2025-12-01';
update care.dose_occurrence set window_end = now() + interval '1 day' where user_id = 'bulk0' and local_date = '2025-12-01' and status = 'scheduled' and id not in ('bulk30', 'bulk36');
update care.dose_occurrence set window_end = now() - interval '1 hour' where id in ('bulk30', 'bulk36');
select test.is('due: missed, made up, and pending whose window ended', (select (scheduled_count, missed_count, made_up_count, skipped_count, pending_count, adherence_pct, on_time_pct)::text from care.day_summary where user_id = 'bulk0' and date = '2025-12-01'), '(10,1,1,1,7,25.0,0.0)');
update care.dose_occurrence set status = 'skipped' where user_id = 'bulk0' and local_date = '2025-12-01';
select test.is('nothing due: null', (select adherence_pct from care.day_summary where user_id = 'bulk0' and date = '2025-12-01'), null::numeric);
delete from care.dose_occurrence where user_id = 'bulk0';
select test.is('days without doses have no summary', (select count(*) from care.day_summary where user_id = 'bulk0'), 0::bigint);

select test.is('streams are contiguous', test.contiguous(), true);
select test.is('stored summaries are those of the rows', test.summaries_hold(), true);
select test.is('nothing touched is left', (select count(*) from sync.touched) + (select count(*) from sync.ticket), 0::bigint);
select test.fails('truncate is refused', 'truncate care.dose_occurrence', '0A000');
select test.fails('an unknown status is refused', $$update care.dose_occurrence set status = 'eaten'$$, '23514');
select test.fails('an unknown zone is refused when written', $$update care.dose_occurrence set tz = 'Mars/Olympus'$$, '22023');
set session_replication_role = replica;
update care.dose_occurrence set status = 'made_up' where id = 'odd';
reset session_replication_role;
select test.is('a session in replica role is told too', test.events('dots.and-=;@ü.', 'adherence', 10), 'occurrence.updated odd, adherence.summary_updated 2025-11-20');

begin;
set local synchronous_commit = off;
update care.dose_occurrence set status = 'missed' where id = 'odd';
set constraints all immediate;
select test.is('synchronous_commit is raised', current_setting('synchronous_commit'), 'on');
commit;
begin;
set local synchronous_commit = remote_apply;
update care.dose_occurrence set status = 'taken' where id = 'odd';
set constraints all immediate;
select test.is('and never lowered', current_setting('synchronous_commit'), 'remote_apply');
commit;

insert into care.product (id, name) values ('long', repeat('x', 12000));
insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, local_date) values ('big', 'big', 'long', now(), '2025-11-20');
select test.is('more than 10,000 bytes become a pointer', test.data('big', 'adherence', 1), '{"userId": "big", "occurrenceId": "big", "truncated": true, "_sync": {"o": 1, "k": null}}'::jsonb);
