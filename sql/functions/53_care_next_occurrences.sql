-- When rules fire. An occurrence of a rule is a local day of it; its exception, where there is one, is found by that day, so
-- that an edit of the rule's time keeps it.

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

-- care.wall_start: the instant of a rule's time on a day; null on a day that the zone skipped (Apia, 2011-12-30). No locks.
create or replace function care.wall_start(day date, wall time, zone text) returns timestamptz
language plpgsql stable parallel safe
as $$
declare
    at constant timestamptz := care.resolve_local(day + wall, zone);
begin
    if (at at time zone zone)::date <> day
        and (care.resolve_local(day::timestamp, zone) at time zone zone)::date <> day
    then
        return null;
    end if;
    return at;
end
$$;

-- care.moved_start: where an exception moved its occurrence: wall time in the rule's zone, else an instant; null where it
-- did not. One that is kept has its instant, wherever its rule is now (53_care_kept_reminders.sql). No locks.
create or replace function care.moved_start(x care.reminder_occurrence, zone text) returns timestamptz
language sql stable parallel safe
begin atomic
    select case when (x).kept or (x).moved_local is null then (x).moved_to
                else care.resolve_local((x).moved_local, zone) end;
end;

-- care.schedule_span: the days on which a schedule gives anything at all: none while it is disabled, or as needed, or its
-- product is archived; null where there is no such schedule. No locks.
create or replace function care.schedule_span(schedule text) returns daterange
language sql stable
begin atomic
    select case when s.enabled and s.repeat <> 'as_needed' and coalesce(s.starts_on <= s.ends_on, true)
                    and not exists (select from care.product as p where p.id = s.product_id and p.archived_at is not null)
                then daterange(s.starts_on, s.ends_on, '[]') else 'empty'::daterange end
    from care.schedule as s where s.id = schedule;
end;

-- care.given_by: the last day on which a schedule gives a product or a stack to a user: infinity where it has no end, -infinity
-- where it is paused, null where it gives something else. A product is given by its own schedules and those of stacks that
-- have it, a stack by its own and those of its products. No locks.
create or replace function care.given_by(s care.schedule, who text, product text, stack text) returns date
language sql stable
as $$
    select case when s.enabled then coalesce(s.ends_on, 'infinity') else '-infinity' end
    where s.user_id = who and (
        s.product_id = product or s.stack_id = stack
        or s.stack_id in (select i.stack_id from care.stack_item as i where i.product_id = product)
        or s.product_id in (select i.product_id from care.stack_item as i where i.stack_id = stack))
$$;

-- care.gives_until: the last day on which any schedule does; null: none does, so only the app knows. `besides`: a schedule that
-- does not count. No locks.
create or replace function care.gives_until(who text, product text, stack text, besides text default null) returns date
language sql stable
as $$
    select max(care.given_by(s, who, product, stack)) from care.schedule as s
    where s.user_id = who and s.id is distinct from besides
$$;

-- care.rule_span: the days on which what a rule is about is given at all, by the schedule that it is linked to, else by those
-- of its product or stack: paused and ended ones are silent. Null: no schedule says. No locks.
create or replace function care.rule_span(rule care.reminder_rule) returns daterange
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    until date;
begin
    if rule.schedule_id is not null then
        return care.schedule_span(rule.schedule_id);
    elsif num_nonnulls(rule.product_id, rule.stack_id) = 0 then
        return null;
    end if;
    until := care.gives_until(rule.user_id, rule.product_id, rule.stack_id);
    return case when until = '-infinity' then 'empty' when isfinite(until) then daterange(null, until, '[]') end;
end
$$;

-- care.rule_gives: whether a rule gives an occurrence on a day: it repeats then, its medicine was not stopped, and schedules
-- give it. No locks.
create or replace function care.rule_gives(rule care.reminder_rule, day date) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return not rule.silent and care.repeats_on(rule.repeat, rule.repeat_on, day)
        and coalesce(day <@ care.rule_span(rule), true);
end
$$;

-- care.gives_nothing: whether nothing of a rule comes, whatever it says: its medicine was stopped, or its schedules are paused.
-- No locks.
create or replace function care.gives_nothing(rule care.reminder_rule) returns boolean
language sql stable
begin atomic
    select (rule).silent or coalesce(isempty(care.rule_span(rule)), false);
end;

-- care.occurrence_of: a rule's occurrence of one day: no row where the rule gives none. `start`: its time, or where it was
-- moved to; `fires`: that, or the end of a snooze; `status` cancelled: it does not fire. No locks.
create or replace function care.occurrence_of(rule care.reminder_rule, on_day date,
                                              out id text, out start timestamptz, out fires timestamptz, out status text)
