-- sync.new_epoch: every client must fetch anew: for restores that change neither system identifier nor timeline
-- (`carillon migrate --new-epoch`). Hubs see it with their next read of the tail, which is at once. Lock order: sync.meta, then all of sync.stream in order.
create or replace function sync.new_epoch() returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    fresh text := substr(md5(gen_random_uuid()::text), 1, 8);
begin
    update sync.meta set epoch = fresh;
    perform from sync.stream order by user_id, topic for update;
    update sync.stream set epoch = fresh;
    if current_setting('sync.notify', true) is distinct from 'off' then
        perform pg_notify('sync', '');
    end if;
    return fresh;
end
$$;

-- sync.repair_after_restore: a dump restored into another cluster brings events whose transaction ids this cluster has not
-- reached; the tail would show them again and again. They get id 0, which is never new, and the epochs rotate. Likewise
-- revocations. Returns how many there were; 0, the usual answer, changes nothing. A hub calls it before its first tail.
-- Lock order: sync.meta, sync.event, sync.revocation, sync.stream.
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
    if not exists (select from sync.event where xid >= pg_snapshot_xmax(pg_current_snapshot()))
        and not exists (select from sync.revocation where xid >= pg_snapshot_xmax(pg_current_snapshot())) then
        return 0;
    end if;
    perform from sync.meta for update;
    update sync.event set xid = '0' where xid >= pg_snapshot_xmax(pg_current_snapshot());
    get diagnostics repaired = row_count;
    update sync.revocation set xid = '0' where xid >= pg_snapshot_xmax(pg_current_snapshot());
    get diagnostics revocations = row_count;
    repaired := repaired + revocations;
    if repaired > 0 then
        perform sync.new_epoch();
    end if;
    return repaired;
end
$$;
