-- Actions on settings, and intakes that no schedule asked for.

-- care.update_settings: the person changes the zone (rules and schedules that follow move with it: care.follow_zone) or the times
-- of presets, each by its name; null: the usual time again. Reminders that were made from a preset keep their time. Lock order:
-- care.user_settings, reminder rules, schedules, doses.
create or replace function care.update_settings(who text, doc jsonb, base jsonb) returns sync.verdict
language plpgsql
as $$
declare
    u care.user_settings;
    zone text;
    presets jsonb;
begin
    if care.given(doc, 'timezone') is null and care.given(doc, 'presetTimes') is null then
        return care.invalid('payload.timezone', 'is required, or presetTimes');
    end if;
    select * into u from care.user_settings as x where x.user_id = who for update;
    zone := coalesce(doc ->> 'timezone', u.zone, 'UTC');
    presets := jsonb_strip_nulls(coalesce(u.preset_times, '{}') || coalesce(care.given(doc, 'presetTimes'), '{}'));
    if coalesce(u.zone, 'UTC') = zone and coalesce(u.preset_times, '{}') = presets then
        return care.done('noop', care.settings_json(who));
    elsif u.rev > care.base_rev(base, who) then
        return care.plain_conflict('settings', who, care.settings_json(who), jsonb_strip_nulls(jsonb_build_object(
            'timezone', doc -> 'timezone', 'presetTimes', doc -> 'presetTimes')));
    end if;
    insert into care.user_settings (user_id, zone, preset_times) values (who, zone, nullif(presets, '{}'))
    on conflict (user_id) do update set zone = excluded.zone, preset_times = excluded.preset_times;
    return care.done('applied', care.settings_json(who));
end
$$;

-- care.log_dose: an intake under an id that the device made. The same id again, also under another key, is no second intake.
-- An undo cancels it; after that the id is a conflict, `gone`, that the user may resolve. Locks: the dose, where it is
-- there.
create or replace function care.log_dose(who text, key text, doc jsonb, client_time jsonb, tz text, clock timestamptz)
returns sync.verdict
language plpgsql
as $$
declare
    told constant jsonb := coalesce(care.given(doc, 'takenAt'), client_time);
    taken_at constant timestamptz := least(coalesce(care.time_of(told), clock), clock);
    product constant text := doc ->> 'productId';
    d care.dose_occurrence;
    i care.intent;
    undo jsonb;
begin
    i.kind := 'act';
    i.id := doc ->> 'id';
    i.status := 'taken';
    i.taken_at := taken_at;
    i.taken_offset := care.offset_of(told);
    i.acted_at := care.acted_at(care.time_of(client_time), clock);
    select * into d from care.dose_occurrence as o where o.id = i.id;
    if d.id is not null then
        if (d.user_id, d.product_id, d.as_needed) is distinct from (who, product, true) then
            return care.invalid('payload.id', 'is in use');
        end if;
        return care.carry_one(who, key, i, clock);
    elsif not exists (
        select from care.product as p where p.id = product and (p.user_id = who or p.user_id is null)
    ) then
        return care.unknown('payload.productId', 'names no medication');
    end if;
    insert into care.dose_occurrence as o (id, user_id, product_id, status, taken_at, taken_offset, scheduled_at, tz, note,
                                           dose, as_needed)
    values (i.id, who, product, 'taken', taken_at, i.taken_offset, taken_at, case when care.known_zone(tz) then tz end,
            care.given(doc, 'note') #>> '{}',
            coalesce(doc ->> 'dose', (
                select s.dose from care.schedule as s
                where s.user_id = who and s.product_id = product and s.repeat = 'as_needed' and s.dose is not null
                order by s.id collate "C" limit 1)),
            true)
    returning o.* into d;
    perform care.write_note(who, i, d.note, key, clock);
    undo := jsonb_build_object(
        'id', d.id, 'createdAt', d.created_at, 'statusRev', d.status_rev,
        'set', jsonb_build_object('status', 'cancelled', 'takenAt', null, 'takenOffset', null, 'reason', null));
    if d.note is not null then
        undo := undo || jsonb_build_object('noteRev', d.note_rev, 'note', jsonb_build_object('before', null));
    end if;
    return row('applied', jsonb_build_object('result', care.dose_json(d)), care.memo(true, jsonb_build_array(undo), null),
               false)::sync.verdict;
