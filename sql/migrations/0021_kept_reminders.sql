-- Reminders that keep their instant when their rule's zone changes.

-- As in 0014: who waits for a lock gives it back, before deadlock_timeout (1 s) ends a writer.
do $$
begin
    for attempt in 1..100 loop
        begin
            set local lock_timeout = '200ms';
            lock table care.reminder_occurrence in access exclusive mode;
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

-- `kept`: `moved_to` is the instant that the occurrence had when its rule's zone changed, and wins over `moved_local`. Nobody
-- decided that: triggers write it.
alter table care.reminder_occurrence add column kept boolean not null default false;