returns setof record
language plpgsql stable rows 1
set search_path = pg_catalog, pg_temp
as $$
declare
    x care.reminder_occurrence;
    given constant timestamptz := case when care.rule_gives(rule, on_day)
                                       then care.wall_start(on_day, rule.time, rule.timezone) end;
begin
    if given is null then
        return;
    end if;
    select * into x from care.reminder_occurrence as o where o.rule_id = rule.id and o.day = on_day;
    id := coalesce(x.id, care.occurrence_id(rule.id, on_day + rule.time));
    start := coalesce(care.moved_start(x, rule.timezone), given);
    fires := greatest(start, x.snoozed_until);
    status := coalesce(x.status, 'scheduled');
    return next;
end
$$;

-- care.rule_days: a rule's occurrences that fire at `since` or later, the first `wanted` of them by time and day, without
-- those that are cancelled. `start` is when it fires: snoozes and moves applied. A disabled or silent rule has none, any
-- other those alone that schedules give, however far ahead they begin. An exception of an earlier day is found by index,
-- for it may have been moved or snoozed to now. No locks.
create or replace function care.rule_days(rule care.reminder_rule, since timestamptz, wanted int)
returns table(exception text, day date, start timestamptz, status text)
language plpgsql stable rows 10
as $$
declare
    first_day date := (since at time zone rule.timezone)::date - 1;
    per_week int := case rule.repeat when 'daily' then 7 when 'weekdays' then 5
                                     else (select count(distinct d) from unnest(rule.repeat_on) as d) end;
    exceptions int;
    days int;
    span constant daterange := care.rule_span(rule);
    opens constant date := coalesce(lower(span), '-infinity');
    closes constant date := coalesce(upper(span) - 1, 'infinity');
begin
    if not rule.enabled or rule.silent or per_week = 0 or isempty(span) then
        return;
    end if;
    first_day := greatest(first_day, opens);
    select count(*) into exceptions from (
        select from care.reminder_occurrence as x where x.rule_id = rule.id and x.day >= first_day limit 366
    ) as them;
    days := ((wanted + exceptions) * 7 + per_week - 1) / per_week + 9;
    if isfinite(closes) then
        days := least(days, closes - first_day);
    end if;
    return query
    select t.id, t.day, t.fires, coalesce(t.status, 'scheduled')
    from (
        select x.id, d.day, x.status, greatest(coalesce(care.moved_start(x, rule.timezone), w.given), x.snoozed_until) as fires
        from (select first_day + n as day from generate_series(0, days) as n) as d
        cross join lateral (select care.wall_start(d.day, rule.time, rule.timezone) as given offset 0) as w
        left join care.reminder_occurrence as x on x.rule_id = rule.id and x.day = d.day
            -- The same days once more, so that a plan that reads the rule's exceptions at once leaves out the past.
            and x.day >= first_day and x.day <= first_day + days
        where care.repeats_on(rule.repeat, rule.repeat_on, d.day) and w.given is not null
            and x.status is distinct from 'cancelled'
        union all
        -- No zone is more than a day from the one in which the time was told.
        select x.id, x.day, x.status, greatest(coalesce(care.moved_start(x, rule.timezone), w.given), x.snoozed_until)
        from care.reminder_occurrence as x
        cross join lateral (select care.wall_start(x.day, rule.time, rule.timezone) as given offset 0) as w
        where x.rule_id = rule.id and greatest(x.moved_to, x.snoozed_until) >= since - interval '2 days'
            and x.day not between first_day and first_day + days and x.status <> 'cancelled'
            -- No condition for the index of days: it would read the whole past.
            and x.day + 0 between opens and closes
            and care.repeats_on(rule.repeat, rule.repeat_on, x.day) and w.given is not null
    ) as t
    where t.fires >= since
    order by t.fires, t.day
    limit wanted;
end
$$;

-- care.rule_times: these with their ids, which cost more than all else. No locks.
create or replace function care.rule_times(rule care.reminder_rule, since timestamptz, wanted int)
returns table(id text, day date, start timestamptz, status text)
language plpgsql stable rows 10
as $$
begin
    return query
    select coalesce(t.exception, care.occurrence_id(rule.id, t.day + rule.time)), t.day, t.start, t.status
    from care.rule_days(rule, since, wanted) as t;
end
$$;

