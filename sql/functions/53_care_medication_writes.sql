-- What follows when products, schedules and stacks are written; 59_care_triggers.sql says which trigger calls what.
--
-- Lock order of all that writes medications: products, then stacks, then schedules, then doses, each by id; then streams. A
-- scheduled dose has its product's name, at whatever moment both are written. Two orders could break that:
--   1  The planner reads the old name, the product is renamed and renames the doses that it sees, the planner commits. So
--      who renames a user's product locks its schedules first, as the planner does: one waits for the other, and then sees
--      it.
--   2  The same by who writes a dose without its schedule, or of the catalogue: such a dose locks its product (FOR SHARE)
--      until the commit, and a rename waits for it.
--   3  A schedule is made of an archived product, and plans nothing. The product comes back, and all that is done for it is
--      done, before the schedule commits: nobody sees it, and nobody plans it. The same by a rename, an archiving, and a
--      stack's new item. So who brings products together with a schedule or a stack holds them (care.hold_products): who
--      changes one waits, and then sees what was made; or was first, and is seen.

-- care.hold_products: nobody changes these products until the commit. Lock order: care.product in the order of ids (SHARE).
create or replace function care.hold_products(ids text[]) returns void
language plpgsql
as $$
begin
    perform from care.product as p where p.id = any(ids) order by p.id collate "C" for share;
end
$$;

-- care.described: a dose with what its product and its schedule say of it: what the writer left out, or, `anew`, all of it.
-- A product of the catalogue, or of a writer that holds no lock of the schedule (care.planning is not on), is locked: FOR
-- SHARE. Only what is scheduled follows a product, so no other dose locks one. Its callers set the search path.
create or replace function care.described(d care.dose_occurrence, anew boolean) returns care.dose_occurrence
language plpgsql
as $$
declare
    p record;
    said text;
begin
    if d.status <> 'scheduled' then
        select c.id, c.name, c.strength, c.form into p from care.product as c
        where c.id = d.product_id and (c.user_id is null or c.user_id = d.user_id);
    elsif current_setting('care.planning', true) = 'on' then
        select c.id, c.name, c.strength, c.form into p from care.product as c
        where c.id = d.product_id and c.user_id = d.user_id;
        if p.id is null then
            select c.id, c.name, c.strength, c.form into p from care.product as c
            where c.id = d.product_id and c.user_id is null for share;
        end if;
    else
        select c.id, c.name, c.strength, c.form into p from care.product as c
        where c.id = d.product_id and (c.user_id is null or c.user_id = d.user_id) for share;
    end if;
    if anew and p.id is not null then
        d.product_name := p.name;
        d.strength := p.strength;
        d.form := p.form;
    else
        d.product_name := coalesce(d.product_name, p.name);
        d.strength := coalesce(d.strength, p.strength);
        d.form := coalesce(d.form, p.form);
    end if;
    if d.schedule_id is not null and (anew or d.dose is null) then
        select coalesce(i.dose, s.dose) into said
        from care.schedule as s
        left join care.stack_item as i on i.stack_id = s.stack_id and i.product_id = d.product_id
        where s.id = d.schedule_id;
        d.dose := coalesce(said, d.dose);
    end if;
    return d;
end
$$;

-- care.follow_product: a user's product tells its scheduled doses in the same transaction, and gives none while it is
-- archived. One of the catalogue is left to care.job_spread_products. Lock order: the product (held), where it is archived
-- or comes back the rules that are linked to its schedules, then its schedules, then its scheduled doses, each by id.
create or replace function care.follow_product() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    is_other constant boolean := (new.archived_at is null) <> (old.archived_at is null);
    rules text[];
    schedules text[];
    late constant text[] := care.missed_since(new.user_id, sync.clock(), care.moment(), new.id, null);
    doses text[];
begin
    if (new.name, new.strength, new.form, new.archived_at) is not distinct from
            (old.name, old.strength, old.form, old.archived_at) then
        return null;
    elsif new.user_id is null then
        insert into care.product_spread as q (product_id, since, replan)
        values (new.id, sync.clock(), is_other)
        on conflict (product_id) do update
            set since = excluded.since, told = '', replan = q.replan or excluded.replan;
        return null;
    end if;
    if is_other then
        rules := care.hold_rules(new.id, array[new.user_id]);
    end if;
    schedules := array(
        select k.id from (
            select s.id from care.schedule as s
            where s.user_id = new.user_id and (s.product_id = new.id or s.stack_id in (
                select i.stack_id from care.stack_item as i where i.product_id = new.id))
            order by s.id collate "C" for no key update
        ) as k);
    doses := late || array(
        select d.id from care.dose_occurrence as d
        where d.product_id = new.id and d.user_id = new.user_id and d.status = 'scheduled');
    perform from care.dose_occurrence as d where d.id = any(doses) order by d.id collate "C" for update;
    update care.dose_occurrence as d set product_name = new.name, strength = new.strength, form = new.form
    where d.id = any(doses) and d.product_id = new.id and (d.status = 'scheduled' or d.id = any(late))
        and (d.product_name, d.strength, d.form) is distinct from (new.name, new.strength, new.form);
    if is_other and schedules <> '{}' then
        perform care.replan(schedules);
        update care.reminder_rule as r set rev = r.rev + 1 where r.id = any(rules);
    end if;
    return null;
