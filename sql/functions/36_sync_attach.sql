-- sync.attach: the four triggers of a published table, made by whoever owns it. ENABLE ALWAYS: a session in replica role
-- publishes too. A trigger that stands as it should is left alone. Locks: the table (SHARE ROW EXCLUSIVE).
create or replace function sync.attach(relation regclass, recorder name) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    t record;
begin
    for t in
        select * from (values
            ('sync_insert', 'after insert', 'referencing new table as new_rows', recorder),
            ('sync_update', 'after update', 'referencing old table as old_rows new table as new_rows', recorder),
            ('sync_delete', 'after delete', 'referencing old table as old_rows', recorder),
            ('sync_truncate', 'before truncate', '', 'refuse_truncate')
        ) as v(name, event, transition, function)
    loop
        if not exists (
            select from pg_trigger
            where tgrelid = relation and tgname = t.name and tgenabled = 'A'
                and tgfoid = to_regprocedure(format('sync.%I()', t.function))
        ) then
            execute format('create or replace trigger %I %s on %s %s for each statement execute function sync.%I()',
                           t.name, t.event, relation, t.transition, t.function);
            execute format('alter table %s enable always trigger %I', relation, t.name);
        end if;
    end loop;
end
$$;
