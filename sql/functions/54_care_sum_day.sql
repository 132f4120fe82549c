-- care.sum_day: counts a user's day, stores the counts in care.day_summary, and returns them as clients get them. Called
-- by the builder only, under the lock of the user's stream. Lock order: the day's summary, after the stream.
--
-- A day counts all its doses but the cancelled: scheduled = taken + missed + made_up + skipped + pending. Percentages are
-- of those due: taken, missed, made up, and pending ones whose window has ended by `clock`, the time of the flush; null
-- when nothing is due. They hold as of that commit: a window that ends later counts with the day's next change.
create or replace function care.sum_day(who text, day date, clock timestamptz) returns jsonb
language plpgsql
as $$
declare
    s care.day_summary;
begin
    insert into care.day_summary as stored (user_id, date, scheduled_count, taken_count, missed_count, made_up_count,
                                            skipped_count, pending_count, adherence_pct, on_time_pct, updated_at)
    select who, day, scheduled, taken, missed, made_up, skipped, pending,
           round(100.0 * (taken + made_up) / nullif(taken + missed + made_up + overdue, 0), 1),
           round(100.0 * taken / nullif(taken + missed + made_up + overdue, 0), 1), clock
    from (
        select count(*) as doses,
               count(*) filter (where d.status <> 'cancelled') as scheduled,
               count(*) filter (where d.status = 'taken') as taken,
               count(*) filter (where d.status = 'missed') as missed,
               count(*) filter (where d.status = 'made_up') as made_up,
               count(*) filter (where d.status = 'skipped') as skipped,
               count(*) filter (where d.status = 'scheduled') as pending,
               count(*) filter (where d.status = 'scheduled' and d.window_end <= clock) as overdue
        from care.dose_occurrence as d
        where d.user_id = who and d.local_date = day
    ) as counted
    where doses > 0
    on conflict (user_id, date) do update
        set scheduled_count = excluded.scheduled_count, taken_count = excluded.taken_count,
            missed_count = excluded.missed_count, made_up_count = excluded.made_up_count,
            skipped_count = excluded.skipped_count, pending_count = excluded.pending_count,
            adherence_pct = excluded.adherence_pct, on_time_pct = excluded.on_time_pct,
            updated_at = excluded.updated_at
    returning * into s;
    if not found then
        delete from care.day_summary where user_id = who and date = day;
        s := row(who, day, 0, 0, 0, 0, 0, 0, null, null, clock);
    end if;
    return jsonb_build_object(
        'date', to_char(day, 'YYYY-MM-DD'), 'scheduledCount', s.scheduled_count, 'takenCount', s.taken_count,
        'missedCount', s.missed_count, 'madeUpCount', s.made_up_count, 'skippedCount', s.skipped_count,
        'pendingCount', s.pending_count, 'adherencePct', s.adherence_pct, 'onTimePct', s.on_time_pct);
end
$$;
