-- sync.timeline and sync.lineage: '<system identifier in hex>.<timeline>', the part of every epoch shown to clients that changes by itself
-- when the database is another or was promoted with a loss. The timeline of the running server, not that of its last
-- checkpoint, which lags behind a promotion. No locks.
--
-- Both in plpgsql, whose plans stay with the session: a function in SQL that cannot be inlined is parsed and planned in
-- every transaction. A lineage is read from a file and changes only with a restart or a promotion: past recovery, a session
-- keeps it in its setting sync.lineage.
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
    lineage text := nullif(current_setting('sync.lineage', true), '');
begin
    if lineage is null then
        select to_hex(system_identifier) || '.' || sync.timeline() into lineage from pg_control_system();
        if not pg_is_in_recovery() then
            perform set_config('sync.lineage', lineage, false);
        end if;
    end if;
    return lineage;
end
$$;
