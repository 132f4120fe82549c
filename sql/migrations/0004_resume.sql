-- Resume: users whose access was revoked.

-- What was issued to the user before `before` admits to nothing any more. `xid` is the transaction that wrote it last: hubs
-- ask for what became visible between two snapshots, as of events. Kept for 90 days. Collation "C" as in sync.event.
create table sync.revocation (
    user_id text collate "C" primary key check (user_id <> ''),
    before timestamptz not null check (isfinite(before) and before < '3000-01-01 00:00+00'),
    xid xid8 not null default pg_current_xact_id()
);
create index revocation_xid on sync.revocation (xid);
create index revocation_before on sync.revocation (before);
