-- A mistake that is put right: what the planner cancelled comes back while its window is open. The clock is set.
set timezone = 'UTC';
create function test.did(who text, type text, payload jsonb) returns text language sql as $$
    select test.short(test.act(who, gen_random_uuid()::text, type, payload)) $$;
create function test.at(clock timestamptz) returns void language sql as $$ select test.set_clock(clock) $$;
-- The user's doses of days up to the 20th, by what is shown: time, status.
create function test.today(who text, day date default '2025-11-20') returns text language sql as $$
    select coalesce(string_agg(to_char(scheduled_at at time zone tz, 'HH24:MI') || ' ' || status, ', ' order by scheduled_at, product_id), '')
    from care.dose_occurrence where user_id = who and local_date = today.day and status <> 'cancelled' $$;
select test.at('2025-11-19 12:00Z') \g /dev/null
insert into care.user_settings (user_id, zone) select 'mk-' || zone, zone from unnest('{UTC,Europe/Berlin,America/Los_Angeles,Asia/Kathmandu}'::text[]) as zone;

-- At 07:59 by the user's clock, and at 08:01: for each way to take a dose away by mistake, in each zone. An earlier time, which has
-- passed, takes none away; a later one stays for today where the window is over.
create function test.clock_of(who text, wall timestamp) returns timestamptz language sql as $$ select care.resolve_local(wall, care.zone_of(who)) $$;
create table test.mistake (title text, type text, payload jsonb, back_type text, back jsonb);
insert into test.mistake values
    ('a pause', 'updateSchedule', '{"id":"%s","enabled":false}', 'updateSchedule', '{"id":"%s","enabled":true}'),
    ('an archived product', 'archiveMedication', '{"id":"%m"}', 'updateMedication', '{"id":"%m","archived":false}'),
    ('archived by an update', 'updateMedication', '{"id":"%m","archived":true}', 'updateMedication', '{"id":"%m","archived":false}'),
    ('a later time', 'updateSchedule', '{"id":"%s","time":"20:00"}', 'updateSchedule', '{"id":"%s","time":"08:00"}'),
    ('an earlier time', 'updateSchedule', '{"id":"%s","time":"06:00"}', 'updateSchedule', '{"id":"%s","time":"08:00"}'),
    ('a time of the medication', 'updateMedication', '{"id":"%m","times":["20:00"]}', 'updateMedication', '{"id":"%m","times":["08:00"]}'),
    ('as needed', 'updateMedication', '{"id":"%m","frequency":"as_needed"}', 'updateMedication', '{"id":"%m","frequency":"daily","times":["08:00"]}'),
    ('another weekday', 'updateSchedule', '{"id":"%s","repeat":"custom","repeatOn":[5]}', 'updateSchedule', '{"id":"%s","repeat":"custom","repeatOn":[4]}'),
    ('an end', 'updateSchedule', '{"id":"%s","endsOn":"2025-11-19"}', 'updateSchedule', '{"id":"%s","endsOn":null}'),
    ('a start', 'updateSchedule', '{"id":"%s","startsOn":"2025-11-21"}', 'updateSchedule', '{"id":"%s","startsOn":null}'),
    ('a schedule that is gone', 'deleteSchedule', '{"id":"%s"}', 'createSchedule', '{"id":"%s","productId":"%m","time":"08:00"}');
create function test.mistaken(who text, m test.mistake, back_at time) returns text language plpgsql as $$
declare
    medication constant text := gen_random_uuid();
    schedule constant text := gen_random_uuid();
    was text;
    told text;
    filled jsonb;
