-- Days: their counts, and the streaks that these make. A flush counts all its days, then carries the streaks of each user
-- through them once.

-- care.run_after: the streak that ends with a day, from the one before it: of the day's doses `done` are taken or made up, and
-- `open` are missed or pending. A perfect day (something done, nothing open) adds one, a day with nothing to judge is passed
-- over, any other ends it. No locks.
create or replace function care.run_after(run_before int, done int, open int) returns int
language sql immutable
as $$
    select case when open > 0 then 0 when done > 0 then coalesce(run_before, 0) + 1 else coalesce(run_before, 0) end
$$;

-- care.carry_runs: takes changed streaks to the days after `first_day`, up to the first one after `last_day` that they leave
-- as it is; returns `who`. Between both any day may have been counted anew, come or gone; that of `first_day` has its
-- streak: `run` and `best`, which are looked up where they are null. Only rows that change are written, by one UPDATE.
-- `first_day` null: nothing to do. Lock order: day summaries, under the lock of the user's stream.
create or replace function care.carry_runs(who text, first_day date, last_day date, run int default null, best int default null)
returns text
language plpgsql
as $$
declare
    s record;
    days date[];
    runs int[];
    bests int[];
begin
    if first_day is null then
        return who;
    end if;
    if run is null then
        select d.run, d.best into run, best from care.day_summary as d
        where d.user_id = who and d.date <= first_day order by d.date desc limit 1;
    end if;
    best := coalesce(best, 0);
    for s in
        select d.date, d.run, d.best, d.taken_count + d.made_up_count as done, d.missed_count + d.pending_count as open
        from care.day_summary as d where d.user_id = who and d.date > first_day order by d.date
    loop
        run := care.run_after(run, s.done, s.open);
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
-- dose is left; returns the streaks up to then. Lock order: the day's summary, under the lock of the user's stream.
create or replace function care.keep_day(s care.day_summary, present boolean, out run int, out best int)
language plpgsql
as $$
declare
    run_before int;
begin
    select d.run, d.best into run_before, best from care.day_summary as d
    where d.user_id = s.user_id and d.date < s.date order by d.date desc limit 1;
    if not present then
        run := coalesce(run_before, 0);
        delete from care.day_summary as d where d.user_id = s.user_id and d.date = s.date;
        return;
    end if;
    run := care.run_after(run_before, s.taken_count + s.made_up_count, s.missed_count + s.pending_count);
    best := greatest(best, run);
    update care.day_summary as d
    set scheduled_count = s.scheduled_count, taken_count = s.taken_count, missed_count = s.missed_count,
        made_up_count = s.made_up_count, skipped_count = s.skipped_count, pending_count = s.pending_count,
        adherence_pct = s.adherence_pct, on_time_pct = s.on_time_pct, updated_at = s.updated_at, run = keep_day.run,
        best = keep_day.best
    where d.user_id = s.user_id and d.date = s.date;
    if not found then
        -- Nobody else writes this day meanwhile.
        s.run := run;
        s.best := best;
        insert into care.day_summary select s.*;
    end if;
end
$$;

-- care.summary_shown: the members of a day's summary, as events and snapshots show it.
do $$
begin
    if to_regtype('care.summary_shown') is null then
        create type care.summary_shown as (
            date date, "scheduledCount" int, "takenCount" int, "missedCount" int, "madeUpCount" int, "skippedCount" int,
            "pendingCount" int, "adherencePct" numeric, "onTimePct" numeric
        );
    end if;
end
$$;

-- care.summary_object: a day's summary as events and snapshots show it. No locks.
create or replace function care.summary_object(day date, scheduled int, taken int, missed int, made_up int, skipped int, pending int,
                                               adherence numeric, on_time numeric) returns jsonb
language sql stable
as $$
    select to_jsonb(row(day, scheduled, taken, missed, made_up, skipped, pending, adherence, on_time)::care.summary_shown)
$$;

