-- Lineage and devices.

-- All locks at once, in the order of writers: an action takes the device, its stream and then sync.meta. Those who read
-- positions take sync.meta before the stream, so that no order is good for all: who waits for a lock longer than this
-- gives all of them back and begins anew. That is less than deadlock_timeout, 1 s, after which one of them would fail.
do $$
begin
    for attempt in 1..100 loop
        begin
            set local lock_timeout = '200ms';
            lock table sync.device, sync.stream, sync.meta in access exclusive mode;
            set local lock_timeout = 0;
            return;
        exception when lock_not_available then
            perform pg_sleep(0.05 + 0.1 * random());
        end;
    end loop;
    raise exception 'sync.device, sync.stream and sync.meta are in use all the time: end long transactions, and migrate again'
        using errcode = 'lock_not_available';
end
$$;

-- `lineage`: that of the database when a hub last said hello: system identifier, timeline, this database's oid and the xmin
-- of this row (sync.lineage_here). Each way to restore or copy a database changes one of them.
alter table sync.meta add column lineage text;
update sync.meta set lineage = (
    select concat_ws('.', to_hex(c.system_identifier),
                     ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int,
                     (select oid from pg_database where datname = current_database()), pg_current_xact_id()::xid)
    from pg_control_system() as c
);

-- All streams are in the epoch of sync.meta. Their own column is neither written nor read any more.
alter table sync.stream alter column epoch drop not null;

-- When the device's last action was stored: of more than a hundred the one longest unused is forgotten.
alter table sync.device add column used_at timestamptz not null default now();
