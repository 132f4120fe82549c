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

-- care.dose_members: the members of a dose, as events show it.
do $$
begin
    if to_regtype('care.dose_members') is null then
        create type care.dose_actor as (actor text, "deviceId" text);
        create type care.dose_members as (
            "scheduleId" text, "productId" text, "productName" text, strength text, form text, dose text, "asNeeded" boolean,
            status text, "takenAt" timestamptz, "takenAtLocal" text, "changedBy" care.dose_actor, "hasNote" boolean, rev bigint,
            "scheduledAt" timestamptz, "timeLocal" text, timezone text, "localDate" date, "windowStart" timestamptz,
            "windowEnd" timestamptz, "createdAt" timestamptz, "updatedAt" timestamptz
        );
    end if;
end
$$;

-- care.dose_shown: a dose as events show it. The text of its note is not in it: hasNote is. Rows from before migration 0011
-- have no name of their own: they are shown with the product's. No locks.
--
-- In SQL, so that it becomes a part of the statement that reads the dose: a call with all of a row costs as much as the rest.
-- A row, and not jsonb: an event made of rows is made at once, and jsonb inside another is taken apart and sorted again.
create or replace function care.dose_shown(o care.dose_occurrence) returns care.dose_members
language sql stable
as $$
    select row(
        o.schedule_id, o.product_id, coalesce(o.product_name, care.name_of(o.product_id, o.user_id)), o.strength, o.form, o.dose,
        o.as_needed, o.status, o.taken_at,
        case when o.taken_offset is not null then care.taken_local(o.taken_at, o.taken_offset) end,
        row(o.changed_by, o.changed_device)::care.dose_actor, coalesce(o.note, '') <> '', o.rev, o.scheduled_at,
        care.local_iso(o.scheduled_at, o.tz), o.tz, o.local_date, o.window_start, o.window_end, o.created_at,
        o.updated_at)::care.dose_members
$$;

-- care.dose_state: the state of a dose as jsonb. No locks.
create or replace function care.dose_state(o care.dose_occurrence) returns jsonb
language sql stable
as $$
    select to_jsonb(care.dose_shown(o))
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

-- care.dose_event and care.day_told: the members of the events of a dose and of a day; care.told_at: their place, `_sync`.
do $$
begin
    if to_regtype('care.told_at') is null then
        create type care.told_at as (o bigint, k text);
        create type care.day_told as ("userId" text, date date, summary jsonb, stats jsonb, _sync care.told_at);
    end if;
    if to_regtype('care.dose_event') is null then
        create type care.dose_event as (
            "userId" text, "occurrenceId" text, "daySummary" jsonb, updates care.dose_members, _sync care.told_at
        );
    end if;
end
$$;

-- care.with_month: the summary of a day as the events of its doses have it. No locks.
create or replace function care.with_month(summary jsonb) returns jsonb
language sql stable
as $$
    select summary || jsonb_object(array['month', left(summary ->> 'date', 7)])
$$;

-- care.day_was: where a day's summary is, how many doses were open for the streak, and how many done.
do $$
begin
    if to_regtype('care.day_was') is null then
        create type care.day_was as (at tid, open int, done int);
    end if;
end
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
    n record;
    status text;
    taken int := 0;
    missed int := 0;
    made_up int := 0;
    skipped int := 0;
    pending int := 0;
    ended int := 0;
    scheduled int;
    due int;
    adherence numeric;
    on_time numeric;
    turned boolean;
    streak record;
    carried text;
    today date;
    day_name text;
    stats record;
    summary jsonb;
    named text;
    told jsonb;
    day_told jsonb;
