-- What a commit of one row costs: its ticket tells the change, and nothing is written to sync.touched.

-- As in 0008: who waits for the lock gives it back, before deadlock_timeout (1 s) ends a writer.
do $$
begin
    for attempt in 1..100 loop
        begin
            set local lock_timeout = '200ms';
            lock table sync.ticket in access exclusive mode;
            set local lock_timeout = 0;
            return;
        exception when lock_not_available then
            perform pg_sleep(0.05 + 0.1 * random());
        end;
    end loop;
    raise exception 'sync.ticket is in use all the time: end long transactions, and migrate again'
        using errcode = 'lock_not_available';
end
$$;

-- The first change of the transaction, where that was an update of one row that stayed its user's: as sync.touched has one,
-- with op U and balance 0. Null: the first was another, and all are in sync.touched.
alter table sync.ticket
    add column source int,
    add column user_id text collate "C",
    add column topic text collate "C",
    add column id text collate "C",
    add column context text,
    add column rev bigint;
