-- Retention: what is old goes, in batches. Nobody waits for these locks: the rows are read no more.

-- care.job_retain_events: deletes at most `batch` events that are older than `sync.retain_days` days (7 where the setting is
-- absent), oldest transactions first, so that no further index is needed. Locks: the rows it deletes.
create or replace function care.job_retain_events(batch int, clock timestamptz, out done bigint, out more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    days constant int := coalesce(nullif(current_setting('sync.retain_days', true), ''), '7');
begin
    if days < 1 then
        raise exception 'sync.retain_days must be positive' using errcode = 'invalid_parameter_value';
    end if;
    delete from sync.event as e
    using (
        select user_id, topic, o, created_at from sync.event order by xid limit batch
    ) as oldest
    where e.user_id = oldest.user_id and e.topic = oldest.topic and e.o = oldest.o
        and oldest.created_at < clock - make_interval(days => days);
    get diagnostics done = row_count;
    more := done >= batch;
end
$$;

-- care.job_retain_tombstones: deletes at most `batch` tombstones of reminders that were deleted over 90 days ago, with the names
-- that devices had for them. Locks: the rows it deletes.
create or replace function care.job_retain_tombstones(batch int, clock timestamptz) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    done bigint;
begin
    with gone as (
        delete from care.reminder_tombstone as t
        using (
            select user_id, id from care.reminder_tombstone where deleted_at < clock - interval '90 days'
            order by deleted_at limit batch
        ) as oldest
        where t.user_id = oldest.user_id and t.id = oldest.id
        returning t.user_id, t.id
    ), forgotten as (
        delete from care.reminder_alias as n using gone as g where n.user_id = g.user_id and n.rule_id = g.id
    )
    select count(*) into done from gone;
    return done;
end
$$;

-- care.job_retain_occurrences: deletes at most `batch` of the rows that say how a reminder of a day differed from its rule, or that
-- it was sent, of days over 90 days ago; not one that was moved or snoozed to a later day. No device is told: they forgot
-- these days long ago. So what the recorder noted of these rows is taken back. `care.forgetting` ends with the DELETE, whose
-- triggers read it: what else the transaction deletes is told, and is due again.
-- Locks: the rows it deletes, of which it waits for none.
create or replace function care.job_retain_occurrences(batch int, clock timestamptz) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    since constant timestamptz := clock - interval '90 days';
    outer_actor constant text := coalesce(current_setting('sync.actor', true), '');
    ids text[];
begin
    perform set_config('sync.actor', 'system', true), set_config('care.forgetting', 'on', true);
    with gone as (
        delete from care.reminder_occurrence as x
        where x.id = any(array(
            select o.id from care.reminder_occurrence as o
            where o.original_local < (since at time zone 'UTC')::date
                and coalesce(greatest(o.moved_to, o.snoozed_until) < since, true)
            order by o.original_local limit batch for update skip locked))
        returning x.id
    )
    select array_agg(g.id) into ids from gone as g;
    perform set_config('sync.actor', outer_actor, true), set_config('care.forgetting', '', true);
    delete from sync.touched as t
    where t.xid = pg_current_xact_id() and t.id = any(ids) and t.op = 'D' and t.balance = -1
        and t.source = (select p.source from sync.published as p where p.relation = 'care.reminder_occurrence'::regclass);
    return coalesce(cardinality(ids), 0);
end
$$;

-- care.job_retain_actions: deletes at most `batch` actions, with their keys, and as many revocations, tombstones of reminders and
-- days of them, that were written over 90 days ago, and as many pushes that were settled over 30 days ago, dead ones among
-- them; `done` is the largest number. Locks: the rows it deletes.
create or replace function care.job_retain_actions(batch int, clock timestamptz, out done bigint, out more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    revocations bigint;
    pushes bigint;
begin
    delete from sync.action as a
    using (
        select user_id, key from sync.action where created_at < clock - interval '90 days'
        order by created_at limit batch
    ) as oldest
    where a.user_id = oldest.user_id and a.key = oldest.key;
    get diagnostics done = row_count;
    delete from sync.revocation as r
    using (
        select user_id from sync.revocation where written_at < clock - interval '90 days'
        order by written_at limit batch
    ) as oldest
    where r.user_id = oldest.user_id and r.written_at < clock - interval '90 days';
    get diagnostics revocations = row_count;
    delete from care.push as p
    where p.id = any(array(
        select o.id from care.push as o where o.judged and o.settled_at < clock - interval '30 days'
        order by o.settled_at limit batch for update skip locked));
    get diagnostics pushes = row_count;
    done := greatest(done, revocations, pushes, care.job_retain_tombstones(batch, clock), care.job_retain_occurrences(batch, clock));
    more := done >= batch;
end
$$;

-- sync.retain: both, for hubs of version 0.1, with events older than `days` days. Returns the larger number. Call until it
-- is less than `batch`. Locks: the rows it deletes.
create or replace function sync.retain(days int, batch int) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    events bigint;
    actions bigint;
begin
    if days < 1 or batch < 1 then
        raise exception 'days and batch must be positive' using errcode = 'invalid_parameter_value';
    end if;
    perform set_config('sync.retain_days', days::text, true);
    select e.done into events from care.job_retain_events(batch, clock_timestamp()) as e;
    select a.done into actions from care.job_retain_actions(batch, sync.clock()) as a;
    return greatest(events, actions);
end
$$;
