-- Its columns are the first two of dose_occurrence_days. In a transaction of its own, so that readers wait for no build.

-- As in 0008: who waits for a lock gives it back, before deadlock_timeout (1 s) ends a writer.
do $$
begin
    for attempt in 1..100 loop
        begin
            set local lock_timeout = '200ms';
            lock table care.dose_occurrence in access exclusive mode;
            set local lock_timeout = 0;
            return;
        exception when lock_not_available then
            perform pg_sleep(0.05 + 0.1 * random());
        end;
    end loop;
    raise exception 'care.dose_occurrence is in use all the time: end long transactions, and migrate again'
        using errcode = 'lock_not_available';
end
$$;

drop index care.dose_occurrence_day;
