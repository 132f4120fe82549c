-- care.occurrence_events: the builder of care.dose_occurrence: occurrence.created, .updated and .cancelled, and one
-- adherence.summary_updated for each (user, day) touched. Called by sync.flush, under the locks of the streams concerned;
-- writes care.day_summary, which nothing else does. Lock order: day summaries, after streams.
--
-- A day counts all its doses but the cancelled: scheduled = taken + missed + made_up + skipped + pending. Percentages are
-- of those due: taken, missed, made up, and pending ones whose window has ended, by the clock at commit; null when
-- nothing is due. They hold as of that commit: a window that ends later changes them with the next change of the day.
-- The text of a note never leaves the table: hasNote does.
-- Tables are met by key only (subqueries, OFFSET 0): a join could become a hash over all of one.
create or replace function care.occurrence_events(changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
as $$
declare
    clock timestamptz := clock_timestamp();
begin
    return query
    with dose as materialized (
        select c.user_id as owner, c.id as dose_id, c.op, c.context::date as old_day, c.rev as old_rev, o.*
        from unnest(changes) as c
        left join lateral (
            select * from care.dose_occurrence as o where o.id = c.id and o.user_id = c.user_id offset 0
        ) as o on true
    ), day as (
        select owner, old_day as date from dose where old_day is not null
        union
        select owner, local_date from dose where id is not null
    ), summary as materialized (
        select d.owner, d.date, s.*,
               case when due > 0 then round(100.0 * (taken + made_up) / due, 1) end as adherence_pct,
               case when due > 0 then round(100.0 * taken / due, 1) end as on_time_pct
        from day as d
        cross join lateral (
            select count(*)::int as doses,
                   count(*) filter (where o.status <> 'cancelled')::int as scheduled,
                   count(*) filter (where o.status = 'taken')::int as taken,
                   count(*) filter (where o.status = 'missed')::int as missed,
                   count(*) filter (where o.status = 'made_up')::int as made_up,
                   count(*) filter (where o.status = 'skipped')::int as skipped,
                   count(*) filter (where o.status = 'scheduled')::int as pending,
                   count(*) filter (where o.status in ('taken', 'missed', 'made_up')
                                       or o.status = 'scheduled' and o.window_end <= clock)::int as due
            from care.dose_occurrence as o
            where o.user_id = d.owner and o.local_date = d.date
        ) as s
    ), stored as (
        insert into care.day_summary as s (user_id, date, scheduled_count, taken_count, missed_count, made_up_count,
                                           skipped_count, pending_count, adherence_pct, on_time_pct, updated_at)
        select n.owner, n.date, n.scheduled, n.taken, n.missed, n.made_up, n.skipped, n.pending, n.adherence_pct,
               n.on_time_pct, clock
        from summary as n where n.doses > 0
        on conflict (user_id, date) do update
            set scheduled_count = excluded.scheduled_count, taken_count = excluded.taken_count,
                missed_count = excluded.missed_count, made_up_count = excluded.made_up_count,
                skipped_count = excluded.skipped_count, pending_count = excluded.pending_count,
                adherence_pct = excluded.adherence_pct, on_time_pct = excluded.on_time_pct,
                updated_at = excluded.updated_at
    ), emptied as (
        delete from care.day_summary where ctid = any(array(
            select s.ctid from summary as n
            cross join lateral (
                select s.ctid from care.day_summary as s where s.user_id = n.owner and s.date = n.date offset 0
            ) as s
            where n.doses = 0))
    ), told as materialized (
        select n.owner, n.date,
               jsonb_build_object(
                   'date', to_char(n.date, 'YYYY-MM-DD'), 'scheduledCount', n.scheduled, 'takenCount', n.taken,
                   'missedCount', n.missed, 'madeUpCount', n.made_up, 'skippedCount', n.skipped,
                   'pendingCount', n.pending, 'adherencePct', n.adherence_pct, 'onTimePct', n.on_time_pct) as json
        from summary as n
    ), state as (
        select d.owner, d.dose_id, d.op, d.status, d.id is not null as there, t.json as day_json,
               coalesce(d.local_date, d.old_day) as date,
               case when d.id is null then jsonb_build_object('status', 'cancelled', 'rev', d.old_rev)
               else jsonb_build_object(
                   'scheduleId', d.schedule_id, 'productId', d.product_id, 'productName', (
                       select p.name from care.product as p
                       where p.id = d.product_id and (p.user_id is null or p.user_id = d.owner)),
                   'status', d.status,
                   'takenAt', d.taken_at, 'hasNote', coalesce(d.note, '') <> '', 'rev', d.rev,
                   'scheduledAt', d.scheduled_at, 'timeLocal', care.local_iso(d.scheduled_at, d.tz), 'timezone', d.tz,
                   'localDate', to_char(d.local_date, 'YYYY-MM-DD'), 'windowStart', d.window_start,
                   'windowEnd', d.window_end, 'createdAt', d.created_at, 'updatedAt', d.updated_at) end as updates
        from dose as d
        left join told as t on t.owner = d.owner and t.date = coalesce(d.local_date, d.old_day)
        where d.id is not null or d.op <> 'I'
    )
    select s.owner, false, s.dose_id,
           case when s.op = 'I' then 'occurrence.created'
                when not s.there or s.status = 'cancelled' then 'occurrence.cancelled'
                else 'occurrence.updated' end,
           jsonb_build_object(
               'userId', s.owner, 'occurrenceId', s.dose_id, 'updates', s.updates,
               'daySummary', jsonb_build_object('month', to_char(s.date, 'YYYY-MM')) || s.day_json)
           || case when s.op = 'I'
                   then jsonb_build_object('occurrence',
                                           jsonb_build_object('id', s.dose_id, 'userId', s.owner) || s.updates)
                   else '{}'::jsonb end
    from state as s
    union all
    select t.owner, true, to_char(t.date, 'YYYY-MM-DD'), 'adherence.summary_updated',
           jsonb_build_object('userId', t.owner, 'date', t.json -> 'date', 'summary', t.json)
    from told as t;
end
$$;
