-- Waits until no transaction that has changed a table of care, or has events to tell, is in flight, and holds back those that begin.
-- A commit that waits for its stream goes on in the sync.flush that it began: what that calls may be another function by then, or
-- none, and the commit would fail. And a trigger that is made anew would meet writers who wait for what is locked here already.
-- `carillon migrate` runs functions only where they are another release's or where a trigger is to be mended; a new database has
-- no writers.
--
-- All the tables on which later files make triggers, and the ticket last, as writers do. Some write them in another order: all
-- waits together are no longer than lock_timeout, and the migrator then gives back what is locked, and begins anew. Readers go on,
-- but where a trigger has to go.
do $do$
declare
    former constant name[] := array(
        select tgname from pg_catalog.pg_trigger
        where tgrelid = 'care.dose_occurrence'::regclass and tgname in ('describe', 'yield_slot', 'audit_update'));
    patience constant int := (select setting from pg_catalog.pg_settings where name = 'lock_timeout');
    start constant timestamptz := clock_timestamp();
    t name;
begin
    if not exists (select from sync.function_set) then
        return;
    end if;
    foreach t in array '{care.user_settings,care.product,care.stack,care.stack_item,care.schedule,care.dose_occurrence,
                         care.reminder_rule,care.reminder_occurrence,sync.action_type,sync.published,sync.touched,sync.ticket}'::name[] loop
        if patience > 0 then
            perform set_config('lock_timeout', greatest(
                1, patience - extract(epoch from clock_timestamp() - start) * 1000)::int::text, true);
        end if;
        execute format('lock table %s in %s mode', t, case when t = 'care.dose_occurrence' and former <> '{}'
                                                           then 'access exclusive' else 'share row exclusive' end);
    end loop;
    perform set_config('lock_timeout', patience::text, true);
    -- What care.bump_dose and the recorder of doses do now.
    foreach t in array former loop
        execute format('drop trigger %I on care.dose_occurrence', t);
    end loop;
end
$do$;
