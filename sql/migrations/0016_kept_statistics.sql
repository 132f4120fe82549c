-- A user's statistics are kept beside the position of the stream that tells them.

-- As in 0008: who waits for the lock gives it back, before deadlock_timeout (1 s) ends a writer.
do $$
begin
    for attempt in 1..100 loop
        begin
            set local lock_timeout = '200ms';
            lock table sync.stream in access exclusive mode;
            set local lock_timeout = 0;
            return;
        exception when lock_not_available then
            perform pg_sleep(0.05 + 0.1 * random());
        end;
    end loop;
    raise exception 'sync.stream is in use all the time: end long transactions, and migrate again'
        using errcode = 'lock_not_available';
end
$$;

-- What the builder of the stream's last event keeps for the next, and what that is good for (care.dose_drafts); null: nothing.
-- Written by the flush with `top`, under the row's lock, and nowhere else.
alter table sync.stream add column kept jsonb, add column kept_for text;
