-- The audit of a dose tells the rest of what changed: the product, its name, strength, form and dose, the schedule, day and window.

-- As in 0014: who waits for a lock gives it back, before deadlock_timeout (1 s) ends a writer.
do $$
begin
    for attempt in 1..100 loop
        begin
            set local lock_timeout = '200ms';
            lock table care.dose_occurrence, care.dose_audit in access exclusive mode;
            set local lock_timeout = 0;
            return;
        exception when lock_not_available then
            perform pg_sleep(0.05 + 0.1 * random());
        end;
    end loop;
    raise exception 'care.dose_occurrence or care.dose_audit is in use all the time: end long transactions, and migrate again'
        using errcode = 'lock_not_available';
end
$$;

-- The rev with which the details came, as last changed; 0: as they were made, or changed before this migration.
alter table care.dose_occurrence add column details_rev bigint not null default 0;
-- Null where none of it changed, and for a new dose: what it was made with is in the first change of it, or still true.
alter table care.dose_audit add column was_details jsonb, add column details jsonb;