begin
    perform test.at(test.clock_of(who, '2025-11-19 12:00'));
    perform test.did(who, 'createMedication', jsonb_build_object('id', medication, 'name', 'M', 'times', '["08:00"]'::jsonb, 'scheduleIds', jsonb_build_array(schedule)));
    select id into strict was from care.dose_occurrence where schedule_id = schedule and local_date = '2025-11-20';
    perform test.at(test.clock_of(who, '2025-11-20 07:59'));
    told := test.did(who, m.type, replace(replace(m.payload::text, '%s', schedule), '%m', medication)::jsonb);
    told := told || ' ' || (select coalesce(string_agg(d.status || case when d.cancelled_by_plan then '*' else '' end, ' '), '') from care.dose_occurrence as d where d.id = was);
    perform test.at(test.clock_of(who, date '2025-11-20' + back_at));
    told := told || ' ' || test.did(who, m.back_type, replace(replace(m.back::text, '%s', schedule), '%m', medication)::jsonb);
    return told || ' ' || (select string_agg((d.id = was) || ' ' || to_char(d.local_time, 'HH24:MI') || ' ' || d.status, ', ') from care.dose_occurrence as d
                           where d.schedule_id = schedule and d.local_date = '2025-11-20' and (d.status <> 'cancelled' or d.id = was) )
        || ' ' || (select count(*) from care.dose_occurrence as d where d.schedule_id = schedule and d.status = 'scheduled' and d.local_date > '2025-11-20');
end
$$;
select test.is(format('%s in %s, and back within the window', m.title, zone), test.mistaken('mk-' || zone, m, '08:01'),
               format('applied %s applied true 08:00 scheduled ', case m.title when 'an earlier time' then 'scheduled' else 'cancelled*' end) || case m.title when 'another weekday' then 2 else 14 end)
from test.mistake as m, unnest('{UTC,Europe/Berlin,America/Los_Angeles,Asia/Kathmandu}'::text[]) as zone;
select test.is(format('%s, and back in the last minute of the window', m.title), test.mistaken('mk-UTC', m, '11:59'),
               format('applied %s applied true 08:00 scheduled ', case m.title when 'an earlier time' then 'scheduled' else 'cancelled*' end) || case m.title when 'another weekday' then 2 else 14 end) from test.mistake as m;
select test.is(format('%s, and back when the window is over', m.title), test.mistaken('mk-UTC', m, '12:00'),
               case when m.title = 'an earlier time' then 'applied scheduled applied true 08:00 scheduled '
                    when m.title in ('a later time', 'a time of the medication') then 'applied cancelled* applied true 08:00 cancelled, false 20:00 scheduled '
                    else 'applied cancelled* applied true 08:00 cancelled ' end || case m.title when 'another weekday' then 2 else 14 end) from test.mistake as m;

-- An evening's dose, put right after midnight; and a window of a whole day.
select test.at('2025-11-19 12:00Z') \g /dev/null
insert into care.product (id, user_id, name) select 'mk-' || n, 'mk', 'P' || n from generate_series(1, 3) as n;
insert into care.schedule (id, user_id, product_id, time, window_minutes) values ('mk-late', 'mk', 'mk-1', '23:55', 240), ('mk-long', 'mk', 'mk-2', '10:00', 1440);
select test.at('2025-11-20 09:59Z') \g /dev/null
select test.did('mk', 'updateSchedule', format('{"id":"%s","enabled":false}', id)::jsonb) from unnest('{mk-late,mk-long}'::text[]) as id \g /dev/null
select test.at('2025-11-21 00:05Z') \g /dev/null
select test.did('mk', 'updateSchedule', format('{"id":"%s","enabled":true}', id)::jsonb) from unnest('{mk-late,mk-long}'::text[]) as id \g /dev/null
select test.is('after midnight, what is open still comes back', test.today('mk'), '10:00 scheduled, 23:55 scheduled');
delete from care.schedule where user_id = 'mk';

