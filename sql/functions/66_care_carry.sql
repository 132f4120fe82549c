-- Carrying intents out: lock, decide, write, tell. `note_key`: under which a note is added; of an undo, the key of the
-- action whose note goes.

-- care.write_note: the set of notes, as an intent leaves it. A note that came with a status, for a dose with all the notes it
-- may have, stands on the dose alone, until the next one. Locks: its row.
create or replace function care.write_note(who text, i care.intent, note text, note_key text, clock timestamptz)
returns void
language plpgsql
as $$
begin
    if note is not null then
        insert into care.dose_note (user_id, occurrence_id, key, text, created_at)
        select who, i.id, note_key, note, clock where not care.notes_full(who, i.id)
        on conflict (user_id, occurrence_id, key) do nothing;
    elsif i.kind = 'undo' and i.note_rev is not null then
        delete from care.dose_note as n where n.user_id = who and n.occurrence_id = i.id and n.key = note_key;
    end if;
end
$$;

-- care.carry_one: one dose; the answer has it, or its conflict, at the top. Lock order: the dose.
create or replace function care.carry_one(who text, note_key text, i care.intent, clock timestamptz)
returns sync.verdict
language plpgsql
as $$
declare
    was care.dose_occurrence;
    d care.dose_occurrence;
    r care.ruling;
    undo jsonb;
begin
    select * into was from care.dose_occurrence as o where o.id = i.id and o.user_id = who for update;
    r := care.rule(i, was, clock);
    if r.path is not null then
        return care.invalid(r.path, care.message(r.code, i.kind, i.rev is not null));
    elsif r.status = 'rejected' then
        return row(r.status, jsonb_build_object('code', r.code, 'message', care.message(r.code, i.kind, i.rev is not null)),
                   null, false)::sync.verdict;
    elsif r.status = 'conflict' then
        return row(
            r.status,
            jsonb_build_object('code', r.code, 'message', care.message(r.code, i.kind, i.rev is not null),
                               'conflict', care.conflict(i, was, r.code,
                                   care.seen_states(who, array[i.id], array[i.rev]) -> i.id)),
            care.memo(true, null, jsonb_build_array(care.pending_entry(i, was))), false)::sync.verdict;
    end if;
    d := was;
    if r.status = 'applied' then
        if r.dose *<> was then
            update care.dose_occurrence as o
            set status = (r.dose).status, taken_at = (r.dose).taken_at, taken_offset = (r.dose).taken_offset,
                reason = (r.dose).reason, note = (r.dose).note
            where o.id = i.id
            returning o.* into d;
        end if;
        perform care.write_note(who, i, r.note, note_key, clock);
        if i.kind <> 'undo' then
            undo := jsonb_build_array(care.undo_entry(was, d, r.note));
        end if;
    end if;
    return row(
        r.status,
        case when d.id is null then '{}'::jsonb else jsonb_build_object('result', care.dose_json(d)) end,
        care.memo(true, undo, null), false)::sync.verdict;
end
$$;

-- care.verdict_of_many: the status of the whole, from its items'.
create or replace function care.verdict_of_many(items jsonb, kind text, undo jsonb, pending jsonb) returns sync.verdict
language plpgsql
as $$
declare
    counts jsonb;
    applied int;
    noop int;
    conflict int;
    rejected int;
    told jsonb;
    answer jsonb;
    status text;
begin
    select count(*) filter (where e ->> 'status' = 'applied'), count(*) filter (where e ->> 'status' = 'noop'),
           count(*) filter (where e ->> 'status' = 'conflict'), count(*) filter (where e ->> 'status' = 'rejected')
    into applied, noop, conflict, rejected
    from jsonb_array_elements(items) as e;
    counts := jsonb_build_object('applied', applied, 'noop', noop, 'conflict', conflict, 'rejected', rejected);
    answer := jsonb_build_object('result', jsonb_build_object('items', items, 'counts', counts));
    if conflict + rejected = 0 then
        status := case when applied > 0 then 'applied' else 'noop' end;
    elsif applied + noop > 0 then
        status := 'partial';
    else
        status := case when conflict > 0 then 'conflict' else 'rejected' end;
        select e into told from jsonb_array_elements(items) with ordinality as t(e, place)
        where e ->> 'status' = status order by place limit 1;
        answer := answer || jsonb_strip_nulls(jsonb_build_object(
            'code', told -> 'code', 'path', told -> 'path', 'message', care.message(told ->> 'code', kind, told #>> '{conflict,base}' is not null)));
    end if;
    return row(status, answer, care.memo(false, undo, pending), false)::sync.verdict;
end
$$;

-- care.carry_many: any number of doses, each once; those that can be written are written together, by one UPDATE. The
-- answer has an item for each intent, in their order. Lock order: the doses by id.
create or replace function care.carry_many(who text, note_key text, intents care.intent[], clock timestamptz)
returns sync.verdict
language plpgsql
as $$
declare
    ids text[] := array(select i.id from unnest(intents) as i);
    i care.intent;
    was care.dose_occurrence;
    d care.dose_occurrence;
    r care.ruling;
    before care.dose_occurrence[];
    rulings care.ruling[];
    item jsonb;
    items jsonb[] := '{}';
    undo jsonb[];
    pending jsonb[];
    revs bigint[] := '{}';
    seen jsonb;
    place int := 0;
begin
    perform from care.dose_occurrence as o
    where o.id = any(ids) and o.user_id = who
    order by o.id collate "C"
    for update;
    before := array(
        select found.dose from unnest(ids) with ordinality as asked(id, n)
        left join lateral (
            select o as dose from care.dose_occurrence as o where o.id = asked.id and o.user_id = who offset 0
        ) as found on true
        order by asked.n);
    foreach i in array coalesce(intents, '{}') loop
        place := place + 1;
        r := care.rule(i, before[place], clock);
        rulings[place] := r;
        revs[place] := case r.status when 'conflict' then i.rev end;
        if r.status = 'applied' then
            perform care.write_note(who, i, r.note, note_key, clock);
        end if;
    end loop;
    update care.dose_occurrence as o
    set status = (w.dose).status, taken_at = (w.dose).taken_at, taken_offset = (w.dose).taken_offset,
        reason = (w.dose).reason, note = (w.dose).note
    from (select n.dose from unnest(rulings) as n where n.status = 'applied') as w
    where o.id = (w.dose).id;

    seen := care.seen_states(who, ids, revs);
    place := 0;
    foreach i in array coalesce(intents, '{}') loop
        place := place + 1;
        r := rulings[place];
        was := before[place];
        item := jsonb_strip_nulls(jsonb_build_object('occurrenceId', i.id, 'status', r.status, 'code', r.code,
                                                        'path', r.path));
        if r.status = 'conflict' then
            item := item || jsonb_build_object('conflict', care.conflict(i, was, r.code, seen -> i.id));
            pending := pending || care.pending_entry(i, was);
        elsif r.status <> 'rejected' and was.id is not null then
            select * into d from care.dose_occurrence as o where o.id = i.id;
            item := item || jsonb_build_object('occurrence', care.dose_json(d));
            if r.status = 'applied' and i.kind <> 'undo' then
                undo := undo || care.undo_entry(was, d, r.note);
            end if;
        end if;
        items := items || item;
    end loop;
    return care.verdict_of_many(to_jsonb(items), i.kind, to_jsonb(undo), to_jsonb(pending));
end
$$;
