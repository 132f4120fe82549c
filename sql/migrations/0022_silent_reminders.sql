-- Reminders of medicines that were stopped.

-- As in 0014: who waits for a lock gives it back, before deadlock_timeout (1 s) ends a writer.
do $$
begin
    for attempt in 1..100 loop
        begin
            set local lock_timeout = '200ms';
            lock table care.reminder_rule in access exclusive mode;
            set local lock_timeout = 0;
            return;
        exception when lock_not_available then
            perform pg_sleep(0.05 + 0.1 * random());
        end;
    end loop;
    raise exception 'care.reminder_rule is in use all the time: end long transactions, and migrate again'
        using errcode = 'lock_not_available';
end
$$;

-- `silent`: its medication or its stack is not in the user's list any more: the rule has no occurrences. Triggers write it.
alter table care.reminder_rule add column silent boolean not null default false;

-- Rules follow their user where nobody says otherwise, as schedules do.
alter table care.reminder_rule alter column tz_mode set default 'follow';