-- What has begun under the other time gives way while nobody has touched it, also after its push was told; else it has the slot.
select test.at('2025-11-19 12:00Z') \g /dev/null
insert into care.schedule (id, user_id, product_id, time) select 'mk-' || id, 'm' || id, 'mk-1', '08:00' from unnest('{a,b,n}'::text[]) as id;
insert into care.schedule (id, user_id, product_id, time) values ('mk-e', 'me', 'mk-1', '20:00');
select test.at('2025-11-20 07:59Z') \g /dev/null
update care.schedule set time = '09:00' where id in ('mk-a', 'mk-b', 'mk-n');
update care.schedule set time = '08:00' where id = 'mk-e';
update care.dose_occurrence set status = 'taken', taken_at = sync.clock() where schedule_id = 'mk-b' and local_date = '2025-11-20' and status = 'scheduled';
update care.dose_occurrence set note = 'later' where schedule_id = 'mk-n' and local_date = '2025-11-20' and status = 'scheduled';
select test.at('2025-11-20 08:01Z') \g /dev/null
update care.schedule set time = '20:00' where id = 'mk-e';
select test.at('2025-11-20 08:30Z') \g /dev/null
update care.schedule set time = '08:00' where id = 'mk-b';
select test.at('2025-11-20 09:05Z') \g /dev/null
update care.schedule set time = '08:00' where id in ('mk-a', 'mk-n');
select test.is('a dose that has begun by mistake gives way', test.today('ma'), '08:00 scheduled');
select test.is('in the evening, too', test.today('me'), '20:00 scheduled');
select test.is('one that was taken does not', test.today('mb'), '09:00 taken');
select test.is('nor one with a note', test.today('mn'), '09:00 scheduled');
select test.at('2025-11-20 12:10Z') \g /dev/null
update care.schedule set time = '13:00' where id = 'mk-a';
select test.is('nor for a dose that was never there', test.today('ma'), '08:00 scheduled');
-- What a person cancelled stays so, whatever becomes of its schedule.
insert into care.schedule (id, user_id, product_id, time) values ('mk-c', 'mc', 'mk-1', '12:20');
update care.dose_occurrence set status = 'cancelled' where schedule_id = 'mk-c' and local_date = '2025-11-20';
update care.schedule set enabled = false where id = 'mk-c';
select test.at('2025-11-20 12:30Z') \g /dev/null
update care.schedule set enabled = true where id = 'mk-c';
select test.is('what a person cancelled does not come back', test.today('mc'), '');

