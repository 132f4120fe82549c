-- care.plan_day: writes the doses that a user's schedules give for one local day; those already there are left alone
-- (ids are deterministic). Returns how many are new. Lock order: care.dose_occurrence in the order of ids.
create or replace function care.plan_day(who text, day date) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    zone text := care.zone_of(who);
    planned bigint;
begin
    insert into care.dose_occurrence (id, user_id, schedule_id, product_id, scheduled_at, tz, local_date, local_time,
                                      window_end)
    select care.occurrence_id(s.id, day + s.time, i.product_id), who, s.id, coalesce(s.product_id, i.product_id), t.at,
           zone, day, s.time, t.at + make_interval(mins => s.window_minutes)
    from care.schedule as s
    left join care.stack_item as i on i.stack_id = s.stack_id
    cross join lateral (select care.resolve_local(day + s.time, zone) as at) as t
    where s.user_id = who and s.enabled and care.repeats_on(s.repeat, s.repeat_on, day)
        and day between coalesce(s.starts_on, day) and coalesce(s.ends_on, day)
        and coalesce(s.product_id, i.product_id) is not null
    order by 1
    on conflict (id) do nothing;
    get diagnostics planned = row_count;
    return planned;
end
$$;
