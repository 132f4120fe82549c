-- A reminder rings for a dose that is open, whatever has become of dose and rule before: a mistake that was put right, a dose
-- that stays or comes back, what a device tells late. The clock is set.
set timezone = 'UTC';
-- What other tests left.
delete from care.reminder_rule where delivery <> 'local';
-- A person with a medication since the day before, and a linked reminder that pushes. Steps: clock, type, payload, and when the person did
-- it, if the hub hears late. Payload: %m, %s, %r are medication, schedule, rule. Want: doses of the day; when a push was made.
create table test.late (title text, had text, steps jsonb, want text);
insert into test.late values
    ('nothing happens', '08:00', '[]', '08:00 missed; 08:00'),
    ('a pause and back', '08:00', '[["07:59","updateSchedule",{"id":"%s","enabled":false}],["08:01","updateSchedule",{"id":"%s","enabled":true}]]', '08:00 missed; 08:01'),
    ('archived and back', '08:00', '[["07:59","archiveMedication",{"id":"%m"}],["08:01","updateMedication",{"id":"%m","archived":false}]]', '08:00 missed; 08:01'),
    ('an end and back', '08:00', '[["07:59","updateSchedule",{"id":"%s","endsOn":"2025-11-19"}],["08:01","updateSchedule",{"id":"%s","endsOn":null}]]', '08:00 missed; 08:01'),
    ('another weekday and back', '08:00', '[["07:59","updateSchedule",{"id":"%s","repeat":"custom","repeatOn":[5]}],["08:01","updateSchedule",{"id":"%s","repeat":"daily"}]]', '08:00 missed; 08:01'),
    ('as needed and back', '08:00', '[["07:59","updateMedication",{"id":"%m","frequency":"as_needed"}],["08:01","updateMedication",{"id":"%m","frequency":"daily","times":["08:00"]}]]', '08:00 missed; 08:01'),
    ('a reminder off and on', '08:00', '[["07:59","updateReminder",{"id":"%r","enabled":false}],["08:01","updateReminder",{"id":"%r","enabled":true}]]', '08:00 missed; 08:01'),
    ('a pause and back after the push', '08:00', '[["08:05","updateSchedule",{"id":"%s","enabled":false}],["08:06","updateSchedule",{"id":"%s","enabled":true}]]', '08:00 missed; 08:00'),
    ('a reminder off and on after the push', '08:00', '[["08:05","updateReminder",{"id":"%r","enabled":false}],["08:06","updateReminder",{"id":"%r","enabled":true}]]', '08:00 missed; 08:00'),
    ('a pause and back when the window is over', '08:00', '[["07:59","updateSchedule",{"id":"%s","enabled":false}],["12:01","updateSchedule",{"id":"%s","enabled":true}]]', ''),
    ('a pause and back, taken before', '08:00', '[["07:30","markTaken",{"occurrenceId":"%d"}],["07:59","updateSchedule",{"id":"%s","enabled":false}],["08:01","updateSchedule",{"id":"%s","enabled":true}]]', '08:00 taken'),
    ('taken by mistake', '08:00', '[["07:50","markTaken",{"occurrenceId":"%d"},null,"k"],["08:02","undo",{"targetKey":"%k"}]]', '08:00 missed; 08:02'),
    ('taken by mistake, and back before', '08:00', '[["07:50","markTaken",{"occurrenceId":"%d"},null,"k"],["07:52","undo",{"targetKey":"%k"}]]', '08:00 missed; 08:00'),
    ('taken by mistake after the push', '08:00', '[["08:10","markTaken",{"occurrenceId":"%d"},null,"k"],["08:12","undo",{"targetKey":"%k"}]]', '08:00 missed; 08:00'),
    ('taken, paused, and taken back', '20:00', '[["19:00","markTaken",{"occurrenceId":"%d"},null,"k"],["19:05","updateSchedule",{"id":"%s","enabled":false}],["19:06","undo",{"targetKey":"%k"}]]', ''),
    ('taken, archived, and taken back', '20:00', '[["19:00","markTaken",{"occurrenceId":"%d"},null,"k"],["19:05","archiveMedication",{"id":"%m"}],["19:06","undo",{"targetKey":"%k"}]]', ''),
    ('taken, deleted, and taken back', '20:00', '[["19:00","markTaken",{"occurrenceId":"%d"},null,"k"],["19:05","deleteSchedule",{"id":"%s"}],["19:06","undo",{"targetKey":"%k"}]]', ''),
    ('later by mistake', '08:00', '[["07:59","updateSchedule",{"id":"%s","time":"12:00"}],["08:01","updateSchedule",{"id":"%s","time":"08:00"}]]', '08:00 missed; 08:01'),
    ('the other time of yesterday, back', '18:00', '[["-10:00","updateSchedule",{"id":"%s","time":"22:30"}],["18:02","updateSchedule",{"id":"%s","time":"18:00"}]]', '18:00 missed; 18:02'),
    ('earlier, as it never was', '22:30', '[["18:02","updateSchedule",{"id":"%s","time":"18:00"}]]', '22:30 scheduled; 22:30'),
    ('past midnight, and earlier', '22:00', '[["15:00","updateSchedule",{"id":"%s","time":"00:30"}],["15:10","updateSchedule",{"id":"%s","time":"10:00"}]]', '22:00 scheduled; 22:00'),
    ('earlier in a pause', '22:00', '[["15:00","updateSchedule",{"id":"%s","enabled":false}],["15:05","updateSchedule",{"id":"%s","time":"10:00"}],["15:10","updateSchedule",{"id":"%s","enabled":true}]]', '22:00 scheduled; 22:00'),
    ('to and fro, and past midnight', '18:30', '[["14:00","updateSchedule",{"id":"%s","time":"10:00"}],["14:05","updateSchedule",{"id":"%s","time":"21:30"}],["16:59","updateSchedule",{"id":"%s","time":"01:00"}]]', '18:30 missed; 18:30'),
    ('moved by undo', '12:00', '[["11:00","markTaken",{"occurrenceId":"%d"},null,"k"],["11:05","updateSchedule",{"id":"%s","time":"18:00"}],["11:06","undo",{"targetKey":"%k"}]]', '18:00 missed; 18:00'),
    ('told late: moved', '12:00', '[["10:00","setReminderOccurrence",{"id":"%r","date":"2025-11-20","movedTo":"2025-11-20T09:00"},"07:00"]]', '12:00 missed; 10:00'),
    ('told late: a snooze', '12:00', '[["12:40","snoozeReminder",{"occurrenceId":"%o","minutes":30},"12:01"]]', '12:00 missed; 12:00 12:40'),
    ('told late: switched on', '12:00', '[["-10:00","updateReminder",{"id":"%r","enabled":false}],["12:05","updateReminder",{"id":"%r","enabled":true},"11:55"]]', '12:00 missed; 12:05'),
    ('told late: made', '12:00', '[["-10:00","deleteReminder",{"id":"%r"}],["12:05","createReminder",{"id":"%r2","productId":"%m","scheduleId":"%s","delivery":"push"},"11:55"]]', '12:00 missed; 12:05'),
    ('made after its time', '12:00', '[["-10:00","deleteReminder",{"id":"%r"}],["12:05","createReminder",{"id":"%r2","productId":"%m","scheduleId":"%s","delivery":"push"}]]', '12:00 missed'),
    ('told late: a pause that ended', '20:00', '[["-10:00","updateSchedule",{"id":"%s","enabled":false}],["20:10","updateSchedule",{"id":"%s","enabled":true},"19:50"]]', '20:00 scheduled; 20:10'),
    ('told late, after it had rung: a label', '08:00', '[["09:00","updateReminder",{"id":"%r","label":"x"},"07:00"]]', '08:00 missed; 08:00'),
    ('told late: another time', '20:00', '[["10:00","updateMedication",{"id":"%m","frequency":"daily","times":["09:00"]},"07:00"]]', '09:00 missed; 10:00'),
    ('told a day late: another time', '08:00', '[["19:00","updateReminder",{"id":"%r","label":"x"},"-12:00"]]', '08:00 missed; 08:00');
