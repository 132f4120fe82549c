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
    doses int;
    cancelled int;
    taken int;
    missed int;
    made_up int;
    skipped int;
    pending int;
    due int;
    adherence numeric;
    on_time numeric;
begin
    select count(*), count(*) filter (where status = 'cancelled'), count(*) filter (where status = 'taken'),
           count(*) filter (where status = 'missed'), count(*) filter (where status = 'made_up'),
           count(*) filter (where status = 'skipped'), count(*) filter (where status = 'scheduled'),
           count(*) filter (where status = 'scheduled' and window_end <= clock)
    into doses, cancelled, taken, missed, made_up, skipped, pending, due
    from care.dose_occurrence
    where user_id = who and local_date = day;
    due := due + taken + missed + made_up;
    if due > 0 then
        adherence := round(100.0 * (taken + made_up) / due, 1);
        on_time := round(100.0 * taken / due, 1);
    end if;
    if doses = 0 then
        delete from care.day_summary where user_id = who and date = day;
    else
        insert into care.day_summary as s (user_id, date, scheduled_count, taken_count, missed_count, made_up_count,
                                           skipped_count, pending_count, adherence_pct, on_time_pct, updated_at)
        values (who, day, doses - cancelled, taken, missed, made_up, skipped, pending, adherence, on_time, clock)
        on conflict (user_id, date) do update
            set scheduled_count = excluded.scheduled_count, taken_count = excluded.taken_count,
                missed_count = excluded.missed_count, made_up_count = excluded.made_up_count,
                skipped_count = excluded.skipped_count, pending_count = excluded.pending_count,
                adherence_pct = excluded.adherence_pct, on_time_pct = excluded.on_time_pct,
                updated_at = excluded.updated_at;
    end if;
    return jsonb_build_object(
        'date', to_char(day, 'YYYY-MM-DD'), 'scheduledCount', doses - cancelled, 'takenCount', taken,
        'missedCount', missed, 'madeUpCount', made_up, 'skippedCount', skipped, 'pendingCount', pending,
        'adherencePct', adherence, 'onTimePct', on_time);
end
$$;
