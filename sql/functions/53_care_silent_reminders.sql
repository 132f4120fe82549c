-- A stopped medicine is silent: a rule of a product that is archived, deleted, or not in the user's list any more, or of a
-- stack that is deleted, or that has no product which is not archived, has no occurrences. It speaks again when that is back.
-- Of what the list never had, the app knows: its rules speak. A rule that is linked to a product's schedule goes by that
-- (care.schedule_span).

-- care.is_silent: whether a rule of that user and target is silent. No locks.
create or replace function care.is_silent(who text, product text, stack text) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    p care.product;
begin
    if product is not null then
        select * into p from care.product as x where x.id = product and (x.user_id = who or x.user_id is null);
        return p.archived_at is not null or not care.in_list(p, who) and exists (
            select from care.listed as l where l.user_id = who and l.kind = 'medication' and l.id = product);
    elsif stack is null then
        return false;
    elsif exists (select from care.stack as k where k.id = stack and k.user_id = who) then
        return not exists (
            select from care.stack_item as i join care.product as x on x.id = i.product_id
            where i.stack_id = stack and x.archived_at is null);
    end if;
    return exists (select from care.listed as l where l.user_id = who and l.kind = 'stack' and l.id = stack);
end
$$;

-- care.silence_reminder: before a rule is written. Behind care.complete_reminder and care.link_reminder, and before
-- care.bump_rev, by name. No locks.
create or replace function care.silence_reminder() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    new.silent := (new.schedule_id is null or new.stack_id is not null)
        and care.is_silent(new.user_id, new.product_id, new.stack_id);
    return new;
end
$$;

-- care.silence_reminders: rules of users whose lists have changed fall silent, or speak again. Lock order: the rules by id.
create or replace function care.silence_reminders(users text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    rules text[];
begin
    rules := array(
        select k.id from (
            select r.id from care.reminder_rule as r
            where r.user_id = any(users) and (r.schedule_id is null or r.stack_id is not null)
                and r.silent <> care.is_silent(r.user_id, r.product_id, r.stack_id)
            order by r.id collate "C" for update
        ) as k);
    if rules <> '{}' then
        -- care.silence_reminder says what becomes of them. A schedule may go with its stack, in whatever order.
        update care.reminder_rule as r
        set silent = not r.silent, schedule_id = (select s.id from care.schedule as s where s.id = r.schedule_id)
        where r.id = any(rules);
    end if;
end
$$;

-- care.list_changed: after products, stacks or what brings a product of the catalogue into a list were written. A product of
-- the catalogue that is archived, or comes back, is left to care.job_spread_products. Lock order: care.silence_reminders.
create or replace function care.list_changed() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    users text[];
begin
    if tg_table_name = 'product' then
        if tg_op = 'UPDATE' then
            select array_agg(distinct w.who) into users
            from old_rows as o join new_rows as n on n.id = o.id
            cross join lateral (values (o.user_id), (n.user_id)) as w(who)
            where (n.user_id, n.archived_at is null) is distinct from (o.user_id, o.archived_at is null);
        else
            select array_agg(distinct coalesce(c.user_id, l.user_id)) into users
            from (select n.id, n.user_id from changed_rows as n) as c
            left join care.listed as l on c.user_id is null and l.id = c.id and l.kind = 'medication';
        end if;
    elsif tg_table_name = 'stack' then
        select array_agg(distinct c.user_id) into users from changed_rows as c;
    elsif tg_table_name = 'schedule' then
        select array_agg(distinct c.user_id) into users
        from changed_rows as c join care.product as p on p.id = c.product_id where p.user_id is null;
    else
        select array_agg(distinct k.user_id) into users
        from changed_rows as c join care.stack as k on k.id = c.stack_id;
        -- Schedules of the stack give the product, or its own give the stack, from now on or no more.
        perform care.tell_rules(array(
            select distinct r.id
            from changed_rows as c
            join care.stack as k on k.id = c.stack_id
            join care.reminder_rule as r on r.user_id = k.user_id and r.schedule_id is null
                and (r.product_id = c.product_id or r.stack_id = c.stack_id)
            join care.schedule as s on s.user_id = k.user_id and (s.stack_id = c.stack_id or s.product_id = c.product_id)));
    end if;
    users := array_remove(users, null);
    if users <> '{}' and exists (select from care.reminder_rule as r where r.user_id = any(users)) then
        perform care.silence_reminders(users);
    end if;
    return null;
end
$$;