-- A time that has passed: today's dose stays where it was, and with it the reminder of its schedule.
create table test.moved_back (title text, had text, clock time, steps jsonb, want text);
insert into test.moved_back values
    ('set to a time that has passed', '16:00', '15:30', '[["updateSchedule","time","15:00"]]', '16:00 scheduled; 16:00; 15:00'),
    ('of the medication', '16:00', '15:30', '[["updateMedication","times",["15:00"]]]', '16:00 scheduled; 16:00; 15:00'),
    ('set to a time ahead afterwards', '16:00', '15:30', '[["updateSchedule","time","15:00"],["updateSchedule","time","18:00"]]', '18:00 scheduled; 18:00; 18:00'),
    ('set back', '16:00', '15:30', '[["updateSchedule","time","15:00"],["updateSchedule","time","16:00"]]', '16:00 scheduled; 16:00; 16:00'),
    ('set to two that have passed', '16:00', '15:30', '[["updateSchedule","time","15:00"],["updateSchedule","time","14:00"]]', '16:00 scheduled; 16:00; 14:00'),
    ('not today any more', '16:00', '15:30', '[["updateSchedule","time","15:00"],["updateSchedule","repeatOn",[1]]]', '; 15:00'),
    ('paused', '16:00', '15:30', '[["updateSchedule","time","15:00"],["updateSchedule","enabled",false]]', ''),
    ('archived', '16:00', '15:30', '[["updateSchedule","time","15:00"],["updateMedication","archived",true]]', ''),
    ('when today''s has come', '16:00', '23:30', '[["updateSchedule","time","08:00"]]', '16:00 scheduled; 08:00'),
    ('paused by mistake', '16:00', '15:30', '[["updateSchedule","time","15:00"],["updateSchedule","enabled",false],["updateSchedule","enabled",true]]', '16:00 scheduled; 16:00; 15:00'),
    ('as needed', '16:00', '15:30', '[["updateMedication","frequency","as_needed"]]', ''),
    ('as needed by mistake', '16:00', '15:30', '[["updateMedication","frequency","as_needed"],["updateMedication","times",["16:00"]]]', '16:00 scheduled; 16:00; 16:00'),
    ('as needed by mistake, and back at another time', '16:00', '15:30', '[["updateMedication","frequency","as_needed"],["updateMedication","times",["17:00"]]]', '17:00 scheduled; 17:00; 17:00'),
    ('archived by mistake', '16:00', '15:30', '[["updateSchedule","time","15:00"],["updateMedication","archived",true],["updateMedication","archived",false]]', '16:00 scheduled; 16:00; 15:00'),
    ('ended by mistake', '16:00', '15:30', '[["updateSchedule","time","15:00"],["updateSchedule","endsOn","2025-11-19"],["updateSchedule","endsOn",null]]', '16:00 scheduled; 16:00; 15:00'),
    ('later, and the later one paused by mistake', '16:00', '15:30', '[["updateSchedule","time","18:00"],["updateSchedule","time","14:00"],["updateSchedule","enabled",false],["updateSchedule","enabled",true]]', '18:00 scheduled; 18:00; 14:00'),
    ('earlier twice, and paused by mistake: not the time that was given up first', '18:00', '15:30', '[["updateSchedule","time","16:00"],["updateSchedule","time","15:00"],["updateSchedule","enabled",false],["updateSchedule","enabled",true]]', '16:00 scheduled; 16:00; 15:00'),
    ('its reminder is made afterwards', '16:00', '15:30', '[["updateSchedule","time","15:00"],["deleteReminder"],["createReminder"]]', '16:00 scheduled; 16:00; 15:00'),
    ('its reminder is linked afterwards', '16:00', '15:30', '[["updateReminder","scheduleId",null],["updateSchedule","time","15:00"],["updateReminder","scheduleId"]]', '16:00 scheduled; 16:00; 15:00'),
    ('its reminder is switched on afterwards', '16:00', '15:30', '[["updateReminder","enabled",false],["updateSchedule","time","15:00"],["updateReminder","enabled",true]]', '16:00 scheduled; 16:00; 15:00'),
    ('its reminder is switched off and on', '16:00', '15:30', '[["updateSchedule","time","15:00"],["updateReminder","enabled",false],["updateReminder","enabled",true]]', '16:00 scheduled; 16:00; 15:00'),
    ('today''s reminder is cancelled, and the rule switched off and on', '16:00', '15:30', '[["updateSchedule","time","15:00"],["setReminderOccurrence","enabled",false],["updateReminder","enabled",false],["updateReminder","enabled",true]]', '16:00 scheduled; 15:00'),
    ('in a pause', '16:00', '15:30', '[["updateSchedule","enabled",false],["updateSchedule","time","15:00"],["updateSchedule","enabled",true]]', '16:00 scheduled; 16:00; 15:00'),
    ('while archived', '16:00', '15:30', '[["updateMedication","archived",true],["updateSchedule","time","15:00"],["updateMedication","archived",false]]', '16:00 scheduled; 16:00; 15:00'),
    ('with its reminder, in a pause, and ahead again', '16:00', '15:30', '[["updateSchedule","enabled",false],["updateSchedule","time","15:00"],["updateSchedule","enabled",true],["updateSchedule","time","17:00"]]', '17:00 scheduled; 17:00; 17:00'),
    ('beside another at the time that was left', '16:00', '15:30', '[["updateMedication","times",["15:00"]],["updateMedication","times",["15:00","16:00"]]]', '16:00 scheduled; 16:00; 15:00 16:00'),
    ('and the time that was left alone again', '16:00', '15:30', '[["updateMedication","times",["15:00"]],["updateMedication","times",["15:00","16:00"]],["updateMedication","times",["16:00"]]]', '16:00 scheduled; 16:00'),
    ('and the passed one alone again', '16:00', '15:30', '[["updateMedication","times",["15:00"]],["updateMedication","times",["15:00","16:00"]],["updateMedication","times",["15:00"]]]', '16:00 scheduled; 16:00; 15:00'),
    ('another schedule at the time that was left, and the first one deleted', '16:00', '15:30', '[["updateSchedule","time","15:00"],["createSchedule","time","16:00"],["deleteSchedule"]]', '16:00 scheduled; 16:00'),
    ('another schedule at the time that was left, and the first one paused', '16:00', '15:30', '[["updateSchedule","time","15:00"],["createSchedule","time","16:00"],["updateSchedule","enabled",false]]', '16:00 scheduled; 16:00'),
    ('paused, another schedule at the time that was left, and back', '16:00', '15:30', '[["updateSchedule","time","15:00"],["updateSchedule","enabled",false],["createSchedule","time","16:00"],["updateSchedule","enabled",true]]', '16:00 scheduled; 16:00; 15:00 16:00'),
    ('past midnight: the next dose is tonight''s', '23:30', '23:00', '[["updateSchedule","time","00:30"]]', '; 00:30'),
    ('to the morning: tonight''s stays', '20:00', '12:00', '[["updateSchedule","time","08:00"]]', '20:00 scheduled; 20:00; 08:00');
