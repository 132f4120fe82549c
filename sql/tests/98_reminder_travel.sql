-- Reminders of people who travel: each rings for its dose, wherever the dose stays, and once.
set timezone = 'UTC';
-- One person's two days from 12:00Z on: `steps` are done when their time comes, such as {15:30 zone Europe/Paris, 16:15 taken,
-- 16:15 snooze 45}; then what is due fires. Told is when pushes fired, and of which day, where that is another.
create table test.trip (n int primary key, what text, kind text, dose time, steps text[], want text);
create function test.travel(t test.trip) returns text language plpgsql as $$
declare
    who constant text := format('tv%s', t.n);
    clock timestamptz := '2025-11-20 12:00Z';
    step text[];
    answer jsonb;
begin
    perform test.set_clock(clock);
    insert into care.user_settings (user_id, zone) values (who, 'UTC');
    insert into care.product (id, user_id, name) values (who, who, 'a');
    insert into care.device (user_id, device_id, platform, token, registered_at) values (who, 'phone', 'fcm', who, clock);
    if t.dose is not null then
        insert into care.schedule (id, user_id, product_id, time, tz_mode) values (who, who, who, t.dose, 'follow');
    end if;
    insert into care.reminder_rule (id, user_id, product_id, schedule_id, time, tz_mode, delivery)
    values (who, who, who, case t.kind when 'linked' then who end, case t.kind when 'late' then '16:30'::time when 'early' then '15:30' else '16:00' end, 'follow', 'push');
    set constraints all immediate;
    set constraints all deferred;
    while clock < '2025-11-22 12:00Z' loop
        perform test.set_clock(clock);
        for step in select string_to_array(s, ' ') from unnest(t.steps) as s where '2025-11-20'::date + split_part(s, ' ', 1)::time = clock at time zone 'UTC' loop
            case step[2]
                when 'zone' then update care.user_settings set zone = step[3] where user_id = who;
                when 'late' then
                    answer := test.act(who, step[1], 'updateSettings', jsonb_build_object('timezone', step[3]), client_time => to_jsonb('2025-11-20T' || step[4] || ':00Z'));
                    if answer ->> 'status' <> 'applied' then return answer; end if;
                when 'taken' then update care.dose_occurrence set status = 'taken', taken_at = clock where user_id = who and id = (
                    select d.id from care.dose_occurrence as d where d.user_id = who and d.status = 'scheduled' order by d.scheduled_at limit 1);
                when 'edit' then update care.schedule set time = step[3]::time where user_id = who;
                when 'off' then update care.reminder_rule set enabled = false where user_id = who;
                when 'on' then update care.reminder_rule set enabled = true where user_id = who;
                when 'fixed' then update care.reminder_rule set tz_mode = 'fixed', timezone = step[3] where user_id = who;
                when 'snooze' then
                    answer := test.act(who, step[1], 'snoozeReminder', jsonb_build_object('occurrenceId', care.occurrence_id(who, '2025-11-20'::date + time '16:00'), 'minutes', step[3]::int));
                    if answer ->> 'status' <> 'applied' then return answer; end if;
            end case;
            set constraints all immediate;
            set constraints all deferred;
        end loop;
        perform sync.job('fire_reminders', 100, null);
        set constraints all immediate;
        set constraints all deferred;
        clock := least(
            (select min('2025-11-20'::date + split_part(s, ' ', 1)::time) at time zone 'UTC' from unnest(t.steps) as s
             where ('2025-11-20'::date + split_part(s, ' ', 1)::time) at time zone 'UTC' > clock),
            (select d.due_at from care.reminder_due as d where d.rule_id = who), '2025-11-22 12:00Z');
    end loop;
    return (
        select string_agg(to_char(p.start, 'DD HH24:MI') || case when p.day <> (p.start at time zone 'UTC')::date then ' of ' || to_char(p.day, 'DD') else '' end, ', ' order by p.start)
        from care.push as p where p.user_id = who);