create function test.rung(l test.late, zone text) returns text language plpgsql as $$
declare
    who constant text := gen_random_uuid();
    the_day constant timestamp := '2025-11-20';
    at timestamptz := care.resolve_local(the_day - interval '1 day 12 hours', zone);
    ids jsonb := jsonb_build_object('%d', care.occurrence_id(who || 's', the_day + l.had::time), '%o', care.occurrence_id(who || 'r', the_day + l.had::time),
                                    '%m', who || 'm', '%s', who || 's', '%r', who || 'r', '%k', who || 'k');
    step jsonb;
    payload text;
    named record;
    made text;
    upto timestamptz;
    outcome text;
begin
    perform test.set_clock(at);
    insert into care.user_settings (user_id, zone) values (who, zone);
    insert into care.device (user_id, device_id, platform, token, permission, registered_at) values (who, 'phone', 'webhook', 't', 'granted', at);
    perform test.act(who, gen_random_uuid()::text, 'createMedication', jsonb_build_object('id', who || 'm', 'name', 'M', 'times', jsonb_build_array(l.had), 'scheduleIds', jsonb_build_array(who || 's')));
    perform test.act(who, gen_random_uuid()::text, 'createReminder', jsonb_build_object('id', who || 'r', 'productId', who || 'm', 'scheduleId', who || 's', 'delivery', 'push'));
    for step in select * from jsonb_array_elements(l.steps || '[["23:59"]]') loop
        upto := care.resolve_local(the_day + (step ->> 0)::interval, zone);
        loop
            at := least(greatest(at, coalesce((select d.due_at from care.reminder_due as d where d.user_id = who), upto)), upto);
            perform test.set_clock(at);
            perform sync.job('fire_reminders', 100, at);
            exit when at = upto;
        end loop;
        -- As the job does.
        update care.dose_occurrence as d set status = 'missed'
        where d.user_id = who and d.status = 'scheduled' and d.window_end <= at - care.grace();
        continue when step ->> 1 is null;
        payload := step -> 2;
        for named in select * from jsonb_each_text(ids) order by key <> '%r2' loop
            payload := replace(payload, named.key, named.value);
        end loop;
        outcome := test.short(test.act(who, case when step ->> 4 = 'k' then who || 'k' else gen_random_uuid()::text end, step ->> 1, payload::jsonb, null, null, null,
                                       to_jsonb(care.resolve_local(the_day + (step ->> 3)::interval, zone))));
        if outcome <> 'applied' then
            return outcome;
        end if;
        perform sync.job('fire_reminders', 100, at);
    end loop;
    select string_agg(to_char(p.created_at at time zone zone, 'HH24:MI'), ' ' order by p.created_at) into made
    from care.push as p where p.user_id = who and p.day = the_day::date;
    return concat_ws('; ', (
        select nullif(string_agg(to_char(d.scheduled_at at time zone zone, 'HH24:MI') || ' ' || d.status, ', ' order by d.scheduled_at), '') from care.dose_occurrence as d
        where d.user_id = who and d.local_date = the_day::date and d.status <> 'cancelled'), made);
