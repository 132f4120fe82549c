-- What is kept of an action for its undo and its resolve. No locks.

-- care.same_notes: the actions whose note is the dose's as it came with the revision `rev`, and what was there before: the one
-- that brought it, and those that added the same again while it stood. Those that were undone are not among them. In SQL, to
-- be planned with its callers, who want one row: where all notes are equal, the first one that is looked at is one.
create or replace function care.same_notes(d care.dose_occurrence, rev bigint) returns table(key text, before text)
language sql stable rows 1
as $$
    select n.key, e #>> '{note,before}'
    from (select * from care.dose_note as n
          where n.user_id = (d).user_id and n.occurrence_id = (d).id and n.text = (d).note offset 0) as n
    cross join lateral (select a.memo -> 'undo' as undo from sync.action as a
                        where a.user_id = n.user_id and a.key = n.key offset 0) as a
    cross join lateral jsonb_array_elements(case jsonb_typeof(a.undo) when 'array' then a.undo else '[]' end) as e
    where e ->> 'id' = (d).id and (e ->> 'noteRev')::bigint = rev and (e ->> 'createdAt')::timestamptz = (d).created_at
$$;

-- care.undo_entry: how to take back what one action did to one dose: each part as it was, and the revision it then got.
create or replace function care.undo_entry(was care.dose_occurrence, d care.dose_occurrence, note text) returns jsonb
language plpgsql
as $$
declare
    entry jsonb := '{}';
    before text := was.note;
begin
    if (was.status, was.taken_at, was.reason, was.taken_offset)
        is distinct from (d.status, d.taken_at, d.reason, d.taken_offset)
    then
        entry := jsonb_build_object(
            'statusRev', d.status_rev,
            'set', jsonb_build_object('status', was.status, 'takenAt', was.taken_at, 'takenOffset', was.taken_offset,
                                      'reason', was.reason));
    end if;
    if note is not null then
        if note = was.note then
            -- What was there before the first of them: each may be the one that is undone last.
            select n.before into before from care.same_notes(was, was.note_rev) as n limit 1;
            if not found then
                before := was.note;
            end if;
        end if;
        entry := entry || jsonb_build_object('noteRev', d.note_rev, 'note', jsonb_build_object('before', before));
    end if;
    return entry || jsonb_build_object('id', d.id, 'createdAt', d.created_at);
end
$$;

-- care.pending_entry: an intent that met a conflict, and the revision that the conflict showed (0: there was no dose).
create or replace function care.pending_entry(i care.intent, d care.dose_occurrence) returns jsonb
language plpgsql
as $$
declare
    entry jsonb := jsonb_build_object('id', i.id, 'rev', coalesce(d.rev, 0), 'createdAt', d.created_at);
begin
    if i.status is not null then
        entry := entry || jsonb_build_object(
            'set', jsonb_build_object('status', i.status, 'takenAt', i.taken_at, 'takenOffset', i.taken_offset,
                                      'reason', i.reason));
    end if;
    if i.note is not null then
        entry := entry || jsonb_build_object('note', i.note);
    end if;
    return entry;
end
$$;

-- care.memo: both lists; null where there is neither.
create or replace function care.memo(single boolean, undo jsonb, pending jsonb) returns jsonb
language plpgsql
as $$
begin
    return case when undo is not null or pending is not null
                then jsonb_build_object('single', single, 'undo', undo, 'pending', pending) end;
end
$$;

-- care.intent_of: such an entry as an intent again, of the kind given; `rev`: what the device names as seen; `note_key`: of
-- an undo, the action it takes back. An undo that did not set the status leaves it alone.
drop function if exists care.intent_of(jsonb, text, bigint, jsonb, text);
create or replace function care.intent_of(entry jsonb, kind text, rev bigint, merged jsonb, note_key text, acted timestamptz)
returns care.intent
language plpgsql
as $$
declare
    i care.intent;
begin
    i.kind := kind;
    i.id := entry ->> 'id';
    i.rev := rev;
    i.merged := merged;
    i.born := (entry ->> 'createdAt')::timestamptz;
    i.note_key := note_key;
    i.time_path := 'payload.of';
    i.acted_at := acted;
    i.status := entry #>> '{set,status}';
    i.taken_at := care.time_of(nullif(entry #> '{set,takenAt}', 'null'));
    i.taken_offset := (entry #>> '{set,takenOffset}')::int;
    i.reason := entry #>> '{set,reason}';
    if kind in ('undo', 'late') then
        i.note := entry #>> '{note,before}';
        i.status_rev := (entry ->> 'statusRev')::bigint;
        i.note_rev := (entry ->> 'noteRev')::bigint;
    else
        i.note := entry ->> 'note';
    end if;
    return i;
end
$$;

-- care.corrections: how many missed doses an action has turned into taken ones: a phone that was offline came late. By what
-- they were before, which its memo has for its undo.
create or replace function care.corrections(type text, answer jsonb, memo jsonb) returns int
language plpgsql
as $$
begin
    if type not in ('markTaken', 'bulkMarkAll', 'resolve')
        or type = 'resolve' and answer #>> '{result,status}' is distinct from 'taken'
        or jsonb_typeof(memo -> 'undo') is distinct from 'array'
    then
        return 0;
    end if;
    return (select count(*) from jsonb_array_elements(memo -> 'undo') as e where e #>> '{set,status}' = 'missed');
end
$$;
