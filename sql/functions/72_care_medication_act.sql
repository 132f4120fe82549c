-- Actions on medications, stacks and settings. The user's account is locked (sync.settle): of one user's actions one runs at
-- a time, and only plain SQL may come between. Lock order: products, stacks, schedules, doses, each by id; then the flush.

-- care.plain_conflict: the verdict where a device changes what it has not seen. No locks.
create or replace function care.plain_conflict(kind text, id text, server jsonb, local jsonb) returns sync.verdict
language plpgsql stable
as $$
declare
    code constant text := case when server is null then 'gone' else 'state' end;
    message constant text := case when server is null then 'this is not there any more' else 'it has been changed since' end;
begin
    return row('conflict', jsonb_build_object('code', code, 'message', message, 'conflict', jsonb_build_object(
        'code', code, 'entity', jsonb_build_object('type', kind, 'id', id), 'server', server, 'base', null, 'local', local,
        'fields', (
            select coalesce(jsonb_agg(jsonb_build_object(
                'name', e.key, 'base', null, 'server', server -> e.key, 'local', e.value) order by e.key), '[]')
            from jsonb_each(local) as e where server -> e.key is distinct from e.value),
        'merged', server || local,
        'options', case when server is null then '["accept_server"]'::jsonb else '["keep_local", "accept_server"]' end)),
        null, false)::sync.verdict;
end
$$;

-- care.done: the verdict of what was carried out, or had nothing to do. No locks.
create or replace function care.done(status text, result jsonb) returns sync.verdict
language sql stable
as $$
    select row(status, pg_catalog.jsonb_build_object('result', result), null, false)::sync.verdict
$$;

-- care.unknown: the verdict on an id that names nothing. It is kept as any other, although what it names may still come: the
-- device was told to drop the action. No locks.
create or replace function care.unknown(path text, problem text) returns sync.verdict
language sql stable
as $$
    select care.invalid(path, problem)
$$;

-- care.tell_now: writes what this transaction has changed to the streams, so that answers have the revs of now. After it, an
-- action writes nothing more: who holds a stream waits for no row. Locks: sync.flush.
create or replace function care.tell_now() returns void
language plpgsql
as $$
begin
    set constraints sync.flush immediate;
    set constraints sync.flush deferred;
end
$$;

-- care.medication_shown, care.stack_shown: as the events of now show them; null where the user has none. No locks.
create or replace function care.medication_shown(who text, of_id text) returns jsonb
language plpgsql stable
as $$
begin
    return (
        select care.medication_json(p, who) || jsonb_build_object('rev', coalesce(l.rev, 0))
        from care.product as p
        left join care.listed as l on l.user_id = who and l.kind = 'medication' and l.id = p.id
        where p.id = of_id and (p.user_id = who or p.user_id is null and l.rev is not null));
end
$$;

create or replace function care.stack_shown(who text, of_id text) returns jsonb
language plpgsql stable
as $$
begin
    return (
        select care.stack_json(k) || jsonb_build_object('rev', coalesce(l.rev, 0))
        from care.stack as k
        left join care.listed as l on l.user_id = who and l.kind = 'stack' and l.id = k.id
        where k.id = of_id and k.user_id = who);
end
$$;

-- care.seen: whether a device that saw `rev` has seen the own fields of an entry of the list as they are. No locks.
create or replace function care.seen(who text, of_kind text, of_id text, rev bigint) returns boolean
language plpgsql stable
as $$
begin
    return not exists (
        select from care.listed as l
        where l.user_id = who and l.kind = of_kind and l.id = of_id and l.fields_rev > seen.rev);
end
$$;

-- care.schedule_id: the id of a medication's nth schedule, where the device names none: UUIDv5 by the same namespace as
-- those of doses, of 'schedule/1' and so on. A device without a network can tell it, and so the ids of its doses. No locks.
create or replace function care.schedule_id(medication text, n int) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select care.uuid5(
        case when medication ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then medication::uuid
             else care.uuid5('8a9e3b52-6a43-5d0c-9f4e-1c7f5be0ca21', medication) end, 'schedule/' || n)::text
$$;

