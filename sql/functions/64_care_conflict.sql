-- What a conflict tells, so that the user can choose. No locks.

-- care.message: a verdict's code in words.
create or replace function care.message(code text, kind text) returns text
language sql immutable
as $$
    select case code
        when 'state' then 'the dose has another status by now'
        when 'late' then case kind when 'late' then 'more than 24 hours ago: it cannot be undone any more'
                                   else 'the window of this dose is over: makeUp is the way' end
        when 'gone' then 'this dose is not there any more'
        when 'superseded' then 'the dose has been changed since'
        when 'not_due' then 'the time for this has not come yet'
    end
$$;

-- care.seen_state: a dose as the event with this revision showed it; null where no event of the last days did.
create or replace function care.seen_state(who text, id text, rev bigint) returns jsonb
language plpgsql
as $$
declare
    seen jsonb;
begin
    if rev is not null then
        select e.data -> 'updates' into seen
        from sync.event as e
        where e.user_id = who and e.topic = 'adherence' and e.data ->> 'occurrenceId' = seen_state.id
            and e.data #>> '{updates,rev}' = seen_state.rev::text
        order by e.o desc
        limit 1;
    end if;
    return seen;
end
$$;

-- care.conflict: server, base and local, the fields in which they differ, the choices, and what `merge` would leave.
create or replace function care.conflict(who text, i care.intent, d care.dose_occurrence, code text) returns jsonb
language plpgsql
as $$
declare
    names constant text[] := array['status', 'takenAt', 'reason', 'note'];
    local jsonb := jsonb_strip_nulls(jsonb_build_object(
        'status', i.status, 'takenAt', case when i.status is not null then i.taken_at end,
        'reason', case when i.status is not null then i.reason end, 'note', i.note));
    base jsonb := care.seen_state(who, i.id, i.rev);
    server jsonb;
    merged jsonb;
    fields jsonb := '[]';
    name text;
begin
    if d.id is not null then
        merged := care.dose_json(d);
        server := merged || jsonb_build_object('changedBy', jsonb_build_object(
            'deviceId', d.changed_device, 'key', d.changed_key, 'at', d.updated_at));
        if i.note is not null then
            merged := merged || jsonb_build_object('note', i.note, 'hasNote', i.note <> '');
        end if;
    end if;
    foreach name in array names loop
        if local ? name and server -> name is distinct from local -> name then
            fields := fields || jsonb_build_object('name', name, 'base', base -> name, 'server', server -> name,
                                                   'local', local -> name);
        end if;
    end loop;
    return jsonb_build_object(
        'code', code, 'entity', jsonb_build_object('type', 'dose', 'id', i.id), 'server', server, 'base', base,
        'local', local, 'fields', fields, 'merged', merged,
        'options', case when d.id is null then '["accept_server"]'::jsonb
                        else '["keep_local", "accept_server", "merge"]' end);
end
$$;
