-- care.act: what sync.settle hands the types of doses to: judges an action and carries it out. `base` and `client_time` null where they
-- are absent. The resolve of a conflict of reminders or medications is theirs. Lock order: the doses by id.
create or replace function care.act(who text, key text, type text, doc jsonb, base jsonb, client_time jsonb, tz text)
returns sync.verdict
language plpgsql
as $$
declare
    clock constant timestamptz := sync.clock();
    verdict sync.verdict;
    target sync.action;
    time_field text;
    told jsonb;
    acted timestamptz;
    i care.intent;
begin
    client_time := care.believed(client_time, clock);
    if type = 'resolve' and doc ->> 'of' is not null then
        select * into target from sync.action as a where a.user_id = who and a.key = doc ->> 'of';
        if target.memo ? 'reminder' then
            return care.resolve_reminder(who, key, target, doc, base, client_time, clock);
        elsif target.memo ? 'medication' then
            return care.resolve_medication(who, key, target, doc, base, client_time, tz);
        end if;
    end if;
    verdict := care.request_problem(type, doc, base, client_time, tz, clock);
    if verdict.status is not null then
        return verdict;
    end if;
    acted := care.acted_at(care.time_of(client_time), clock);
    case type
        when 'bulkMarkAll' then return care.bulk(who, key, doc, base, client_time, tz, clock);
        when 'undo' then return care.undo(who, key, doc ->> 'targetKey', base, acted, clock);
        when 'resolve' then return care.resolve(who, key, doc, base, acted, clock);
        else null;
    end case;
    i.kind := 'act';
    i.id := doc ->> 'occurrenceId';
    i.rev := care.base_rev(base, i.id);
    i.note := doc ->> 'note';
    i.acted_at := acted;
    if type in ('markTaken', 'makeUp') then
        time_field := case when type = 'makeUp' and care.given(doc, 'at') is not null then 'at'
                           when care.given(doc, 'takenAt') is not null then 'takenAt' end;
        told := case when time_field is null then client_time else doc -> time_field end;
        i.taken_at := least(care.time_of(told), clock);
        i.taken_offset := care.offset_of(told);
        i.time_path := 'payload.' || time_field;
    end if;
    case type
        when 'markTaken' then
            i.status := 'taken';
        when 'markMissed' then
            i.status := 'missed';
        when 'makeUp' then
            i.status := 'made_up';
            i.reason := doc ->> 'reason';
        when 'skip' then
            i.status := 'skipped';
            i.reason := doc ->> 'reason';
        else
            i.note := coalesce(doc ->> 'text', doc ->> 'note');
    end case;
    return care.carry_one(who, key, i, clock);
end
$$;