-- care.summary_json: a row as care.summary_object makes it. No locks.
create or replace function care.summary_json(s care.day_summary) returns jsonb
language sql stable
as $$
    select care.summary_object(s.date, s.scheduled_count, s.taken_count, s.missed_count, s.made_up_count, s.skipped_count,
                               s.pending_count, s.adherence_pct, s.on_time_pct)
$$;

-- care.percent: how many of so many, in percent; null of none. No locks.
create or replace function care.percent(part bigint, due bigint) returns numeric
language sql immutable
as $$
    select round(100.0 * part / nullif(due, 0), 1)
$$;

-- care.grace: how long after its window a dose may still be marked as taken. No locks.
create or replace function care.grace() returns interval
language sql immutable
as $$
    select interval '30 minutes'
$$;

-- care.is_over: whether a scheduled dose whose window ends at `window_end` has ended, with the grace after it: then the job marks
-- it as missed. No locks.
create or replace function care.is_over(window_end timestamptz, clock timestamptz) returns boolean
language sql stable
as $$
    select window_end <= clock - care.grace()
$$;

-- care.judged: a summary with the percentages of its counts, `ended` of its pending doses being due. No locks.
--
-- The one rule of percentages: they are of the doses due, which are taken, missed, made up, and pending ones that have ended
-- (care.is_over) by the clock of who shows them: an event's, of its commit; a snapshot's, of its reading. Null when nothing is
-- due. care.count_days and care.tell_dose have it too. Streaks go by it as well: care.open_stats.
create or replace function care.judged(s care.day_summary, ended bigint) returns care.day_summary
language plpgsql immutable
as $$
declare
    due constant bigint := s.taken_count + s.missed_count + s.made_up_count + ended;
begin
    s.adherence_pct := care.percent(s.taken_count + s.made_up_count, due);
    s.on_time_pct := care.percent(s.taken_count, due);
    return s;
end
$$;

-- care.count_days: counts all days of many changes and stores the counts in care.day_summary, with the streaks and all that
-- follows from them, by one statement and a call for each user with a day that turned: that is another for the streak than
-- it was. Returns the days as they are now, also those without a dose, which are gone from care.day_summary, and whose they
-- are. Called by the builder only, under the locks of the users' streams. Lock order: day summaries in the order of (user,
-- day).
--
-- A day counts all its doses but the cancelled and the intakes as needed, which no schedule asked for: scheduled = taken +
-- missed + made_up + skipped + pending. Percentages by the rule of care.judged at `clock`, the time of the flush. Those that
-- are stored are good later only where nothing is pending: who shows them reads care.day_shown.
--
-- Doses and days are met by key only (OFFSET 0, ON CONFLICT): a join could become a hash over all of a table.
create or replace function care.count_days(changes sync.change[], clock timestamptz, out days care.day_summary[],
                                           out users text[])
language plpgsql
as $$
declare
    gone care.day_summary[];
    turned care.day_summary[];
    one care.day_summary;
