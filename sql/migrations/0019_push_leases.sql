-- Leases of pushes in a column without an index: a claim then writes the row alone, and none of its indexes.

-- As in 0014: who waits for a lock gives it back, before deadlock_timeout (1 s) ends a writer.
do $$
begin
    for attempt in 1..100 loop
        begin
            set local lock_timeout = '200ms';
            lock table care.push in access exclusive mode;
            set local lock_timeout = 0;
            return;
        exception when lock_not_available then
            perform pg_sleep(0.05 + 0.1 * random());
        end;
    end loop;
    raise exception 'care.push is in use all the time: end long transactions, and migrate again'
        using errcode = 'lock_not_available';
end
$$;

-- `leased_until`: the end of the lease, where it is claimed. `next_at` stays what it was: when it may be claimed. What a hub of
-- before has claimed has its lease there, and is due again at the same moment.
alter table care.push add column leased_until timestamptz;
-- Room in the page for the version that a claim writes: all rows of a page are claimed at once.
alter table care.push set (fillfactor = 50);
