-- Actions on schedules. Lock order: the product or the stack, the schedule, doses; then the flush.

-- care.read_schedule: a schedule with the members that a payload has; null takes away what may be missing. No locks.
create or replace function care.read_schedule(s care.schedule, doc jsonb) returns care.schedule
language plpgsql stable
as $$
begin
    s.repeat := coalesce(doc ->> 'repeat', s.repeat);
    s.repeat_on := case when care.given(doc, 'repeatOn') is not null
                        then array(select t.v::numeric::smallint from jsonb_array_elements_text(doc -> 'repeatOn') as t(v) order by 1)
                        else s.repeat_on end;
    if s.repeat <> 'custom' then
        s.repeat_on := null;
    end if;
    s.time := case when doc ? 'time' then (doc ->> 'time')::time when s.repeat = 'as_needed' then null else s.time end;
    s.dose := case when doc ? 'dose' then doc ->> 'dose' else s.dose end;
    s.window_minutes := coalesce((doc ->> 'windowMinutes')::numeric::int, s.window_minutes);
    s.starts_on := case when doc ? 'startsOn' then (doc ->> 'startsOn')::date else s.starts_on end;
    s.ends_on := case when doc ? 'endsOn' then (doc ->> 'endsOn')::date else s.ends_on end;
    s.tz_mode := coalesce(doc ->> 'tzMode', s.tz_mode);
    s.timezone := coalesce(doc ->> 'timezone', s.timezone);
    s.enabled := coalesce((doc ->> 'enabled')::boolean, s.enabled);
    return s;
end
$$;

-- care.create_schedule: of a product or a stack. It fills from startsOn on in this transaction, 90 days back at most (the
-- planner). A repeat under another key is no second one. Lock order: the product (SHARE: an archiving waits, or is seen),
-- the schedule, doses.
create or replace function care.create_schedule(who text, doc jsonb) returns sync.verdict
language plpgsql
as $$
declare
    s care.schedule;
    p care.product;
    verdict sync.verdict;
begin
    if (care.given(doc, 'productId') is null) = (care.given(doc, 'stackId') is null) then
        return care.invalid('payload.productId', 'is required, or stackId, and not both');
    end if;
    select * into s from care.schedule as x where x.id = doc ->> 'id';
    if s.user_id = who then
        return care.done('noop', care.schedule_json(s));
    elsif s.id is not null then
        return care.invalid('payload.id', 'is in use');
    elsif care.given(doc, 'stackId') is not null then
        -- Who deletes a product has it, and waits for its stacks: products go first.
        perform care.hold_products(array(select i.product_id from care.stack_item as i where i.stack_id = doc ->> 'stackId'));
        perform from care.stack as k where k.id = doc ->> 'stackId' and k.user_id = who for share;
        if not found then
            return care.unknown('payload.stackId', 'names no stack');
        end if;
    else
        select * into p from care.product as x
        where x.id = doc ->> 'productId' and (x.user_id = who or x.user_id is null) for share;
        if p.id is null then
            return care.unknown('payload.productId', 'names no medication');
        elsif care.was_archived(p.archived_at) then
            return care.invalid('payload.productId', 'names a medication that is archived');
        end if;
    end if;
    s.id := doc ->> 'id';
    s.user_id := who;
    s.product_id := doc ->> 'productId';
    s.stack_id := doc ->> 'stackId';
    s.repeat := case doc ->> 'frequency' when 'weekly' then 'custom' when 'as_needed' then 'as_needed' else 'daily' end;
    s.window_minutes := 240;
    s.enabled := true;
    s.tz_mode := 'follow';
    s.timezone := care.zone_of(who);
    s := care.read_schedule(s, doc);
    if doc ->> 'frequency' in ('twice_daily', 'custom') then
        return care.invalid('payload.frequency', 'must be one of daily, weekly, as_needed');
    end if;
    verdict := care.repeat_problem(s);
    if verdict.status is not null then
        return verdict;
    end if;
    insert into care.schedule (id, user_id, product_id, stack_id, time, repeat, repeat_on, dose, window_minutes, starts_on,
                               ends_on, enabled, timezone, tz_mode)
    values (s.id, s.user_id, s.product_id, s.stack_id, s.time, s.repeat, s.repeat_on, s.dose, s.window_minutes, s.starts_on,
            s.ends_on, s.enabled, s.timezone, s.tz_mode);
    perform care.ask_once(who, care.products_of(s));
    select * into s from care.schedule as x where x.id = s.id;
    return care.done('applied', care.schedule_json(s));