end
$$;
select test.is(l.title || ' in ' || zone, test.rung(l, zone), l.want) from test.late as l, unnest('{UTC,Asia/Kolkata,America/Los_Angeles}'::text[]) as zone;

-- A journey to the east, and an edit: the dose keeps its instant, and its reminder with it.
create function test.rl(who text, type text, payload jsonb) returns text language sql as $$ select test.short(test.act(who, gen_random_uuid()::text, type, payload)) $$;
create function test.rl_next(who text) returns text language sql as $$
    select to_char(min(at), 'DD HH24:MI') from care.reminder_rule as r, lateral care.next_occurrences(r, sync.clock(), 3) as at where r.user_id = who $$;
create function test.rl_open(who text) returns text language sql as $$
    select to_char(min(d.scheduled_at), 'DD HH24:MI') from care.dose_occurrence as d where d.user_id = who and d.status = 'scheduled' and d.scheduled_at > sync.clock() $$;
create function test.journey(zone text, moved timestamptz, edited timestamptz, edit text) returns text language plpgsql as $$
declare
    who constant text := gen_random_uuid();
begin
    perform test.set_clock('2025-11-19 12:00Z');
    insert into care.user_settings (user_id, zone) values (who, 'Europe/Berlin');
    perform test.rl(who, 'createMedication', jsonb_build_object('id', who || 'm', 'name', 'M', 'times', '["20:00"]'::jsonb, 'scheduleIds', jsonb_build_array(who || 's')));
    perform test.rl(who, 'createReminder', jsonb_build_object('id', who || 'r', 'productId', who || 'm', 'scheduleId', who || 's', 'delivery', 'push'));
    perform test.set_clock(moved);
    perform test.rl(who, 'updateSettings', jsonb_build_object('timezone', zone));
    perform test.set_clock(edited);
    perform test.rl(who, 'updateSchedule', jsonb_build_object('id', who || 's', 'time', edit));
    return test.rl_open(who) || ' ' || test.rl_next(who);