end
$$;
insert into test.trip
select row_number() over (), format('%s: %s', what, kind), kind, dose, steps, want
from (values
    ('at home', 'linked,own,none', time '16:00', '{}'::text[], '20 16:00, 21 16:00'),
    ('to Paris, the dose ahead by the old time alone', 'linked,own,none', '16:00', '{15:30 zone Europe/Paris}', '20 16:00, 21 15:00'),
    ('to Tokyo', 'linked,own,none', '16:00', '{15:30 zone Asia/Tokyo}', '20 16:00, 21 07:00, 22 07:00'),
    ('to Los Angeles, the dose ahead', 'linked,own,none', '16:00', '{15:30 zone America/Los_Angeles}', '21 00:00 of 20, 22 00:00 of 21'),
    ('to Los Angeles, the dose open and past', 'linked,own,none', '16:00', '{17:00 zone America/Los_Angeles}', '20 16:00, 22 00:00 of 21'),
    ('to Los Angeles at its time, before the job came', 'linked,own,none', '16:00', '{16:00 zone America/Los_Angeles}', '20 16:00, 22 00:00 of 21'),
    ('to Paris at its time', 'linked,own,none', '16:00', '{16:00 zone Europe/Paris}', '20 16:00, 21 15:00'),
    ('to Los Angeles, off meanwhile', 'linked,own,none', '16:00', '{16:15 off,17:00 zone America/Los_Angeles,17:15 on}', '20 16:00, 22 00:00 of 21'),
    ('to Los Angeles, off before it came', 'own,none', '16:00', '{15:15 off,17:00 zone America/Los_Angeles,17:15 on}', '21 00:00 of 20, 22 00:00 of 21'),
    ('to New York, the dose open and past', 'linked,own,none', '16:00', '{20:30 zone America/New_York}', '20 16:00, 21 21:00'),
    ('to Los Angeles, the dose taken', 'linked,own', '16:00', '{16:15 taken,17:00 zone America/Los_Angeles}', '20 16:00, 22 00:00 of 21'),
    ('to Los Angeles, the dose taken early', 'linked,own', '16:00', '{15:00 taken,15:30 zone America/Los_Angeles}', '22 00:00 of 21'),
    ('to Paris, the dose taken early', 'linked,own', '16:00', '{15:00 taken,15:30 zone Europe/Paris}', '21 15:00'),
    ('to Paris, the dose taken there', 'linked,own', '16:00', '{15:30 zone Europe/Paris,15:45 taken}', '21 15:00'),
    ('snoozed, to New York', 'linked,own,none', '16:00', '{16:15 snooze 45,16:30 zone America/New_York}', '20 16:00, 20 17:00, 21 21:00'),
    ('to New York, snoozed there', 'linked,own,none', '16:00', '{16:15 zone America/New_York,16:30 snooze 30}', '20 16:00, 20 17:00, 21 21:00'),
    ('snoozed, to Tokyo', 'linked,own,none', '16:00', '{16:15 snooze 45,16:30 zone Asia/Tokyo}', '20 16:00, 20 17:00, 21 07:00, 22 07:00'),
    ('to Tokyo, snoozed there', 'linked,own,none', '16:00', '{16:15 zone Asia/Tokyo,16:30 snooze 30}', '20 16:00, 20 17:00, 21 07:00, 22 07:00'),
    ('to Paris and back', 'linked,own,none', '16:00', '{15:30 zone Europe/Paris,15:45 zone UTC}', '20 16:00, 21 16:00'),
    ('to Paris, later back', 'linked,own,none', '16:00', '{15:30 zone Europe/Paris,17:00 zone UTC}', '20 16:00, 21 16:00'),
    ('to Los Angeles and back before', 'linked,own,none', '16:00', '{15:30 zone America/Los_Angeles,15:45 zone UTC}', '20 16:00, 21 16:00'),
    ('to Los Angeles, back when it has passed here', 'linked,own,none', '16:00', '{15:30 zone America/Los_Angeles,17:00 zone UTC}', '21 00:00 of 20, 21 16:00'),
    ('to Los Angeles, later back', 'linked,own,none', '16:00', '{17:00 zone America/Los_Angeles,18:00 zone UTC}', '20 16:00, 21 16:00'),
    ('to Los Angeles and Tokyo', 'linked,own,none', '16:00', '{17:00 zone America/Los_Angeles,18:00 zone Asia/Tokyo}', '20 16:00, 21 07:00, 22 07:00'),
    ('to Tokyo and Los Angeles after it', 'linked,own,none', '16:00', '{17:00 zone Asia/Tokyo,18:00 zone America/Los_Angeles}', '20 16:00, 22 00:00 of 21'),
    ('to Tokyo and Los Angeles before it', 'linked,own,none', '16:00', '{15:30 zone Asia/Tokyo,15:45 zone America/Los_Angeles}', '21 00:00 of 20, 22 00:00 of 21'),
    ('to Honolulu', 'linked,own,none', '16:00', '{17:00 zone Pacific/Honolulu}', '20 16:00, 22 02:00 of 21'),
    ('to Kiritimati', 'linked,own,none', '16:00', '{15:30 zone Pacific/Kiritimati}', '20 16:00, 21 02:00, 22 02:00'),
    ('from Kiritimati to Niue', 'linked,own,none', '16:00', '{13:00 zone Pacific/Kiritimati,17:00 zone Pacific/Niue}', '20 16:00, 22 03:00 of 21'),
    ('the dose past and open, its reminder ahead', 'late', '16:00', '{16:15 zone America/Los_Angeles}', '20 16:30, 22 00:30 of 21'),
    ('the dose stays, its later reminder too', 'late', '16:00', '{15:45 zone Europe/Paris}', '20 16:30, 21 15:30'),
    ('the dose moves, its earlier reminder too', 'early', '16:00', '{15:45 zone America/Los_Angeles}', '20 15:30, 20 23:30, 21 23:30'),
    ('the dose is taken, its earlier reminder stays', 'early', '16:00', '{15:35 taken,15:45 zone America/Los_Angeles}', '20 15:30, 21 23:30'),
    ('the dose moves, the one before stays near it', 'linked,own,none', '16:00', '{15:30 zone Pacific/Honolulu,17:00 zone Pacific/Apia,18:00 zone Australia/Lord_Howe}', '21 02:00 of 20, 21 05:00, 22 05:00'),
    ('told late, the dose moves after all', 'linked,own', '16:00', '{17:00 late America/Los_Angeles 15:30}', '20 16:00, 21 00:00 of 20, 22 00:00 of 21'),
    ('told late, the dose taken', 'linked,own', '16:00', '{16:15 taken,17:00 late America/Los_Angeles 15:30}', '20 16:00, 22 00:00 of 21'),
    ('told late, without doses', 'none', '16:00', '{17:00 late America/Los_Angeles 15:30}', '20 16:00, 22 00:00 of 21'),
    ('told late, snoozed', 'linked,own,none', '16:00', '{16:15 snooze 60,17:00 late America/Los_Angeles 15:30}', '20 16:00, 20 17:15, 22 00:00 of 21'),
    ('a schedule of another zone stays with its dose', 'own', '16:00', '{15:30 fixed America/Los_Angeles}', '21 00:00 of 20, 22 00:00 of 21'),
    ('a rule that is sent elsewhere does not come twice', 'own,none', '16:00', '{17:00 fixed America/Los_Angeles}', '20 16:00, 22 00:00 of 21'),
    ('a schedule set to a time that has passed', 'linked', '16:00', '{15:30 edit 15:00}', '20 16:00, 21 15:00'),
    ('a schedule set to a time ahead', 'linked', '16:00', '{15:30 edit 18:00}', '20 18:00, 21 18:00'),
    ('its dose has come, and comes again later', 'linked', '16:00', '{16:15 edit 18:00}', '20 16:00, 20 18:00, 21 18:00'),
    ('its dose is taken', 'linked', '16:00', '{16:15 taken,16:30 edit 18:00}', '20 16:00, 21 18:00'),
    ('set to a later time and back when it has rung', 'linked', '16:00', '{16:15 edit 18:00,16:30 edit 16:00}', '20 16:00, 21 16:00')
) as t(what, kinds, dose, steps, want)
cross join lateral unnest(string_to_array(kinds, ',')) as kind;
update test.trip set dose = null where kind = 'none';
select test.is(t.what, test.travel(t), t.want) from test.trip as t order by t.n;

