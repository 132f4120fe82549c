-- sync.hub_hello: what a hub asks first on each connection. No locks.
drop function if exists sync.hub_hello();
create function sync.hub_hello()
returns table(snapshot pg_snapshot, schema_version int, system_identifier text, timeline int, in_recovery boolean,
              database text, epoch text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select pg_current_snapshot(), coalesce((select max(version) from sync.migration), 0), c.system_identifier::text,
           sync.timeline(), pg_is_in_recovery(), current_database()::text, (select m.epoch from sync.meta as m)
    from pg_control_system() as c
$$;
