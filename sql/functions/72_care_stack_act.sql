-- Actions on stacks. Lock order: products (SHARE), the stack, its schedules, doses; then the flush.

-- care.items_problem: whether the products of a stack's items are the user's, or of the catalogue; they are locked until the
-- commit. Lock order: products by id (SHARE).
create or replace function care.items_problem(who text, items jsonb) returns sync.verdict
language plpgsql
as $$
declare
    unknown int;
begin
    perform from care.product as p
    where p.id in (select t.v ->> 'productId' from jsonb_array_elements(items) as t(v))
        and (p.user_id = who or p.user_id is null)
    order by p.id collate "C" for share;
    select min(t.n) - 1 into unknown from jsonb_array_elements(items) with ordinality as t(v, n)
    where not exists (select from care.product as p
                      where p.id = t.v ->> 'productId' and (p.user_id = who or p.user_id is null));
    if unknown is not null then
        return care.unknown(format('payload.items[%s].productId', unknown), 'names no medication');
    end if;
    return null;
end
$$;

-- care.write_items: makes a stack's items those of a payload, in its order. Only what changes is written. Locks: the
-- schedules of the stack, doses (the planner).
create or replace function care.write_items(stack text, items jsonb) returns void
language plpgsql
as $$
begin
    delete from care.stack_item as i
    where i.stack_id = stack
        and i.product_id not in (select t.v ->> 'productId' from jsonb_array_elements(items) as t(v));
    insert into care.stack_item as i (stack_id, product_id, position, dose)
    select stack, t.v ->> 'productId', t.n, t.v ->> 'dose'
    from jsonb_array_elements(items) with ordinality as t(v, n)
    order by t.v ->> 'productId'
    on conflict (stack_id, product_id) do update set position = excluded.position, dose = excluded.dose
        where (i.position, i.dose) is distinct from (excluded.position, excluded.dose);
end
$$;

-- care.create_stack. A repeat under another key is no second one. Locks: products (SHARE), the stack.
create or replace function care.create_stack(who text, doc jsonb) returns sync.verdict
language plpgsql
as $$
declare
    k care.stack;
    verdict sync.verdict := care.items_problem(who, coalesce(care.given(doc, 'items'), '[]'));
begin
    select * into k from care.stack as x where x.id = doc ->> 'id';
    if k.user_id = who then
        return care.done('noop', care.stack_shown(who, k.id));
    elsif k.id is not null then
        return care.invalid('payload.id', 'is in use');
    elsif verdict.status is not null then
        return verdict;
    end if;
    insert into care.stack (id, user_id, name) values (doc ->> 'id', who, doc ->> 'name');
    perform care.write_items(doc ->> 'id', coalesce(care.given(doc, 'items'), '[]'));
    perform care.tell_now();
    return care.done('applied', care.stack_shown(who, doc ->> 'id'));
end
$$;

-- care.update_stack: name and items, each where the payload has it. Lock order: products (SHARE), the stack, schedules,
-- doses.
create or replace function care.update_stack(who text, doc jsonb, base jsonb) returns sync.verdict
language plpgsql
as $$
declare
    stack constant text := doc ->> 'id';
    items constant jsonb := care.given(doc, 'items');
    local jsonb := jsonb_strip_nulls(jsonb_build_object('name', doc -> 'name'));
    server jsonb;
    shown jsonb;
    verdict sync.verdict := care.items_problem(who, coalesce(items, '[]'));
begin
    if items is not null then
        local := local || jsonb_build_object('items', (
            select coalesce(jsonb_agg(jsonb_build_object('productId', t.v -> 'productId', 'position', t.n, 'dose', t.v -> 'dose')
                                      order by t.n), '[]')
            from jsonb_array_elements(items) with ordinality as t(v, n)));
    end if;
    perform from care.stack as x where x.id = stack and x.user_id = who for no key update;
    if not found then
        return care.plain_conflict('stack', stack, null, local);
    elsif verdict.status is not null then
        return verdict;
    end if;
    server := care.stack_shown(who, stack);
    if server @> local and (items is null or jsonb_array_length(server -> 'items') = jsonb_array_length(items)) then
        return care.done('noop', server);
    elsif not care.seen(who, 'stack', stack, care.base_rev(base, stack)) then
        return care.plain_conflict('stack', stack, server, local);
    end if;
    update care.stack as x set name = coalesce(doc ->> 'name', x.name) where x.id = stack;
    if items is not null then
        perform care.write_items(stack, items);
    end if;
    perform care.tell_now();
    return care.done('applied', care.stack_shown(who, stack));
end
$$;

-- care.delete_stack: with its items and schedules, whose scheduled doses ahead the planner cancels. What is not there is
-- deleted already. Lock order: the stack, schedules, doses.
create or replace function care.delete_stack(who text, stack text, base jsonb) returns sync.verdict
language plpgsql
as $$
declare
    server jsonb;
    was bigint;
begin
    perform from care.stack as x where x.id = stack and x.user_id = who for update;
    if not found then
        return row('noop', '{}'::jsonb, null, false)::sync.verdict;
    end if;
    server := care.stack_shown(who, stack);
    if not care.seen(who, 'stack', stack, care.base_rev(base, stack)) then
        return care.plain_conflict('stack', stack, server, '{}');
    end if;
    delete from care.stack as x where x.id = stack;
    perform care.tell_now();
    select l.rev into was from care.listed as l where l.user_id = who and l.kind = 'stack' and l.id = stack;
    return care.done('applied', jsonb_build_object('id', stack, 'rev', was));
end
$$;
