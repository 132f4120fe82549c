-- care.job_spread_products: carries a changed product of the catalogue to the scheduled doses that have it, and then to the
-- medications that users' devices show; one that was archived, or came back, has its schedules planned again, and the
-- reminders of these told. Doses that others hold are left for a later call: they are found again, for they say something
-- else than the product. A batch ends after 20 ms. `more`: there is work that a call at once could do.
--
-- Worst interleavings. (1) The product changes again while a batch runs. The change waits for the batch, which holds the
-- product, and then writes a new entry of care.product_spread. The entry alone would not do: the change has the product and
-- waits for the entry, and the batch, which plans doses of the product, waits for the product. (2) A user gets the product
-- while it comes back: who changes a product waits for that, so it is found here (care.hold_products).
-- (3) A user changes a linked reminder meanwhile: that action has the rule, and waits for the schedule (care.hold_rules).
-- Lock order: the product (SHARE), the entry, the doses by user and id; all skip what others hold. Then, of few users at a
-- time, care.hold_rules and care.replan.
create or replace function care.job_spread_products(batch int, clock timestamptz, out done bigint, out more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    outer_actor constant text := coalesce(current_setting('sync.actor', true), '');
begin
    perform set_config('sync.actor', 'system', true);
    select s.done, s.more into done, more from care.spread_product(batch, clock) as s;
    perform set_config('sync.actor', outer_actor, true);
end
$$;

-- care.spread_product: the batch itself. Locks: care.job_spread_products.
create or replace function care.spread_product(batch int, clock timestamptz, out done bigint, out more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    ends constant timestamptz := clock_timestamp() + interval '20 milliseconds';
    changed text;
    q care.product_spread;
    p care.product;
    ids text[];
    users text[];
    rules text[];
begin
    done := 0;
    more := false;
    select w.product_id into changed from care.product_spread as w join care.product as c on c.id = w.product_id
    order by w.since, w.product_id limit 1 for share of c skip locked;
    if changed is null then
        -- Of products that are gone, nothing is to be told.
        delete from care.product_spread as w
        where not exists (select from care.product as c where c.id = w.product_id);
        return;
    end if;
    select * into q from care.product_spread as w where w.product_id = changed for update skip locked;
    if not found then
        return;
    end if;
    select * into p from care.product as c where c.id = q.product_id and c.user_id is null;
    loop
        ids := array(
            select d.id from care.dose_occurrence as d
            where d.product_id = p.id and d.status = 'scheduled'
                and (d.product_name, d.strength, d.form) is distinct from (p.name, p.strength, p.form)
            order by d.user_id, d.id collate "C" limit least(batch - done, 50) for update skip locked);
        exit when ids = '{}';
        update care.dose_occurrence as d set product_name = p.name, strength = p.strength, form = p.form
        where d.id = any(ids);
        done := done + cardinality(ids);
        if done >= batch or clock_timestamp() >= ends then
            more := true;
            return;
        end if;
    end loop;
    if exists (
        select from care.dose_occurrence as d
        where d.product_id = p.id and d.status = 'scheduled'
            and (d.product_name, d.strength, d.form) is distinct from (p.name, p.strength, p.form)
    ) then
        -- Another transaction holds them. Others' products need not wait for it.
        update care.product_spread as w set since = greatest(clock, q.since) where w.product_id = q.product_id;
        return;
    end if;

    loop
        users := array(
            select l.user_id from care.listed as l
            where l.id = q.product_id and l.kind = 'medication' and l.user_id > q.told
            order by l.user_id limit least(batch - done, case when q.replan then 4 else 50 end));
        exit when users = '{}';
        if q.replan then
            rules := care.hold_rules(q.product_id, users);
            perform care.replan(array(
                select s.id from care.schedule as s
                where s.user_id = any(users) and (s.product_id = q.product_id or s.stack_id in (
                    select i.stack_id from care.stack_item as i where i.product_id = q.product_id))));
            update care.reminder_rule as r set rev = r.rev + 1 where r.id = any(rules);
            perform care.silence_reminders(users);
        end if;
        perform sync.touch('care.product', users, array_fill(q.product_id, array[cardinality(users)]));
        q.told := users[cardinality(users)];
        done := done + cardinality(users);
        if done >= batch or clock_timestamp() >= ends then
            update care.product_spread as w set told = q.told where w.product_id = q.product_id;
            more := true;
            return;
        end if;
    end loop;
    delete from care.product_spread as w where w.product_id = q.product_id;
    more := exists (select from care.product_spread);
end
$$;