-- care.upcoming: the next `wanted` occurrences (at most 30) that fire after `since`, in order. No locks.
create or replace function care.upcoming(rule care.reminder_rule, since timestamptz, wanted int default 10)
returns table(id text, start timestamptz, status text)
language plpgsql stable rows 10
as $$
begin
    return query
    select t.id, t.start, t.status
    from care.rule_times(rule, since + interval '1 microsecond', least(wanted, 30)) as t;
end
$$;

-- care.next_occurrences: when these fire. No locks.
create or replace function care.next_occurrences(rule care.reminder_rule, since timestamptz, wanted int default 10)
returns setof timestamptz
language plpgsql stable
as $$
begin
    return query select distinct u.start from care.upcoming(rule, since, wanted) as u order by 1;
end
$$;

-- care.find_reminder_occurrence: the rule and the day of an occurrence's id: of an exception, else of a day of one of the
-- user's rules from two days before the person acts to 40 ahead, by the rule's time of now or one that it had in the last 90 days, 200 of these at
-- most. No row where there is none. The days around now are tried first. No locks.
create or replace function care.find_reminder_occurrence(who text, id text)
returns table(rule_id text, day date)
language plpgsql stable rows 1
set search_path = pg_catalog, pg_temp
as $$
declare
    today constant date := (care.moment() at time zone 'UTC')::date;
    span int[];
begin
    return query
    select x.rule_id, x.day from care.reminder_occurrence as x
    where x.id = find_reminder_occurrence.id and x.user_id = who;
    if found then
        return;
    end if;
    foreach span slice 1 in array '{{-3,2},{3,41}}'::int[] loop
        return query
        select r.id, d.day
        from care.reminder_rule as r
        cross join lateral (select today + n as day from generate_series(span[1], span[2]) as n) as d
        where r.user_id = who and care.occurrence_id(r.id, d.day + r.time) = find_reminder_occurrence.id
        limit 1;
        if found then
            return;
        end if;
    end loop;
    return query
    select h.rule_id, d.day
    from (
        select a.rule_id::text as rule_id, (a.was ->> 'time')::time as time
        from care.reminder_audit as a join care.reminder_rule as r on r.id = a.rule_id and r.user_id = a.user_id
        where a.user_id = who and (a.was ->> 'time')::time <> r.time and a.at > sync.clock() - interval '90 days'
        group by 1, 2 order by max(a.n) desc limit 200
    ) as h
    cross join lateral (select today + n as day from generate_series(-3, 41) as n) as d
    where care.occurrence_id(h.rule_id, d.day + h.time) = find_reminder_occurrence.id
    limit 1;
end
$$;

-- care.rule_doses: the doses that a reminder of a day is about. Of a rule that is linked to a schedule: the schedule's of that
-- day. Of any other: those of its product, or of its stack's products, whose span from window_start (else an hour before the
-- time) to window_end has the reminder's start in it. Neither cancelled ones nor intakes as needed. No locks.
create or replace function care.rule_doses(rule care.reminder_rule, on_day date) returns setof care.dose_occurrence
language plpgsql stable rows 2
set search_path = pg_catalog, pg_temp
as $$
declare
    at timestamptz;
begin
    if rule.schedule_id is not null then
        return query
        select d.* from care.dose_occurrence as d
        where d.schedule_id = rule.schedule_id and d.local_date = on_day and d.user_id = rule.user_id
            and d.status <> 'cancelled';
        return;
    elsif num_nonnulls(rule.product_id, rule.stack_id) = 0 then
        return;
    end if;
    select o.start into at from care.occurrence_of(rule, on_day) as o;
    return query
    select d.* from care.dose_occurrence as d
    where d.user_id = rule.user_id
        and d.local_date between (at at time zone 'UTC')::date - 7 and (at at time zone 'UTC')::date + 2
        and (d.product_id = rule.product_id or d.product_id in (
            select i.product_id from care.stack_item as i where i.stack_id = rule.stack_id))
        and d.status <> 'cancelled' and not d.as_needed
        and at between coalesce(d.window_start, d.scheduled_at - interval '1 hour') and d.window_end;
end
$$;

-- care.acted: whether nothing is left to do about a dose: a reminder of such doses alone is not sent, and cannot be snoozed.
-- A miss is no act, be it told by a job, a backend or a person: what was missed can be made up. A person who wants no
-- reminder skips the dose. One reminder too many does less harm than one that does not come. No locks.
create or replace function care.acted(d care.dose_occurrence) returns boolean
language sql stable
begin atomic
    select (d).status in ('taken', 'made_up', 'skipped');
end;
