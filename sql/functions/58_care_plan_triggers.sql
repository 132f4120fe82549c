-- The planner's triggers: what is written to schedules, stacks and zones is planned in that transaction. SECURITY DEFINER:
-- writers may lack rights on doses.

-- care.complete_schedule: a schedule that follows is in its user's zone, any other in the one its writer names. A new one waits
-- for a change of the user's zone, and makes a later one wait: that one then sees it. Where a schedule begins to follow, or the
-- user had no settings, both may miss each other: the job puts that right. What it is of is held until the commit. Lock order:
-- care.product (SHARE), care.user_settings (SHARE).
create or replace function care.complete_schedule() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'INSERT' or (new.product_id, new.stack_id) is distinct from (old.product_id, old.stack_id) then
        perform care.hold_products(
            array(select i.product_id from care.stack_item as i where i.stack_id = new.stack_id) || new.product_id);
    end if;
    if tg_op = 'INSERT' and (new.tz_mode = 'follow' or new.timezone is null) then
        perform from care.user_settings as u where u.user_id = new.user_id for share;
    end if;
    if new.tz_mode = 'follow' or new.timezone is null then
        new.timezone := care.zone_of(new.user_id);
    end if;
    return new;
end
$$;

-- care.plan_schedules: plans what a statement did to care.schedule. A change first fills the days that the schedule as it was
-- should have been planned for until now. One that begins earlier than it did is filled from there to where it began, as a new
-- one would be. A dose that stayed where its schedule's time was may be asked for instead of another schedule's
-- (care.slot_taken): that one is planned again.
-- Lock order: the schedules (by the statement), care.stack of new ones (SHARE), then as care.plan_doses.
--
-- The worst interleavings: (1) a schedule of a stack is made while an item is added: neither sees the other. So it takes the
-- stack, which the item's trigger takes too: the later one sees both. (2) A schedule is changed while an item is added: both take
-- the schedule's row; the later one plans with both. It does not take the stack: who adds an item holds that and wants the
-- schedule. (3) A dose is acted on while it is cancelled: care.plan_doses takes its row and looks again.
create or replace function care.plan_schedules() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    clock constant timestamptz := sync.clock();
    since constant timestamptz := care.moment();
    before care.schedule[];
    gone care.schedule[];
    after care.schedule[];
    earlier care.schedule[];
    others text[];
    stacks text[];
begin
    if tg_op = 'INSERT' then
        select array_agg(n::care.schedule order by n.id collate "C"), array_agg(n.stack_id) into after, stacks
        from new_rows as n;
    elsif tg_op = 'DELETE' then
        select array_agg(o::care.schedule) into gone from old_rows as o;
    else
        select array_agg(o::care.schedule) filter (where o.id is not null),
               array_agg(o::care.schedule) filter (where n.id is null),
               array_agg(n::care.schedule order by n.id collate "C") filter (where n.id is not null),
               array_agg(n.stack_id) filter (where o.stack_id is distinct from n.stack_id)
        into before, gone, after, stacks
        from old_rows as o full join new_rows as n on n.id = o.id
        where (o.user_id, o.product_id, o.stack_id, o.time, o.repeat, o.repeat_on, o.window_minutes, o.starts_on, o.ends_on,
               o.enabled, o.timezone)
            is distinct from
              (n.user_id, n.product_id, n.stack_id, n.time, n.repeat, n.repeat_on, n.window_minutes, n.starts_on, n.ends_on,
               n.enabled, n.timezone);
    end if;
    if array_remove(stacks, null) <> '{}' then
        perform from care.stack as s where s.id = any(stacks) order by s.id collate "C" for share;
        -- Those that were added while this waited for the stack. All others are held already.
        perform care.hold_products(array(select i.product_id from care.stack_item as i where i.stack_id = any(stacks)));
    end if;
    -- Seldom: the job keeps two weeks ahead. A zone that is gone from the time zone database has no gap to fill.
    if exists (select from unnest(before) as b join care.schedule_plan as p on p.schedule_id = b.id
               where p.planned_until <= (clock at time zone 'UTC')::date + 1) then
        begin
            perform care.plan_doses(before, 'gap', clock, since);
        exception when data_exception then null;
        end;
    end if;
    for n in 1..coalesce(cardinality(gone), 0) loop
        gone[n].enabled := false;
        gone[n].timezone := 'UTC';
    end loop;
    if gone is not null then
        perform care.plan_doses(gone, 'ahead', clock, since);
    end if;
    if after is not null then
        perform care.plan_doses(after, case tg_op when 'INSERT' then 'new' else 'ahead' end, clock, since);
    end if;
    if tg_op <> 'INSERT' then
        others := array(
            select distinct s.id
            from unnest(before || gone) as b
            join care.dose_occurrence as d on d.schedule_id = b.id and d.local_time is distinct from b.time
                and d.local_date between (since at time zone 'UTC')::date - 1 and (clock at time zone 'UTC')::date + 2
            join care.schedule as s on s.user_id = d.user_id and s.id <> b.id and s.time = d.local_time and s.enabled);
        if others <> '{}' then
            perform care.replan(others, clock);
        end if;
    end if;
    if tg_op = 'UPDATE' then
        select array_agg(jsonb_populate_record(
                   n::care.schedule, jsonb_build_object('ends_on', least(n.ends_on, o.starts_on - 1))) order by n.id collate "C")
        into earlier
        from old_rows as o join new_rows as n on n.id = o.id
        where n.starts_on < o.starts_on;
        if earlier is not null then
            perform care.plan_doses(earlier, 'start', clock, since);
        end if;
    end if;
    return null;
end
$$;

-- care.plan_stacks: plans the schedules of stacks whose products a statement changed. Lock order: new items' products
-- (SHARE), care.stack in the order of ids, then as care.replan.
create or replace function care.plan_stacks() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    stacks text[];
    products text[];
begin
    if tg_op = 'INSERT' then
        select array_agg(distinct n.stack_id), array_agg(distinct n.product_id) into stacks, products from new_rows as n;
    elsif tg_op = 'DELETE' then
        select array_agg(distinct o.stack_id) into stacks from old_rows as o;
    else
        select array_agg(coalesce(o.stack_id, n.stack_id)), array_agg(n.product_id) into stacks, products
        from old_rows as o full join new_rows as n on n.stack_id = o.stack_id and n.product_id = o.product_id
        where o.stack_id is null or n.stack_id is null;
    end if;
    if stacks is not null then
        perform care.hold_products(products);
        perform from care.stack as s where s.id = any(stacks) order by s.id collate "C" for no key update;
        perform care.replan(array(select s.id from care.schedule as s where s.stack_id = any(stacks)));
    end if;
    return null;
end
$$;

-- care.yield_slots: doses of schedules that a person brings back from being cancelled have their slots: one that was planned in
-- its place, and that nobody has acted on, is cancelled. The planner's own revivals find the slot free.
-- Lock order: care.dose_occurrence.
create or replace function care.yield_slots(revived care.dose_occurrence[]) returns void
language plpgsql
as $$
begin
    update care.dose_occurrence as d set status = 'cancelled', cancelled_by_plan = true
    from unnest(revived) as r
    where d.schedule_id = r.schedule_id and d.local_date = r.local_date
        and d.product_id is not distinct from r.product_id and d.id <> r.id and d.status = 'scheduled'
        and exists (select from care.schedule as s where s.id = r.schedule_id);
end
$$;