end
$$;
select test.is(format('20:00 to %s, then %s', zone, edit), test.journey(zone, moved, edited, edit), '20 19:00 20 19:00') from (values
    ('Pacific/Auckland', timestamptz '2025-11-20 12:00Z', timestamptz '2025-11-20 17:30Z', '05:00'),
    ('Asia/Tokyo', '2025-11-20 17:30Z', '2025-11-20 17:40Z', '02:00')) as t(zone, moved, edited, edit);

-- What was taken is not asked for again, in whatever order one schedule takes the place of another, also a stack's.
create function test.replaced(zone text, steps jsonb) returns text language plpgsql as $$
declare
    who constant text := gen_random_uuid();
    step jsonb;
begin
    perform test.set_clock('2025-11-18 12:00Z');
    insert into care.user_settings (user_id, zone) values (who, zone);
    perform test.rl(who, 'createMedication', jsonb_build_object('id', who || 'm', 'name', 'M', 'times', '["20:00"]'::jsonb, 'scheduleIds', jsonb_build_array(who || 's')));
    perform test.set_clock(care.resolve_local('2025-11-20 19:00', zone));
    perform test.rl(who, 'markTaken', jsonb_build_object('occurrenceId', care.occurrence_id(who || 's', '2025-11-20 20:00')));
    for step in select * from jsonb_array_elements(steps) loop
        perform test.set_clock(sync.clock() + interval '1 minute');
        perform test.rl(who, step ->> 0, replace(step ->> 1, '%', who)::jsonb);
    end loop;
    return (select string_agg(to_char(d.local_time, 'HH24:MI') || ' ' || d.status, ', ' order by d.local_time, d.status) from care.dose_occurrence as d
            where d.user_id = who and d.local_date = '2025-11-20' and d.status <> 'cancelled')
        || '; ' || (select count(*) from care.dose_occurrence as d where d.user_id = who and d.local_date = '2025-11-21' and d.status = 'scheduled');
end
$$;
select test.is(format('%s in %s', title, zone), test.replaced(zone, steps), '20:00 taken; 1') from (values
    ('deleted, and another one', '[["deleteSchedule",{"id":"%s"}],["createSchedule",{"id":"%2","productId":"%m","time":"20:00"}]]'::jsonb),
    ('another one, and deleted', '[["createSchedule",{"id":"%2","productId":"%m","time":"20:00"}],["deleteSchedule",{"id":"%s"}]]'),
    ('another one, and paused', '[["createSchedule",{"id":"%2","productId":"%m","time":"20:00"}],["updateSchedule",{"id":"%s","enabled":false}]]'),
    ('deleted, and a stack', '[["deleteSchedule",{"id":"%s"}],["createStack",{"id":"%k","name":"K","items":[{"productId":"%m"}]}],["createSchedule",{"id":"%2","stackId":"%k","time":"20:00"}]]'),
    ('a stack, and deleted', '[["createStack",{"id":"%k","name":"K","items":[{"productId":"%m"}]}],["createSchedule",{"id":"%2","stackId":"%k","time":"20:00"}],["deleteSchedule",{"id":"%s"}]]')) as t(title, steps),
    unnest('{UTC,Asia/Kolkata,America/New_York}'::text[]) as zone;

drop table test.late cascade;
drop function test.rl(text, text, jsonb), test.rl_next(text), test.rl_open(text), test.journey(text, timestamptz, timestamptz, text), test.replaced(text, jsonb);
