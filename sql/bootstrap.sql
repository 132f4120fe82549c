-- What the migrator needs before the first migration: the schema and its own two tables. Run as carillon_owner at every
-- migrate; safe to run again.
set local client_min_messages = warning;
create schema if not exists sync;

create table if not exists sync.migration (
    version int primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now()
);
comment on table sync.migration is 'The numbered files that have run; a file never changes after that.';

create table if not exists sync.function_set (
    one boolean primary key default true check (one),
    checksum text not null,
    applied_at timestamptz not null default now()
);
comment on table sync.function_set is 'Checksum over all function files as last run, in the order of their names.';
