-- Reading what devices send of reminders. As in 61_care_read.sql nothing here can fail, and no reason quotes a value. Members that
-- are not named here are ignored: an app may send back the whole object that it was shown. No locks.

-- care.rule_field_problem: one member of a rule, by its name; it is there and not null.
create or replace function care.rule_field_problem(field text, v jsonb) returns text
language plpgsql stable
as $$
begin
    return case field
        when 'appliesTo' then care.choice_problem(v, '{item,stack}')
        when 'preset' then care.choice_problem(v, '{AM_WITH_FOOD,WITH_BREAKFAST,LUNCH,BEDTIME,CUSTOM}')
        when 'label' then care.text_problem(v, 200, false)
        when 'time' then care.clock_problem(v)
        when 'timezone' then care.zone_problem(v)
        when 'tzMode' then care.choice_problem(v, '{follow,fixed}')
        when 'repeat' then care.choice_problem(v, '{daily,weekdays,custom}')
        when 'repeatOn' then coalesce(care.list_problem(v, 0, 7), (
            select min(care.whole_problem(e, 1, 7))
            from jsonb_array_elements(case jsonb_typeof(v) when 'array' then v else '[]' end) as e))
        when 'snoozeMinutes' then care.whole_problem(v, 1, 240)
        when 'delivery' then care.choice_problem(v, '{local,push,both}')
        when 'enabled' then care.boolean_problem(v)
        else care.key_problem(v) end;
end
$$;

