-- What a change of a reminder meets on the server.
--
-- A merge has three sides, field by field: the rule as the device knew it, as it is now, and as the person wants it. What was sent
-- along unchanged says nothing. What only the person changed is taken, what both changed to the same is there, and what both
-- changed to different values is a conflict, of the whole action. So is what others changed, and changed back: somebody has
-- decided about it since, perhaps just what is wanted here. Worst interleaving: seed 001 sends what was done without a network
-- twice, by its queue and by requests of its own. The queue sets the time, and sets it back; then comes the first request, of the
-- revision before both. A device knew the rule of the revision that it names, and what it has
-- changed itself since, or asked for and found done: its actions come in order, so several of one queue may name the same
-- revision. Without a revision what the person wants goes before what is there. With one that nobody knows, each field that
-- differs is a conflict.

-- care.found_done: the memo of a change: the fields that the rule has already as the person wants them, for another device came
-- first. This device knows them from now on. Null where there are none, or the device is not known. No locks.
create or replace function care.found_done(r care.reminder_rule, wanted jsonb, server jsonb, known jsonb) returns jsonb
language plpgsql stable
as $$
declare
    said jsonb;
begin
    if coalesce(current_setting('sync.device', true), '') <> '' then
        select jsonb_object_agg(e.key, e.value) into said from jsonb_each(wanted) as e
        where e.value = server -> e.key and e.value is distinct from known -> e.key;
    end if;
    return case when said is not null
                then jsonb_build_object('said', jsonb_build_object('id', r.id, 'rev', r.rev, 'fields', said)) end;
end
$$;

-- care.changes_since: what happened to a rule's fields after a revision, in order: the values that they got, and whether the device
-- knows of it: it changed them itself, or found them so. A change that brought the rule back is one. No locks.
create or replace function care.changes_since(r care.reminder_rule, base bigint)
returns table(is_own boolean, changed jsonb)
language plpgsql stable rows 5
as $$
declare
    own constant text := nullif(current_setting('sync.device', true), '');
