-- Jobs: what time alone brings about, and who changed which dose.

-- The doses that may be missed, by the end of their windows. Partial: a dose leaves it with its status, and comes back with
-- an undo. Writers of doses wait while it is built.
create index dose_occurrence_open on care.dose_occurrence (window_end) where status = 'scheduled';

-- Every change of a dose, the latest last by `n`: who, when, by which action of which device, what it was and what it became. The
-- columns `was_…` are null for a new dose, the others for one that was deleted or went to another user. Texts of notes are
-- not in it. Append-only: triggers refuse all else. Rows of doses without a user are not written.
create table care.dose_audit (
    occurrence_id text collate "C" not null,
    n bigint generated always as identity,
    user_id text collate "C" not null,
    at timestamptz not null,
    actor text not null,
    device text,
    key text,
    was_status text,
    was_taken_at timestamptz,
    was_scheduled_at timestamptz,
    was_rev bigint,
    was_reason text,
    was_noted boolean,
    status text,
    taken_at timestamptz,
    scheduled_at timestamptz,
    rev bigint,
    reason text,
    noted boolean,
    primary key (occurrence_id, n)
);