drop function if exists care.frequency_schedules(text, text, jsonb, timestamptz);

-- care.frequency_schedules: the schedules that frequency and times mean; null where nothing is said of them. Once daily is
-- at 08:00, twice daily at 08:00 and 20:00, weekly on the day of care.with_weekday. No locks.
create or replace function care.frequency_schedules(who text, medication text, doc jsonb) returns care.schedule[]
language plpgsql stable
as $$
declare
    frequency text := nullif(doc ->> 'frequency', 'custom');
    times text[] := array(select t.v from jsonb_array_elements_text(care.given(doc, 'times')) as t(v) order by t.v);
    s care.schedule;
    all_of care.schedule[] := '{}';
begin
    if frequency is null and (times = '{}' or doc ->> 'frequency' = 'custom') then
        return null;
    end if;
    if times = '{}' then
        times := case frequency when 'twice_daily' then '{08:00,20:00}' when 'as_needed' then array[null::text]
                                else '{08:00}' end;
    end if;
    for n in 1..cardinality(times) loop
        s.id := coalesce(doc -> 'scheduleIds' ->> (n - 1), care.schedule_id(medication, n));
        s.user_id := who;
        s.product_id := medication;
        s.time := times[n]::time;
        s.repeat := case frequency when 'weekly' then 'custom' when 'as_needed' then 'as_needed' else 'daily' end;
        s.repeat_on := case frequency when 'weekly' then array[(doc -> 'repeatOn' ->> 0)::numeric::smallint] end;
        all_of := all_of || s;
    end loop;
    return all_of;
end
$$;

-- care.with_weekday: a payload whose frequency is weekly, with its day: that of startsOn, of a new medication, or the one on which
-- the person acts. What is decided later, of a conflict, means that day too. No locks.
create or replace function care.with_weekday(who text, type text, doc jsonb, at timestamptz) returns jsonb
language plpgsql stable
as $$
begin
    if type not in ('createMedication', 'updateMedication') or doc ->> 'frequency' is distinct from 'weekly'
        or care.given(doc, 'repeatOn') is not null
    then
        return doc;
    end if;
    return doc || jsonb_build_object('repeatOn', jsonb_build_array(extract(isodow from coalesce(
        case type when 'createMedication' then (doc ->> 'startsOn')::date end,
        (at at time zone coalesce(case type when 'createMedication' then doc ->> 'timezone' end, care.zone_of(who)))::date))::int));
end
$$;

-- care.add_schedules: new schedules of a medication, with what the action says of all of them. They are planned in the same
-- transaction. Locks: the schedules, their doses.
create or replace function care.add_schedules(schedules care.schedule[], doc jsonb) returns void
language plpgsql
as $$
begin
    insert into care.schedule (id, user_id, product_id, time, repeat, repeat_on, dose, window_minutes, starts_on, ends_on,
                               timezone, tz_mode)
    select s.id, s.user_id, s.product_id, s.time, s.repeat, s.repeat_on, doc ->> 'dose',
           coalesce((doc ->> 'windowMinutes')::numeric::int, 240), (doc ->> 'startsOn')::date, (doc ->> 'endsOn')::date,
           coalesce(doc ->> 'timezone', care.zone_of(s.user_id)), coalesce(doc ->> 'tzMode', 'follow')
    from unnest(schedules) as s
    order by s.id collate "C";
end
$$;

-- care.create_medication. A repeat under another key is no second one. Lock order: the product, its schedules, doses.
drop function if exists care.create_medication(text, jsonb, timestamptz);
create or replace function care.create_medication(who text, doc jsonb) returns sync.verdict
language plpgsql
as $$
declare
    medication constant text := doc ->> 'id';
    schedules constant care.schedule[] := care.frequency_schedules(who, medication, doc);