end
$$;

-- care.act_medications: what sync.settle hands the types of medications to. `base` and `client_time` null where they are
-- absent. An entry that is sent back whole says by its rev what the device saw, as it does by its route
-- (ActionShape.whole). All is as if the person's device had told it at once: what the act decides goes by care.moment.
-- Locks: those of the type's own function.
create or replace function care.act_medications(who text, key text, type text, doc jsonb, base jsonb, client_time jsonb,
                                                tz text) returns sync.verdict
language plpgsql
as $$
declare
    clock constant timestamptz := sync.clock();
    verdict sync.verdict;
    acted timestamptz;
begin
    client_time := care.believed(client_time, clock);
    verdict := care.medication_problem(type, doc, base, client_time, clock);
    if verdict.status is not null then
        return verdict;
    elsif base is null and type !~ '^(create|log)' and care.given(doc, 'rev') is not null then
        if care.revision_problem(doc -> 'rev') is not null then
            return care.invalid('payload.rev', care.revision_problem(doc -> 'rev'));
        end if;
        base := jsonb_build_object('rev', doc -> 'rev');
    end if;
    acted := care.acted_at(care.time_of(client_time), clock);
    perform set_config('care.acted_at', acted::text, true);
    doc := care.with_weekday(who, type, doc, acted);
    case type
        when 'createMedication' then verdict := care.create_medication(who, doc);
        when 'updateMedication' then verdict := care.update_medication(who, doc, base);
        when 'archiveMedication' then verdict := care.archive_medication(who, doc ->> 'id', base);
        when 'createSchedule' then verdict := care.create_schedule(who, doc);
        when 'updateSchedule' then verdict := care.update_schedule(who, doc, base);
        when 'deleteSchedule' then verdict := care.delete_schedule(who, doc ->> 'id', base);
        when 'createStack' then verdict := care.create_stack(who, doc);
        when 'updateStack' then verdict := care.update_stack(who, doc, base);
        when 'deleteStack' then verdict := care.delete_stack(who, doc ->> 'id', base);
        when 'updateSettings' then verdict := care.update_settings(who, doc, base);
        else verdict := care.log_dose(who, key, doc, client_time, tz, clock);
    end case;
    perform set_config('care.acted_at', '', true);
    if verdict.status = 'conflict' and type <> 'logDose' then
        verdict.memo := jsonb_build_object('medication', jsonb_build_object(
            'type', type, 'payload', doc, 'id', verdict.answer #> '{conflict,entity,id}',
            'rev', verdict.answer #> '{conflict,server,rev}'));
    end if;
    return verdict;
end
$$;

-- care.resolve_medication: what the person chose of a conflict of care.act_medications. keep_local: the same action again, with the
-- revision that the person was shown, or that the device names; what others changed since may be another conflict, and what is
-- gone stays gone. accept_server: nothing to do. Locks: those of the action.
create or replace function care.resolve_medication(who text, key text, target sync.action, doc jsonb, base jsonb,
                                                   client_time jsonb, tz text) returns sync.verdict
language plpgsql
as $$
declare
    pending constant jsonb := target.memo -> 'medication';
    seen jsonb;
    verdict sync.verdict;
begin
    if (doc ->> 'choice' in ('keep_local', 'accept_server')) is not true then
        return care.invalid('payload.choice', 'must be keep_local or accept_server');
    elsif care.base_problem(base) is not null then
        return care.invalid('base', care.base_problem(base));
    elsif client_time is not null and care.time_problem(client_time) is not null then
        return care.invalid('clientTime', care.time_problem(client_time));
    end if;
    if doc ->> 'choice' = 'accept_server' then
        verdict := row('noop', '{}'::jsonb, null, false)::sync.verdict;
    else
        seen := to_jsonb(coalesce(care.base_rev(base, pending ->> 'id'), (pending ->> 'rev')::bigint));
        -- Who decides has seen more than what the payload says.
        verdict := care.act_medications(who, key, pending ->> 'type', (pending -> 'payload') - 'rev',
                                        case when seen is not null then jsonb_build_object('rev', seen) end, client_time, tz);
    end if;
    if verdict.status in ('applied', 'noop', 'conflict') then
        update sync.action as a set resolved_by = resolve_medication.key where a.user_id = who and a.key = target.key;
    end if;
    return verdict;
end
$$;
