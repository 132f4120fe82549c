-- Actions: what devices write through the hub, once each; notes that nothing overwrites; streaks.

-- One row for each user who ever acted: the lock under which his actions run one after the other. Never updated.
create table sync.account (
    user_id text collate "C" primary key
);

-- The last number of each device whose action was stored. Kept for as long as the device exists.
create table sync.device (
    user_id text collate "C" not null,
    device_id text collate "C" not null,
    last_n bigint not null default 0,
    primary key (user_id, device_id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);

-- Each action that was decided, with the answer that its repeats get: 90 days. `digest` is over type, payload and base.
-- `memo` is what undo and resolve need to know: {"single": bool, "undo": [{id, set?, statusRev?, note?, noteRev?}],
-- "pending": [{id, set?, note?, rev}]}, each with the dose's createdAt; null where it has neither list.
create table sync.action (
    user_id text collate "C" not null,
    key text collate "C" not null,
    device_id text collate "C",
    n bigint,
    type text not null,
    digest bytea not null,
    status text not null,
    answer jsonb not null,
    memo jsonb,
    undone_by text collate "C",
    resolved_by text collate "C",
    created_at timestamptz not null,
    primary key (user_id, key)
) with (fillfactor = 90);
create index action_created on sync.action (created_at);

-- What the domain says of an action: its status, the answer's further members, and the memo. `early`: it names an action
-- that may still come, so that without a number this answer is not kept.
create type sync.verdict as (
    status text, answer jsonb, memo jsonb, early boolean
);

-- All notes that actions ever added to a dose; dose_occurrence.note is the latest. By key, so that none is added twice.
create table care.dose_note (
    user_id text not null,
    occurrence_id text not null,
    key text not null,
    text text not null,
    created_at timestamptz not null,
    primary key (user_id, occurrence_id, key)
);

-- `status_rev` and `note_rev`: the rev with which (status, taken_at, reason) and the note came. `changed_key` and
-- `changed_device`: of the action that changed the row last, null where no action did. None of these is in any event.
-- Rows from before keep 1 and are not rewritten: what compares these revs (undo, resolve) knows only actions from now on.
alter table care.dose_occurrence
    add column reason text,
    add column status_rev bigint not null default 1,
    add column note_rev bigint not null default 1,
    add column changed_key text,
    add column changed_device text;

-- The streak that ends with this day, and the longest up to it.
alter table care.day_summary
    add column run int not null default 0,
    add column best int not null default 0;

-- What an action wants of one dose. `kind`: act; due (act, but not before its time); undo, late (an undo that comes too
-- late); keep, accept, merge, edit (the choices of a resolve). `status` null: (status, taken_at, reason) are left alone.
-- `note`: to be added, or of undo with a note_rev, to come back. `rev`: what the device had seen. `status_rev` and
-- `note_rev`: what undo must find. `merged`: the fields that the user chose himself. `born`: created_at of the dose that was
-- meant, where that is known: an id may come again. `note_key`: of undo, the action whose note goes.
create type care.intent as (
    kind text, id text, status text, taken_at timestamptz, reason text, note text,
    rev bigint, status_rev bigint, note_rev bigint, merged jsonb, born timestamptz, note_key text
);

-- What becomes of it: applied, noop, conflict or rejected, and why; the dose as it is to be; the note to be added.
create type care.ruling as (
    status text, code text, dose care.dose_occurrence, note text
);

-- The streaks of days from before, in one statement.
update care.day_summary as s
set run = r.run, best = r.best
from (
    select user_id, date, run, max(run) over (partition by user_id order by date) as best
    from (
        select user_id, date,
               count(*) filter (where perfect) over (partition by user_id, breaks order by date) as run
        from (
            select user_id, date, missed_count + pending_count = 0 and taken_count + made_up_count > 0 as perfect,
                   count(*) filter (where missed_count + pending_count > 0)
                       over (partition by user_id order by date) as breaks
            from care.day_summary
        ) as classed
    ) as counted
) as r
where r.user_id = s.user_id and r.date = s.date;
