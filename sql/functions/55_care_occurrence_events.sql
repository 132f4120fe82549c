-- care.taken_local: an instant as wall time with an offset of so many seconds east of UTC, to the microsecond:
-- 2025-11-14T08:00:00.5-05:00. Null where either is. No locks.
create or replace function care.taken_local(at timestamptz, utc_offset int) returns text
language plpgsql stable
as $$
begin
    return (to_jsonb((at at time zone 'UTC') + make_interval(secs => utc_offset)) #>> '{}')
        || case when utc_offset < 0 then '-' else '+' end
        || to_char(make_interval(secs => abs(utc_offset)), 'HH24:MI');
end
$$;

-- care.name_of: the name of a product that the user may see; null where there is none. No locks.
create or replace function care.name_of(product text, who text) returns text
language plpgsql stable
as $$
begin
    if product is null then
        return null;
    end if;
    return (select p.name from care.product as p where p.id = product and (p.user_id is null or p.user_id = who));
end
$$;

-- care.dose_state: a dose as events show it. The text of its note is not in it: hasNote is. Rows from before migration 0011
-- have no name of their own: they are shown with the product's. No locks.
--
-- In SQL, so that it becomes a part of the statement that reads the dose: a call with all of a row costs as much as the rest.
create or replace function care.dose_state(o care.dose_occurrence) returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'scheduleId', o.schedule_id, 'productId', o.product_id,
        'productName', coalesce(o.product_name, care.name_of(o.product_id, o.user_id)), 'strength', o.strength,
        'form', o.form, 'dose', o.dose, 'asNeeded', o.as_needed, 'status', o.status,
        'takenAt', o.taken_at,
        'takenAtLocal', case when o.taken_offset is not null then care.taken_local(o.taken_at, o.taken_offset) end,
        'changedBy', jsonb_build_object('actor', o.changed_by, 'deviceId', o.changed_device),
        'hasNote', coalesce(o.note, '') <> '', 'rev', o.rev, 'scheduledAt', o.scheduled_at,
        'timeLocal', care.local_iso(o.scheduled_at, o.tz), 'timezone', o.tz,
        'localDate', to_char(o.local_date, 'YYYY-MM-DD'), 'windowStart', o.window_start, 'windowEnd', o.window_end,
        'createdAt', o.created_at, 'updatedAt', o.updated_at)
$$;

-- care.dose_json: a dose as answers to its own user show it: what events show, and its texts. No locks.
create or replace function care.dose_json(o care.dose_occurrence) returns jsonb
language plpgsql stable
as $$
begin
    return care.dose_state(o) || jsonb_build_object(
        'id', o.id, 'userId', o.user_id, 'reason', o.reason, 'note', o.note);
end
$$;

-- The functions below are in SQL to be planned into expressions; PostgreSQL does so where an argument that stands twice is
-- cheap, and where a function is no less volatile than what it calls (jsonb_build_object is stable). Else each call is planned.

-- care.occurrence_named: the name of a dose's event: the operation, and its status now (null: the user has it no more). No locks.
create or replace function care.occurrence_named(op "char", status text) returns text
language sql immutable
as $$
    select case when op = 'I' then 'occurrence.created'
                when status is null or status = 'cancelled' then 'occurrence.cancelled'
                else 'occurrence.updated' end
$$;

-- care.occurrence_body: the data of the event of one dose for one user, with all its state: care.dose_state, or null where the
-- user has it no more. `told`: the summary of its day, with the month. `place`: `_sync`, or null where the flush puts it in.
-- The text of a note never leaves the table: hasNote does. No locks.
create or replace function care.occurrence_body(who text, id text, op "char", rev bigint, state jsonb, told jsonb, place jsonb)
returns jsonb
language sql stable
as $$
    select case when op = 'I' then jsonb_build_object(
        'userId', who, 'occurrenceId', id, 'updates', state, 'daySummary', told, '_sync', place,
        'occurrence', state || jsonb_build_object('id', id, 'userId', who))
    else jsonb_build_object(
        'userId', who, 'occurrenceId', id, 'daySummary', told, '_sync', place,
        'updates', coalesce(state, jsonb_build_object('status', 'cancelled', 'rev', rev))) end
$$;

-- care.with_month: the summary of a day as the events of its doses have it. No locks.
create or replace function care.with_month(summary jsonb) returns jsonb
language sql stable
as $$
    select summary || jsonb_build_object('month', left(summary ->> 'date', 7))
$$;

-- care.summary_body: the data of the event that tells what the summary of a user's day says now, and the user's statistics.
-- `place` as above. No locks.
create or replace function care.summary_body(who text, summary jsonb, stats jsonb, place jsonb) returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'userId', who, 'date', summary -> 'date', 'summary', summary, 'stats', stats, '_sync', place)
$$;

