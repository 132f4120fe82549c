-- care.stats_at: a user's streaks and percentages at an instant; today is that of the user's zone. Called by the builder after
-- all days of the flush are written. No locks.
--
-- A day that is still open breaks no streak. Percentages are of the 30 days before today: the mean of the days' own (days
-- with nothing due are left out), and that of all their doses together; by the rule of care.judged.
create or replace function care.stats_at(who text, clock timestamptz) returns jsonb
language plpgsql
as $$
declare
    today date;
    near care.day_summary[];
    s care.day_summary;
    streak int;
    longest int;
    percents numeric;
    days bigint;
    done bigint;
    due bigint;
    open boolean;
    more record;
begin
    -- Each flush asks this: one statement, and of stored columns alone.
    select t.today,
           array(select d from care.day_summary as d where d.user_id = who and d.date <= t.today
                 order by d.date desc limit 2),
           past.percents, past.days, past.done, past.due, past.open
    into today, near, percents, days, done, due, open
    from (
        select (clock at time zone coalesce(
            (select u.zone from care.user_settings as u where u.user_id = who), 'UTC'))::date as today
        offset 0
    ) as t
    cross join lateral (
        select sum(d.adherence_pct) filter (where d.pending_count = 0) as percents,
               count(d.adherence_pct) filter (where d.pending_count = 0) as days,
               sum(d.taken_count + d.made_up_count) as done,
               sum(d.taken_count + d.made_up_count + d.missed_count) as due,
               bool_or(d.pending_count > 0) as open
        from care.day_summary as d
        where d.user_id = who and d.date between t.today - 30 and t.today - 1
    ) as past;
    if open then
        -- Days with open doses are judged by the clock.
        select sum(round(100.0 * d.good / d.due, 1)) as percents, count(nullif(d.due, 0)) as days, sum(d.ended) as ended
        into more
        from (
            select n.ended, d.taken_count + d.made_up_count as good,
                   nullif(d.taken_count + d.made_up_count + d.missed_count + n.ended, 0) as due
            from care.day_summary as d
            cross join lateral (
                select count(*) as ended from care.dose_occurrence as o
                where o.user_id = d.user_id and o.local_date = d.date and o.status = 'scheduled' and o.window_end <= clock
                    and not o.as_needed
            ) as n
            where d.user_id = who and d.date between today - 30 and today - 1 and d.pending_count > 0
        ) as d;
        percents := coalesce(percents, 0) + coalesce(more.percents, 0);
        days := days + more.days;
        due := due + more.ended;
    end if;

    s := near[1];
    if s.date = today then
        if s.missed_count = 0 and s.pending_count = 0 then
            streak := s.run;
        end if;
        s := near[2];
    end if;
    return jsonb_build_object(
        'currentStreakDays', coalesce(streak, s.run, 0), 'bestStreakDays', greatest(streak, s.best, 0),
        'avg30DaysPct', round(percents / nullif(days, 0), 1), 'doses30Pct', round(100.0 * done / nullif(due, 0), 1));
end
$$;

-- care.stats: the same, now.
create or replace function care.stats(who text) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return care.stats_at(who, sync.clock());
end
$$;
