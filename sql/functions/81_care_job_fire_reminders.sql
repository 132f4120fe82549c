-- care.job_fire_reminders: fires what is due by `clock`, at most `batch` rules, those first that have been due longest:
-- pushes into the outbox and the step to the rule's next occurrence are one transaction. Then it writes what became of
-- pushes that are settled as statuses of their occurrences. `done`: rules and pushes; `more`: call it again. Nothing of it
-- changes a rule.
--
-- Any number of hubs may call it: a rule that another session fires, or that somebody edits, is left to the next call.
-- Killed anywhere it loses nothing and repeats nothing. After hubs were down each occurrence that was missed is fired late,
-- or told as missed where it has expired. It stops after 20 ms of work.
--
-- Lock order: care.reminder_due, then care.push; or rules, streams, exceptions and care.push, of which it waits for none.
create or replace function care.job_fire_reminders(batch int, clock timestamptz, out done bigint, out more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    stop constant timestamptz := clock_timestamp() + interval '20 milliseconds';
    outer_actor constant text := coalesce(current_setting('sync.actor', true), '');
    asked int;
    due care.reminder_due[] := '{}';
    d care.reminder_due;
    judged bigint;
begin
    perform set_config('sync.actor', 'system', true);
    done := 0;
    loop
        asked := least(batch - done, 25);
        more := asked = 0 or cardinality(due) = 25 and clock_timestamp() >= stop;
        exit when more;
        due := array(
            select x from care.reminder_due as x where x.due_at <= clock
            order by x.due_at limit asked for update skip locked);
        exit when due = '{}';
        foreach d in array due loop
            perform care.fire(d, clock);
        end loop;
        done := done + cardinality(due);
    end loop;
    if not more then
        -- Where hubs send none, or none in time.
        update care.push as p set state = 'expired', settled_at = clock, judged = p.kind = 'notify'
        where p.id = any(array(
            select w.id from care.push as w
            where w.state = 'waiting' and w.expires_at <= clock and w.next_at <= clock
                and (w.leased_until is null or w.leased_until <= clock)
            order by w.expires_at limit 50 for update skip locked));
        judged := care.judge_pushes(least(batch - done, 50)::int);
        done := done + judged;
        more := judged > 0 and exists (select from care.push as p where p.state <> 'waiting' and not p.judged);
    end if;
    perform set_config('sync.actor', outer_actor, true);
end
$$;

-- care.fire: fires one rule's due occurrence, whose row the caller holds, and moves the row on. What is due is asked again,
-- for the zone's rules may have changed. Suppressed where the reminder has doses and all are acted on. A push goes to each
-- device that has not declined, until the window of its doses ends, else for four hours. Where a rule only pushes, and there
-- is no such device, the occurrence is missed. Locks: care.job_fire_reminders.
create or replace function care.fire(d care.reminder_due, clock timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    r care.reminder_rule;
    o record;
    ends timestamptz;
    acted boolean;
    written int;
    next_id text;
    next_day date;
    next_at timestamptz;
begin
    select * into r from care.reminder_rule as x where x.id = d.rule_id;
    if r.id is null or not r.enabled or r.delivery = 'local' or d.day is null then
        perform care.set_due(d.rule_id, clock);
        return;
    end if;
    select * into o from care.occurrence_of(r, d.day);
    if o.id is null or o.status = 'cancelled' or o.fires > clock then
        perform care.set_due(d.rule_id, clock);
        return;
    end if;
    select bool_and(care.acted(x)), max(x.window_end) into acted, ends from care.rule_doses(r, d.day) as x;
    if acted is distinct from true then
        ends := greatest(coalesce(ends, o.start + interval '4 hours'), o.fires + interval '1 minute');
        insert into care.push (user_id, device_id, platform, kind, rule_id, day, occurrence_id, start, expires_at, next_at,
                               created_at)
        select v.user_id, v.device_id, v.platform, 'reminder', r.id, d.day, o.id, o.fires, ends, clock, clock
        from care.device as v
        where v.user_id = r.user_id and v.permission is distinct from 'denied'
        on conflict (user_id, occurrence_id, device_id, start) do nothing;
        get diagnostics written = row_count;
        if written = 0 and r.delivery = 'push' and not exists (
            select from care.push as p where p.user_id = r.user_id and p.occurrence_id = o.id and p.start = o.fires)
        then
            -- For care.judge_pushes: it died everywhere.
            insert into care.push (user_id, device_id, kind, rule_id, day, occurrence_id, start, expires_at, next_at, created_at,
                                   state, settled_at)
            values (r.user_id, '', 'reminder', r.id, d.day, o.id, o.fires, ends, clock, clock, 'dead', clock);
        end if;
    end if;
    -- Nearly always the rule has no exception ahead: then the next day that it gives is the next occurrence.
    if care.rule_span(r) is null and not exists (select from care.reminder_occurrence as x where x.rule_id = r.id and x.day > d.day)
        and not exists (
            select from care.reminder_occurrence as x
            where x.rule_id = r.id and greatest(x.moved_to, x.snoozed_until) >= o.fires - interval '2 days')
    then
        for n in 1..8 loop
            next_day := d.day + n;
            next_at := case when care.repeats_on(r.repeat, r.repeat_on, next_day)
                            then care.wall_start(next_day, r.time, r.timezone) end;
            exit when next_at > o.fires;
        end loop;
    end if;
    if next_at > o.fires then
        next_id := care.occurrence_id(r.id, next_day + r.time);
    else
        select coalesce(t.exception, care.occurrence_id(r.id, t.day + r.time)), t.day, t.start into next_id, next_day, next_at
        from (
            select * from care.rule_days(r, o.fires, 5) as t where (t.start, t.day) > (o.fires, d.day)
            order by t.start, t.day limit 1
        ) as t;
    end if;
    if next_id is null then
        delete from care.reminder_due as x where x.rule_id = d.rule_id;
    else
        update care.reminder_due as x set occurrence_id = next_id, day = next_day, due_at = next_at
        where x.rule_id = d.rule_id;
    end if;
end
$$;

-- care.judge_pushes: writes statuses of at most `most` occurrences whose pushes are settled: sent where a provider has
-- accepted one; missed where none has, and none waits any more. A cancelled one stays so, one that was snoozed since is
-- judged by its last firing, and one whose rule is local by now gets none. Returns how many pushes it judged. What others
-- hold is left to a later call, and holds up nothing behind it; it goes past them for 20 ms. Who writes a new exception
-- holds its rule (KEY SHARE), so nobody does while it is held here. Locks: care.job_fire_reminders.
create or replace function care.judge_pushes(most int) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    stop constant timestamptz := clock_timestamp() + interval '20 milliseconds';
    seen care.push[];
    pushes care.push[] := '{}';
    last_at timestamptz := '-infinity';
    last_id bigint := 0;
    rules text[];
    users text[];
    free text[];
    days text[];
begin
    loop
        exit when most < 1 or pushes <> '{}' or clock_timestamp() >= stop and last_id > 0;
        seen := array(
            select p from care.push as p
            where p.state <> 'waiting' and not p.judged
                and p.settled_at >= last_at and (p.settled_at, p.id) > (last_at, last_id)
            order by p.settled_at, p.id limit most);
        exit when seen = '{}';
        last_at := (seen[cardinality(seen)]).settled_at;
        last_id := (seen[cardinality(seen)]).id;
        rules := array(
            select r.id from care.reminder_rule as r where r.id = any(array(select u.rule_id from unnest(seen) as u))
            order by r.id for update skip locked);
        users := array(select distinct u.user_id from unnest(seen) as u where u.rule_id = any(rules));
        free := array(
            select s.user_id from sync.stream as s where s.user_id = any(users) and s.topic = 'reminders'
            for update skip locked);
        users := array(
            select w from unnest(users) as w
            where w = any(free) or not exists (select from sync.stream as s where s.user_id = w and s.topic = 'reminders'));
        -- One at a time, by index: a plan that was made while the table was small would read all of it for each batch.
        days := array(
            select t.id from (select distinct u.rule_id, u.day from unnest(seen) as u where u.rule_id = any(rules)) as u
            cross join lateral (
                select x.id from care.reminder_occurrence as x
                where x.rule_id = u.rule_id and x.day = u.day for update skip locked
            ) as t);
        -- Those of rules that are gone, too.
        pushes := array(
            select p from care.push as p
            where p.id = any(array(
                select u.id from unnest(seen) as u
                where not exists (select from care.reminder_rule as r where r.id = u.rule_id and r.user_id = u.user_id offset 0)
                    or u.rule_id = any(rules) and u.user_id = any(users) and not exists (
                        select from care.reminder_occurrence as x
                        where x.rule_id = u.rule_id and x.day = u.day and x.id <> all(days) offset 0)))
                and not p.judged
            for update skip locked);
    end loop;
    if pushes = '{}' then
        return 0;
    end if;

    insert into care.reminder_occurrence as x (id, rule_id, user_id, original_local, status)
    select f.occurrence_id, r.id, r.user_id, f.day + r.time, f.status
    from (
        select p.rule_id, p.user_id, p.day, p.occurrence_id, p.start,
               case when bool_or(a.state = 'sent') then 'sent' else 'missed' end as status
        from (select distinct u.rule_id, u.user_id, u.day, u.occurrence_id, u.start from unnest(pushes) as u) as p
        cross join lateral (
            select w.state from care.push as w
            where w.user_id = p.user_id and w.occurrence_id = p.occurrence_id and w.start = p.start offset 0
        ) as a
        group by 1, 2, 3, 4, 5
        having bool_or(a.state = 'sent') or not bool_or(a.state = 'waiting')
    ) as f
    join care.reminder_rule as r on r.id = f.rule_id and r.user_id = f.user_id and r.delivery <> 'local'
    cross join lateral care.occurrence_of(r, f.day) as o
    where o.id = f.occurrence_id and o.fires = f.start and o.status not in ('cancelled', f.status)
        and not (o.status = 'sent' and f.status = 'missed')
    order by r.id, f.day
    on conflict (rule_id, day) do update set status = excluded.status where x.status not in ('cancelled', excluded.status);
    update care.push as p set judged = true where p.id = any(array(select u.id from unnest(pushes) as u));
    return cardinality(pushes);
end
$$;

-- care.fire_lag: for how many seconds the oldest reminder has been due; 0 where none is. No locks.
create or replace function care.fire_lag(clock timestamptz) returns double precision
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    due_at timestamptz := (select d.due_at from care.reminder_due as d order by d.due_at limit 1);
begin
    return case when isfinite(due_at) then greatest(0, extract(epoch from clock - due_at)) else 0 end;
end
$$;
