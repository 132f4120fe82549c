-- care.open_stats: what days with open doses among the 30 before today make of a user's statistics: these are judged by the
-- clock. `percents`, `days` and `ended`: what such days add to the percentages. `run` and `best`: the streaks. A day whose
-- only open doses have not ended (care.is_over) is passed over, as today is: what is stored of it counts it as broken. No
-- locks.
create or replace function care.open_stats(who text, today date, clock timestamptz, out percents numeric, out days bigint,
                                           out ended bigint, out run int, out best int)
language plpgsql stable
as $$
declare
    s record;
    due int;
begin
    select d.run, d.best into run, best from care.day_summary as d
    where d.user_id = who and d.date < today - 30 order by d.date desc limit 1;
    best := coalesce(best, 0);
    days := 0;
    ended := 0;
    for s in
        select d.taken_count + d.made_up_count as done, d.missed_count as missed, d.pending_count as pending, n.ended,
               d.date = today as is_today
        from care.day_summary as d
        cross join lateral (
            select count(*)::int as ended from care.dose_occurrence as o
            where d.pending_count > 0 and o.user_id = d.user_id and o.local_date = d.date and o.status = 'scheduled'
                and care.is_over(o.window_end, clock) and not o.as_needed
        ) as n
        where d.user_id = who and d.date between today - 30 and today order by d.date
    loop
        due := s.done + s.missed + s.ended;
        if s.pending > 0 and not s.is_today then
            percents := coalesce(percents, 0) + coalesce(care.percent(s.done, due), 0);
            days := days + (due > 0)::int;
            ended := ended + s.ended;
        end if;
        continue when s.is_today and s.missed + s.pending > 0 or s.pending > 0 and s.missed + s.ended = 0;
        run := care.run_after(run, s.done, s.missed + s.ended);
        best := greatest(best, run);
    end loop;
    run := coalesce(run, 0);
    percents := case when days > 0 then percents end;
end
$$;

-- care.stats_for: the streaks and percentages of users at an instant; today is that of each user's zone. Called by the builder
-- after all days of the flush are written. In SQL, so that it is planned into its callers' statements. No locks.
--
-- A day that is still open breaks no streak: today, and one before it whose open doses have not ended. Percentages are of the
-- 30 days before today: the mean of the days' own (days with nothing due are left out), and that of all their doses together;
-- by the rule of care.judged. `kept_for`: for which zone and day they are good, until a summary changes; null where a day before
-- today is open, for then the clock changes them.
create or replace function care.stats_for(users text[], clock timestamptz)
returns table(user_id text, stats jsonb, kept_for text)
language sql stable
as $$
    select u.user_id, jsonb_build_object(
        'currentStreakDays', coalesce(more.run, now_is.run, before.run, 0),
        'bestStreakDays', greatest(more.best, now_is.run, before.best, 0),
        'avg30DaysPct', round(
            coalesce(past.percents + more.percents, past.percents, more.percents) / nullif(past.days + coalesce(more.days, 0), 0), 1),
        'doses30Pct', care.percent(past.done, past.due + coalesce(more.ended, 0))),
        case when past.open is not true then (t.today - date '2000-01-01') || t.zone end
    from unnest(users) as u(user_id)
    cross join lateral (
        select z.zone, (clock at time zone z.zone)::date as today
        from (select coalesce((select s.zone from care.user_settings as s where s.user_id = u.user_id), 'UTC') as zone) as z
        offset 0
    ) as t
    left join lateral (
        select d.run from care.day_summary as d
        where d.user_id = u.user_id and d.date = t.today and d.missed_count = 0 and d.pending_count = 0
        offset 0
    ) as now_is on true
    left join lateral (
        select d.run, d.best from care.day_summary as d
        where d.user_id = u.user_id and d.date < t.today order by d.date desc limit 1
    ) as before on true
    cross join lateral (
        select sum(d.adherence_pct) filter (where d.pending_count = 0) as percents,
               count(d.adherence_pct) filter (where d.pending_count = 0) as days,
               sum(d.taken_count + d.made_up_count) as done,
               sum(d.taken_count + d.made_up_count + d.missed_count) as due,
               bool_or(d.pending_count > 0) as open
        from care.day_summary as d
        where d.user_id = u.user_id and d.date between t.today - 30 and t.today - 1
    ) as past
    left join lateral (
        select o.* from care.open_stats(u.user_id, t.today, clock) as o where past.open
        offset 0
    ) as more on true
$$;

-- care.stats_on: those of one user on a day, in a statement that starts faster; where days before it are open, as above. The
-- last day before it, or itself where nothing of it is open, has both streaks. `lasting`: they are good all day, until one of
-- the 30 days before it changes, or a day turns (care.count_days). No locks.
create or replace function care.stats_on(who text, today date, clock timestamptz, out stats jsonb, out lasting boolean)
language plpgsql
as $$
declare
    run int;
    best int;
    percent numeric;
    done bigint;
    due bigint;
    open int;
begin
    select b.run, b.best, past.percent, past.done, past.due, past.open into run, best, percent, done, due, open
    from (
        select avg(d.adherence_pct) as percent, sum(d.taken_count + d.made_up_count) as done,
               sum(d.taken_count + d.made_up_count + d.missed_count) as due, max(d.pending_count) as open
        from care.day_summary as d
        where d.user_id = who and d.date between today - 30 and today - 1
    ) as past
    left join (
        select p.run, p.best from care.day_summary as p
        where p.user_id = who and p.date <= today
            and (p.date < today or p.missed_count = 0 and p.pending_count = 0)
        order by p.date desc limit 1
    ) as b on true;
    lasting := open is null or open = 0;
    if lasting then
        stats := jsonb_build_object(
            'currentStreakDays', coalesce(run, 0), 'bestStreakDays', coalesce(best, 0), 'avg30DaysPct', round(percent, 1),
            'doses30Pct', care.percent(done, due));
    else
        stats := (select s.stats from care.stats_for(array[who], clock) as s);
    end if;
end
$$;

-- care.stats_at: a user's statistics at an instant. No locks.
create or replace function care.stats_at(who text, clock timestamptz) returns jsonb
language plpgsql
as $$
begin
    return (select n.stats from care.stats_on(who, (clock at time zone care.zone_of(who))::date, clock) as n);
end
$$;

-- care.stats: a user's statistics now.
create or replace function care.stats(who text) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return care.stats_at(who, sync.clock());
end
$$;
drop function if exists care.stats_of(text[], timestamptz);
drop function if exists care.open_days(text, date, timestamptz);