begin
    if (doc ->> 'endsOn')::date < (doc ->> 'startsOn')::date then
        return care.invalid('payload.endsOn', 'lies before startsOn');
    end if;
    if exists (select from care.product as p where p.id = medication) then
        if exists (select from care.product as p where p.id = medication and p.user_id = who) then
            return care.done('noop', care.medication_shown(who, medication));
        end if;
        return care.invalid('payload.id', 'is in use');
    elsif exists (select from care.schedule as s join unnest(schedules) as w on w.id = s.id) then
        return care.invalid('payload.scheduleIds', 'are in use');
    end if;
    insert into care.product as p (id, user_id, name, strength, form)
    values (medication, who, doc ->> 'name', doc ->> 'strength', doc ->> 'form');
    perform care.add_schedules(schedules, doc);
    perform care.tell_now();
    return care.done('applied', care.medication_shown(who, medication));
end
$$;

-- care.paired: for each wanted schedule, which of the present ones goes on as it; null for one that begins. Equal times first,
-- then the nearest, of one without a time the one that it had, and of those that are alike the one that repeats so. A time
-- moves past no time that stays: that would be another one. What is paused comes last, and what is over is not asked. No locks.
create or replace function care.paired(present care.schedule[], wanted care.schedule[], at timestamptz) returns int[]
language plpgsql stable
as $$
declare
    pairs int[] := array_fill(null::int, array[cardinality(wanted)]);
    pair int[];
begin
    loop
        select array[w.n, o.n] into pair
        from generate_subscripts(present, 1) as o(n)
        cross join generate_subscripts(wanted, 1) as w(n)
        cross join lateral (
            select (present[o.n]).time as was, (wanted[w.n]).time as will,
                   coalesce((present[o.n]).ends_on < (at at time zone (present[o.n]).timezone)::date, false) as is_over
        ) as t
        where pairs[w.n] is null and array_position(pairs, o.n) is null and not t.is_over
            and not exists (
                select from generate_subscripts(pairs, 1) as k
                where t.was < (present[pairs[k]]).time and t.will > (wanted[k]).time
                    or t.was > (present[pairs[k]]).time and t.will < (wanted[k]).time)
        order by not (present[o.n]).enabled, case when t.was is not distinct from t.will then interval '0'
                                                  else greatest(t.was - t.will, t.will - t.was) end nulls last,
                 t.was is null and not exists (
                     select from care.dose_occurrence as d
                     where d.schedule_id = (present[o.n]).id and d.local_time = t.will
                         and d.local_date >= (at at time zone (present[o.n]).timezone)::date),
                 ((present[o.n]).repeat, (present[o.n]).repeat_on) is distinct from ((wanted[w.n]).repeat, (wanted[w.n]).repeat_on),
                 o.n, w.n
        limit 1;
        exit when not found;
        pairs[pair[1]] := pair[2];
    end loop;
    return pairs;
end
$$;

-- care.begun_id: the id of a schedule of a medication that begins: of one that had its time and is gone, so that its doses come
-- back; else the first one that no schedule has or had lately, for a day's dose would have the slot. No locks.
create or replace function care.begun_id(s care.schedule, today date) returns text
language plpgsql stable
as $$
begin
    return coalesce((
        select d.schedule_id from care.dose_occurrence as d
        where d.user_id = s.user_id and d.product_id = s.product_id and d.local_date between today and today + care.horizon()
            and d.local_time = s.time and d.cancelled_by_plan
            and not exists (select from care.schedule as k where k.id = d.schedule_id)
            and d.id = care.occurrence_id(d.schedule_id, d.local_date + d.local_time)
        order by d.local_date, d.schedule_id collate "C" limit 1
    ), (
        select n.id from generate_series(1, 1000) as k
        cross join lateral (select care.schedule_id(s.product_id, k) as id offset 0) as n
        where not exists (select from care.schedule as x where x.id = n.id)
            and not exists (select from care.dose_occurrence as d where d.schedule_id = n.id and d.local_date >= today - 2)
        order by k limit 1
    ));
end
$$;

-- care.ask_once: after schedules of products have changed, no dose ahead is asked for that another one stands in for, which
-- the person took early, say (care.stands_in). No plan brings it back while that is so. Lock order: the doses by id.
drop function if exists care.ask_once(text, text);
create or replace function care.ask_once(who text, products text[]) returns void
language plpgsql
as $$
declare
    since constant timestamptz := care.moment();
    twice text[];