end
$$;

-- care.products_of: what a schedule gives. No locks.
create or replace function care.products_of(s care.schedule) returns text[]
language sql stable
begin atomic
    select case when (s).product_id is not null then array[(s).product_id]
                else array(select i.product_id from care.stack_item as i where i.stack_id = (s).stack_id) end;
end;

-- care.update_schedule: the members that the payload has. Locks: the schedule, doses.
create or replace function care.update_schedule(who text, doc jsonb, base jsonb) returns sync.verdict
language plpgsql
as $$
declare
    was care.schedule;
    s care.schedule;
    verdict sync.verdict;
    local constant jsonb := doc - 'id' - (
        select coalesce(array_agg(k), '{}') from jsonb_object_keys(doc) as k
        where k <> all('{repeat,repeatOn,time,dose,windowMinutes,startsOn,endsOn,timezone,tzMode,enabled}'));
begin
    select * into was from care.schedule as x where x.id = doc ->> 'id' and x.user_id = who for no key update;
    if was.id is null then
        return care.plain_conflict('schedule', doc ->> 'id', null, local);
    end if;
    s := care.read_schedule(was, doc);
    if s *= was then
        return care.done('noop', care.schedule_json(was));
    elsif was.rev > care.base_rev(base, was.id) then
        return care.plain_conflict('schedule', was.id, care.schedule_json(was), local);
    end if;
    verdict := care.repeat_problem(s);
    if verdict.status is not null then
        return verdict;
    end if;
    update care.schedule as x
    set time = s.time, repeat = s.repeat, repeat_on = s.repeat_on, dose = s.dose, window_minutes = s.window_minutes,
        starts_on = s.starts_on, ends_on = s.ends_on, enabled = s.enabled, timezone = s.timezone, tz_mode = s.tz_mode
    where x.id = s.id;
    perform care.ask_once(who, care.products_of(s));
    select * into s from care.schedule as x where x.id = s.id;
    return care.done('applied', care.schedule_json(s));
end
$$;

-- care.delete_schedule: its scheduled doses ahead are cancelled by the planner; history stays. What is not there is deleted
-- already. With the last schedule of a medication or stack, its reminders are switched off. Locks: the schedule, doses, rules.
create or replace function care.delete_schedule(who text, schedule text, base jsonb) returns sync.verdict
language plpgsql
as $$
declare
    s care.schedule;
begin
    select * into s from care.schedule as x where x.id = schedule and x.user_id = who for update;
    if s.id is null then
        return row('noop', '{}'::jsonb, null, false)::sync.verdict;
    elsif s.rev > care.base_rev(base, s.id) then
        return care.plain_conflict('schedule', s.id, care.schedule_json(s), '{}');
    end if;
    delete from care.schedule as x where x.id = s.id;
    perform care.ask_once(who, care.products_of(s));
    -- As of rules that are linked to it.
    if not exists (select from care.product as p where p.id = s.product_id and p.user_id is null) then
        update care.reminder_rule as r set enabled = false
        where r.user_id = who and r.schedule_id is null and r.enabled
            and care.given_by(s, who, r.product_id, r.stack_id) is not null
            and care.gives_until(who, r.product_id, r.stack_id) is null;
    end if;
    return care.done('applied', jsonb_build_object('id', s.id, 'rev', s.rev + 1));
end
$$;
