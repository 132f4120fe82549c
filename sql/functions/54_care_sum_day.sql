-- care.run_after: the streak that ends with a day, from the one before it. A perfect day (something taken or made up,
-- nothing missed, nothing open) adds one, a day with nothing to judge is passed over, any other ends it. No locks.
create or replace function care.run_after(run_before int, s care.day_summary) returns int
language plpgsql
as $$
begin
    if s.missed_count > 0 or s.pending_count > 0 then
        return 0;
    elsif s.taken_count + s.made_up_count > 0 then
        return coalesce(run_before, 0) + 1;
    end if;
    return coalesce(run_before, 0);
end
$$;

-- care.carry_run: takes a changed streak to the days after `day`, up to the first that it leaves as it is. Lock order:
-- day summaries by date, under the lock of the user's stream.
create or replace function care.carry_run(who text, day date, run int, best int) returns void
language plpgsql
as $$
declare
    s care.day_summary;
begin
    for s in select * from care.day_summary as d where d.user_id = who and d.date > day order by d.date loop
        run := care.run_after(run, s);
        best := greatest(best, run);
        exit when s.run = run and s.best = best;
        update care.day_summary as d set run = carry_run.run, best = carry_run.best
        where d.user_id = who and d.date = s.date;
    end loop;
end
$$;

-- care.keep_day: writes the summary of a day with its streak, or takes it away where no dose is left, and tells the days
-- after it. Lock order: the day's summary, then those of later days by date, under the lock of the user's stream.
create or replace function care.keep_day(s care.day_summary, present boolean, clock timestamptz) returns void
language plpgsql
as $$
declare
    near care.day_summary[] := array(
        select d from care.day_summary as d where d.user_id = s.user_id and d.date <= s.date
        order by d.date desc limit 2);
    before care.day_summary := near[1];
    was care.day_summary;
begin
    if before.date = s.date then
        was := before;
        before := near[2];
    end if;
    s.run := coalesce(before.run, 0);
    s.best := coalesce(before.best, 0);
    if present then
        s.run := care.run_after(before.run, s);
        s.best := greatest(s.best, s.run);
        insert into care.day_summary as d (user_id, date, scheduled_count, taken_count, missed_count, made_up_count,
                                           skipped_count, pending_count, adherence_pct, on_time_pct, updated_at, run, best)
        values (s.user_id, s.date, s.scheduled_count, s.taken_count, s.missed_count, s.made_up_count, s.skipped_count,
                s.pending_count, s.adherence_pct, s.on_time_pct, clock, s.run, s.best)
        on conflict (user_id, date) do update
            set scheduled_count = excluded.scheduled_count, taken_count = excluded.taken_count,
                missed_count = excluded.missed_count, made_up_count = excluded.made_up_count,
                skipped_count = excluded.skipped_count, pending_count = excluded.pending_count,
                adherence_pct = excluded.adherence_pct, on_time_pct = excluded.on_time_pct,
                updated_at = excluded.updated_at, run = excluded.run, best = excluded.best;
    else
        delete from care.day_summary as d where d.user_id = s.user_id and d.date = s.date;
    end if;
    if not present or was.date is null or s.run <> was.run or s.best <> was.best then
        perform care.carry_run(s.user_id, s.date, s.run, s.best);
    end if;
end
$$;

-- care.sum_day: counts a user's day, stores the counts in care.day_summary with the streak they make, and returns them as
-- clients get them. Called by the builder only, under the lock of the user's stream. Lock order: the day's summary, after
-- the stream, then those of later days by date.
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
    -- Nobody else writes this row meanwhile. The usual change leaves the day as good or bad for the streak as it was.
    s.user_id := who;
    s.date := day;
    update care.day_summary as d
    set scheduled_count = s.scheduled_count, taken_count = s.taken_count, missed_count = s.missed_count,
        made_up_count = s.made_up_count, skipped_count = s.skipped_count, pending_count = s.pending_count,
        adherence_pct = s.adherence_pct, on_time_pct = s.on_time_pct, updated_at = clock
    where d.user_id = who and d.date = day and doses > 0
        and (d.missed_count + d.pending_count > 0) = (s.missed_count + s.pending_count > 0)
        and (d.taken_count + d.made_up_count > 0) = (s.taken_count + s.made_up_count > 0);
    if not found then
        perform care.keep_day(s, doses > 0, clock);
    end if;
    return jsonb_build_object(
        'date', to_char(day, 'YYYY-MM-DD'), 'scheduledCount', s.scheduled_count, 'takenCount', s.taken_count,
        'missedCount', s.missed_count, 'madeUpCount', s.made_up_count, 'skippedCount', s.skipped_count,
        'pendingCount', s.pending_count, 'adherencePct', s.adherence_pct, 'onTimePct', s.on_time_pct);
end
$$;
