-- What is wrong with a payload: null, or the verdict. Members are judged in the order of the specification, and the first
-- that is no good is named; members that nobody asked for are ignored. No locks.

-- care.dose_payload_problem: markTaken, markMissed, makeUp, skip, addNote.
create or replace function care.dose_payload_problem(type text, doc jsonb, clock timestamptz) returns sync.verdict
language plpgsql stable
as $$
declare
    field text := case when type = 'makeUp' and care.given(doc, 'at') is not null then 'at' else 'takenAt' end;
    problem text := care.key_problem(care.given(doc, 'occurrenceId'));
begin
    if problem is not null then
        return care.invalid('payload.occurrenceId', problem);
    end if;
    if type in ('markTaken', 'makeUp') and care.given(doc, field) is not null then
        problem := care.past_problem(doc -> field, clock);
        if problem is not null then
            return care.invalid('payload.' || field, problem);
        end if;
    end if;
    if type in ('makeUp', 'skip') and care.given(doc, 'reason') is not null then
        problem := care.text_problem(doc -> 'reason', 500, true);
        if problem is not null then
            return care.invalid('payload.reason', problem);
        end if;
    end if;
    field := case when type = 'addNote' and (care.given(doc, 'text') is not null or care.given(doc, 'note') is null)
                  then 'text' else 'note' end;
    if care.given(doc, field) is not null then
        problem := care.text_problem(doc -> field, 4000, false);
    elsif type = 'addNote' then
        problem := 'is required';
    end if;
    if problem is not null then
        return care.invalid('payload.' || field, problem);
    end if;
    return null;
end
$$;

-- care.criteria_problem: of bulkMarkAll: {date?, productId?, scheduleId?, includeFuture?}, and the zone of today.
create or replace function care.criteria_problem(doc jsonb, tz text) returns sync.verdict
language plpgsql stable
as $$
declare
    field text;
    problem text;
begin
    if jsonb_typeof(doc) <> 'object' then
        return care.invalid('payload.criteria', 'must be an object');
    elsif doc - array['date', 'productId', 'scheduleId', 'includeFuture'] <> '{}' then
        -- A misspelt filter would mark doses that nobody meant.
        return care.invalid('payload.criteria', 'may have date, productId, scheduleId and includeFuture, and no more');
    end if;
    foreach field in array array['date', 'productId', 'scheduleId'] loop
        continue when care.given(doc, field) is null;
        if jsonb_typeof(doc -> field) <> 'string' then
            problem := 'must be a string';
        elsif field = 'date' then
            problem := care.date_problem(doc ->> 'date');
        end if;
        if problem is not null then
            return care.invalid('payload.criteria.' || field, problem);
        end if;
    end loop;
    problem := care.boolean_problem(care.given(doc, 'includeFuture'));
    if problem is not null then
        return care.invalid('payload.criteria.includeFuture', problem);
    elsif care.given(doc, 'date') is null and tz is not null and not care.known_zone(tz) then
        return care.invalid('tz', 'is no zone that is known here');
    end if;
    return null;
end
$$;

-- care.bulk_payload_problem: bulkMarkAll.
create or replace function care.bulk_payload_problem(doc jsonb, clock timestamptz, tz text) returns sync.verdict
language plpgsql stable
as $$
declare
    ids jsonb := care.given(doc, 'occurrenceIds');
    criteria jsonb := care.given(doc, 'criteria');
    v jsonb;
    place int := 0;
    problem text;
    verdict sync.verdict;
