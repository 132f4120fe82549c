-- What fires next of each rule that pushes: care.reminder_due. Triggers keep it as rules and exceptions are written; the job
-- that fires moves it on (81_care_job_fire_reminders.sql).
--
-- Its row is the lock under which a rule fires: who changes it reads the rule and its exceptions after it has the lock, so
-- the last one that has it sees all that was committed. Of two that find no row (the rule begins to push, while an exception
-- is written) the later one waits for the earlier one's commit, by an advisory lock.

-- care.set_due: puts a rule's row right. What has fired does not fire again: it looks ahead of `clock`, unless the
-- occurrence that is due has not been fired yet, for the job is late: that one stays due while it still lies in the past. And
-- what has come without being told is due at once: what a person decided before it came, of which the hub hears late, and,
-- where `again`, what has an open dose: the rule was silent when it came. Lock order: care.reminder_due, or an advisory lock
-- and then that.
drop function if exists care.set_due(text, timestamptz);
create or replace function care.set_due(rule text, clock timestamptz, again boolean default false) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    r care.reminder_rule;
    d care.reminder_due;
    next_id text;
    next_day date;
    next_at timestamptz;
begin
    select * into d from care.reminder_due as x where x.rule_id = rule for update;
    if not found then
        perform pg_advisory_xact_lock(hashtextextended('care.reminder_due.' || rule, 0));
        select * into d from care.reminder_due as x where x.rule_id = rule for update;
    end if;
    select * into r from care.reminder_rule as x where x.id = rule;
    if r.id is null or not r.enabled or r.delivery = 'local' then
        delete from care.reminder_due as x where x.rule_id = rule;
        return;
    end if;
    if d.due_at <= clock then
        select o.id, d.day, o.fires into next_id, next_day, next_at from care.occurrence_of(r, d.day) as o
        where o.fires <= clock and o.status <> 'cancelled';
    end if;
    if next_id is null and (again or care.moment() < clock) then
        select t.id, t.day, t.start into next_id, next_day, next_at from care.untold(r, clock, again) as t;
    end if;
    if next_id is null then
        select t.id, t.day, t.start into next_id, next_day, next_at from care.rule_times(r, clock + interval '1 microsecond', 1) as t;
    end if;
    if next_id is null then
        delete from care.reminder_due as x where x.rule_id = rule;
        return;
    end if;
    insert into care.reminder_due as x (rule_id, user_id, occurrence_id, day, due_at)
    values (r.id, r.user_id, next_id, next_day, next_at)
    on conflict (rule_id) do update
        set user_id = excluded.user_id, occurrence_id = excluded.occurrence_id, day = excluded.day, due_at = excluded.due_at
        where (x.user_id, x.occurrence_id, x.day, x.due_at)
            is distinct from (excluded.user_id, excluded.occurrence_id, excluded.day, excluded.due_at);
end
$$;

-- care.untold: the first occurrence of the last four hours that has come and was not told, by care.set_due. A day's push
-- counts for all of it, but for a snooze that came after it. No locks.
create or replace function care.untold(r care.reminder_rule, clock timestamptz, again boolean)
returns table(id text, day date, start timestamptz)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select t.id, t.day, t.start
    from care.rule_times(r, clock - interval '4 hours', 20) as t
    where t.start <= clock
        and (t.start > care.moment() or again and r.created_at <= t.start and exists (
            select from care.rule_doses(r, t.day) as d where not care.acted(d) and d.window_end > clock))
        and not exists (
            select from care.push as p
            where p.user_id = r.user_id and p.rule_id = r.id and p.day = t.day and (p.start >= t.start or not exists (
                select from care.reminder_occurrence as x
                where x.rule_id = r.id and x.day = t.day and x.snoozed_until = t.start)))
    order by t.start limit 1;
end
$$;

-- care.ring_again: doses are open that were not when their reminders came. Lock order: care.set_due, by rule.
create or replace function care.ring_again(doses text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    clock constant timestamptz := sync.clock();
begin
    perform care.set_due(t.id, clock, true)
    from (
        select distinct r.id
        from care.dose_occurrence as d
        join care.reminder_rule as r on r.user_id = d.user_id and r.enabled and r.delivery <> 'local' and (
            r.schedule_id = d.schedule_id or r.schedule_id is null and (
                r.product_id = d.product_id or exists (
                    select from care.stack_item as i where i.stack_id = r.stack_id and i.product_id = d.product_id)))
        where d.id = any(doses) and d.status = 'scheduled' and d.scheduled_at - interval '1 hour' <= clock
            and d.window_end > clock
        order by r.id offset 0
    ) as t;
end
$$;

-- care.rule_due: after a rule was written. Lock order: the rule (by the statement), its occurrences, then care.set_due.
create or replace function care.rule_due() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'UPDATE' and (new.time, new.timezone) is distinct from (old.time, old.timezone) then
        perform care.keep_days(old, new, sync.clock());
    end if;
    if new.schedule_id is not null and new.enabled and (tg_op = 'INSERT'
        or (new.schedule_id, true) is distinct from (old.schedule_id, old.enabled))
    then
        perform care.meet_doses(array[new.schedule_id], sync.clock(), new.id);
    end if;
    if tg_op = 'UPDATE' then
        -- On which days a schedule gives anything is not in the rule.
        if (new.user_id, new.time, new.timezone, new.repeat, new.repeat_on, new.delivery, new.enabled, new.silent,
            new.schedule_id)
            is not distinct from
           (old.user_id, old.time, old.timezone, old.repeat, old.repeat_on, old.delivery, old.enabled, old.silent,
            old.schedule_id)
            and num_nonnulls(new.schedule_id, new.product_id, new.stack_id) = 0
            or new.delivery = 'local' and old.delivery = 'local'
        then
            return null;
        end if;
    elsif new.delivery = 'local' then
        return null;
    end if;
    perform care.set_due(new.id, sync.clock(), tg_op = 'UPDATE' and (not old.enabled or old.silent));
    return null;
end
$$;

-- care.exception_due: after an exception was written: only what says when it fires, and whether. Lock order: the exception
-- (by the statement), then care.set_due.
create or replace function care.exception_due() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    clock constant timestamptz := sync.clock();
begin
    if current_setting('care.forgetting', true) = 'on' then
        return null;
    elsif tg_op = 'UPDATE' then
        if (new.id, new.rule_id, new.day, new.moved_to, new.moved_local, new.snoozed_until, new.status = 'cancelled')
            is not distinct from
           (old.id, old.rule_id, old.day, old.moved_to, old.moved_local, old.snoozed_until, old.status = 'cancelled')
        then
            return null;
        end if;
    elsif tg_op = 'INSERT' and new.status <> 'cancelled' and num_nonnulls(new.moved_to, new.moved_local, new.snoozed_until) = 0
        and new.id = care.occurrence_id(new.rule_id, new.original_local)
    then
        -- It says that it was sent, say: nothing of its time.
        return null;
    end if;
    if tg_op <> 'INSERT' and (tg_op = 'DELETE' or old.rule_id <> new.rule_id) then
        perform care.set_due(old.rule_id, clock);
    end if;
    if tg_op <> 'DELETE' then
        perform care.set_due(new.rule_id, clock);
    end if;
    return null;
end
$$;
