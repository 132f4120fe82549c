-- sync.timeline and sync.lineage: '<system identifier in hex>.<timeline>', the part of every epoch shown to clients that changes by itself
-- when the database is another or was promoted with a loss. The timeline of the running server, not that of its last
-- checkpoint, which lags behind a promotion. No locks.
--
-- Both in plpgsql, whose plans stay with the session: a function in SQL that cannot be inlined is parsed and planned in
-- every transaction. The system identifier, which is read from a file, cannot change under a session, and is kept in its
-- setting sync.system.
create or replace function sync.timeline() returns int
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_is_in_recovery() then
        return (select timeline_id from pg_control_checkpoint());
    end if;
    return ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int;
end
$$;

create or replace function sync.lineage() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    system text := nullif(current_setting('sync.system', true), '');
begin
    if system is null then
        select to_hex(system_identifier) into system from pg_control_system();
        perform set_config('sync.system', system, false);
    end if;
    return system || '.' || sync.timeline();
end
$$;
