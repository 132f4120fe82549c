-- Days: their counts, and the streaks that these make. A flush counts all its days, then carries the streaks of each user
-- through them once.

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

-- care.carry_runs: takes changed streaks to the days after `first_day`, up to the first one after `last_day` that they leave
-- as it is; returns `who`. Between both any day may have been counted anew, come or gone; that of `first_day` has its
-- streak. Only rows that change are written, by one UPDATE. `first_day` null: nothing to do. Lock order: day summaries,
-- under the lock of the user's stream.
create or replace function care.carry_runs(who text, first_day date, last_day date) returns text
language plpgsql
as $$
declare
    s care.day_summary;
    run int;
    best int;
    days date[];
    runs int[];
    bests int[];
begin
    if first_day is null then
        return who;
    end if;
    select d.run, d.best into run, best from care.day_summary as d
    where d.user_id = who and d.date <= first_day order by d.date desc limit 1;
    best := coalesce(best, 0);
    for s in select * from care.day_summary as d where d.user_id = who and d.date > first_day order by d.date loop
        run := care.run_after(run, s);
        best := greatest(best, run);
        if s.run <> run or s.best <> best then
            days := days || s.date;
            runs := runs || run;
            bests := bests || best;
        else
            exit when s.date > last_day;
        end if;
    end loop;
    if days is not null then
        update care.day_summary as d set run = c.run, best = c.best
        from unnest(days, runs, bests) as c(date, run, best)
        where d.user_id = who and d.date = c.date;
    end if;
    return who;
end
$$;

-- care.keep_day: writes the summary of a day that turned, with its streak after the day before it, or takes it away where no
-- dose is left. Lock order: the day's summary, under the lock of the user's stream.
create or replace function care.keep_day(s care.day_summary, present boolean, clock timestamptz) returns void
language plpgsql
as $$
declare
    before care.day_summary;
begin
    if not present then
        delete from care.day_summary as d where d.user_id = s.user_id and d.date = s.date;
        return;
    end if;
    select * into before from care.day_summary as d
    where d.user_id = s.user_id and d.date < s.date order by d.date desc limit 1;
    s.run := care.run_after(before.run, s);
    s.best := greatest(before.best, s.run);
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
end
$$;

-- care.summary_json: a day's summary as events and snapshots show it. No locks.
create or replace function care.summary_json(s care.day_summary) returns jsonb
language plpgsql stable
as $$
begin
    return jsonb_build_object(
        'date', to_char(s.date, 'YYYY-MM-DD'), 'scheduledCount', s.scheduled_count, 'takenCount', s.taken_count,
        'missedCount', s.missed_count, 'madeUpCount', s.made_up_count, 'skippedCount', s.skipped_count,
        'pendingCount', s.pending_count, 'adherencePct', s.adherence_pct, 'onTimePct', s.on_time_pct);
end
$$;

-- care.judged: a summary with the percentages of its counts, `ended` of its pending doses being due. No locks.
--
-- The one rule of percentages: they are of the doses due, which are taken, missed, made up, and pending with a window that has
-- ended by the clock of who shows them: an event's, of its commit; a snapshot's, of its reading. Null when nothing is due.
create or replace function care.judged(s care.day_summary, ended bigint) returns care.day_summary
language plpgsql immutable
as $$
declare
    due constant bigint := nullif(s.taken_count + s.missed_count + s.made_up_count + ended, 0);
begin
    s.adherence_pct := round(100.0 * (s.taken_count + s.made_up_count) / due, 1);
    s.on_time_pct := round(100.0 * s.taken_count / due, 1);
    return s;
end
$$;

-- care.count_day: counts a user's day, stores the counts in care.day_summary, and returns them as clients get them. `turned`:
-- the day is another for the streak than it was, and care.carry_runs is to follow. Called by the builder only, under the
-- lock of the user's stream. Lock order: the day's summary, after the stream.
--
-- A day counts all its doses but the cancelled and the intakes as needed, which no schedule asked for: scheduled = taken +
-- missed + made_up + skipped + pending. Percentages by
-- care.judged at `clock`, the time of the flush. Those that are stored are good later only where nothing is pending:
-- who shows them reads care.day_shown.
create or replace function care.count_day(who text, day date, clock timestamptz, out summary jsonb, out turned boolean)
language plpgsql
as $$
declare
    s care.day_summary;
    doses bigint;
    ended bigint;
begin
    select count(*),
           count(*) filter (where d.status <> 'cancelled'),
           count(*) filter (where d.status = 'taken'),
           count(*) filter (where d.status = 'missed'),
           count(*) filter (where d.status = 'made_up'),
           count(*) filter (where d.status = 'skipped'),
           count(*) filter (where d.status = 'scheduled'),
           count(*) filter (where d.status = 'scheduled' and d.window_end <= clock)
    into doses, s.scheduled_count, s.taken_count, s.missed_count, s.made_up_count, s.skipped_count, s.pending_count, ended
    from care.dose_occurrence as d
    where d.user_id = who and d.local_date = day and not d.as_needed;
    s := care.judged(s, ended);
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
    turned := not found;
    if turned then
        perform care.keep_day(s, doses > 0, clock);
    end if;
    summary := care.summary_json(s);
end
$$;
drop function if exists care.sum_day(text, date, timestamptz);
drop function if exists care.carry_run(text, date, int, int);
