-- Days of reminders that differ from their rule, by age: the job that retains actions takes away those of over 90 days ago.

-- As in 0014: who waits for a lock gives it back, before deadlock_timeout (1 s) ends a writer.
do $$
begin
    for attempt in 1..100 loop
        begin
            set local lock_timeout = '200ms';
            lock table care.reminder_occurrence in share mode;
            set local lock_timeout = 0;
            return;
        exception when lock_not_available then
            perform pg_sleep(0.05 + 0.1 * random());
        end;
    end loop;
    raise exception 'care.reminder_occurrence is in use all the time: end long transactions, and migrate again'
        using errcode = 'lock_not_available';
end
$$;

-- Not on `day`: snapshots of one user, which go by the rule and the day, would be planned over it.
create index reminder_occurrence_age on care.reminder_occurrence (original_local);
