-- sync.lineage_here: what tells this database from any other that once was the same, the two restores of one backup among them:
--
--   system identifier   another cluster, which a dump was restored into
--   timeline            a standby was promoted, or files were restored and recovered up to some moment
--   oid                 the database was copied (CREATE DATABASE … TEMPLATE)
--   xmin of sync.meta   the row was written by a dump's restore, which cannot bring back the transaction that it names
--
-- Two recoveries from one backup both make timeline 2, and both find timeline 1 in sync.meta: each takes an epoch of its own.
-- Files put back as they were, on the same timeline, cannot be told from a crash: that takes `carillon migrate --new-epoch`.
-- Not by sync.lineage, which a session may have kept. No locks.
create or replace function sync.lineage_here(meta_xmin xid) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select concat_ws('.', to_hex(c.system_identifier), sync.timeline(), d.oid, meta_xmin)
        from pg_control_system() as c, pg_database as d
        where d.datname = current_database());
end
$$;

-- sync.new_epoch: every client must fetch anew (`carillon migrate --new-epoch`: for restores that cannot be seen). Hubs see it
-- with their next read of the tail, which is at once. One row is written, however many streams there are: an event that
-- is being numbered meanwhile is in the new epoch too, and offsets go on. It is written twice, for the lineage names the
-- transaction that writes it, or the subtransaction, whose id only the row tells. Lock order: sync.meta.
create or replace function sync.new_epoch() returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    fresh text := substr(md5(gen_random_uuid()::text), 1, 8);
begin
    update sync.meta set epoch = fresh;
    update sync.meta as m set lineage = sync.lineage_here(m.xmin);
    if current_setting('sync.notify', true) is distinct from 'off' then
        perform pg_notify('sync', '');
    end if;
    return fresh;
end
$$;

-- sync.repair_after_restore: a hub calls it before its first tail. A database that is another than when it was called last
-- (sync.lineage_here) begins a new epoch, which the server's log tells. A dump restored into another cluster brings events
-- and revocations whose transaction ids this cluster has not reached; the tail would show them again and again. They get
-- id 0, which is never new, and the epoch rotates. Returns how many there were; 0 is the usual answer. On a standby nothing is
-- done; its promotion is seen by the hub that connects after it.
--
-- Two hubs at once: the second waits for the row of sync.meta, and finds what the first has left.
-- Lock order: sync.meta, sync.event, sync.revocation.
create or replace function sync.repair_after_restore() returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    repaired bigint;
    revocations bigint;
begin
    if pg_is_in_recovery()
        or exists (select from sync.meta as m where m.lineage = sync.lineage_here(m.xmin))
            and not exists (select from sync.event where xid >= pg_snapshot_xmax(pg_current_snapshot()))
            and not exists (select from sync.revocation where xid >= pg_snapshot_xmax(pg_current_snapshot())) then
        return 0;
    end if;
    perform from sync.meta for update;
    update sync.event set xid = '0' where xid >= pg_snapshot_xmax(pg_current_snapshot());
    get diagnostics repaired = row_count;
    update sync.revocation set xid = '0' where xid >= pg_snapshot_xmax(pg_current_snapshot());
    get diagnostics revocations = row_count;
    repaired := repaired + revocations;
    if repaired > 0 or not exists (select from sync.meta as m where m.lineage = sync.lineage_here(m.xmin)) then
        perform sync.new_epoch();
        raise log 'this database was restored, copied or promoted: Carillon''s positions begin a new epoch';
    end if;
    return repaired;
end
$$;