begin
    select care.dose_shown(d) as state, d.status, d.local_date as day,
           array(
               select case when o.status = 'scheduled' and care.is_over(o.window_end, clock) then 'ended' else o.status end
               from care.dose_occurrence as o
               where o.user_id = d.user_id and o.local_date = d.local_date and not o.as_needed) as statuses,
           (select row(s.ctid, s.missed_count + s.pending_count, s.taken_count + s.made_up_count)::care.day_was
            from care.day_summary as s where s.user_id = d.user_id and s.date = d.local_date) as was,
           coalesce((select u.zone from care.user_settings as u where u.user_id = one.user_id), 'UTC') as zone
    into n
    from care.dose_occurrence as d where d.id = one.id and d.user_id = one.user_id;
    if not found or n.day <> one.context::date or one.contexts is not null then
        return null;
    end if;
    foreach status in array n.statuses loop
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
    if due > 0 then
        adherence := round(100.0 * (taken + made_up) / due, 1);
        on_time := adherence;
    end if;
    if made_up > 0 then
        on_time := care.percent(taken, due);
    end if;
    turned := n.was is null or ((n.was).open > 0) <> (missed + pending > 0) or ((n.was).done > 0) <> (taken + made_up > 0)
        or n.statuses = '{}';
    today := clock at time zone n.zone;
    day_name := (today - date '2000-01-01') || n.zone;
    if turned or day_name is distinct from kept_for or today - n.day between 1 and 30 then
        if turned or today - n.day between 1 and 30 then
            streak := care.keep_day(
                row(one.user_id, n.day, scheduled, taken, missed, made_up, skipped, pending, adherence, on_time, clock, null,
                    null)::care.day_summary, n.statuses <> '{}');
            n.was := null;  -- It is written.
        end if;
        if turned then
            carried := care.carry_runs(one.user_id, n.day, n.day, streak.run, streak.best);
        end if;
        stats := care.stats_on(one.user_id, today, clock);
        kept := stats.stats;
        kept_for := case when stats.lasting then day_name end;
    end if;
    summary := care.summary_object(n.day, scheduled, taken, missed, made_up, skipped, pending, adherence, on_time);
    told := to_jsonb(row(
        one.user_id, one.id, care.with_month(summary), n.state, row(last + 1, key)::care.told_at)::care.dose_event);
    last := last + 2;
    day_told := to_jsonb(row(one.user_id, n.day, summary, kept, row(last, key)::care.told_at)::care.day_told);
    if one.op = 'I' then
        named := 'occurrence.created';
        told := told || jsonb_build_object(
            'occurrence', to_jsonb(n.state) || jsonb_build_object('id', one.id, 'userId', one.user_id));
    end if;
    -- What a day's event has is in the dose's, but for the statistics.
    if pg_column_size(told) >= 1400 then
        told := sync.sealed(told, last - 1, to_jsonb(key));
        day_told := sync.sealed(day_told, last, to_jsonb(key));
    end if;
    with counted as (
        update care.day_summary as d
        set scheduled_count = scheduled, taken_count = taken, missed_count = missed, made_up_count = made_up,
            skipped_count = skipped, pending_count = pending, adherence_pct = adherence, on_time_pct = on_time,
            updated_at = clock
        where d.ctid = (n.was).at
    ), appended as (
        insert into sync.event (user_id, topic, o, name, data, created_at) values
            (one.user_id, one.topic, last - 1, coalesce(named, care.occurrence_changed(n.status)), told, clock_timestamp()),
            (one.user_id, one.topic, last, 'adherence.summary_updated', day_told, clock_timestamp())
    )
    update sync.stream as s set top = last, kept = tell_dose.kept, kept_for = tell_dose.kept_for
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
            select care.dose_shown(d) as state, d.status, d.local_date
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
           case
               when dose.status is null then jsonb_build_object(
                   'userId', dose.user_id, 'occurrenceId', dose.id, 'daySummary', day.told,
                   'updates', jsonb_build_object('status', 'cancelled', 'rev', dose.rev))
               else to_jsonb(row(dose.user_id, dose.id, day.told, dose.state, null)::care.dose_event)
           end || case dose.op when 'I' then jsonb_build_object(
                      'occurrence', to_jsonb(dose.state) || jsonb_build_object('id', dose.id, 'userId', dose.user_id)) else '{}' end
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
drop type if exists care.dose_told;
drop type if exists care.dose_shown;
