-- Every type of action, sent at once and by a device that was without a network and tells it three days later: what is there in
-- the end is the same. Each user lives through one scene: what was there on Monday 2025-11-17, and what the person does then.
set timezone = 'UTC';
create table test.scene (title text, type text, wall time, zone text, payload jsonb, more jsonb);
create function test.rt(who text, type text, payload jsonb, at timestamptz) returns jsonb language sql as $$
    select test.act(who, gen_random_uuid()::text, type, payload, null, null, null, to_jsonb(at)) $$;
create function test.time_passes(clock timestamptz) returns void language plpgsql as $$
begin
    perform test.set_clock(clock);
    perform care.job_plan_doses(1000, clock), care.job_miss_doses(1000, clock), care.job_fire_reminders(1000, clock);
    while (select more from care.job_miss_doses(1000, clock)) loop end loop;
    while (select more from care.job_plan_doses(1000, clock)) loop end loop;
end
$$;
-- What a user has, without ids, revisions, and times at which the hub heard of something; nor what has rung, which goes by
-- real time.
create function test.had(who text) returns text language sql as $$
    select concat_ws(E'\n',
        (select string_agg(concat_ws(' ', 'dose', d.local_date, to_char(d.local_time, 'HH24:MI'), d.tz, d.window_end - d.scheduled_at, d.product_name, d.dose, d.status,
                                     to_char(d.taken_at, 'DD HH24:MI'), d.reason, d.note, d.cancelled_by_plan), E'\n'
                           order by d.local_date, d.local_time, d.product_name, d.status, d.dose)
         from care.dose_occurrence as d where d.user_id = who and not (d.status = 'cancelled' and d.cancelled_by_plan)),
        (select string_agg(concat_ws(' ', 'schedule', to_char(s.time, 'HH24:MI'), s.repeat, s.repeat_on::text, s.dose, s.window_minutes, s.starts_on, s.ends_on, s.enabled, s.timezone, s.tz_mode), E'\n'
                           order by s.time, s.repeat, s.dose) from care.schedule as s where s.user_id = who),
        (select string_agg(concat_ws(' ', 'product', p.name, p.strength, p.archived_at), E'\n' order by p.name) from care.product as p where p.user_id = who),
        (select string_agg(concat_ws(' ', 'stack', k.name, (select count(*) from care.stack_item as i where i.stack_id = k.id)), E'\n' order by k.name) from care.stack as k where k.user_id = who),
        (select string_agg(concat_ws(' ', 'rule', to_char(r.time, 'HH24:MI'), r.repeat, r.timezone, r.label, r.enabled), E'\n' order by r.time) from care.reminder_rule as r where r.user_id = who),
        (select string_agg(concat_ws(' ', 'day', o.day, o.status, o.moved_local, to_char(o.snoozed_until, 'DD HH24:MI'), o.snooze_count), E'\n' order by o.day) from care.reminder_occurrence as o where o.user_id = who and (o.status = 'cancelled' or o.snooze_count > 0 or o.moved_local is not null)),
        (select concat_ws(' ', 'settings', u.zone, u.preset_times) from care.user_settings as u where u.user_id = who)) $$;
-- Plays a scene: `delay` after the person acted, the hub hears of it. Its answer, and what is there a week later.
create function test.play(s test.scene, delay interval) returns text language plpgsql as $$
declare
    who constant text := gen_random_uuid();
    acted constant timestamptz := care.resolve_local(date '2025-11-17' + s.wall, s.zone);
    named jsonb;
    answer jsonb;
    one record;
