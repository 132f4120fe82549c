-- What carillon_hub may do: this, and nothing else. Nobody but the owner may call anything further, but for two functions that
-- tell everybody else what is missing: without the right to look into the schema, PostgreSQL says no more than "permission denied
-- for schema sync".
revoke all on schema sync, care from public;
do $$
declare
    f regprocedure;
begin
    -- One by one: functions of an extension in care belong to others.
    for f in
        select oid::regprocedure from pg_catalog.pg_proc
        where pronamespace in ('sync'::regnamespace, 'care'::regnamespace)
            and proowner = (select oid from pg_catalog.pg_roles where rolname = current_user)
    loop
        execute format('revoke all on function %s from public', f);
    end loop;
end
$$;
revoke all on all tables in schema sync, care from carillon_hub;
grant usage on schema sync to carillon_hub;
grant execute on function
    sync.tail(pg_snapshot, text, text, bigint, int),
    sync.news(pg_snapshot, int),
    sync.open_bulk(pg_snapshot, pg_snapshot),
    sync.positions(text[], text[]),
    sync.replay(text, text, bigint, int),
    sync.hub_hello(),
    sync.read_log(text, text, bigint, bigint, int, int),
    sync.logged_events(text, text, bigint, int, boolean),
    sync.revocations(pg_snapshot, text, int),
    sync.repair_after_restore(),
    sync.retain(int, int),
    sync.job(text, int, timestamptz),
    sync.job_lag(text, timestamptz),
    sync.apply(text, text, text, bigint, text, text, text, text, text),
    sync.apply_all(text, text[], text[], bigint[], text[], text[], text[], text[], text[]),
    sync.apply_by_app(text, text, text, bigint, text, text, text, text, text),
    sync.refuse(text, text, text, bigint, text, text, text, text, text),
    sync.announce(),
    sync.check_published(),
    sync.topics(int),
    sync.adherence_day(text, date),
    sync.adherence_month(text, date),
    sync.adherence_occurrence(text, text, text),
    sync.reminders(text),
    sync.reminder(text, text, bigint, text),
    sync.preview_reminder(text, text),
    sync.adherence_stats(text, date, date),
    sync.adherence_history(text, date, date, text, text, text, bigint),
    sync.adherence_export(text, text, date, date),
    sync.append_feedback(text[], jsonb[]),
    sync.clock(),
    sync.claim_pushes(text, int[], interval, boolean, int, text[], text[]),
    sync.claim_pushes(text, int, interval, boolean),
    sync.settle_pushes(text, bigint[], int[], text[], int[], timestamptz[]),
    sync.push_state(),
    sync.medications(text),
    sync.medication(text, text),
    sync.schedules(text),
    sync.schedule(text, text),
    sync.stacks(text),
    sync.stack(text, text),
    sync.settings(text)
to carillon_hub;
grant usage on schema sync to public;
grant execute on function
    sync.publish_changes(regclass, name, text, text, name, name, name[], text, name, text, name[]),
    sync.unpublish_changes(regclass),
    sync.refuse_strangers()
to public;
