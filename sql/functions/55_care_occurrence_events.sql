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

-- care.dose_shown: the members of a dose that are no texts, as events show it.
do $$
begin
    if to_regtype('care.dose_shown') is null then
        create type care.dose_shown as (
            "asNeeded" boolean, "takenAt" timestamptz, "changedBy" jsonb, "hasNote" boolean, rev bigint,
            "scheduledAt" timestamptz, "localDate" date, "windowStart" timestamptz, "windowEnd" timestamptz,
            "createdAt" timestamptz, "updatedAt" timestamptz
        );
    end if;
end
$$;

-- care.dose_state: a dose as events show it. The text of its note is not in it: hasNote is. Rows from before migration 0011
-- have no name of their own: they are shown with the product's. No locks.
--
-- In SQL, so that it becomes a part of the statement that reads the dose: a call with all of a row costs as much as the rest.
-- Not by jsonb_build_object, which looks up the type of every key and value: to_jsonb does that for values, jsonb_object never.
create or replace function care.dose_state(o care.dose_occurrence) returns jsonb
language sql stable
as $$
    select to_jsonb(row(
        o.as_needed, o.taken_at, jsonb_object(array['actor', o.changed_by, 'deviceId', o.changed_device]),
        coalesce(o.note, '') <> '', o.rev, o.scheduled_at, o.local_date, o.window_start, o.window_end,
        o.created_at, o.updated_at)::care.dose_shown)
    || jsonb_object(array[
        'scheduleId', o.schedule_id, 'productId', o.product_id,
        'productName', coalesce(o.product_name, care.name_of(o.product_id, o.user_id)), 'strength', o.strength,
        'form', o.form, 'dose', o.dose, 'status', o.status,
        'takenAtLocal', case when o.taken_offset is not null then care.taken_local(o.taken_at, o.taken_offset) end,
        'timeLocal', care.local_iso(o.scheduled_at, o.tz), 'timezone', o.tz])
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

-- care.occurrence_changed: the name of the event of a dose that was there before, by its status now (null: the user has it no
-- more). No locks.
create or replace function care.occurrence_changed(status text) returns text
language sql immutable
as $$
    select case coalesce(status, 'cancelled') when 'cancelled' then 'occurrence.cancelled' else 'occurrence.updated' end
$$;

-- care.dose_told and care.day_told: the members of the events of a dose and of a day; care.told_at: their place, `_sync`.
do $$
begin
    if to_regtype('care.told_at') is null then
        create type care.told_at as (o bigint, k text);
        create type care.dose_told as ("userId" text, "occurrenceId" text, "daySummary" jsonb, updates jsonb, _sync care.told_at);
        create type care.day_told as ("userId" text, date date, summary jsonb, stats jsonb, _sync care.told_at);
    end if;
end
$$;

-- care.with_month: the summary of a day as the events of its doses have it. No locks.
create or replace function care.with_month(summary jsonb) returns jsonb
language sql stable
as $$
    select summary || jsonb_object(array['month', left(summary ->> 'date', 7)])
$$;

-- care.tell_dose: appends the events of one change of one dose after `last`, as care.occurrence_events has them, and counts
-- its day: the usual commit. Returns how many events; null, and nothing is done: the dose is gone, or it has more days than one.
-- Called by sync.flush, under the lock of the user's stream, whose row is at `stream`. Lock order: day summaries.
--
-- The statistics are kept beside the stream, for the user's zone and day: most changes of a dose leave them as they are. All
-- that changes summaries passes through the stream, and forgets what is kept there, or keeps what is so then. Where the day
-- turned (care.count_days), or is one that statistics are of, it is written before they are asked for; else with the events.
--
-- PostgreSQL prepares each expression and each node of a plan anew in each transaction, and that is most of what a commit
-- costs. So what is seldom needed has a branch of its own, where it costs nothing, and statuses are counted by a loop: one
-- aggregate costs as much to start.
create or replace function care.tell_dose(one sync.change, stream tid, last bigint, key text, kept jsonb, kept_for text)
returns bigint
language plpgsql
as $$
declare
    clock constant timestamptz := sync.clock();
    state jsonb;
    status_now text;
    more jsonb;
    day date;
    zone text;
    statuses text[];
    status text;
    was int[];
    taken int;
    missed int;
    made_up int;
    skipped int;
    pending int;
    ended int;
    scheduled int;
    due int;
    adherence numeric;
    on_time numeric;
    turned boolean;
    written boolean;
    streak record;
    carried text;
    today date;
    day_name text;
    stats record;
    summary jsonb;
