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
    doses bigint;
    due bigint;
begin
    select count(*),
           count(*) filter (where d.status <> 'cancelled'),
           count(*) filter (where d.status = 'taken'),
           count(*) filter (where d.status = 'missed'),
           count(*) filter (where d.status = 'made_up'),
           count(*) filter (where d.status = 'skipped'),
           count(*) filter (where d.status = 'scheduled'),
           count(*) filter (where d.status in ('taken', 'missed', 'made_up')
                            or d.status = 'scheduled' and d.window_end <= clock)
    into doses, s.scheduled_count, s.taken_count, s.missed_count, s.made_up_count, s.skipped_count, s.pending_count, due
    from care.dose_occurrence as d
    where d.user_id = who and d.local_date = day;
    if due > 0 then
        s.adherence_pct := round(100.0 * (s.taken_count + s.made_up_count) / due, 1);
        s.on_time_pct := round(100.0 * s.taken_count / due, 1);
    end if;

    -- Nobody else writes this row meanwhile, so two plain statements do; the first is the usual one.
    if doses = 0 then
        delete from care.day_summary where user_id = who and date = day;
    else
        update care.day_summary as stored
        set scheduled_count = s.scheduled_count, taken_count = s.taken_count, missed_count = s.missed_count,
            made_up_count = s.made_up_count, skipped_count = s.skipped_count, pending_count = s.pending_count,
            adherence_pct = s.adherence_pct, on_time_pct = s.on_time_pct, updated_at = clock
        where stored.user_id = who and stored.date = day;
        if not found then
            insert into care.day_summary (user_id, date, scheduled_count, taken_count, missed_count, made_up_count,
                                          skipped_count, pending_count, adherence_pct, on_time_pct, updated_at)
            values (who, day, s.scheduled_count, s.taken_count, s.missed_count, s.made_up_count, s.skipped_count,
                    s.pending_count, s.adherence_pct, s.on_time_pct, clock);
        end if;
    end if;
    return jsonb_build_object(
        'date', to_char(day, 'YYYY-MM-DD'), 'scheduledCount', s.scheduled_count, 'takenCount', s.taken_count,
        'missedCount', s.missed_count, 'madeUpCount', s.made_up_count, 'skippedCount', s.skipped_count,
        'pendingCount', s.pending_count, 'adherencePct', s.adherence_pct, 'onTimePct', s.on_time_pct);
end
$$;