begin
    perform test.set_clock(care.resolve_local('2025-11-16 00:10', s.zone));
    insert into care.user_settings (user_id, zone) values (who, s.zone);
    perform test.act(who, 'b' || n, t.type, replace(t.payload::text, '%u', who)::jsonb) from (values
        (1, 'createMedication', '{"id":"%u-a","name":"A","times":["08:00","20:00"],"frequency":"twice_daily","scheduleIds":["%u-a1","%u-a2"]}'::jsonb),
        (2, 'createMedication', '{"id":"%u-b","name":"B","times":["09:00"],"scheduleIds":["%u-b1"]}'), (3, 'createMedication', '{"id":"%u-n","name":"N","frequency":"as_needed"}'),
        (4, 'createStack', '{"id":"%u-k","name":"K","items":[{"productId":"%u-n","dose":"1"}]}'), (5, 'createSchedule', '{"id":"%u-k1","stackId":"%u-k","time":"10:00"}'),
        (6, 'createReminder', '{"id":"%u-r","productId":"%u-b","time":"09:00","delivery":"push"}'), (7, 'createReminder', '{"id":"%u-s","productId":"%u-a","scheduleId":"%u-a1"}')) as t(n, type, payload);
    perform test.time_passes(acted);
    -- Ids of doses and occurrences that the person sees.
    named := jsonb_build_object(
        '%due', care.occurrence_id(who || '-a1', '2025-11-17 08:00'), '%eve', care.occurrence_id(who || '-a2', '2025-11-17 20:00'), '%old', care.occurrence_id(who || '-a1', '2025-11-16 08:00'),
        '%b', care.occurrence_id(who || '-b1', '2025-11-17 09:00'), '%far', care.occurrence_id(who || '-a1', '2025-11-22 08:00'), '%ring', care.occurrence_id(who || '-r', '2025-11-17 09:00'),
        '%next', care.occurrence_id(who || '-r', '2025-11-18 09:00'), '%new', care.occurrence_id(care.schedule_id(who || '-c', 1), '2025-11-17 21:00'));
    if delay > interval '0' then
        perform test.time_passes(acted + delay);
    end if;
    for one in
        select t.n, t.type, t.payload from (
            select 0 as n, s.type, s.payload
            union all select e.n::int, e.v ->> 0, e.v -> 1 from jsonb_array_elements(coalesce(s.more, '[]')) with ordinality as e(v, n)) as t order by t.n
    loop
        select replace(one.payload::text, '%u', who) as payload into one.payload;
        for i in 0 .. 7 loop
            one.payload := replace(one.payload::text, (array['%due','%eve','%old','%b','%far','%ring','%next','%new'])[i + 1],
                                   named ->> (array['%due','%eve','%old','%b','%far','%ring','%next','%new'])[i + 1])::jsonb;
        end loop;
        if delay = interval '0' then
            perform test.set_clock(acted + one.n * interval '1 minute');
        end if;
        answer := test.act(who, 'k' || one.n, one.type, one.payload, null, null, null, to_jsonb(acted + one.n * interval '1 minute'));
    end loop;
    perform test.time_passes(acted + interval '2 days' + delay), test.time_passes(acted + interval '6 days');
    return replace(test.short(answer) || E'\n' || test.had(who), who, 'u');
end
$$;
-- The lines of which one play has more than the other.
create function test.differ(a text, b text) returns text language sql as $$
    select coalesce(string_agg(case when n > 0 then '+ ' else '- ' end || line, E'\n' order by line), '') from (
        select line, sum(way) as n from (
            select regexp_split_to_table(a, E'\n') as line, 1 as way union all select regexp_split_to_table(b, E'\n'), -1) as l
        group by line having sum(way) <> 0) as t $$;
