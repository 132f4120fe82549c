-- sync.triggers: the four triggers of a published table: as CREATE TRIGGER has them, and as pg_trigger does. No locks.
create or replace function sync.triggers(recorder name)
returns table(name name, event text, transition text, function name, type smallint, old_rows name, new_rows name)
language sql immutable rows 4
as $$
    values ('sync_insert'::name, 'after insert', 'referencing new table as new_rows', recorder, 4::smallint,
            null::name, 'new_rows'::name),
           ('sync_update', 'after update', 'referencing old table as old_rows new table as new_rows', recorder, 16::smallint,
            'old_rows', 'new_rows'),
           ('sync_delete', 'after delete', 'referencing old table as old_rows', recorder, 8::smallint, 'old_rows', null),
           ('sync_truncate', 'before truncate', '', 'refuse_truncate'::name, 34::smallint, null, null)
$$;

-- sync.missing_triggers: those of them that do not stand on the table as they should. ENABLE ALWAYS: a session in replica
-- role publishes too. Planned into its callers' statements. No locks.
create or replace function sync.missing_triggers(relation regclass, recorder name)
returns table(name name, event text, transition text, function name)
language sql stable rows 4
begin atomic
    select t.name, t.event, t.transition, t.function
    from sync.triggers(recorder) as t
    where not exists (
        select from pg_catalog.pg_trigger as g join pg_catalog.pg_proc as f on f.oid = g.tgfoid
        where g.tgrelid = relation and g.tgname = t.name and g.tgenabled = 'A' and g.tgtype = t.type
            and f.pronamespace = 'sync'::regnamespace and f.proname = t.function
            and g.tgoldtable is not distinct from t.old_rows and g.tgnewtable is not distinct from t.new_rows
            and g.tgqual is null and g.tgattr = ''
    );
end;

-- sync.detach: drops the table's triggers of these functions, but for those with the names that stay. Locks: the table (ACCESS
-- EXCLUSIVE), if there is one to drop.
create or replace function sync.detach(relation regclass, recorder name, staying name[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    t name;
begin
    for t in
        select g.tgname from pg_trigger as g join pg_proc as f on f.oid = g.tgfoid
        where g.tgrelid = relation and not g.tgisinternal and g.tgname <> all(staying)
            and f.pronamespace = 'sync'::regnamespace and f.proname in (recorder, 'refuse_truncate')
    loop
        execute format('drop trigger %I on %s', t, relation);
    end loop;
end
$$;

-- sync.attach: makes those triggers, as the table's owner. One that stands as it should is left alone; one that was renamed
-- goes, for it would record twice. Locks: the table (SHARE ROW EXCLUSIVE; for one that goes, ACCESS EXCLUSIVE).
create or replace function sync.attach(relation regclass, recorder name) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    t record;
begin
    perform sync.detach(relation, recorder, array(select s.name from sync.triggers(recorder) as s));
    for t in select * from sync.missing_triggers(relation, recorder) loop
        execute format('create or replace trigger %I %s on %s %s for each statement execute function sync.%I()',
                       t.name, t.event, relation, t.transition, t.function);
        execute format('alter table %s enable always trigger %I', relation, t.name);
    end loop;
end
$$;
