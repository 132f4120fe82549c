-- care.taken_local: an instant as wall time with an offset of so many seconds east of UTC, to the microsecond:
-- 2025-11-14T08:00:00.5-05:00. Null where either is. No locks.
create or replace function care.taken_local(at timestamptz, utc_offset int) returns text
language sql stable
as $$
    select case when utc_offset is not null then
        (to_jsonb((at at time zone 'UTC') + make_interval(secs => utc_offset)) #>> '{}')
            || case when utc_offset < 0 then '-' else '+' end
            || to_char(make_interval(secs => abs(utc_offset)), 'HH24:MI') end
$$;

-- care.dose_state: a dose as events show it. The text of its note is not in it: hasNote is. Rows from before migration 0011
-- have no name of their own: they are shown with the product's. No locks.
create or replace function care.dose_state(o care.dose_occurrence) returns jsonb
language plpgsql stable
as $$
begin
    if o.product_name is null and o.product_id is not null then
        select p.name into o.product_name from care.product as p
        where p.id = o.product_id and (p.user_id is null or p.user_id = o.user_id);
    end if;
    return jsonb_build_object(
        'scheduleId', o.schedule_id, 'productId', o.product_id, 'productName', o.product_name, 'strength', o.strength,
        'form', o.form, 'dose', o.dose, 'asNeeded', o.as_needed, 'status', o.status,
        'takenAt', o.taken_at, 'takenAtLocal', care.taken_local(o.taken_at, o.taken_offset),
        'changedBy', jsonb_build_object('actor', o.changed_by, 'deviceId', o.changed_device),
        'hasNote', coalesce(o.note, '') <> '', 'rev', o.rev, 'scheduledAt', o.scheduled_at,
        'timeLocal', care.local_iso(o.scheduled_at, o.tz), 'timezone', o.tz,
        'localDate', to_char(o.local_date, 'YYYY-MM-DD'), 'windowStart', o.window_start, 'windowEnd', o.window_end,
        'createdAt', o.created_at, 'updatedAt', o.updated_at);
end
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

-- care.occurrence_event: the event of one dose for one user, with all its state. `o` all null: the user has it no more.
-- The text of a note never leaves the table: hasNote does. No locks.
create or replace function care.occurrence_event(c sync.change, o care.dose_occurrence, summary jsonb)
returns sync.draft
language plpgsql
as $$
declare
    updates jsonb;
    body jsonb;
begin
    if o.id is null then
        updates := jsonb_build_object('status', 'cancelled', 'rev', c.rev);
    else
        updates := care.dose_state(o);
    end if;
    body := jsonb_build_object(
        'userId', c.user_id, 'occurrenceId', c.id, 'updates', updates,
        'daySummary', summary || jsonb_build_object('month', left(summary ->> 'date', 7)));
    if c.op = 'I' then
        body := body || jsonb_build_object(
            'occurrence', updates || jsonb_build_object('id', c.id, 'userId', c.user_id));
    end if;
    return row(
        c.user_id, false, c.id,
        case when c.op = 'I' then 'occurrence.created'
             when o.id is null or o.status = 'cancelled' then 'occurrence.cancelled'
             else 'occurrence.updated' end::text,
        body);
end
$$;

-- care.summary_event: what the summary of a user's day says now, and the user's statistics. No locks.
create or replace function care.summary_event(who text, summary jsonb, stats jsonb) returns sync.draft
language plpgsql
as $$
begin
    return row(who, true, summary ->> 'date', 'adherence.summary_updated'::text,
               jsonb_build_object('userId', who, 'date', summary -> 'date', 'summary', summary, 'stats', stats));
end
$$;
drop function if exists care.summary_event(text, jsonb);

-- care.occurrence_events: the builder of care.dose_occurrence: occurrence.created, .updated and .cancelled, and one
-- adherence.summary_updated for each (user, day) touched: the days a dose had before and the one it has now. Called by
-- sync.flush, under the locks of the streams concerned. Lock order: day summaries in the order of (user, day).
-- The dose is met by key only (OFFSET 0): a join could become a hash over all of the table.
create or replace function care.occurrence_events(changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
as $$
declare
    clock timestamptz := sync.clock();
    one sync.change := changes[1];
    now_is care.dose_occurrence;
    now_day date;
    day_before date;
    days_before date[];
    first_turned date;
    last_turned date;
    told record;
    told_before record;
    summaries_before jsonb[] := '{}';
    summary_before jsonb;
    stats jsonb;
    draft sync.draft;
begin
    if cardinality(changes) = 1 then
        -- The usual commit, at a third of the cost of the statement below.
        select * into now_is from care.dose_occurrence as d where d.id = one.id and d.user_id = one.user_id;
        if now_is.id is null and one.op = 'I' then
            return;
        end if;
        day_before := one.context;
        now_day := coalesce(now_is.local_date, day_before);
        told := care.count_day(one.user_id, now_day, clock);
        draft := care.occurrence_event(one, now_is, told.summary);
        return next draft;
        if told.turned then
            first_turned := now_day;
            last_turned := now_day;
        end if;
        if day_before <> now_day or one.contexts is not null then
            select array_agg(distinct d order by d) into days_before
            from unnest(day_before || one.contexts::date[]) as d where d <> now_day;
            foreach day_before in array days_before loop
                told_before := care.count_day(one.user_id, day_before, clock);
                summaries_before := summaries_before || told_before.summary;
                if told_before.turned then
                    first_turned := least(first_turned, day_before);
                    last_turned := greatest(last_turned, day_before);
                end if;
            end loop;
        end if;
        if first_turned is not null then
            perform care.carry_runs(one.user_id, first_turned, last_turned);
        end if;
        stats := care.stats_at(one.user_id, clock);
        draft := care.summary_event(one.user_id, told.summary, stats);
        return next draft;
        foreach summary_before in array summaries_before loop
            draft := care.summary_event(one.user_id, summary_before, stats);
            return next draft;
        end loop;
        return;
    end if;

    return query
    with dose as materialized (
        select c as change, c.user_id, c.context::date as old_day, r.dose, (r.dose).local_date
        from unnest(changes) as c
        left join lateral (
            select d as dose from care.dose_occurrence as d where d.id = c.id and d.user_id = c.user_id offset 0
        ) as r on true
        where (r.dose).id is not null or c.op <> 'I'
    ), day as materialized (
        select d.user_id, d.date, counted.summary, counted.turned
        from (
            select dose.user_id, dose.old_day as date from dose where dose.old_day is not null
            union
            select dose.user_id, d::date from dose cross join lateral unnest((dose.change).contexts) as d
            union
            select dose.user_id, dose.local_date from dose where dose.local_date is not null
            order by 1, 2
        ) as d
        cross join lateral care.count_day(d.user_id, d.date, clock) as counted
    ), own as materialized (
        -- Grouping takes all days first, and the argument comes before its function: statistics are of what is written.
        select o.user_id, care.stats_at(care.carry_runs(o.user_id, o.first_day, o.last_day), clock) as stats
        from (
            select day.user_id, min(day.date) filter (where day.turned) as first_day,
                   max(day.date) filter (where day.turned) as last_day
            from day group by day.user_id
            offset 0
        ) as o
    )
    select e.* from dose
    join day on day.user_id = dose.user_id and day.date = coalesce(dose.local_date, dose.old_day)
    cross join lateral care.occurrence_event(dose.change, dose.dose, day.summary) as e
    union all
    select e.* from day
    join own on own.user_id = day.user_id
    cross join lateral care.summary_event(day.user_id, day.summary, own.stats) as e;
end
$$;