end
$$;

-- care.missed_since: a user's doses of a product, or of schedules, that were missed between `since` and now: who changes these has
-- told it late, and it was so when they were missed. Else none. No locks.
create or replace function care.missed_since(who text, clock timestamptz, since timestamptz, product text, schedules text[])
returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if since >= clock or who is null then
        return '{}';
    end if;
    return array(
        select d.id from care.dose_occurrence as d
        where d.user_id = who and d.local_date >= (since at time zone 'UTC')::date - 3
            and d.status = 'missed' and care.open_since(d, clock, since)
            and (product is null or d.product_id = product) and (schedules is null or d.schedule_id = any(schedules)));
end
$$;

-- care.follow_dose: how much is to be taken, as a schedule or a stack's item says it now, is what its scheduled doses say.
-- Lock order: its schedules, then their scheduled doses, each by id.
create or replace function care.follow_dose() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    schedules text[];
    product text;
    late text[];
begin
    if new.dose is not distinct from old.dose then
        return null;
    elsif tg_table_name = 'schedule' then
        schedules := array[new.id];
    else
        product := new.product_id;
        perform from care.schedule as s where s.stack_id = new.stack_id order by s.id collate "C" for no key update;
        schedules := array(select s.id from care.schedule as s where s.stack_id = new.stack_id);
    end if;
    late := care.missed_since((select s.user_id from care.schedule as s where s.id = schedules[1]), sync.clock(), care.moment(),
                              product, schedules);
    perform from care.dose_occurrence as d
    where d.schedule_id = any(schedules) and (d.status = 'scheduled' or d.id = any(late))
        and d.product_id = coalesce(product, d.product_id)
    order by d.id collate "C" for update;
    update care.dose_occurrence as d set dose = coalesce(i.dose, s.dose)
    from care.schedule as s
    left join care.stack_item as i on i.stack_id = s.stack_id
    where s.id = any(schedules) and d.schedule_id = s.id and (d.status = 'scheduled' or d.id = any(late))
        and d.product_id = coalesce(product, d.product_id) and d.product_id = coalesce(i.product_id, d.product_id)
        and d.dose is distinct from coalesce(i.dose, s.dose);
    return null;
end
$$;

-- care.tell_medications: what shows a schedule or a stack's item inside is told again: the medication, or the stack and its
-- items' medications, for one of the catalogue is in a user's list while the user has it somewhere. A stack that goes tells
-- its medications while its items are there still. No locks.
create or replace function care.tell_medications() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    ids text[];
begin
    if tg_table_name = 'stack' then
        ids := array(select i.product_id from care.stack_item as i where i.stack_id = old.id);
        perform sync.touch('care.product', array_fill(old.user_id, array[cardinality(ids)]), ids);
        if tg_op = 'UPDATE' then
            perform sync.touch('care.product', array_fill(new.user_id, array[cardinality(ids)]), ids);
            return new;
        end if;
        return old;
    elsif tg_table_name = 'schedule' then
        if tg_op = 'UPDATE' and new *= old then
            return null;
        end if;
        if tg_op <> 'INSERT' then
            perform sync.touch('care.product', array[old.user_id], array[old.product_id]),
                    sync.touch('care.stack', array[old.user_id], array[old.stack_id]);
        end if;
        if tg_op <> 'DELETE' then
            perform sync.touch('care.product', array[new.user_id], array[new.product_id]),
                    sync.touch('care.stack', array[new.user_id], array[new.stack_id]);
        end if;
        return null;
    end if;
    if tg_op = 'UPDATE' and new *= old then
        return null;
    end if;
    if tg_op <> 'INSERT' then
        perform sync.touch('care.stack', array[k.user_id], array[k.id]),
                sync.touch('care.product', array[k.user_id], array[old.product_id])
        from care.stack as k where k.id = old.stack_id;
    end if;
    if tg_op <> 'DELETE' then
        perform sync.touch('care.stack', array[k.user_id], array[k.id]),
                sync.touch('care.product', array[k.user_id], array[new.product_id])
        from care.stack as k where k.id = new.stack_id;
    end if;
    return null;
end
$$;
