-- The outbox: streams, their events, and what a transaction has touched so far.

-- One row. `epoch` is that of streams which do not exist yet, so that a stream's position keeps its epoch when its
-- first event arrives.
create table sync.meta (
    one boolean primary key default true check (one),
    epoch text not null
);
insert into sync.meta (epoch) values (substr(md5(gen_random_uuid()::text), 1, 8));

-- A stream is (user, topic). Its row is the lock under which it is numbered: N + 1 cannot be issued before N has
-- committed or rolled back, and a rollback returns the number. Narrow pages with room, for updates in place.
create table sync.stream (
    user_id text collate "C" not null,
    topic text collate "C" not null,
    epoch text not null,
    top bigint not null default 0,
    primary key (user_id, topic)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);

-- `xid` is the top-level transaction: the tail asks for what became visible between two snapshots.
-- Collation "C" everywhere, so that ORDER BY, row comparison and the hub's byte comparison agree.
create table sync.event (
    user_id text collate "C" not null,
    topic text collate "C" not null,
    o bigint not null,
    xid xid8 not null default pg_current_xact_id(),
    name text not null,
    data jsonb not null,
    created_at timestamptz not null default now(),
    primary key (user_id, topic, o)
);
create index event_xid on sync.event (xid);

-- The published tables. `source` orders the events of one commit; `builder` is a function
-- (sync.change[]) -> setof sync.draft, generated unless the publisher names his own.
create table sync.published (
    source int generated always as identity primary key,
    relation regclass not null unique,
    user_column name not null,
    topic text not null check (topic ~ '^[a-z_]{1,64}$'),
    event_prefix text not null check (event_prefix ~ '^[A-Za-z0-9_.-]{1,64}$'),
    id_column name not null,
    rev_column name,
    context_column name,
    columns name[] not null,
    recorder name not null unique,
    builder text not null
);

-- What this transaction has touched: one row for each (user, entity). `op` is the first operation as this user saw it,
-- `context` the value of the context column before it, `rev` the last revision that was replaced. Unlogged: rows live
-- from the first write to the commit, and a crash rolls both back. Never truncated by vacuum: that locks writers out.
create unlogged table sync.touched (
    xid xid8 not null,
    source int not null,
    user_id text collate "C" not null,
    id text collate "C" not null,
    topic text collate "C" not null,
    op "char" not null,
    context text,
    rev bigint,
    primary key (xid, source, user_id, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = false);

-- One row for each transaction that touched something; its deferred constraint trigger is the flush.
create unlogged table sync.ticket (
    xid xid8 primary key
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = false);

-- A touched entity, as builders receive it, and an event that has no number yet, as they return it.
-- `summary` events come after all others of their stream.
create type sync.change as (
    source int, user_id text, topic text, id text, op "char", context text, rev bigint
);
create type sync.draft as (
    user_id text, summary boolean, id text, name text, data jsonb
);