begin
    twice := array(
        select d.id from care.dose_occurrence as d
        where d.user_id = who and d.product_id = any(products) and d.status = 'scheduled' and d.scheduled_at > since
            and d.local_date between (since at time zone 'UTC')::date - 1 and (sync.clock() at time zone 'UTC')::date + 2
            and exists (select from care.schedule as s where s.id = d.schedule_id and s.time = d.local_time)
            and care.stands_in(who, d.product_id, d.local_date, d.local_time, d.schedule_id)
        order by d.id collate "C" for update);
    update care.dose_occurrence as d set status = 'cancelled', cancelled_by_plan = true
    where d.id = any(twice) and d.status = 'scheduled';
end
$$;

-- care.change_schedules: makes a user's schedules of a medication those that frequency and times mean. A time that stays keeps
-- its schedule, with its doses and reminders, and so does one that moves (care.paired): id, days that it begins and ends, window.
-- The rest ends or begins. One that begins where another one ends takes its place, with its reminders; it has the window, the
-- days and the zone of that one, or of one that stays. It does not begin today if today's dose at its time is there already.
-- Lock order: the schedules by id, doses, reminder rules.
create or replace function care.change_schedules(who text, medication text, wanted care.schedule[], doc jsonb) returns void
language plpgsql
as $$
declare
    at constant timestamptz := care.moment();
    present care.schedule[];
    pairs int[];
    ended int[];
    s care.schedule;
    today date;
    replaced care.schedule;
    sibling care.schedule;
begin
    perform from care.schedule as x where x.user_id = who and x.product_id = medication
    order by x.id collate "C" for no key update;
    present := array(select x from care.schedule as x where x.user_id = who and x.product_id = medication
                     order by x.time, x.id collate "C");
    if wanted is not null then
        pairs := care.paired(present, wanted, at);
        ended := array(
            select n from generate_subscripts(present, 1) as n
            where array_position(pairs, n) is null
                and coalesce((present[n]).ends_on >= (at at time zone (present[n]).timezone)::date, true) order by n);
        update care.schedule as x
        set time = (wanted[n]).time, repeat = (wanted[n]).repeat, repeat_on = (wanted[n]).repeat_on
        from generate_subscripts(pairs, 1) as n
        where x.id = (present[pairs[n]]).id;
        for n in 1 .. cardinality(wanted) loop
            continue when pairs[n] is not null;
            replaced := present[ended[1]];
            sibling := present[coalesce(ended[1], (array_remove(pairs, null))[1])];
            s := wanted[n];
            s.dose := coalesce(doc ->> 'dose', replaced.dose);
            s.window_minutes := coalesce(sibling.window_minutes, 240);
            s.ends_on := sibling.ends_on;
            s.tz_mode := coalesce(sibling.tz_mode, 'follow');
            s.timezone := coalesce(sibling.timezone, care.zone_of(who));
            today := (at at time zone s.timezone)::date;
            s.starts_on := case when sibling.starts_on > today then sibling.starts_on end;
            s.id := care.begun_id(s, today);
            if exists (
                select from care.dose_occurrence as d
                where d.user_id = who and d.product_id = medication and d.local_date = today and d.local_time = s.time
                    and d.schedule_id is distinct from s.id and d.status <> 'cancelled'
                    and (d.status <> 'scheduled' or d.scheduled_at <= at)
            ) then
                s.starts_on := greatest(s.starts_on, today + 1);
            end if;
            insert into care.schedule (id, user_id, product_id, time, repeat, repeat_on, dose, window_minutes, starts_on,
                                       ends_on, timezone, tz_mode)
            values (s.id, who, medication, s.time, s.repeat, s.repeat_on, s.dose, s.window_minutes, s.starts_on,
                    s.ends_on, s.timezone, s.tz_mode);
            update care.reminder_rule as r set schedule_id = s.id where r.schedule_id = replaced.id;
            ended := ended[2:];
        end loop;
        delete from care.schedule as x
        using generate_subscripts(present, 1) as n
        where x.id = (present[n]).id and array_position(pairs, n) is null;
        perform care.ask_once(who, array[medication]);
    end if;
    if doc ? 'dose' then
        update care.schedule as x set dose = doc ->> 'dose'
        where x.user_id = who and x.product_id = medication and x.dose is distinct from doc ->> 'dose';
    end if;
