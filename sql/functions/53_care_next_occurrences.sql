-- care.repeats_on: whether a rule that repeats so fires on a day; as needed, on none. ISO weekdays: 1 = Monday … 7 = Sunday.
-- No locks.
create or replace function care.repeats_on(repeat text, repeat_on smallint[], day date) returns boolean
language sql immutable parallel safe
as $$
    select case repeat when 'daily' then true
                       when 'weekdays' then extract(isodow from day) < 6
                       when 'custom' then coalesce(extract(isodow from day)::smallint = any(repeat_on), false)
                       else false end
$$;

-- care.next_occurrences: the next `wanted` times (at most 30) a rule fires after `since`, in order: wall time in the
-- rule's zone, exceptions applied (cancelled left out, moved where they were moved to). A disabled rule has none. A day
-- that a zone skipped (Apia, 2011-12-30) gives no second event on the next. No locks.
create or replace function care.next_occurrences(rule care.reminder_rule, since timestamptz, wanted int default 10)
returns setof timestamptz
language plpgsql stable
as $$
declare
    first_day date := (since at time zone rule.timezone)::date - 1;
    per_week int := case rule.repeat when 'daily' then 7 when 'weekdays' then 5
                                     else (select count(distinct d) from unnest(rule.repeat_on) as d) end;
    exceptions int;
    days int;
begin
    wanted := least(wanted, 30);
    if not rule.enabled or per_week = 0 then
        return;
    end if;
    select count(*) into exceptions from (
        select from care.reminder_occurrence as x
        where x.rule_id = rule.id and x.original_local >= first_day
        limit 366
    ) as them;
    days := ((wanted + exceptions) * 7 + per_week - 1) / per_week + 9;
    return query
    select distinct at from (
        select coalesce(x.moved_to, care.resolve_local(wall, rule.timezone)) as at
        from generate_series(0, days) as n
        cross join lateral (select first_day + n + rule.time as wall) as w
        left join care.reminder_occurrence as x on x.rule_id = rule.id and x.original_local = wall
            -- The same days once more, so that a plan that reads the rule's exceptions at once leaves out the past.
            and x.original_local >= first_day and x.original_local < first_day + days + 1
        where care.repeats_on(rule.repeat, rule.repeat_on, first_day + n) and x.status is distinct from 'cancelled'
    ) as times
    where at > since
    order by at
    limit wanted;
end
$$;