create function test.scenes() returns setof test.scene language sql as $$
    select t.title, t.type, t.wall, (array['Europe/Berlin', 'America/Los_Angeles'])[1 + row_number() over () % 2], t.payload, t.more from (values
        ('taken', 'markTaken', time '08:05', '{"occurrenceId":"%due"}'::jsonb, null::jsonb), ('taken early', 'markTaken', '17:00', '{"occurrenceId":"%eve","note":"early"}', null),
        ('a dose of another day', 'markTaken', '08:05', '{"occurrenceId":"%far"}', null), ('missed', 'markMissed', '12:10', '{"occurrenceId":"%due"}', null),
        ('missed too early', 'markMissed', '09:05', '{"occurrenceId":"%due"}', null), ('made up', 'makeUp', '18:00', '{"occurrenceId":"%due","reason":"late"}', null),
        ('made up too early', 'makeUp', '09:30', '{"occurrenceId":"%due"}', null), ('skipped', 'skip', '07:00', '{"occurrenceId":"%eve","reason":"ill"}', null),
        ('a note', 'addNote', '08:10', '{"occurrenceId":"%due","text":"n"}', null), ('undone', 'markTaken', '08:05', '{"occurrenceId":"%due"}', '[["undo",{"targetKey":"k0"}]]'),
        ('all that is due', 'bulkMarkAll', '09:10', '{"criteria":{}}', null), ('all of a day', 'bulkMarkAll', '09:10', '{"criteria":{"date":"2025-11-17","includeFuture":true}}', null),
        ('named ones', 'bulkMarkAll', '09:10', '{"occurrenceIds":["%due","%b"]}', null), ('one far ahead', 'bulkMarkAll', '09:10', '{"occurrenceIds":["%far"],"includeFuture":true}', null),
        ('resolved', 'markTaken', '18:00', '{"occurrenceId":"%old","takenAt":"2025-11-17T05:00:00Z"}', '[["resolve",{"of":"k0","choice":"keep_local"}]]'),
        ('resolved by hand', 'markTaken', '18:00', '{"occurrenceId":"%old"}', '[["resolve",{"of":"k0","choice":"merge","merged":{"status":"taken"}}]]'),
        ('weekly', 'createMedication', '07:00', '{"id":"%u-w","name":"W","frequency":"weekly","times":["08:00"]}', null),
        ('created and taken', 'createMedication', '20:30', '{"id":"%u-c","name":"C","frequency":"daily","times":["21:00"]}', '[["markTaken",{"occurrenceId":"%new"}]]'),
        ('created after its time', 'createMedication', '20:30', '{"id":"%u-c","name":"C","frequency":"daily","times":["07:00"]}', null),
        ('renamed', 'updateMedication', '08:20', '{"id":"%u-a","name":"A2","strength":"5 mg","dose":"2"}', null), ('other times', 'updateMedication', '12:00', '{"id":"%u-a","times":["20:00","23:00"]}', null),
        ('one time', 'updateMedication', '07:30', '{"id":"%u-a","frequency":"daily","times":["20:00"]}', null), ('weekly from now on', 'updateMedication', '07:30', '{"id":"%u-b","frequency":"weekly","times":["09:00"]}', null),
        ('archived by an update', 'updateMedication', '07:30', '{"id":"%u-a","archived":true}', null), ('archived', 'archiveMedication', '07:30', '{"id":"%u-a"}', null),
        ('archived and back', 'archiveMedication', '07:59', '{"id":"%u-a"}', '[["updateMedication",{"id":"%u-a","archived":false}]]'),
        ('a schedule', 'createSchedule', '12:00', '{"id":"%u-s3","productId":"%u-a","time":"14:00","dose":"3"}', null), ('a schedule with a start', 'createSchedule', '12:00', '{"id":"%u-s3","productId":"%u-a","time":"07:00","startsOn":"2025-11-15"}', null),
        ('a pause', 'updateSchedule', '07:30', '{"id":"%u-a1","enabled":false}', null), ('a pause and its end', 'updateSchedule', '07:59', '{"id":"%u-a1","enabled":false}', '[["updateSchedule",{"id":"%u-a1","note":0}],["updateSchedule",{"id":"%u-a1","enabled":true}]]'),
        ('another time', 'updateSchedule', '08:30', '{"id":"%u-a2","time":"16:00"}', null), ('another window', 'updateSchedule', '08:30', '{"id":"%u-a2","windowMinutes":30}', null),
        ('weekdays', 'updateSchedule', '08:30', '{"id":"%u-a2","repeat":"custom","repeatOn":[2,5]}', null), ('an end', 'updateSchedule', '08:30', '{"id":"%u-a2","endsOn":"2025-11-18"}', null),
        ('a dose', 'updateSchedule', '08:30', '{"id":"%u-a1","dose":"half"}', null), ('deleted', 'deleteSchedule', '08:30', '{"id":"%u-a2"}', null),
        ('a stack', 'createStack', '08:30', '{"id":"%u-k2","name":"K2","items":[{"productId":"%u-a"}]}', '[["createSchedule",{"id":"%u-k3","stackId":"%u-k2","time":"12:00"}]]'),
        ('items', 'updateStack', '08:30', '{"id":"%u-k","items":[{"productId":"%u-b"}]}', null), ('items and their doses', 'updateStack', '08:30', '{"id":"%u-k","items":[{"productId":"%u-n","dose":"9"}]}', null),
        ('no stack', 'deleteStack', '08:30', '{"id":"%u-k"}', null), ('a journey', 'updateSettings', '07:30', '{"timezone":"Europe/London"}', null), ('a far journey', 'updateSettings', '12:30', '{"timezone":"America/New_York"}', null),
        ('presets', 'updateSettings', '07:30', '{"presetTimes":{"LUNCH":"13:00"}}', null), ('an intake', 'logDose', '07:30', '{"id":"%u-l","productId":"%u-n","dose":"1"}', null),
        ('an intake, undone', 'logDose', '07:30', '{"id":"%u-l","productId":"%u-n"}', '[["undo",{"targetKey":"k0"}]]'),
        ('a reminder', 'createReminder', '07:30', '{"id":"%u-r2","productId":"%u-a","time":"13:00"}', null), ('another time of a reminder', 'updateReminder', '07:30', '{"id":"%u-r","time":"19:00","label":"L"}', null),
        ('no reminder', 'deleteReminder', '07:30', '{"id":"%u-r"}', null), ('one occurrence', 'updateReminder', '07:30', '{"id":"%u-r","date":"2025-11-18","applyTo":"occurrence","enabled":false}', null),
        ('a snooze', 'snoozeReminder', '09:05', '{"occurrenceId":"%ring","minutes":15}', null), ('a snooze until', 'snoozeReminder', '08:50', '{"occurrenceId":"%ring","until":"2025-11-17T11:00:00Z"}', null),
        ('an occurrence that is cancelled', 'setReminderOccurrence', '07:30', '{"occurrenceId":"%next","enabled":false}', null), ('one that is moved', 'setReminderOccurrence', '07:30', '{"id":"%u-r","date":"2025-11-18","movedTo":"2025-11-18T12:00"}', null)
    ) as t(title, type, wall, payload, more) $$;
select format('select test.is(%L, test.differ(test.play(s, %L), test.play(s, %L)), %L) from test.scenes() as s where s.title = %L', s.title || ' in ' || s.zone, '3 days 10 minutes', '0', '', s.title)
from test.scenes() as s \gexec
select test.is('every type of a person''s is among them', (select string_agg(a.type, ' ' order by a.type) from sync.action_type as a
    where a.function in ('care.act', 'care.act_medications', 'care.act_reminders') and a.type not in (select s.type from test.scenes() as s)
        and a.type not in (select e.v ->> 0 from test.scenes() as s cross join jsonb_array_elements(s.more) as e(v))), null);