end
$$;

-- care.update_medication: the members that the payload has; null takes away what may be missing. Of the catalogue, a user
-- changes only the schedules. Lock order: the product, its schedules, doses.
drop function if exists care.update_medication(text, jsonb, jsonb, timestamptz);
create or replace function care.update_medication(who text, doc jsonb, base jsonb) returns sync.verdict
language plpgsql
as $$
declare
    medication constant text := doc ->> 'id';
    own constant jsonb := doc - '{id,dose,frequency,times,repeatOn,archived}'::text[];
    seen bigint := care.base_rev(base, medication);
    wanted care.schedule[];
    p care.product;
    before care.product;
    server jsonb;
    local jsonb := '{}';
    name text;
begin
    select * into p from care.product as x
    where x.id = medication and (x.user_id = who or x.user_id is null and care.in_list(x, who)) for no key update;
    server := case when p.id is not null then care.medication_shown(who, medication) end;
    foreach name in array array['name', 'strength', 'form'] loop
        if doc ? name and not (name = 'name' and care.given(doc, name) is null) then
            local := local || jsonb_build_object(name, doc -> name);
        end if;
    end loop;
    if server is null then
        return care.plain_conflict('medication', medication, null, local);
    end if;
    before := p;
    p.name := coalesce(doc ->> 'name', p.name);
    p.strength := case when doc ? 'strength' then doc ->> 'strength' else p.strength end;
    p.form := case when doc ? 'form' then doc ->> 'form' else p.form end;
    p.archived_at := case (doc ->> 'archived')::boolean when true then coalesce(p.archived_at, care.moment())
                                                        when false then null else p.archived_at end;
    if p *<> before and p.user_id is null then
        return row('rejected', '{"code": "forbidden", "message": "a medication of the catalogue is not the user''s to change"}',
                   null, false)::sync.verdict;
    elsif p *<> before and not care.seen(who, 'medication', medication, seen) then
        return care.plain_conflict('medication', medication, server, local);
    end if;
    -- What a device was shown and sends back is no change.
    if care.given(doc, 'times') is not null or doc ->> 'frequency' is distinct from server ->> 'frequency' then
        wanted := care.frequency_schedules(who, medication, doc);
    end if;
    if p *<> before then
        update care.product as x
        set name = p.name, strength = p.strength, form = p.form, archived_at = p.archived_at where x.id = medication;
    end if;
    if wanted is not null or doc ? 'dose' then
        perform care.change_schedules(who, medication, wanted, doc);
    end if;
    perform care.tell_now();
    local := care.medication_shown(who, medication);
    return care.done(case when local = server then 'noop' else 'applied' end, local);
end
$$;

-- care.archive_medication: takes a medication out of the list: the user's own is archived, with its schedules kept for the
-- day that it comes back; of the catalogue, the user's schedules and stack items go. Lock order: the product, stacks,
-- schedules, doses.
drop function if exists care.archive_medication(text, text, jsonb, timestamptz);
create or replace function care.archive_medication(who text, medication text, base jsonb) returns sync.verdict
language plpgsql
as $$
declare
    p care.product;
    server jsonb;
begin
    select * into p from care.product as x
    where x.id = medication and (x.user_id = who or x.user_id is null and care.in_list(x, who)) for no key update;
    server := case when p.id is not null then care.medication_shown(who, medication) end;
    if server is null or not care.in_list(p, who) then
        return care.done('noop', server);
    elsif not care.seen(who, 'medication', medication, care.base_rev(base, medication)) then
        return care.plain_conflict('medication', medication, server, '{}');
    elsif p.user_id is null then
        perform from care.stack as k where k.user_id = who order by k.id collate "C" for no key update;
        delete from care.stack_item as i using care.stack as k
        where k.id = i.stack_id and k.user_id = who and i.product_id = medication;
        delete from care.schedule as s where s.user_id = who and s.product_id = medication;
    else
        update care.product as x set archived_at = care.moment() where x.id = medication;
    end if;
    perform care.tell_now();
    return care.done('applied', care.medication_shown(who, medication));
end
$$;