-- What a person did offline days ago. A phone that was told has rung by the new zone since; who pushes did by the old one.
create function test.told_late(zone text, heard timestamptz) returns text language plpgsql as $$
declare
    who constant text := 'tw-' || zone || heard;
begin
    perform test.set_clock('2025-11-17 12:00Z');
    insert into care.user_settings (user_id, zone) values (who, 'UTC');
    perform test.act(who, 'c' || d, 'createReminder', jsonb_build_object('id', who || d, 'productId', 'p', 'time', '16:00', 'timezone', 'UTC', 'tzMode', 'fixed', 'delivery', d)) from unnest('{local,push}'::text[]) as d;
    perform test.set_clock(heard);
    perform test.act(who, 'u' || d, 'updateReminder', jsonb_build_object('id', who || d, 'timezone', zone), client_time => '"2025-11-18T12:00:00Z"') from unnest('{local,push}'::text[]) as d;
    return (
        select string_agg(to_char((body::jsonb #>> '{nextOccurrences,0}')::timestamptz, 'DD HH24:MI'), ', ' order by d)
        from unnest('{local,push}'::text[]) as d, sync.reminder(who, who || d, 1, null));
end
$$;
select test.is('west, heard between the two times', test.told_late('America/New_York', '2025-11-20 17:00Z'), '20 21:00, 21 21:00');
select test.is('west, heard before both', test.told_late('America/New_York', '2025-11-20 12:00Z'), '20 21:00, 20 21:00');
select test.is('east, heard between the two times', test.told_late('Asia/Tokyo', '2025-11-20 12:00Z'), '21 07:00, 20 16:00');
select test.is('east, heard after both', test.told_late('Asia/Tokyo', '2025-11-20 17:00Z'), '21 07:00, 21 07:00');
select test.is('east, heard on the day: its time has passed there when the person acts', test.told_late('Asia/Tokyo', '2025-11-18 14:00Z'), '18 16:00, 18 16:00');

-- What is told, and what is no decision.
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
insert into care.user_settings (user_id, zone) values ('tk', 'UTC');
select test.act('tk', 'c' || n, 'createReminder', jsonb_build_object('id', 'tk-' || n, 'productId', 'p', 'time', '16:00')) from generate_series(1, 3) as n \g /dev/null
select test.set_clock('2025-11-20 15:30Z') \g /dev/null
select test.top('tk', 'reminders') as before \gset
select test.is('the phone is in Paris', test.short(test.act('tk', 'z1', 'updateSettings', '{"timezone":"Europe/Paris"}', device => 'phone')), 'applied');
select test.is('an occurrence that keeps its instant is told', (select string_agg(distinct concat_ws(' ', data ->> 'date', data ->> 'start', data ->> 'movedTo', data ->> 'kept', data ->> 'rev'), ', ') from sync.event where user_id = 'tk' and topic = 'reminders' and o > :before and name = 'reminder.occurrence_updated'), '2025-11-20 2025-11-20T17:00:00+01:00 2025-11-20T17:00 true 1');
select test.is('it is among the next times', (select left(body::jsonb #>> '{nextOccurrences,0}', 16) || ' ' || (body::jsonb #>> '{upcoming,0,id}' = care.occurrence_id('tk-1', '2025-11-20 16:00')) from sync.reminder('tk', 'tk-1', 2, null)), '2025-11-20T17:00 true');
select test.is('nobody decided that: a tablet that has not seen it may decide', test.short(test.act('tk', 'd1', 'setReminderOccurrence', '{"id":"tk-1","date":"2025-11-20","enabled":false}', '{"rev":0}', 'tablet')), 'applied');
select test.is('to where it is is no move, to elsewhere it is one, and back to the rule''s time another', (select string_agg(test.short(test.act('tk', 'd2' || n, 'setReminderOccurrence', '{"id":"tk-2","date":"2025-11-20"}' || payload)), ', ' order by n) from (values (1, '{"movedTo":"2025-11-20T17:00"}'::jsonb), (2, '{"movedTo":null}'), (3, '{"movedTo":"2025-11-20T18:00"}'), (4, '{"time":"17:30"}')) as t(n, payload)), 'noop, noop, applied, applied');
select test.is('then a person decided', (select concat_ws(' ', kept, moved_local) from care.reminder_occurrence where rule_id = 'tk-2'), 'f 2025-11-20 17:30:00');
select test.is('by its former instant nothing is left', (select left(body::jsonb #>> '{nextOccurrences,0}', 16) from sync.reminder('tk', 'tk-2', 1, null)), '2025-11-20T17:30');
update care.reminder_rule set time = '17:45' where id = 'tk-3';
select test.is('a person who gives the rule another time means it', (select left(body::jsonb #>> '{nextOccurrences,0}', 16) from sync.reminder('tk', 'tk-3', 1, null)), '2025-11-20T17:45');
insert into care.reminder_occurrence (rule_id, day, moved_to, kept) values ('tk-3', '2025-11-23', '2025-11-23 20:00Z', true);
select test.is('triggers alone say that one is kept', (select kept from care.reminder_occurrence where rule_id = 'tk-3' and day = '2025-11-23'), false);
-- One default: where nobody says how zones go, a dose and its reminder go together.
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
select test.act('tb', 'z1', 'updateSettings', '{"timezone":"Europe/Berlin"}') \g /dev/null
select test.act('tb', 'm1', 'createMedication', '{"id":"tb-p","name":"a","times":["08:00"]}') \g /dev/null
select test.act('tb', 'c1', 'createReminder', '{"id":"tb-r","productId":"tb-p","time":"08:00"}') \g /dev/null
select test.act('tb', 'c2', 'createReminder', '{"id":"tb-f","productId":"tb-p","time":"08:00","timezone":"Asia/Tokyo"}') \g /dev/null
select test.act('tb', 'z2', 'updateSettings', '{"timezone":"America/New_York"}') \g /dev/null
select test.is('both are at eight in New York, and what names another zone stays there', (select min(scheduled_at) from care.dose_occurrence where user_id = 'tb' and status = 'scheduled' and scheduled_at > '2025-11-20 13:30Z') || ' ' || (select string_agg(body::jsonb #>> '{nextOccurrences,1}', ' ' order by r.id) from care.reminder_rule as r, sync.reminder('tb', r.id, 2, '2025-11-20T12:30:00Z') where r.user_id = 'tb'),
    '2025-11-21 13:00:00+00 2025-11-22T08:00:00+09:00 2025-11-21T08:00:00-05:00');
select test.is('also today''s, which neither had in Berlin', (select string_agg(to_char(scheduled_at, 'DD HH24:MI'), ' ') from care.dose_occurrence where user_id = 'tb' and scheduled_at < '2025-11-20 13:30Z') || ' ' || (select body::jsonb #>> '{nextOccurrences,0}' from sync.reminder('tb', 'tb-r', 1, null)), '20 13:00 2025-11-20T08:00:00-05:00');
\ir ../functions/11_sync_clock.sql