begin
    return query
    select c.is_own, coalesce((
        select jsonb_object_agg(e.key, e.value) from jsonb_each(c.now) as e where c.was -> e.key is distinct from e.value), '{}')
    from (
        select coalesce(l.device = own, false) as is_own,
               care.rule_fields(jsonb_populate_record(null::care.reminder_rule, coalesce(l.was, (
                   select d.was from care.reminder_audit as d
                   where d.rule_id = l.rule_id and d.user_id = l.user_id and d.n < l.n order by d.n desc limit 1)))) as was,
               care.rule_fields(jsonb_populate_record(null::care.reminder_rule, l."is")) as now, l.rev, null::timestamptz as at
        from care.reminder_audit as l
        where l.rule_id = r.id and l.user_id = r.user_id and l.rev > base and l."is" is not null
        union all
        select true, '{}', b.memo #> '{said,fields}', (b.memo #>> '{said,rev}')::bigint, b.created_at
        from sync.action as b
        where b.user_id = r.user_id and b.device_id = own and b.memo #>> '{said,id}' = r.id
            and (b.memo #>> '{said,rev}')::bigint > base
            and b.created_at >= coalesce((
                select min(l.at) from care.reminder_audit as l
                where l.rule_id = r.id and l.user_id = r.user_id and l.rev = base), '-infinity')
    ) as c
    order by c.rev, c.at nulls first;
end
$$;

-- care.known_fields: what a device knew of a rule: at `base`, with its own changes since, and with what it found done; null where
-- nobody knows. No locks.
create or replace function care.known_fields(r care.reminder_rule, base bigint) returns jsonb
language plpgsql stable
as $$
declare
    seen constant care.reminder_rule := care.rule_at(r.user_id, r.id, base);
    known jsonb;
    own jsonb;
begin
    if seen.id is null then
        return null;
    end if;
    known := care.rule_fields(seen);
    if base < r.rev then
        for own in select c.changed from care.changes_since(r, base) as c where c.is_own loop
            known := known || own;
        end loop;
    end if;
    return known;
end
$$;

-- care.unseen_fields: what others have changed of a rule after a revision, be it back to what it was, and the device has not changed
-- or found since. No locks.
create or replace function care.unseen_fields(r care.reminder_rule, base bigint) returns text[]
language plpgsql stable
as $$
declare
    unseen text[] := '{}';
    c record;
begin
    if base < r.rev then
        for c in select * from care.changes_since(r, base) loop
            unseen := array(select f from unnest(unseen) as f where not c.changed ? f)
                || case when not c.is_own then array(select jsonb_object_keys(c.changed)) end;
        end loop;
    end if;
    return unseen;
end
$$;

drop function if exists care.merged(jsonb, jsonb, jsonb);

-- care.merged: which of the wanted fields are taken, and which are in conflict. `known` null: nobody knows. `unseen`:
-- care.unseen_fields. No locks.
create or replace function care.merged(wanted jsonb, server jsonb, known jsonb, unseen text[],
                                       out taken jsonb, out conflicts text[])
language plpgsql immutable
as $$
declare
    field text;
begin
    taken := '{}';
    conflicts := '{}';
    foreach field in array care.rule_names() loop
        continue when not wanted ? field or wanted -> field = server -> field or wanted -> field = known -> field;
        if known -> field = server -> field and field <> all(unseen) then
            taken := taken || jsonb_build_object(field, wanted -> field);
        else
            conflicts := conflicts || field;
        end if;
    end loop;
end
$$;

-- care.rule_conflict: the verdict on what a person must decide: with `merge`, what is taken goes in, and the server has the rest.
-- `r` null: the rule is gone. `pending`: what resolve needs to know. No locks.
create or replace function care.rule_conflict(code text, id text, r care.reminder_rule, known jsonb, local jsonb,
                                              conflicts text[], taken jsonb, options jsonb, pending jsonb,
                                              clock timestamptz) returns sync.verdict
language plpgsql stable
as $$
declare
    server jsonb;
    merged jsonb;
begin
    if r.id is not null then
        merged := care.rule_shown(r, clock) - 'upcoming';
        server := merged || jsonb_build_object('changedBy', (
            select jsonb_build_object('actor', a.actor, 'deviceId', a.device, 'key', a.key, 'at', a.at)
            from care.reminder_audit as a where a.rule_id = r.id and a.user_id = r.user_id order by a.n desc limit 1));
        merged := merged - 'nextOccurrences';
    end if;
    return row('conflict', jsonb_build_object(
        'code', code,
        'message', case code when 'field' then 'the same field has been changed to something else since'
                             when 'gone' then 'this reminder is not there any more' else 'it has been changed since' end,
        'conflict', jsonb_build_object(
            'code', code, 'entity', jsonb_build_object('type', 'reminder', 'id', id), 'server', server, 'base', known,
            'local', local, 'options', options, 'merged', coalesce(merged, '{}') || taken,
            'fields', (
                select coalesce(jsonb_agg(jsonb_build_object('name', f.name, 'base', known -> f.name,
                                                             'server', server -> f.name, 'local', local -> f.name)
                                          order by f.place), '[]')
                from unnest(conflicts) with ordinality as f(name, place)))),
        jsonb_build_object('reminder', pending), false)::sync.verdict;
end
$$;

-- care.target_problem: what is wrong with a rule's new medication or stack: it is somebody else's, or stopped, or was in the
-- list and is not there any more; a stack is the user's, and may be filled later. A medication that Carillon has never known
-- is the app's own, and one that was stopped after the person acted is no mistake. Of another's no more is told than of none.
-- No locks.
create or replace function care.target_problem(r care.reminder_rule) returns sync.verdict
language plpgsql stable
as $$
declare
    p care.product;
begin
    if r.stack_id is not null then
        if not exists (select from care.stack as k where k.id = r.stack_id and k.user_id = r.user_id) then
            return care.unknown('payload.stackId', 'names no stack');
        elsif (
            select bool_and(care.was_archived(x.archived_at))
            from care.stack_item as i join care.product as x on x.id = i.product_id where i.stack_id = r.stack_id)
        then
            return care.invalid('payload.stackId', 'names a stack whose medications are archived');
        end if;
        return null;
    end if;
    select * into p from care.product as x where x.id = r.product_id;
    if p.user_id <> r.user_id then
        return care.unknown('payload.productId', 'names no medication');
    elsif care.was_archived(p.archived_at) then
        return care.invalid('payload.productId', 'names a medication that is archived');
    elsif p.archived_at is null and care.is_silent(r.user_id, r.product_id, null) then
        return care.unknown('payload.productId', 'names no medication');
    end if;
    return null;
end
$$;

-- care.rule_problem: what a rule as a whole says; `was`: the rule before (all null: it is new). A linked one takes its schedule's time,
-- days and zone; while it is linked, these are changed there. Lock order: the schedule (SHARE).
create or replace function care.rule_problem(r care.reminder_rule, was care.reminder_rule) returns sync.verdict
language plpgsql
as $$
declare
    s care.schedule;
begin
    if num_nonnulls(r.product_id, r.stack_id) <> 1 then
        return care.invalid('payload.productId', 'is required, or stackId');
    elsif (r.applies_to = 'stack') is distinct from (r.stack_id is not null) then
        return care.invalid('payload.appliesTo', 'must be stack beside stackId, and item beside productId');
    elsif r.schedule_id is not null then
        select * into s from care.schedule as x where x.id = r.schedule_id and x.user_id = r.user_id for share;
        if s.id is null then
            return care.unknown('payload.scheduleId', 'names no schedule');
        elsif (s.product_id, s.stack_id) is distinct from (r.product_id, r.stack_id) then
            return care.invalid('payload.scheduleId', 'is of another medication or stack');
        elsif was.schedule_id is distinct from r.schedule_id then
            return case when s.repeat = 'as_needed' then care.invalid('payload.scheduleId', 'has no time: it is as needed') end;
        elsif r.time <> was.time then
            return care.invalid('payload.time', 'is that of its schedule');
        elsif (r.repeat, r.repeat_on) is distinct from (was.repeat, was.repeat_on) then
            return care.invalid('payload.repeat', 'is that of its schedule');
        elsif (r.timezone, r.tz_mode) is distinct from (was.timezone, was.tz_mode) then
            return care.invalid('payload.timezone', 'is that of its schedule');
        end if;
        return null;
    end if;
    if r.time is null then
        return care.invalid('payload.time', 'is required, or a preset that has one');
    elsif r.repeat = 'custom' and coalesce(cardinality(r.repeat_on), 0) = 0 then
        return care.invalid('payload.repeatOn', 'is required');
    end if;
    return null;
end
$$;
