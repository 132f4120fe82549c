-- Actions on single occurrences of a rule: snoozed, cancelled, brought back, moved. Each is a row of care.reminder_occurrence, which
-- an edit of the rule's time leaves alone: it is of a local day. Lock order: the rule, then the occurrence; then the flush.

-- care.find_day: the rule and the day of an occurrence that a device names. Its id may be of a time that the rule had in the last
-- 90 days, or of the name that the device had for the rule when it made the id; or, of a rule that comes once a week, of a
-- day that is far ahead of when the person acts: as many are known as a device is shown. An id tells nothing of its rule, so they are tried, those of
-- the rules as they are first, and no more than 400 names and times: nobody may keep the server busy with ids that are
-- none. Who names rule and date is spared that. No row where there is none. No locks.
create or replace function care.find_day(who text, occurrence text) returns table(rule_id text, day date)
language plpgsql stable rows 1
as $$
declare
    today constant date := (care.moment() at time zone 'UTC')::date;
begin
    return query select f.rule_id, f.day from care.find_reminder_occurrence(who, occurrence) as f;
    if found then
        return;
    end if;
    return query
    select t.id, d.day
    from (
        select r.id, named.name, timed.wall, r.repeat, r.repeat_on
        from care.reminder_rule as r
        cross join lateral (
            select r.id as name
            union all
            select n.alias from care.reminder_alias as n where n.user_id = who and n.rule_id = r.id
        ) as named
        cross join lateral (
            select r.time as wall
            union
            select (a.was ->> 'time')::time from care.reminder_audit as a
            where a.rule_id = r.id and a.user_id = who and a.was is not null and a.at > sync.clock() - interval '90 days'
        ) as timed
        where r.user_id = who
        order by timed.wall <> r.time, named.name <> r.id, r.created_at desc limit 400
    ) as t
    cross join lateral (
        select today + k as day from generate_series(-3, 217) as k
        where care.repeats_on(t.repeat, t.repeat_on, today + k) order by k limit 36
    ) as d
    where care.occurrence_id(t.name, d.day + t.wall) = occurrence
    limit 1;
end
$$;

-- care.occurrence_shown: an occurrence, also one that is as its rule says; null where the rule gives none that day. No locks.
create or replace function care.occurrence_shown(r care.reminder_rule, on_day date) returns jsonb
language plpgsql stable
as $$
declare
    x care.reminder_occurrence;
    o record;
begin
    select * into x from care.reminder_occurrence as e where e.rule_id = r.id and e.day = on_day;
    if x.id is not null then
        return care.rule_occurrence_json(x, r);
    end if;
    select * into o from care.occurrence_of(r, on_day);
    return case when o.id is not null then jsonb_build_object(
        'id', o.id, 'occurrenceId', o.id, 'ruleId', r.id, 'userId', r.user_id, 'date', on_day,
        'originalLocal', to_char(on_day + r.time, 'YYYY-MM-DD"T"HH24:MI:SS'), 'start', care.local_iso(o.start, r.timezone),
        'movedTo', null, 'kept', false, 'status', o.status, 'snoozedUntil', null, 'snoozeCount', 0, 'rev', 0) end;
end
$$;

-- care.snooze_reminder: the latest of all snoozes counts, at most four hours after the occurrence's start. Ten are kept, and a
-- further one is refused, `too_many`. There is nothing to do where it would end no later than another, nor for an occurrence
-- that is cancelled, or whose doses are all acted on, or that does not come that late; nor where it had ended when the person
-- acted. Minutes count from then.
create or replace function care.snooze_reminder(who text, doc jsonb, client_time jsonb, clock timestamptz) returns sync.verdict
language plpgsql
as $$
declare
    at record;
    o record;
    r care.reminder_rule;
    x care.reminder_occurrence;
    acted constant timestamptz := care.acted_at(care.time_of(client_time), clock);
    until timestamptz;