begin
    if ids is null and criteria is null then
        return care.invalid('payload.occurrenceIds', 'is required, or criteria');
    elsif ids is not null and criteria is not null then
        return care.invalid('payload.criteria', 'must not stand beside occurrenceIds');
    elsif criteria is not null then
        verdict := care.criteria_problem(criteria, tz);
        if verdict.status is not null then
            return verdict;
        end if;
    elsif jsonb_typeof(ids) <> 'array' then
        return care.invalid('payload.occurrenceIds', 'must be an array');
    elsif jsonb_array_length(ids) not between 1 and 200 then
        return care.invalid('payload.occurrenceIds', 'must have 1 to 200 elements');
    else
        for v in select e from jsonb_array_elements(ids) as e loop
            problem := care.key_problem(nullif(v, 'null'));
            if problem is not null then
                return care.invalid(format('payload.occurrenceIds[%s]', place), problem);
            end if;
            place := place + 1;
        end loop;
    end if;
    if care.given(doc, 'takenAt') is not null then
        problem := care.past_problem(doc -> 'takenAt', clock);
        if problem is not null then
            return care.invalid('payload.takenAt', problem);
        end if;
    end if;
    if ids is not null then
        problem := care.boolean_problem(care.given(doc, 'includeFuture'));
        if problem is not null then
            return care.invalid('payload.includeFuture', problem);
        end if;
    end if;
    return null;
end
$$;

-- care.resolve_payload_problem: resolve.
create or replace function care.resolve_payload_problem(doc jsonb, clock timestamptz) returns sync.verdict
language plpgsql stable
as $$
declare
    choice jsonb := care.given(doc, 'choice');
    merged jsonb := care.given(doc, 'merged');
    field text;
    problem text := care.key_problem(care.given(doc, 'of'));
begin
    if problem is not null then
        return care.invalid('payload.of', problem);
    elsif choice is null then
        return care.invalid('payload.choice', 'is required');
    elsif jsonb_typeof(choice) <> 'string' or choice #>> '{}' not in ('keep_local', 'accept_server', 'merge') then
        return care.invalid('payload.choice', 'must be keep_local, accept_server or merge');
    elsif merged is null then
        return null;
    elsif jsonb_typeof(merged) <> 'object' then
        return care.invalid('payload.merged', 'must be an object');
    elsif merged - array['status', 'takenAt', 'reason', 'note'] <> '{}' then
        return care.invalid('payload.merged', 'may have status, takenAt, reason and note, and no more');
    end if;
    foreach field in array array['status', 'takenAt', 'reason', 'note'] loop
        continue when care.given(merged, field) is null;
        problem := case field
            when 'status' then
                case when jsonb_typeof(merged -> field) <> 'string'
                        or merged ->> field not in ('scheduled', 'taken', 'missed', 'made_up', 'skipped')
                    then 'must be scheduled, taken, missed, made_up or skipped' end
            when 'takenAt' then care.past_problem(merged -> field, clock)
            when 'reason' then care.text_problem(merged -> field, 500, true)
            else care.text_problem(merged -> field, 4000, false) end;
        if problem is not null then
            return care.invalid('payload.merged.' || field, problem);
        end if;
    end loop;
    return null;
end
$$;

-- care.request_problem: the whole action but for what only the tables know.
create or replace function care.request_problem(type text, doc jsonb, base jsonb, client_time jsonb, tz text,
                                                clock timestamptz) returns sync.verdict
language plpgsql stable
as $$
declare
    verdict sync.verdict;
    problem text;
begin
    if doc is null then
        return care.invalid('payload', 'cannot be read');
    elsif jsonb_typeof(doc) <> 'object' then
        return care.invalid('payload', 'must be an object');
    end if;
    case type
        when 'bulkMarkAll' then
            verdict := care.bulk_payload_problem(doc, clock, tz);
        when 'resolve' then
            verdict := care.resolve_payload_problem(doc, clock);
        when 'undo' then
            problem := care.key_problem(care.given(doc, 'targetKey'));
            if problem is not null then
                return care.invalid('payload.targetKey', problem);
            end if;
        else
            verdict := care.dose_payload_problem(type, doc, clock);
    end case;
    if verdict.status is not null then
        return verdict;
    end if;
    problem := care.base_problem(base);
    if problem is not null then
        return care.invalid('base', problem);
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
