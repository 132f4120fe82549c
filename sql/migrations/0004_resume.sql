-- Resume: users whose access was revoked, and what snapshots look up.

-- What was issued to the user before `before` admits to nothing any more. `xid` is the transaction that wrote it last: hubs
-- ask for what became visible between two snapshots, as of events. Kept for 90 days after `written_at`, whatever moment
-- `before` is. Collation "C" as in sync.event.
create table sync.revocation (
    user_id text collate "C" primary key check (user_id <> ''),
    before timestamptz not null check (isfinite(before) and before < '3000-01-01 00:00+00'),
    xid xid8 not null default pg_current_xact_id(),
    written_at timestamptz not null default now()
);
create index revocation_xid on sync.revocation (xid);
create index revocation_written on sync.revocation (written_at);

-- Exceptions that matter later than their rule's time says: sync.reminders looks for them among years of others.
create index reminder_occurrence_later on care.reminder_occurrence (rule_id, greatest(moved_to, snoozed_until))
    where greatest(moved_to, snoozed_until) is not null;
