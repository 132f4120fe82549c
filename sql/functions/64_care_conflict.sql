-- What a conflict tells, so that the user can choose. No locks.

-- care.message: a verdict's code in words. `has_base`: the device said which revision the user saw.
drop function if exists care.message(text, text);
create or replace function care.message(code text, kind text, has_base boolean) returns text
language sql immutable
as $$
    select case code
        when 'state' then case when has_base then 'the status of the dose has been changed since'
                               else 'the dose has another status' end
        when 'late' then case kind when 'late' then 'more than 24 hours ago: it cannot be undone any more'
                                   else 'this time is outside the window of the dose: makeUp is the way' end
        when 'gone' then 'this dose is not there any more'
        when 'superseded' then 'the dose has been changed since'
        when 'not_due' then 'the time for this has not come yet'
        when 'too_many' then 'this dose has as many notes as a dose may have'
        when 'invalid' then 'lies more than a day before the window of the dose'
    end
$$;

-- care.seen_states: doses as the events with these revisions showed them, by id; those asked with null, and those of which no
-- event is among the last 5,000 of the stream, are missing. One walk through these, however many are asked.
create or replace function care.seen_states(who text, ids text[], revs bigint[]) returns jsonb
language plpgsql
as $$
begin
    if array_remove(revs, null) = '{}' then
        return '{}';
    end if;
    return (
        select coalesce(jsonb_object_agg(asked.id, e.data -> 'updates' order by e.o), '{}')
        from (
            select v.o, v.name, v.data from sync.event as v
            where v.user_id = who and v.topic = 'adherence' order by v.o desc limit 5000
        ) as e
        join unnest(ids, revs) as asked(id, rev)
            on asked.id = e.data ->> 'occurrenceId' and asked.rev::text = e.data #>> '{updates,rev}'
        where e.name like 'occurrence.%');
end
$$;

-- care.conflict: server, base (what the device had seen, or null) and local, the fields in which they differ, the choices,
-- and what `merge` would leave.
create or replace function care.conflict(i care.intent, d care.dose_occurrence, code text, base jsonb) returns jsonb
language plpgsql
as $$
declare
    names constant text[] := array['status', 'takenAt', 'reason', 'note'];
    local jsonb := jsonb_strip_nulls(jsonb_build_object(
        'status', i.status, 'takenAt', case when i.status is not null then i.taken_at end,
        'reason', case when i.status is not null then i.reason end, 'note', i.note));
    server jsonb;
    merged jsonb;
    fields jsonb := '[]';
    name text;
begin
    if d.id is not null then
        merged := care.dose_json(d);
        server := merged || jsonb_build_object('changedBy', jsonb_build_object(
            'actor', d.changed_by, 'deviceId', d.changed_device, 'key', d.changed_key, 'at', d.updated_at));
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