begin
    -- `was`: how many doses of the day were open for the streak, and how many done.
    select care.dose_state(d), d.status, d.local_date, 0, 0, 0, 0, 0, 0,
           array(
               select case when o.status = 'scheduled' and o.window_end <= clock then 'ended' else o.status end
               from care.dose_occurrence as o
               where o.user_id = d.user_id and o.local_date = d.local_date and not o.as_needed),
           (select array[s.missed_count + s.pending_count, s.taken_count + s.made_up_count]
            from care.day_summary as s where s.user_id = d.user_id and s.date = d.local_date),
           coalesce((select u.zone from care.user_settings as u where u.user_id = one.user_id), 'UTC')
    into state, status_now, day, taken, missed, made_up, skipped, pending, ended, statuses, was, zone
    from care.dose_occurrence as d where d.id = one.id and d.user_id = one.user_id;
    if not found or day <> one.context::date or one.contexts is not null then
        return null;
    end if;
    foreach status in array statuses loop
        if status = 'taken' then
            taken := taken + 1;
        elsif status = 'scheduled' then
            pending := pending + 1;
        elsif status = 'ended' then
            ended := ended + 1;
        elsif status = 'missed' then
            missed := missed + 1;
        elsif status = 'skipped' then
            skipped := skipped + 1;
        elsif status = 'made_up' then
            made_up := made_up + 1;
        end if;
    end loop;
    due := taken + missed + made_up + ended;
    scheduled := due + skipped + pending;
    pending := pending + ended;
    adherence := care.percent(taken + made_up, due);
    on_time := adherence;
    if made_up > 0 then
        on_time := care.percent(taken, due);
    end if;
    turned := was is null or (was[1] > 0) <> (missed + pending > 0) or (was[2] > 0) <> (taken + made_up > 0) or statuses = '{}';
    today := clock at time zone zone;
    day_name := to_char(today, 'YYYY-MM-DD') || zone;
    if turned or day_name is distinct from kept_for or day between today - 30 and today - 1 then
        written := turned or day between today - 30 and today - 1;
        if written then
            streak := care.keep_day(
                row(one.user_id, day, scheduled, taken, missed, made_up, skipped, pending, adherence, on_time, clock, null,
                    null)::care.day_summary, statuses <> '{}');
        end if;
        if turned then
            carried := care.carry_runs(one.user_id, day, day, streak.run, streak.best);
        end if;
        stats := care.stats_on(one.user_id, today, clock);
        kept := stats.stats;
        kept_for := case when stats.lasting then day_name end;
    end if;
    if one.op = 'I' then
        more := jsonb_build_object('occurrence', state || jsonb_build_object('id', one.id, 'userId', one.user_id));
    end if;
    summary := care.summary_object(day, scheduled, taken, missed, made_up, skipped, pending, adherence, on_time);
    with counted as (
        update care.day_summary as d
        set scheduled_count = scheduled, taken_count = taken, missed_count = missed, made_up_count = made_up,
            skipped_count = skipped, pending_count = pending, adherence_pct = adherence, on_time_pct = on_time,
            updated_at = clock
        where written is not true and d.user_id = one.user_id and d.date = day
    ), appended as (
        insert into sync.event (user_id, topic, o, name, data, created_at)
        select one.user_id, one.topic, e.o, e.name,
               case when pg_column_size(e.data) < 1600 then e.data else sync.sealed(e.data, e.o, to_jsonb(key)) end,
               clock_timestamp()
        from (values
            (last + 1, case when more is null then care.occurrence_changed(status_now) else 'occurrence.created' end,
             to_jsonb(row(one.user_id, one.id, care.with_month(summary), state, row(last + 1, key)::care.told_at)::care.dose_told)
                 || coalesce(more, '{}')),
            (last + 2, 'adherence.summary_updated',
             to_jsonb(row(one.user_id, day, summary, kept, row(last + 2, key)::care.told_at)::care.day_told))
        ) as e(o, name, data)
    )
    update sync.stream as s set top = last + 2, kept = tell_dose.kept, kept_for = tell_dose.kept_for
    where s.ctid = stream;
    return 2;
end
$$;

-- care.occurrence_events: the builder of care.dose_occurrence: occurrence.created, .updated and .cancelled, and one
-- adherence.summary_updated for each (user, day) touched: the days a dose had before and the one it has now. Called by
-- sync.flush, under the locks of the streams concerned. A draft without a name is no event: its data is kept beside the stream
-- for the builder's next call (care.tell_dose). Lock order: day summaries in the order of (user, day).
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
        select * from care.stats_for(users, clock)
    )
    select dose.user_id, false, dose.id,
           case dose.op when 'I' then 'occurrence.created' else care.occurrence_changed(dose.status) end,
           to_jsonb(row(dose.user_id, dose.id, day.told,
                        coalesce(dose.state, jsonb_build_object('status', 'cancelled', 'rev', dose.rev)), null)::care.dose_told)
               || case dose.op when 'I' then jsonb_build_object(
                      'occurrence', dose.state || jsonb_build_object('id', dose.id, 'userId', dose.user_id)) else '{}' end
    from dose join day on day.user_id = dose.user_id and day.date = dose.date
    union all
    select day.user_id, true, day.summary ->> 'date', 'adherence.summary_updated'::text,
           to_jsonb(row(day.user_id, day.date, day.summary, own.stats, null)::care.day_told)
    from day join own on own.user_id = day.user_id
    union all
    select own.user_id, true, own.kept_for, null, own.stats from own where own.kept_for is not null;
end
$$;
drop function if exists care.summary_event(text, jsonb);
drop function if exists care.summary_event(text, jsonb, jsonb);
drop function if exists care.occurrence_event(sync.change, care.dose_occurrence, jsonb);
drop function if exists care.occurrence_body(text, text, "char", bigint, jsonb, jsonb);
drop function if exists care.summary_body(text, jsonb, jsonb);
drop function if exists care.dose_drafts(sync.change, bigint, jsonb);
drop function if exists sync.drafts_of(sync.change, bigint, jsonb);
drop function if exists care.dose_drafts(sync.change, bigint, jsonb, jsonb, text);
drop function if exists sync.drafts_of(sync.change, bigint, jsonb, jsonb, text);
drop function if exists care.occurrence_body(text, text, "char", bigint, jsonb, jsonb, jsonb);
drop function if exists care.occurrence_named("char", text);
drop function if exists care.summary_body(text, jsonb, jsonb, jsonb);
