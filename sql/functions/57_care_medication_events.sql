-- Medications, stacks and settings as events, answers and snapshots show them, and the builders of their events.

-- care.schedule_json: a schedule. No locks.
create or replace function care.schedule_json(s care.schedule) returns jsonb
language plpgsql stable
as $$
begin
    return jsonb_build_object(
        'id', s.id, 'userId', s.user_id, 'productId', s.product_id, 'stackId', s.stack_id,
        'time', to_char(s.time, 'HH24:MI'), 'repeat', s.repeat, 'repeatOn', s.repeat_on, 'dose', s.dose,
        'windowMinutes', s.window_minutes, 'timezone', s.timezone, 'tzMode', s.tz_mode,
        'startsOn', to_char(s.starts_on, 'YYYY-MM-DD'), 'endsOn', to_char(s.ends_on, 'YYYY-MM-DD'), 'enabled', s.enabled,
        'rev', s.rev, 'createdAt', s.created_at, 'updatedAt', s.updated_at);
end
$$;

-- care.frequency: what the app calls a medication's schedules together; null where there are none. No locks.
create or replace function care.frequency(schedules care.schedule[]) returns text
language sql stable
as $$
    select case
        when pg_catalog.count(*) = 0 then null
        when pg_catalog.bool_and(s.repeat = 'as_needed') then 'as_needed'
        when pg_catalog.count(*) <= 2 and pg_catalog.bool_and(s.repeat = 'daily')
            then case pg_catalog.count(*) when 1 then 'daily' else 'twice_daily' end
        when pg_catalog.count(*) = 1 and pg_catalog.bool_and(pg_catalog.cardinality(s.repeat_on) = 1) then 'weekly'
        else 'custom' end
    from pg_catalog.unnest(schedules) as s
$$;

-- care.medication_json: a product as one user's medication, with the user's schedules of it; without its rev, which
-- care.listed has. No locks.
create or replace function care.medication_json(p care.product, who text) returns jsonb
language plpgsql stable
as $$
declare
    schedules care.schedule[];
    shown jsonb;
begin
    select array_agg(s), coalesce(jsonb_agg(care.schedule_json(s) order by s.time, s.id collate "C"), '[]')
    into schedules, shown
    from care.schedule as s where s.user_id = who and s.product_id = p.id;
    return jsonb_build_object(
        'id', p.id, 'userId', who, 'isCatalogue', p.user_id is null, 'name', p.name, 'strength', p.strength, 'form', p.form,
        'frequency', care.frequency(schedules), 'archivedAt', p.archived_at, 'schedules', shown,
        'createdAt', p.created_at, 'updatedAt', p.updated_at);
end
$$;

-- care.in_list: whether a product is in a user's list of medications: the user's own, or one of the catalogue that the user
-- has a schedule of, or in a stack; and not archived. No locks.
create or replace function care.in_list(p care.product, who text) returns boolean
language plpgsql stable
as $$
begin
    return p.id is not null and p.archived_at is null and (
        p.user_id is not distinct from who or p.user_id is null and (
            exists (select from care.schedule as s where s.user_id = who and s.product_id = p.id)
            or exists (select from care.stack as k join care.stack_item as i on i.stack_id = k.id
                       where k.user_id = who and i.product_id = p.id)));
end
$$;

-- care.stack_json: a stack with its items and schedules; without its rev. No locks.
create or replace function care.stack_json(k care.stack) returns jsonb
language plpgsql stable
as $$
begin
    return jsonb_build_object(
        'id', k.id, 'userId', k.user_id, 'name', k.name,
        'items', (
            select coalesce(jsonb_agg(jsonb_build_object('productId', i.product_id, 'position', i.position, 'dose', i.dose)
                                      order by i.position, i.product_id collate "C"), '[]')
            from care.stack_item as i where i.stack_id = k.id),
        'schedules', (
            select coalesce(jsonb_agg(care.schedule_json(s) order by s.time, s.id collate "C"), '[]')
            from care.schedule as s where s.stack_id = k.id and s.user_id = k.user_id),
        'createdAt', k.created_at, 'updatedAt', k.updated_at);
end
$$;

