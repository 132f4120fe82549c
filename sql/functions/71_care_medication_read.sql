-- Reading what devices send of medications, schedules, stacks and settings. As in 61_care_read.sql, nothing here can fail,
-- and no reason quotes a value. No locks.

-- care.whole_problem: an integer between bounds.
create or replace function care.whole_problem(v jsonb, low int, high int) returns text
language plpgsql immutable
as $$
begin
    if jsonb_typeof(v) <> 'number' or (v #>> '{}')::numeric not between low and high
        or (v #>> '{}')::numeric <> trunc((v #>> '{}')::numeric)
    then
        return format('must be a whole number from %s to %s', low, high);
    end if;
    return null;
end
$$;

-- care.choice_problem: one of some words.
create or replace function care.choice_problem(v jsonb, words text[]) returns text
language plpgsql immutable
as $$
begin
    if jsonb_typeof(v) <> 'string' or not v #>> '{}' = any(words) then
        return 'must be one of ' || array_to_string(words, ', ');
    end if;
    return null;
end
$$;

-- care.clock_problem: a time of day such as 08:00.
create or replace function care.clock_problem(v jsonb) returns text
language plpgsql immutable
as $$
begin
    if jsonb_typeof(v) <> 'string' or v #>> '{}' collate "C" !~ '^([01][0-9]|2[0-3]):[0-5][0-9]$' then
        return 'must be a time of day such as 08:00';
    end if;
    return null;
end
$$;

-- care.year_problem: a day of the years 2000 to 2100.
create or replace function care.year_problem(v jsonb) returns text
language plpgsql immutable
as $$
begin
    if jsonb_typeof(v) <> 'string' then
        return 'must be a date such as 2025-11-14';
    elsif care.date_problem(v #>> '{}') is not null then
        return care.date_problem(v #>> '{}');
    elsif left(v #>> '{}', 4) not between '2000' and '2100' then
        return 'must be of the years 2000 to 2100';
    end if;
    return null;
end
$$;

-- care.list_problem: an array of so many elements, no two the same.
create or replace function care.list_problem(v jsonb, low int, high int) returns text
language plpgsql immutable
as $$
begin
    if jsonb_typeof(v) <> 'array' then
        return 'must be an array';
    elsif jsonb_array_length(v) not between low and high then
        return format('must have %s to %s elements', low, high);
    elsif jsonb_array_length(v) <> (select count(distinct e) from jsonb_array_elements(v) as e) then
        return 'must not have the same element twice';
    end if;
    return null;
end
$$;

-- care.zone_problem: the name of a zone.
create or replace function care.zone_problem(v jsonb) returns text
language plpgsql stable
as $$
begin
    if jsonb_typeof(v) <> 'string' or not care.known_zone(v #>> '{}') then
        return 'is no zone that is known here';
    end if;
    return null;
end
$$;

-- care.presets_problem: times of presets, null for the usual one.
create or replace function care.presets_problem(v jsonb) returns text
language plpgsql immutable
as $$
begin
    if jsonb_typeof(v) <> 'object' then
        return 'must be an object';
    elsif v - '{AM_WITH_FOOD,WITH_BREAKFAST,LUNCH,BEDTIME}'::text[] <> '{}' then
        return 'may have AM_WITH_FOOD, WITH_BREAKFAST, LUNCH and BEDTIME, and no more';
    end if;
    return null;
end
$$;

-- care.medication_field_problem: one member of such a payload, by its name; it is there and not null.
create or replace function care.medication_field_problem(field text, v jsonb, clock timestamptz) returns text
language plpgsql stable
as $$
begin
    return case field
        when 'name' then care.text_problem(v, 200, false)
        when 'strength' then care.text_problem(v, 200, false)
        when 'form' then care.text_problem(v, 200, false)
        when 'dose' then care.text_problem(v, 200, false)
        when 'note' then care.text_problem(v, 4000, false)
        when 'frequency' then care.choice_problem(v, '{daily,twice_daily,weekly,as_needed,custom}')
        when 'repeat' then care.choice_problem(v, '{daily,weekdays,custom,as_needed}')
        when 'tzMode' then care.choice_problem(v, '{follow,fixed}')
        when 'time' then care.clock_problem(v)
        when 'times' then care.list_problem(v, 0, 2)
        when 'scheduleIds' then care.list_problem(v, 0, 2)
        when 'repeatOn' then care.list_problem(v, 1, 7)
        when 'items' then care.list_problem(v, 0, 100)
        when 'windowMinutes' then care.whole_problem(v, 1, 1440)
        when 'startsOn' then care.year_problem(v)
        when 'endsOn' then care.year_problem(v)
        when 'timezone' then care.zone_problem(v)
        when 'presetTimes' then care.presets_problem(v)
        when 'enabled' then care.boolean_problem(v)
        when 'archived' then care.boolean_problem(v)
        when 'takenAt' then care.past_problem(v, clock)
        else care.key_problem(v) end;
end
$$;

-- care.medication_parts_problem: the elements of the members that are arrays.
create or replace function care.medication_parts_problem(doc jsonb) returns sync.verdict
language plpgsql stable
as $$
declare
    field text;
    e record;
    problem text;
begin
    for e in select t.key, t.value from jsonb_each(coalesce(care.given(doc, 'presetTimes'), '{}')) as t order by t.key loop
        problem := case when e.value <> 'null' then care.clock_problem(e.value) end;
        if problem is not null then
            return care.invalid('payload.presetTimes.' || e.key, problem);
        end if;
    end loop;
    foreach field in array array['times', 'scheduleIds', 'repeatOn', 'items'] loop
        continue when jsonb_typeof(doc -> field) is distinct from 'array';
        for e in select t.v, t.n - 1 as n from jsonb_array_elements(doc -> field) with ordinality as t(v, n) loop
            if field = 'items' then
                if jsonb_typeof(e.v) <> 'object' then
                    return care.invalid(format('payload.items[%s]', e.n), 'must be an object');
                end if;
                problem := care.key_problem(care.given(e.v, 'productId'));
                if problem is not null then
                    return care.invalid(format('payload.items[%s].productId', e.n), problem);
                elsif care.given(e.v, 'dose') is not null then
                    problem := care.text_problem(e.v -> 'dose', 200, false);
                end if;
                if problem is not null then
                    return care.invalid(format('payload.items[%s].dose', e.n), problem);
                end if;
                continue;
            end if;
            problem := case field when 'times' then care.clock_problem(e.v)
                                  when 'repeatOn' then care.whole_problem(e.v, 1, 7)
                                  else care.key_problem(nullif(e.v, 'null')) end;
            if problem is not null then
                return care.invalid(format('payload.%s[%s]', field, e.n), problem);
            end if;
        end loop;
    end loop;
    if jsonb_typeof(doc -> 'items') = 'array' and jsonb_array_length(doc -> 'items') <> (
        select count(distinct t.v ->> 'productId') from jsonb_array_elements(doc -> 'items') as t(v)
    ) then
        return care.invalid('payload.items', 'must not have a product twice');
    end if;
    return null;
end
$$;

-- care.medication_fields: the members that a type of action reads, in the order in which they are judged. Those that end in
-- ! are required.
create or replace function care.medication_fields(type text) returns text[]
language sql immutable
as $$
    select case type
        when 'createMedication' then
            '{id!,name!,strength,form,dose,frequency,times,repeatOn,scheduleIds,windowMinutes,startsOn,endsOn,timezone,tzMode}'
        when 'updateMedication' then '{id!,name,strength,form,archived,dose,frequency,times,repeatOn}'
        when 'createSchedule' then
            '{id!,productId,stackId,frequency,repeat,repeatOn,time,dose,windowMinutes,startsOn,endsOn,timezone,tzMode,enabled}'
        when 'updateSchedule' then
            '{id!,repeat,repeatOn,time,dose,windowMinutes,startsOn,endsOn,timezone,tzMode,enabled}'
        when 'createStack' then '{id!,name!,items}'
        when 'updateStack' then '{id!,name,items}'
        when 'updateSettings' then '{timezone,presetTimes}'
        when 'logDose' then '{id!,productId!,takenAt,dose,note}'
        else '{id!}' end::text[]
$$;

-- care.frequency_problem: frequency, times, repeatOn and scheduleIds together. `custom` is what other schedules are called:
-- it leaves them as they are, so that a device may send back what it was shown.
create or replace function care.frequency_problem(type text, doc jsonb) returns sync.verdict
language plpgsql stable
as $$
declare
    frequency constant text := doc ->> 'frequency';
    times constant int := jsonb_array_length(care.given(doc, 'times'));
    wanted constant int := case frequency when 'twice_daily' then 2 when 'as_needed' then 0 else 1 end;
begin
    if frequency = 'custom' then
        return null;
    elsif frequency is not null and times <> wanted then
        return care.invalid('payload.times', format('must have %s for this frequency',
                                                          case wanted when 0 then 'no elements' when 1 then '1 element'
                                                                      else wanted || ' elements' end));
    elsif frequency = 'weekly' and jsonb_array_length(care.given(doc, 'repeatOn')) <> 1 then
        return care.invalid('payload.repeatOn', 'must have 1 element for this frequency');
    elsif type = 'createMedication' and jsonb_array_length(care.given(doc, 'scheduleIds'))
            <> (case when frequency is null then coalesce(times, 0) else greatest(wanted, 1) end) then
        return care.invalid('payload.scheduleIds', 'must name as many schedules as there will be');
    end if;
    return null;
end
$$;

-- care.medication_problem: the whole action but for what only the tables know; null where nothing is wrong.
create or replace function care.medication_problem(type text, doc jsonb, base jsonb, client_time jsonb, clock timestamptz)
returns sync.verdict
language plpgsql stable
as $$
declare
    named text;
    field text;
    problem text;
    verdict sync.verdict;
begin
    if doc is null then
        return care.invalid('payload', 'cannot be read');
    elsif jsonb_typeof(doc) <> 'object' then
        return care.invalid('payload', 'must be an object');
    end if;
    foreach named in array care.medication_fields(type) loop
        field := rtrim(named, '!');
        problem := case when care.given(doc, field) is not null
                            then case when type = 'createMedication' and field = 'frequency'
                                          then care.choice_problem(doc -> field, '{daily,twice_daily,weekly,as_needed}')
                                      else care.medication_field_problem(field, doc -> field, clock) end
                        when named <> field then 'is required' end;
        if problem is not null then
            return care.invalid('payload.' || field, problem);
        end if;
    end loop;
    verdict := care.medication_parts_problem(doc);
    if verdict.status is not null then
        return verdict;
    end if;
    if type in ('createMedication', 'updateMedication') then
        verdict := care.frequency_problem(type, doc);
        if verdict.status is not null then
            return verdict;
        end if;
    end if;
    problem := care.base_problem(base);
    if problem is not null then
        return care.invalid('base', problem);
    elsif client_time is not null then
        problem := care.time_problem(client_time);
        if problem is not null then
            return care.invalid('clientTime', problem);
        end if;
    end if;
    return null;
end
$$;

-- care.repeat_problem: what a schedule as a whole says, for those who write one.
create or replace function care.repeat_problem(s care.schedule) returns sync.verdict
language plpgsql stable
as $$
begin
    if s.repeat = 'as_needed' and s.time is not null then
        return care.invalid('payload.time', 'must not stand beside repeat as_needed');
    elsif s.repeat <> 'as_needed' and s.time is null then
        return care.invalid('payload.time', 'is required');
    elsif s.repeat = 'custom' and coalesce(cardinality(s.repeat_on), 0) = 0 then
        return care.invalid('payload.repeatOn', 'is required');
    elsif s.ends_on < s.starts_on then
        return care.invalid('payload.endsOn', 'lies before startsOn');
    end if;
    return null;
end
$$;
