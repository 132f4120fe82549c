-- Waits until no transaction that has changed a dose, or has events to tell, is in flight, and holds back those that begin. A
-- commit that waits for its stream goes on in the sync.flush that it began: what that calls may be another function by then, or
-- none, and the commit would fail. And a trigger of the doses that is made anew would meet writers who wait for what is locked
-- here already. `carillon migrate` runs functions only where they are another release's or where a trigger is to be mended; a new
-- database has no writers.
--
-- In the order of writers: a dose, then the ticket. A transaction that wrote another table first takes them the other way round:
-- who waits for a lock longer than this gives both back, as in migration 0006. Readers go on, but where a trigger has to go.
do $do$
declare
    former constant name[] := array(
        select tgname from pg_catalog.pg_trigger
        where tgrelid = 'care.dose_occurrence'::regclass and tgname in ('describe', 'yield_slot', 'audit_update'));
    settled boolean := not exists (select from sync.function_set);
    t name;
begin
    for attempt in 1..100 loop
        exit when settled;
        begin
            set local lock_timeout = '200ms';
            if former = '{}' then
                lock table care.dose_occurrence in share row exclusive mode;
            else
                lock table care.dose_occurrence in access exclusive mode;
            end if;
            lock table sync.ticket in share row exclusive mode;
            set local lock_timeout = 0;
            settled := true;
        exception when lock_not_available then
            perform pg_sleep(0.05 + 0.1 * random());
        end;
    end loop;
    if not settled then
        raise exception 'care.dose_occurrence and sync.ticket are in use all the time: end long transactions, and migrate again'
            using errcode = 'lock_not_available';
    end if;
    -- What care.bump_dose and the recorder of doses do now.
    foreach t in array former loop
        execute format('drop trigger %I on care.dose_occurrence', t);
    end loop;
end
$do$;
