-- sync.timeline and sync.lineage: '<system identifier in hex>.<timeline>', the part of every epoch shown to clients that changes by itself
-- when the database is another or was promoted with a loss. The timeline of the running server, not that of its last
-- checkpoint, which lags behind a promotion. No locks.
create or replace function sync.timeline() returns int
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case when pg_is_in_recovery() then (select timeline_id from pg_control_checkpoint())
                else ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int end
$$;

create or replace function sync.lineage() returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select to_hex(system_identifier) || '.' || sync.timeline() from pg_control_system()
$$;