begin
    with dose as materialized (
        select c.user_id, c.context::date as old_day, c.contexts, r.local_date
        from unnest(changes) as c
        left join lateral (
            select d.local_date from care.dose_occurrence as d where d.id = c.id and d.user_id = c.user_id offset 0
        ) as r on true
        where r.local_date is not null or c.op <> 'I'
    ), counted as materialized (
        select d.user_id, d.date, n.*, w.run as own_run, w.best as own_best,
               n.doses = 0 or w.run is null or w.open <> (n.missed + n.pending > 0) or w.done <> (n.taken + n.made_up > 0)
                   as turned
        from (
            select dose.user_id, dose.old_day as date from dose where dose.old_day is not null
            union
            select dose.user_id, d::date from dose cross join lateral unnest(dose.contexts) as d
            union
            select dose.user_id, dose.local_date from dose where dose.local_date is not null
            order by 1, 2
        ) as d
        cross join lateral (
            select count(*) as doses,
                   count(*) filter (where o.status = 'taken')::int as taken,
                   count(*) filter (where o.status = 'missed')::int as missed,
                   count(*) filter (where o.status = 'made_up')::int as made_up,
                   count(*) filter (where o.status = 'skipped')::int as skipped,
                   count(*) filter (where o.status = 'scheduled')::int as pending,
                   count(*) filter (where o.status = 'scheduled' and care.is_over(o.window_end, clock)) as ended
            from care.dose_occurrence as o
            where o.user_id = d.user_id and o.local_date = d.date and not o.as_needed
        ) as n
        left join lateral (
            select s.run, s.best, s.missed_count + s.pending_count > 0 as open, s.taken_count + s.made_up_count > 0 as done
            from care.day_summary as s where s.user_id = d.user_id and s.date = d.date
            offset 0
        ) as w on true
    ), day as materialized (
        -- The first of a user's days that turned has its streak from the day before it. care.carry_runs has those after it.
        select row(n.user_id, n.date, n.taken + n.missed + n.made_up + n.skipped + n.pending, n.taken, n.missed, n.made_up,
                   n.skipped, n.pending, care.percent(n.taken + n.made_up, n.taken + n.missed + n.made_up + n.ended),
                   care.percent(n.taken, n.taken + n.missed + n.made_up + n.ended), clock,
                   case when n.turned then care.run_after(b.run, n.taken + n.made_up, n.missed + n.pending) else n.own_run end,
                   case when n.turned
                        then greatest(b.best, care.run_after(b.run, n.taken + n.made_up, n.missed + n.pending))
                        else n.own_best end)::care.day_summary as s,
               n.doses > 0 as present, n.turned
        from counted as n
        left join lateral (
            select p.run, p.best from care.day_summary as p
            where n.turned and p.user_id = n.user_id and p.date < n.date order by p.date desc limit 1
        ) as b on true
    ), written as (
        insert into care.day_summary as d (user_id, date, scheduled_count, taken_count, missed_count, made_up_count,
                                           skipped_count, pending_count, adherence_pct, on_time_pct, updated_at, run, best)
        select (day.s).user_id, (day.s).date, (day.s).scheduled_count, (day.s).taken_count, (day.s).missed_count,
               (day.s).made_up_count, (day.s).skipped_count, (day.s).pending_count, (day.s).adherence_pct,
               (day.s).on_time_pct, (day.s).updated_at, (day.s).run, (day.s).best
        from day where day.present
        on conflict (user_id, date) do update
            set scheduled_count = excluded.scheduled_count, taken_count = excluded.taken_count,
                missed_count = excluded.missed_count, made_up_count = excluded.made_up_count,
                skipped_count = excluded.skipped_count, pending_count = excluded.pending_count,
                adherence_pct = excluded.adherence_pct, on_time_pct = excluded.on_time_pct,
                updated_at = excluded.updated_at, run = excluded.run, best = excluded.best
    )
    select array_agg(day.s), array_agg(distinct (day.s).user_id), array_agg(day.s) filter (where not day.present),
           array_agg(day.s) filter (where day.turned)
    into days, users, gone, turned from day;

    if gone is not null then
        foreach one in array gone loop
            delete from care.day_summary as d where d.user_id = one.user_id and d.date = one.date;
        end loop;
    end if;
    if turned is not null then
        perform care.carry_runs(o.user_id, o.first_day, o.last_day)
        from (
            select t.user_id, min(t.date) as first_day, max(t.date) as last_day from unnest(turned) as t
            group by t.user_id order by t.user_id offset 0
        ) as o;
    end if;
end
$$;
drop function if exists care.run_after(int, care.day_summary);
drop function if exists care.sum_day(text, date, timestamptz);
drop function if exists care.carry_run(text, date, int, int);
drop function if exists care.count_day(text, date, timestamptz);
drop function if exists care.carry_runs(text, date, date);
drop function if exists care.keep_day(care.day_summary, boolean, timestamptz);