-- care.dose_drafts: the events of one change of one dose, as care.occurrence_events has them, numbered after `last` and with
-- `_sync`: the usual commit, in statements that start faster. Null, and nothing is done: it has more days than one. Called by
-- sync.flush (sync.drafts_of), under the lock of the user's stream. Lock order: day summaries.
--
-- The statistics are kept beside the stream, for the user's zone and day: most changes of a dose leave them as they are. All
-- that changes summaries passes through the stream, and forgets what is kept there, or keeps what is so then.
create or replace function care.dose_drafts(one sync.change, last bigint, origin jsonb, inout kept jsonb, inout kept_for text,
                                            out drafts sync.draft[])
language plpgsql
as $$
declare
    clock constant timestamptz := sync.clock();
    state jsonb;
    status_now text;
    day date;
    told record;
    month_told jsonb;
    zone text;
    today date;
    day_name text;
    stats record;
begin
    select care.dose_state(d), d.status, d.local_date,
           (select z.zone from care.user_settings as z where z.user_id = one.user_id)
    into state, status_now, day, zone
    from care.dose_occurrence as d where d.id = one.id and d.user_id = one.user_id;
    if day <> one.context::date or one.contexts is not null then
        return;
    elsif day is null then
        if one.op = 'I' then
            drafts := '{}';
            return;
        end if;
        day := one.context;
        zone := care.zone_of(one.user_id);
    end if;
    told := care.count_day(one.user_id, day, clock);
    if told.turned then
        perform care.carry_runs(one.user_id, day, day);
    end if;
    today := clock at time zone coalesce(zone, 'UTC');
    day_name := to_char(today, 'YYYY-MM-DD') || coalesce(zone, 'UTC');
    if told.turned or day_name is distinct from kept_for or day between today - 30 and today - 1 then
        stats := care.stats_on(one.user_id, today, clock);
        kept := stats.stats;
        kept_for := case when stats.lasting then day_name end;
    end if;
    month_told := care.with_month(told.summary);
    drafts := array[
        row(one.user_id, false, one.id, care.occurrence_named(one.op, status_now),
            care.occurrence_body(one.user_id, one.id, one.op, one.rev, state, month_told,
                                 jsonb_build_object('o', last + 1, 'k', origin)))::sync.draft,
        row(one.user_id, true, null, 'adherence.summary_updated',
            care.summary_body(one.user_id, told.summary, kept, jsonb_build_object('o', last + 2, 'k', origin)))::sync.draft];
end
$$;

-- care.occurrence_events: the builder of care.dose_occurrence: occurrence.created, .updated and .cancelled, and one
-- adherence.summary_updated for each (user, day) touched: the days a dose had before and the one it has now. Called by
-- sync.flush, under the locks of the streams concerned. Lock order: day summaries in the order of (user, day).
-- The dose is met by key only (OFFSET 0): a join could become a hash over all of the table.
create or replace function care.occurrence_events(changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
as $$
declare
    clock timestamptz := sync.clock();
    days care.day_summary[];
    users text[];
begin
    select n.days, n.users into days, users from care.count_days(changes, clock) as n;
    if days is null then
        return;
    end if;
    return query
    with dose as materialized (
        select c.user_id, c.id, c.op, c.rev, r.state, r.status, coalesce(r.local_date, c.context::date) as date
        from unnest(changes) as c
        left join lateral (
            select care.dose_state(d) as state, d.status, d.local_date
            from care.dose_occurrence as d where d.id = c.id and d.user_id = c.user_id
            offset 0
        ) as r on true
        where r.local_date is not null or c.op <> 'I'
    ), day as materialized (
        select s.user_id, s.date, j.summary, care.with_month(j.summary) as told
        from unnest(days) as s
        cross join lateral (select care.summary_json(s) as summary offset 0) as j
    ), own as materialized (
        select * from care.stats_of(users, clock)
    )
    select dose.user_id, false, dose.id, care.occurrence_named(dose.op, dose.status),
           care.occurrence_body(dose.user_id, dose.id, dose.op, dose.rev, dose.state, day.told, null)
    from dose join day on day.user_id = dose.user_id and day.date = dose.date
    union all
    select day.user_id, true, day.summary ->> 'date', 'adherence.summary_updated'::text,
           care.summary_body(day.user_id, day.summary, own.stats, null)
    from day join own on own.user_id = day.user_id;
end
$$;
drop function if exists care.summary_event(text, jsonb);
drop function if exists care.summary_event(text, jsonb, jsonb);
drop function if exists care.occurrence_event(sync.change, care.dose_occurrence, jsonb);
drop function if exists care.occurrence_body(text, text, "char", bigint, jsonb, jsonb);
drop function if exists care.summary_body(text, jsonb, jsonb);
drop function if exists care.dose_drafts(sync.change, bigint, jsonb);
drop function if exists sync.drafts_of(sync.change, bigint, jsonb);