create function test.move_back(m test.moved_back) returns text language plpgsql as $$
declare
    who constant text := 'mb ' || m.title;
    medication constant text := gen_random_uuid();
    schedule constant text := gen_random_uuid();
    step jsonb;
begin
    perform test.at('2025-11-19 12:00Z');
    perform test.did(who, 'createMedication', jsonb_build_object('id', medication, 'name', 'M', 'times', jsonb_build_array(m.had), 'scheduleIds', jsonb_build_array(schedule)));
    perform test.did(who, 'createReminder', jsonb_build_object('id', schedule || 'r', 'scheduleId', schedule));
    perform test.at('2025-11-20 00:00Z'::timestamptz + m.clock::interval);
    for step in select * from jsonb_array_elements(m.steps) loop
        perform test.at(sync.clock() + interval '1 second');
        perform test.did(who, step ->> 0, case step ->> 0
            when 'createSchedule' then jsonb_build_object('id', schedule || '2', 'productId', medication)
            when 'createReminder' then jsonb_build_object('id', schedule || 'r2', 'scheduleId', schedule)
            when 'setReminderOccurrence' then jsonb_build_object('id', schedule || 'r', 'date', '2025-11-20')
            else jsonb_build_object('id', case when step ->> 0 like '%Schedule' then schedule when step ->> 0 like '%Reminder' then schedule || 'r' else medication end) end
            || case when step ->> 1 is null then '{}' else jsonb_build_object(step ->> 1, coalesce(step -> 2, to_jsonb(schedule))) end
            || case step ->> 1 when 'times' then case jsonb_array_length(step -> 2) when 1 then '{"frequency":"daily"}' else '{"frequency":"twice_daily"}' end when 'repeatOn' then '{"repeat":"custom"}' else '{}' end::jsonb);
    end loop;
    return concat_ws('; ', test.today(who), (
        select string_agg(to_char(at, 'HH24:MI'), ' ')
        from care.reminder_rule as r, lateral care.next_occurrences(r, sync.clock(), 3) as at
        where r.user_id = who and at < '2025-11-21'), (
        select string_agg(distinct to_char(scheduled_at, 'HH24:MI'), ' ') from care.dose_occurrence
        where user_id = who and local_date > '2025-11-20' and status <> 'cancelled'));
end
$$;
select test.is(m.title, test.move_back(m), m.want) from test.moved_back as m;

-- A time that was given up days ago does not come back, when a pause has outlasted today's window.
select test.at('2025-11-17 12:00Z') \g /dev/null
select test.did('mz', 'createMedication', '{"id":"mz-m","name":"M","times":["20:00"],"scheduleIds":["mz-s"]}') \g /dev/null
select test.did('mz', 'updateSchedule', '{"id":"mz-s","time":"08:00"}'), test.at('2025-11-20 07:00Z') \g /dev/null
select test.did('mz', 'updateSchedule', '{"id":"mz-s","enabled":false}'), test.at('2025-11-20 13:00Z') \g /dev/null
select test.did('mz', 'updateSchedule', '{"id":"mz-s","enabled":true}') \g /dev/null
select test.is('a time that was given up stays so', test.today('mz'), '');

-- A stack's item, one for another, and the stack itself.
select test.at('2025-11-19 12:00Z') \g /dev/null
insert into care.stack (id, user_id, name) values ('mk-st', 'mk', 'Morning');
insert into care.stack_item (stack_id, product_id, position) values ('mk-st', 'mk-1', 1), ('mk-st', 'mk-2', 2);
insert into care.schedule (id, user_id, stack_id, time) values ('mk-ss', 'mk', 'mk-st', '08:00');
create function test.items_of(who text) returns text language sql as $$
    select coalesce(string_agg(product_id || ' ' || status, ', ' order by product_id), '') from care.dose_occurrence
    where user_id = who and local_date = '2025-11-20' and schedule_id = 'mk-ss' and status <> 'cancelled' $$;