-- care.settings_json: a user's settings, with the times of all presets; of a user without a row, those that hold. No locks.
create or replace function care.settings_json(who text) returns jsonb
language plpgsql stable
as $$
begin
    return coalesce(
        (select jsonb_build_object('userId', who, 'timezone', u.zone, 'rev', u.rev, 'updatedAt', u.updated_at)
         from care.user_settings as u where u.user_id = who),
        jsonb_build_object('userId', who, 'timezone', 'UTC', 'rev', 0, 'updatedAt', null))
        || jsonb_build_object('presetTimes', (
            select jsonb_object_agg(preset, to_char(care.preset_time(who, preset), 'HH24:MI'))
            from unnest('{AM_WITH_FOOD,WITH_BREAKFAST,LUNCH,BEDTIME}'::text[]) as preset));
end
$$;

-- care.listing: the event of what a list shows at the commit (`body` null: it is not in the list), and what care.listed then
-- knows. No event for what was never there. Its own fields are all but schedules: these have revs of their own.
-- Lock order: care.listed, under the lock of the user's stream.
create or replace function care.listing(who text, of_kind text, of_id text, body jsonb) returns sync.draft
language plpgsql
as $$
declare
    digest constant text := md5((body - '{schedules,frequency,updatedAt}'::text[])::text);
    l care.listed;
    next_rev bigint;
begin
    select * into l from care.listed as x where x.user_id = who and x.kind = of_kind and x.id = of_id;
    next_rev := coalesce(l.rev, 0) + 1;
    if body is null then
        if l.present is not true then
            return null;
        end if;
        update care.listed as x set rev = next_rev, present = false
        where x.user_id = who and x.kind = of_kind and x.id = of_id;
        return row(who, false, of_id, of_kind || '.deleted', jsonb_build_object('id', of_id, 'rev', next_rev));
    end if;
    insert into care.listed (user_id, kind, id, rev, fields_rev, fields, present)
    values (who, of_kind, of_id, next_rev, case when l.fields = digest then l.fields_rev else next_rev end, digest, true)
    on conflict (user_id, kind, id) do update
        set rev = excluded.rev, fields_rev = excluded.fields_rev, fields = excluded.fields, present = true;
    return row(who, false, of_id, of_kind || case when l.present then '.updated' else '.created' end,
               body || jsonb_build_object('rev', next_rev));
end
$$;

-- care.medication_events: the builder of care.product: medication.created and .updated with the whole medication, and
-- medication.deleted when it leaves the list. What changed inside is told by sync.touch. Who gets a product of the catalogue
-- while it is archived is noted in care.listed, as one whose devices do not show it: care.job_spread_products goes by that
-- when it comes back. Locks: care.listing.
create or replace function care.medication_events(changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
as $$
declare
    c sync.change;
    p care.product;
    draft sync.draft;
begin
    foreach c in array changes loop
        select * into p from care.product as x where x.id = c.id and (x.user_id is null or x.user_id = c.user_id);
        draft := care.listing(c.user_id, 'medication', c.id,
                              case when care.in_list(p, c.user_id) then care.medication_json(p, c.user_id) end);
        if draft.name is not null then
            return next draft;
        end if;
        if p.user_id is null and p.archived_at is not null then
            insert into care.listed (user_id, kind, id, rev, fields_rev, present)
            values (c.user_id, 'medication', c.id, 0, 0, false)
            on conflict (user_id, kind, id) do nothing;
        end if;
    end loop;
end
$$;

-- care.stack_events: the builder of care.stack: stack.created, .updated and .deleted. Locks: care.listing.
create or replace function care.stack_events(changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
as $$
declare
    c sync.change;
    k care.stack;
    draft sync.draft;
begin
    foreach c in array changes loop
        select * into k from care.stack as x where x.id = c.id and x.user_id = c.user_id;
        draft := care.listing(c.user_id, 'stack', c.id, case when k.id is not null then care.stack_json(k) end);
        if draft.name is not null then
            return next draft;
        end if;
    end loop;
end
$$;

-- care.settings_events: the builder of care.user_settings: settings.updated, whatever was done to the row. No locks.
create or replace function care.settings_events(changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
as $$
begin
    return query
    select c.user_id, false, c.id, 'settings.updated'::text, care.settings_json(c.user_id)
    from unnest(changes) as c;
end
$$;
