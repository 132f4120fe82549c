-- sync.dispatch: writes, by the table as it is now, sync.act, which hands an action to the function of its type,
-- sync.topics_of, which names the topics of a type, and sync.is_for_app, which says whether only the app may send it. In
-- SQL, so that all become a part of the statement that calls them, and are planned once for a session. Locks: those of the
-- three functions.
create or replace function sync.dispatch() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    calls text := '';
    topics text := '';
    of_app constant text := (
        select coalesce(string_agg(quote_literal(a.type), ', ' order by a.type), 'null') from sync.action_type as a where a.by_app);
    t record;
begin
    for t in
        select string_agg(quote_literal(a.type), ', ' order by a.type) as types, a.function, a.topics
        from sync.action_type as a group by a.function, a.topics order by 1
    loop
        calls := calls || format(' when type in (%s) then %s(who, key, type, doc, base, client_time, tz)', t.types, t.function);
        topics := topics || format(' when type in (%s) then %L::text[]', t.types, t.topics);
    end loop;
    execute format('
        create or replace function sync.act(who text, key text, type text, doc jsonb, base jsonb, client_time jsonb, tz text)
        returns sync.verdict language sql
        as $body$ select case when false then null%s else row(''rejected'', %L::jsonb, null, false)::sync.verdict end $body$',
        calls, '{"code": "invalid", "path": "type", "message": "is not a type of action"}');
    execute format('
        create or replace function sync.topics_of(type text) returns text[] language sql immutable
        as $body$ select case when false then null%s else ''{}''::text[] end $body$', topics);
    execute format('
        create or replace function sync.is_for_app(type text) returns boolean language sql immutable
        as $body$ select coalesce(type in (%s), false) $body$', of_app);
end
$$;

-- sync.check_action_type: before each row is written, whether its function can be called; behind the statement, what has been
-- written comes into force. Lock order: an advisory lock of its own (who writes at once, one after the other: the later one
-- must see the earlier's), then the functions that sync.dispatch writes.
create or replace function sync.check_action_type() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    arguments constant text := '(text, text, text, jsonb, jsonb, jsonb, text)';
    f regprocedure;
    full_name text;
begin
    if tg_level = 'STATEMENT' then
        if current_setting('transaction_isolation') <> 'read committed' then
            raise exception 'write sync.action_type in READ COMMITTED' using errcode = 'active_sql_transaction';
        end if;
        perform pg_advisory_xact_lock(hashtextextended('sync.action_type', 0));
        perform sync.dispatch();
        return null;
    end if;
    begin
        f := to_regprocedure(new.function || arguments);
    exception
        when insufficient_privilege then raise;  -- its schema is not carillon_owner's to look into
        when others then null;
    end;
    select format('%I.%I', n.nspname, p.proname) into full_name
    from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
    where p.oid = f and p.prorettype = 'sync.verdict'::regtype and not p.proretset and p.prokind = 'f' and n.nspname <> 'sync';
    if not found then
        raise exception '% is no function of % that returns sync.verdict, outside of schema sync', new.function, arguments
            using errcode = 'undefined_function', hint = 'Write its schema too: ''schema.function''.';
    elsif not has_function_privilege(f, 'execute') then
        raise exception '% may not call %', current_user, full_name
            using errcode = 'insufficient_privilege',
                hint = format('GRANT EXECUTE ON FUNCTION %s TO %I;', f, current_user);
    end if;
    new.function := full_name;
    return new;
end
$$;

create or replace trigger check_row before insert or update on sync.action_type
    for each row execute function sync.check_action_type();
create or replace trigger put_in_force after insert or update or delete or truncate on sync.action_type
    for each statement execute function sync.check_action_type();

-- The product's own. A rerun changes nothing, and puts right what somebody changed.
insert into sync.action_type as t (type, function, topics, by_app)
select type, own.function, own.topics, type = 'notify'
from (values
    ('care.act', '{adherence}'::text[], '{markTaken,markMissed,makeUp,skip,addNote,undo,bulkMarkAll}'::text[]),
    ('care.act', '{adherence,medications,reminders}', '{resolve}'),
    ('care.act_reminders', '{reminders}',
     '{createReminder,updateReminder,deleteReminder,snoozeReminder,setReminderOccurrence}'),
    ('care.act_medications', '{adherence}', '{logDose}'),
    ('care.act_medications', '{adherence,medications}', '{createMedication,createSchedule,createStack,updateStack}'),
    -- Reminders may be linked to schedules.
    ('care.act_medications', '{adherence,medications,reminders}',
     '{updateMedication,archiveMedication,updateSchedule,deleteSchedule,deleteStack,updateSettings}'),
    ('care.act_devices', '{reminders}', '{registerDevice,removeDevice,notify}')
) as own(function, topics, types)
cross join lateral unnest(own.types) as type
on conflict (type) do update set function = excluded.function, topics = excluded.topics, by_app = excluded.by_app
where (t.function, t.topics, t.by_app) is distinct from (excluded.function, excluded.topics, excluded.by_app);
select sync.dispatch();