select test.at('2025-11-20 07:59Z') \g /dev/null
select test.did('mk', 'updateStack', '{"id":"mk-st","items":[{"productId":"mk-1"},{"productId":"mk-3"}]}') \g /dev/null
select test.is('one item for another', test.items_of('mk'), 'mk-1 scheduled, mk-3 scheduled');
select test.at('2025-11-20 08:01Z') \g /dev/null
select test.did('mk', 'updateStack', '{"id":"mk-st","items":[{"productId":"mk-1"},{"productId":"mk-2"}]}') \g /dev/null
select test.is('and back: the item''s dose is open; what has begun stays', test.items_of('mk'), 'mk-1 scheduled, mk-2 scheduled, mk-3 scheduled');
select test.did('mk', 'archiveMedication', '{"id":"mk-1"}'), test.at('2025-11-20 08:02Z') \g /dev/null
select test.is('an archived item: what has begun stays', test.items_of('mk'), 'mk-1 scheduled, mk-2 scheduled, mk-3 scheduled');

-- Told before it was taken away: the reminder rang early. The dose comes back, and nothing rings twice.
select test.at('2025-11-19 12:00Z') \g /dev/null
insert into care.device (user_id, device_id, platform, token, permission, registered_at) values ('mp', 'phone', 'webhook', 't', 'granted', sync.clock());
insert into care.schedule (id, user_id, product_id, time) values ('mk-p', 'mp', 'mk-2', '08:00');
insert into care.reminder_rule (id, user_id, product_id, time, delivery) values ('mk-r', 'mp', 'mk-2', '07:30', 'push');
insert into care.reminder_rule (id, user_id, product_id, schedule_id, delivery, time) values ('mk-rs', 'mp', 'mk-2', 'mk-p', 'push', '08:00');
select test.at('2025-11-20 07:30Z') \g /dev/null
select care.job_fire_reminders(100, sync.clock()) \g /dev/null
select test.at('2025-11-20 07:59Z') \g /dev/null
select test.did('mp', 'updateSchedule', '{"id":"mk-p","enabled":false}') \g /dev/null
select test.at('2025-11-20 08:01Z') \g /dev/null
select care.job_fire_reminders(100, sync.clock()) \g /dev/null
select test.did('mp', 'updateSchedule', '{"id":"mk-p","enabled":true}') \g /dev/null
select test.is('after a push the dose comes back, too', test.today('mp'), '08:00 scheduled');
select care.job_fire_reminders(100, sync.clock()) \g /dev/null
select test.is('and the push was one', (select count(*) from care.push where user_id = 'mp' and rule_id = 'mk-r'), 1::bigint);

-- No job came by for weeks, and then the product is archived: the days until then are there, as a pause would fill them.
select test.at('2025-11-20 10:00Z') \g /dev/null
insert into care.product (id, user_id, name) values ('mg-own', 'mg', 'Own'), ('mg-all', null, 'Catalogue'), ('mg-past', 'mg', 'Past');
insert into care.schedule (id, user_id, product_id, time) values ('mg-o', 'mg', 'mg-own', '12:00'), ('mg-c', 'mg', 'mg-all', '12:00'), ('mg-p', 'mg', 'mg-past', '12:00'), ('mg-s', 'mg', 'mg-own', '13:00');
create function test.span_of(schedule text) returns text language sql as $$
    select to_char(min(local_date), 'MM-DD') || '..' || to_char(max(local_date), 'MM-DD') || '=' || count(*) from care.dose_occurrence where schedule_id = schedule and status <> 'cancelled' $$;
select test.at('2026-01-10 13:00Z') \g /dev/null
update care.schedule set enabled = false where id = 'mg-s';
update care.product set archived_at = sync.clock() where id in ('mg-own', 'mg-all');
update care.product set archived_at = '2025-12-31 20:00Z' where id = 'mg-past';
select test.spread() \g /dev/null
select test.is(format('archived after weeks without a job: %s', title), test.span_of(id), want) from (values
    ('mg-s', 'a pause', '11-20..01-10=52'), ('mg-o', 'the same', '11-20..01-10=52'), ('mg-c', 'of the catalogue', '11-20..01-10=52'), ('mg-p', 'until it was archived', '11-20..12-31=42')) as t(id, title, want);
delete from care.schedule where user_id = 'mg';
drop function test.span_of(text);

drop table test.mistake cascade;
drop function test.today(text, date), test.items_of(text), test.at(timestamptz), test.did(text, text, jsonb), test.clock_of(text, timestamp);
delete from care.schedule where user_id like 'm_' or user_id like 'mk-%';
