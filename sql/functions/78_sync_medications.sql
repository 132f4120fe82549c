-- Snapshots of medications, stacks, schedules and settings, each as events show it, with the position of the stream that
-- tells of changes. As in 75_sync_adherence_day.sql, body and position are of one database snapshot. No locks.

-- sync.medications: {items, stacks, settings, position}: the list, the oldest first. Archived ones are not in it.
create or replace function sync.medications(who text)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
begin
    return query
    select p.epoch, p.top, jsonb_build_object(
        'items', (
            select coalesce(jsonb_agg(care.medication_shown(who, m.id) order by m.created_at, m.id collate "C"), '[]')
            from care.product as m
            where m.id in (
                select o.id from care.product as o where o.user_id = who
                union
                select s.product_id from care.schedule as s where s.user_id = who and s.product_id is not null
                union
                select i.product_id from care.stack as k join care.stack_item as i on i.stack_id = k.id where k.user_id = who
            ) and care.in_list(m, who)),
        'stacks', (
            select coalesce(jsonb_agg(care.stack_shown(who, k.id) order by k.created_at, k.id collate "C"), '[]')
            from care.stack as k where k.user_id = who),
        'settings', care.settings_json(who),
        'position', jsonb_build_object('epoch', p.epoch, 'offset', p.top))::text
    from sync.positions(array[who], array['medications']) as p;
end
$$;

-- sync.medication: one of them, also if it is archived. `body` null: the user has none of this id.
create or replace function sync.medication(who text, id text)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
begin
    return query
    select p.epoch, p.top, care.medication_shown(who, medication.id)::text
    from sync.positions(array[who], array['medications']) as p;
end
$$;

-- sync.schedules: {items, position}: all schedules of medications and stacks.
create or replace function sync.schedules(who text)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
begin
    return query
    select p.epoch, p.top, jsonb_build_object(
        'items', (
            select coalesce(jsonb_agg(care.schedule_json(s) order by s.created_at, s.id collate "C"), '[]')
            from care.schedule as s where s.user_id = who),
        'position', jsonb_build_object('epoch', p.epoch, 'offset', p.top))::text
    from sync.positions(array[who], array['medications']) as p;
end
$$;

-- sync.schedule: one of them. `body` null: the user has none of this id.
create or replace function sync.schedule(who text, id text)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
begin
    return query
    select p.epoch, p.top, (
        select care.schedule_json(s) from care.schedule as s where s.id = schedule.id and s.user_id = who)::text
    from sync.positions(array[who], array['medications']) as p;
end
$$;

-- sync.stacks: {items, position}: all stacks, the oldest first.
create or replace function sync.stacks(who text)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
begin
    return query
    select p.epoch, p.top, jsonb_build_object(
        'items', (
            select coalesce(jsonb_agg(care.stack_shown(who, k.id) order by k.created_at, k.id collate "C"), '[]')
            from care.stack as k where k.user_id = who),
        'position', jsonb_build_object('epoch', p.epoch, 'offset', p.top))::text
    from sync.positions(array[who], array['medications']) as p;
end
$$;

-- sync.stack: one of them. `body` null: the user has none of this id.
create or replace function sync.stack(who text, id text)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
begin
    return query
    select p.epoch, p.top, care.stack_shown(who, stack.id)::text
    from sync.positions(array[who], array['medications']) as p;
end
$$;

-- sync.settings: a user's settings; without any, those that hold.
create or replace function sync.settings(who text)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
begin
    return query
    select p.epoch, p.top, care.settings_json(who)::text
    from sync.positions(array[who], array['medications']) as p;
end
$$;