-- care.wall_problem: a wall time such as 2025-11-20T09:30.
create or replace function care.wall_problem(v jsonb) returns text
language plpgsql immutable
as $$
begin
    if jsonb_typeof(v) <> 'string' or v #>> '{}' collate "C" !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]$' then
        return 'must be a local time such as 2025-11-20T09:30';
    end if;
    return care.year_problem(to_jsonb(left(v #>> '{}', 10)));
end
$$;

-- care.rule_names: the members of a rule that people change, in the order in which they are judged.
create or replace function care.rule_names() returns text[]
language sql immutable
as $$
    select '{productId,stackId,appliesTo,preset,label,time,timezone,tzMode,repeat,repeatOn,snoozeMinutes,delivery,enabled,scheduleId}'::text[]
$$;

-- care.rule_fields_problem: all members of a rule that a payload has. `place`: what names the payload, such as 'payload.'.
create or replace function care.rule_fields_problem(doc jsonb, place text) returns sync.verdict
language plpgsql stable
as $$
declare
    field text;
    problem text;
begin
    foreach field in array care.rule_names() loop
        problem := case when care.given(doc, field) is not null then care.rule_field_problem(field, doc -> field) end;
        if problem is not null then
            return care.invalid(place || field, problem);
        end if;
    end loop;
    if care.given(doc, 'productId') is not null and care.given(doc, 'stackId') is not null then
        return care.invalid(place || 'stackId', 'must not stand beside productId');
    end if;
    return null;
end
$$;

-- care.day_payload_problem: of the actions on one occurrence.
create or replace function care.day_payload_problem(type text, doc jsonb) returns sync.verdict
language plpgsql stable
as $$
declare
    field text;
    problem text;
    wanted constant text[] := case type when 'snoozeReminder' then '{occurrenceId,until,minutes}'
                                        else '{occurrenceId,id,date,enabled,movedTo,time}' end;
begin
    if care.given(doc, 'occurrenceId') is null
        and (type = 'snoozeReminder' or care.given(doc, 'id') is null or care.given(doc, 'date') is null)
    then
        return care.invalid('payload.occurrenceId',
                            'is required' || case type when 'snoozeReminder' then '' else ', or id and date' end);
    end if;
    foreach field in array wanted loop
        continue when care.given(doc, field) is null;
        problem := case field
            when 'until' then care.time_problem(doc -> field)
            when 'minutes' then care.whole_problem(doc -> field, 1, 240)
            when 'date' then care.year_problem(doc -> field)
            when 'movedTo' then care.wall_problem(doc -> field)
            else care.rule_field_problem(field, doc -> field) end;
        if problem is not null then
            return care.invalid('payload.' || field, problem);
        end if;
    end loop;
    if type <> 'snoozeReminder' and care.given(doc, 'enabled') is null and not doc ? 'movedTo'
        and care.given(doc, 'time') is null
    then
        return care.invalid('payload.enabled', 'is required, or movedTo');
    end if;
    return null;
end
$$;

-- care.reminder_problem: the whole action but for what only the tables know; null where nothing is wrong.
create or replace function care.reminder_problem(type text, doc jsonb, base jsonb, client_time jsonb) returns sync.verdict
language plpgsql stable
as $$
declare
    problem text;
    verdict sync.verdict;
begin
    if doc is null then
        return care.invalid('payload', 'cannot be read');
    elsif jsonb_typeof(doc) <> 'object' then
        return care.invalid('payload', 'must be an object');
    end if;
    if type in ('snoozeReminder', 'setReminderOccurrence') then
        verdict := care.day_payload_problem(type, doc);
    else
        if type <> 'createReminder' or care.given(doc, 'id') is not null then
            problem := care.key_problem(care.given(doc, 'id'));
            if problem is not null then
                return care.invalid('payload.id', problem);
            end if;
        end if;
        if type = 'createReminder' and care.given(doc, 'clientId') is not null then
            problem := care.key_problem(doc -> 'clientId');
            if problem is not null then
                return care.invalid('payload.clientId', problem);
            end if;
        end if;
        if type <> 'deleteReminder' then
            verdict := care.rule_fields_problem(doc, 'payload.');
        end if;
    end if;
    if verdict.status is not null then
        return verdict;
    end if;
    problem := care.base_problem(base);
    if problem is not null then
        return care.invalid('base', problem);
    elsif base is null and type <> 'createReminder' and care.given(doc, 'rev') is not null then
        problem := care.revision_problem(doc -> 'rev');
        if problem is not null then
            return care.invalid('payload.rev', problem);
        end if;
    end if;
    if client_time is not null then
        problem := care.time_problem(client_time);
        if problem is not null then
            return care.invalid('clientTime', problem);
        end if;
    end if;
    return null;
end
$$;

-- care.rule_base: the revision that an action names: by `base` for the name that the device uses or for the rule's id, else by
-- the object that it sends back.
create or replace function care.rule_base(doc jsonb, base jsonb, name text, id text) returns bigint
language plpgsql immutable
as $$
begin
    return coalesce(care.base_rev(base, name), care.base_rev(base, id),
                    case when base is null then (doc ->> 'rev')::numeric::bigint end);
end
$$;

-- care.rule_wanted: the fields that a (good) payload names, and what follows from them: a stack takes the product away, and the
-- reverse; a rule that follows its user is in the user's zone. null takes away what may be missing, and says nothing of
-- what may not.
create or replace function care.rule_wanted(who text, doc jsonb) returns jsonb
language plpgsql stable
as $$
declare
    wanted jsonb := '{}';
    field text;
begin
    foreach field in array care.rule_names() loop
        if care.given(doc, field) is not null or doc ? field and field in ('preset', 'label', 'repeatOn', 'snoozeMinutes', 'scheduleId')
        then
            wanted := wanted || jsonb_build_object(field, doc -> field);
        end if;
    end loop;
    if wanted ? 'stackId' then
        wanted := '{"productId": null, "appliesTo": "stack"}'::jsonb || wanted;
    elsif wanted ? 'productId' then
        wanted := '{"stackId": null, "appliesTo": "item"}'::jsonb || wanted;
    end if;
    if care.given(wanted, 'repeatOn') is not null then
        wanted := wanted || jsonb_build_object('repeatOn', (
            select jsonb_agg(e::numeric::int order by e::numeric) from jsonb_array_elements_text(wanted -> 'repeatOn') as e));
    end if;
    if care.given(wanted, 'snoozeMinutes') is not null then
        wanted := wanted || jsonb_build_object('snoozeMinutes', (wanted ->> 'snoozeMinutes')::numeric::int);
    end if;
    if wanted ? 'timezone' then
        wanted := wanted || jsonb_build_object('timezone', care.named_zone(wanted ->> 'timezone'));
    end if;
    if wanted ->> 'tzMode' = 'follow' then
        wanted := wanted || jsonb_build_object('timezone', care.zone_of(who));
    end if;
    return wanted;
end
$$;

-- care.usual_zone_mode: where nobody says whether a rule follows its user: it does, unless it names a zone that is not the
-- user's. No locks.
create or replace function care.usual_zone_mode(who text, zone text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case when zone <> care.zone_of(who) then 'fixed' else 'follow' end
$$;

-- care.rule_with: a rule with these fields. One that follows its user is where the user is now, whatever a device knew or a rule
-- that comes back was. No locks.
create or replace function care.rule_with(r care.reminder_rule, fields jsonb) returns care.reminder_rule
language plpgsql stable
as $$
begin
    r.product_id := fields ->> 'productId';
    r.stack_id := fields ->> 'stackId';
    r.applies_to := fields ->> 'appliesTo';
    r.preset := fields ->> 'preset';
    r.label := fields ->> 'label';
    -- A backend may have written seconds, which nobody is shown.
    if to_char(r.time, 'HH24:MI') is distinct from fields ->> 'time' then
        r.time := (fields ->> 'time')::time;
    end if;
    r.timezone := fields ->> 'timezone';
    r.tz_mode := fields ->> 'tzMode';
    r.repeat := fields ->> 'repeat';
    r.repeat_on := case when care.given(fields, 'repeatOn') is not null
                        then array(select e::smallint from jsonb_array_elements_text(fields -> 'repeatOn') as e) end;
    r.snooze_minutes := (fields ->> 'snoozeMinutes')::int;
    r.delivery := fields ->> 'delivery';
    r.enabled := (fields ->> 'enabled')::boolean;
    r.schedule_id := fields ->> 'scheduleId';
    if r.tz_mode = 'follow' and r.schedule_id is null then
        r.timezone := care.zone_of(r.user_id);
    end if;
    return r;
end
$$;