begin
    select * into at from care.find_day(who, doc ->> 'occurrenceId');
    if not found then
        return care.unknown('payload.occurrenceId', 'names no occurrence');
    end if;
    select * into r from care.reminder_rule as e where e.id = at.rule_id and e.user_id = who for no key update;
    select * into x from care.reminder_occurrence as e where e.rule_id = r.id and e.day = at.day for update;
    select * into o from care.occurrence_of(r, at.day);
    until := least(o.start + interval '4 hours', coalesce(
        care.time_of(care.given(doc, 'until')),
        acted + make_interval(mins => coalesce((doc ->> 'minutes')::numeric::int, r.snooze_minutes, 10))));
    if o.id is null or o.status = 'cancelled'
        or until <= greatest(o.start, x.snoozed_until, acted) or care.doses_done(r, at.day)
    then
        return care.done('noop', care.occurrence_shown(r, at.day));
    elsif x.snooze_count >= 10 then
        return row('rejected', jsonb_build_object(
            'code', 'too_many', 'path', 'payload.occurrenceId', 'message', 'was snoozed ten times'), null, false)::sync.verdict;
    elsif x.id is null then
        insert into care.reminder_occurrence (rule_id, user_id, original_local, snoozed_until, snooze_count, created_at, updated_at)
        values (r.id, who, at.day + r.time, until, 1, clock, clock);
    else
        update care.reminder_occurrence as e set snoozed_until = until, snooze_count = x.snooze_count + 1 where e.id = x.id;
    end if;
    return care.done('applied', care.occurrence_shown(r, at.day));
end
$$;

-- care.doses_done: whether an occurrence has doses, and all are acted on. No locks.
create or replace function care.doses_done(r care.reminder_rule, on_day date) returns boolean
language sql stable
as $$
    select coalesce(pg_catalog.bool_and(care.acted(d)), false) from care.rule_doses(r, on_day) as d
$$;

-- care.day_changed: whether another than this transaction's device decided something about an occurrence after a revision. What a
-- job wrote there is no decision. No locks.
create or replace function care.day_changed(x care.reminder_occurrence, since bigint) returns boolean
language plpgsql stable
as $$
declare
    own constant text := nullif(current_setting('sync.device', true), '');
begin
    return exists (
        select from care.reminder_occurrence_audit as a
        where a.occurrence_id = x.id and a.user_id = x.user_id and a.rev > since
            and (own is null or a.device is distinct from own));
end
$$;

-- care.set_reminder_day: enabled false cancels an occurrence and true brings it back; movedTo, or a time of the same day, moves it, and null
-- takes that back. A time that had passed when the person acted is refused: it would never come. `base`: the revision of the
-- occurrence that the person saw (0: as its rule says): what another device decided since is a conflict, `state`.
drop function if exists care.set_reminder_day(text, jsonb, bigint, timestamptz);
create or replace function care.set_reminder_day(who text, doc jsonb, base bigint, client_time jsonb, clock timestamptz)
returns sync.verdict
language plpgsql
as $$
declare
    rule text;
    on_day date;
    r care.reminder_rule;
    x care.reminder_occurrence;
    wish care.reminder_occurrence;
    shown jsonb;
    moved timestamp;
    acted constant timestamptz := care.acted_at(care.time_of(client_time), clock);
    was_at timestamptz;
    local jsonb;
begin
    if care.given(doc, 'occurrenceId') is not null then
        select f.rule_id, f.day into rule, on_day from care.find_day(who, doc ->> 'occurrenceId') as f;
        if rule is null then
            return care.unknown('payload.occurrenceId', 'names no occurrence');
        end if;
    else
        rule := care.find_rule(who, doc ->> 'id');
        on_day := (doc ->> 'date')::date;
    end if;
    select * into r from care.reminder_rule as e where e.id = rule and e.user_id = who for no key update;
    if r.id is null then
        return care.unknown('payload.id', 'names no reminder');
    end if;
    select * into x from care.reminder_occurrence as e where e.rule_id = r.id and e.day = on_day for update;
    shown := care.occurrence_shown(r, on_day);
    if shown is null then
        return care.invalid(case when care.given(doc, 'occurrenceId') is null then 'payload.date' else 'payload.occurrenceId' end,
                            'names no day of this reminder');
    end if;
    wish := x;
    wish.status := case when (doc ->> 'enabled')::boolean then case when x.status = 'cancelled' then 'scheduled' else x.status end
                        when not (doc ->> 'enabled')::boolean then 'cancelled' else x.status end;
    if doc ? 'movedTo' or care.given(doc, 'time') is not null then
        moved := coalesce(doc ->> 'movedTo', case when not doc ? 'movedTo' then on_day || 'T' || (doc ->> 'time') end)::timestamp;
        -- To where it is already is not a move.
        if (case when x.kept and moved is null then x.moved_local is not null
                 when x.kept then care.resolve_local(moved, r.timezone) <> x.moved_to
                 else moved is distinct from coalesce(x.moved_local, x.moved_to at time zone r.timezone)
                     and (moved is distinct from on_day + r.time or x.moved_local is not null or x.moved_to is not null) end)
        then
            wish.moved_local := case when moved is distinct from on_day + r.time then moved end;
            wish.moved_to := care.resolve_local(wish.moved_local, r.timezone);
            was_at := coalesce(care.moved_start(x, r.timezone), care.resolve_local(on_day + r.time, r.timezone));
            -- Also where it is cancelled: it may be brought back.
            if (moved is not null or wish.status is distinct from 'cancelled' and was_at > acted)
                and coalesce(wish.moved_to, care.resolve_local(on_day + r.time, r.timezone)) <= acted
            then
                return care.invalid(case when doc ? 'movedTo' then 'payload.movedTo' else 'payload.time' end, 'has passed');
            end if;
        end if;
    end if;
    if coalesce(wish.status, 'scheduled') = coalesce(x.status, 'scheduled')
        and (wish.moved_local, wish.moved_to) is not distinct from (x.moved_local, x.moved_to)
    then
        return care.done('noop', shown);
    elsif base is not null and care.day_changed(x, base) then
        local := jsonb_strip_nulls(jsonb_build_object('enabled', doc -> 'enabled'))
            || case when doc ? 'movedTo' or doc ? 'time' then jsonb_build_object('movedTo', to_char(moved, 'YYYY-MM-DD"T"HH24:MI'))
                    else '{}' end;
        return care.day_conflict(x, r, shown, local);
    elsif x.id is null then
        insert into care.reminder_occurrence (rule_id, user_id, original_local, status, moved_local, moved_to, created_at, updated_at)
        values (r.id, who, on_day + r.time, coalesce(wish.status, 'scheduled'), wish.moved_local, wish.moved_to, clock, clock);
    else
        update care.reminder_occurrence as e
        set status = wish.status, moved_local = wish.moved_local, moved_to = wish.moved_to where e.id = x.id;
    end if;
    return care.done('applied', care.occurrence_shown(r, on_day));
