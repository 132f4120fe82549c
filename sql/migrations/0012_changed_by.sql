-- Who changed a dose last, and the offset in which the person told when it was taken.

-- `changed_by`: user (an action), system (a job) or backend (any other writer); null: changed before this migration.
-- `taken_offset`: seconds east of UTC of the time that became taken_at; null where no offset was told.
alter table care.dose_occurrence
    add column changed_by text,
    add column taken_offset int;
