-- Lineage, devices, and what an intent says of its time.

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

-- `time_path`: the member of the payload that `taken_at` was read from, clientTime, or null: it is the server's. Of a ruling
-- that is rejected as invalid, the member that is wrong.
alter type care.intent add attribute time_path text;
alter type care.ruling add attribute path text;
