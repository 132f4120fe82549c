-- care.stats_at: a user's streaks and percentages at an instant; today is that of his zone. Called by the builder after
-- all days of the flush are written. No locks.
--
-- A day that is still open breaks no streak. Percentages are of the 30 days before today: the mean of the days' own (days
-- with nothing due are left out), and that of all their doses together; a pending dose is due when its window has ended.
create or replace function care.stats_at(who text, clock timestamptz) returns jsonb
language plpgsql
as $$
declare
    today date := (clock at time zone coalesce(
        (select u.zone from care.user_settings as u where u.user_id = who), 'UTC'))::date;
    s care.day_summary;
    streak int;
    longest int := 0;
    mean numeric;
    pooled numeric;
begin
    for s in select * from care.day_summary as d where d.user_id = who and d.date <= today order by d.date desc limit 2 loop
        if s.date = today then
            if s.missed_count = 0 and s.pending_count = 0 then
                streak := s.run;
                longest := s.run;
            end if;
        else
            streak := coalesce(streak, s.run);
            longest := greatest(longest, s.best);
            exit;
        end if;
    end loop;

    select round(avg(round(100.0 * done / nullif(due, 0), 1)), 1), round(100.0 * sum(done) / nullif(sum(due), 0), 1)
    into mean, pooled
    from (
        select d.taken_count + d.made_up_count as done,
               d.taken_count + d.made_up_count + d.missed_count
               + case d.pending_count when 0 then 0 else (
                   select count(*) from care.dose_occurrence as o
                   where o.user_id = d.user_id and o.local_date = d.date and o.status = 'scheduled'
                       and o.window_end <= clock) end as due
        from care.day_summary as d
        where d.user_id = who and d.date between today - 30 and today - 1
    ) as days;
    return jsonb_build_object('currentStreakDays', coalesce(streak, 0), 'bestStreakDays', longest,
                              'avg30DaysPct', mean, 'doses30Pct', pooled);
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