end
$$;

-- care.day_wanted: of a rule's object that was sent back whole for one of its occurrences, what the person changed: the fields that
-- differ from the rule as the device saw it. Where none does, that day is to be as its rule says. No locks.
create or replace function care.day_wanted(who text, doc jsonb) returns jsonb
language plpgsql stable
as $$
declare
    r care.reminder_rule;
    seen jsonb;
    same text[];
begin
    if not doc ?| '{nextOccurrences,upcoming,_sync}' then
        return doc;
    end if;
    select * into r from care.reminder_rule as x where x.id = care.find_rule(who, doc ->> 'id') and x.user_id = who;
    if care.revision_problem(doc -> 'rev') is null then
        seen := care.known_fields(r, (doc ->> 'rev')::numeric::bigint);
    end if;
    seen := coalesce(seen, care.rule_fields(r));
    same := array(select f from unnest('{enabled,time}'::text[]) as f where coalesce(care.given(doc, f), seen -> f) = seen -> f);
    return case when cardinality(same) = 2 and not doc ? 'movedTo' then doc - 'time' || '{"movedTo": null}' else doc - same end;
end
$$;

-- care.day_conflict: the verdict on a decision about an occurrence that another device decided about since. No locks.
create or replace function care.day_conflict(x care.reminder_occurrence, r care.reminder_rule, shown jsonb, local jsonb)
returns sync.verdict
language plpgsql stable
as $$
declare
    server constant jsonb := shown || jsonb_build_object('enabled', x.status <> 'cancelled', 'changedBy', (
        select jsonb_build_object('actor', a.actor, 'deviceId', a.device, 'key', a.key, 'at', a.at)
        from care.reminder_occurrence_audit as a where a.occurrence_id = x.id order by a.n desc limit 1));
begin
    return row('conflict', jsonb_build_object(
        'code', 'state', 'message', 'this occurrence has been changed since', 'conflict', jsonb_build_object(
            'code', 'state', 'entity', jsonb_build_object('type', 'reminderOccurrence', 'id', x.id), 'server', server, 'base', null,
            'local', local, 'merged', server - 'changedBy', 'options', '["keep_local", "accept_server", "merge"]'::jsonb,
            'fields', (
                select coalesce(jsonb_agg(jsonb_build_object('name', e.key, 'base', null, 'server', server -> e.key, 'local', e.value)
                                          order by e.key), '[]')
                from jsonb_each(local) as e where server -> e.key is distinct from e.value))),
        jsonb_build_object('reminder', jsonb_build_object(
            'type', 'setReminderOccurrence', 'id', r.id, 'date', x.day, 'rev', x.rev, 'local', local)), false)::sync.verdict;
end
$$;
