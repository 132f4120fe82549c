-- The outbox of pushes: what a hub claims, sends, and settles. No transaction spans the sending: a hub that is killed after
-- it claimed has a lease that ends, and after it sent, a push that goes twice, under the same occurrence's id.

-- sync.claim_pushes: leases waiting pushes to a hub, the longest due first, with the token that each device has at this
-- moment. `rooms`: at most so many of apns, of fcm and of webhook; where there is no room, none of the others is held up.
-- Users take turns: of one user, `share` pushes are looked at before those of others, however long they have been due, and a
-- user of whom so many are claimed gets no more in this call. `full_lanes`, `full_users`: platforms and users, in pairs, of
-- whom the hub has its share already: none of theirs is claimed.
-- The text is left to the hub, but for those enqueued by hand. `labels`: the rule's label is the title.
-- `epoch` and `top`: how far the device should read of topic `reminders`. What is not to be sent any more is settled here:
-- what has expired, what has no device, and what the rule does not say any more or whose doses were acted on meanwhile. Lock
-- order: care.push, those that nobody else has. It reads all else.
--
-- A last row without an id: there is more to look at, now. The worst case is that no hub was there for hours, and pushes
-- that are not to be sent any more stand before all others, tens of thousands of them, each of which is judged. After 100 ms
-- a call begins no further round (one of each platform it always has), so what it judged is committed: a call that ran into its
-- timeout would undo all, and so would each one after it.
drop function if exists sync.claim_pushes(text, int[], interval, boolean);
create or replace function sync.claim_pushes(hub text, rooms int[], lease interval, labels boolean default false,
                                             share int default 16, full_lanes text[] default '{}', full_users text[] default '{}')
returns table(id bigint, attempt int, platform text, token text, environment text, topic text, user_id text, device_id text,
              occurrence_id text, rule_id text, kind text, title text, body text, start timestamptz, expires_at timestamptz,
              epoch text, top bigint)
language plpgsql security definer rows 100
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
    clock constant timestamptz := sync.clock();
    stop constant timestamptz := clock_timestamp() + interval '100 milliseconds';
    here text;
    good bigint[];
    doubtful bigint[];
    bad bigint[];
    fates text[];
    lane text;
    n int := 0;
    left_over int;
    asked int;
    locked int;
    claimed bigint;
    is_more boolean := false;
    -- Users who get no more in this call; those who have had their turn, too; and those who have it now.
    sated text[];
    served text[];
    crowd text[];
    -- Whose pushes were looked at in this turn, one for each.
    seen text[];
begin
    if coalesce((select max(r) from unnest(rooms) as r), 0) < 1 or lease is null or lease <= interval '0' or share < 1 then
        raise exception 'one of rooms, lease, and share must be positive' using errcode = 'invalid_parameter_value';
    end if;
    perform sync.raise_commit();
    select p.epoch into here from sync.positions('{-}', '{reminders}') as p;
    foreach lane in array array['apns', 'fcm', 'webhook'] loop
        n := n + 1;
        left_over := rooms[n];
        continue when coalesce(left_over, 0) < 1;
        sated := array(select f.who from unnest(full_lanes, full_users) as f(place, who) where f.place = lane);
        served := sated;
        seen := '{}';
        loop
            asked := left_over;
            -- Most pushes need no judgement by care.push_fate, which is dear. Those that are leased stand before the others; hubs hold
            -- few.
            select array_agg(w.id) filter (where w.is_fresh and w.place <= share),
                   array_agg(w.id) filter (where not w.is_fresh and w.place <= share),
                   count(*), seen || array_agg(w.user_id) filter (where w.place <= share)
            into good, doubtful, locked, seen
            from (
                select l.*, row_number() over (partition by l.user_id order by l.next_at, l.id) as place
                from (
                    select p.id, p.user_id, p.next_at, p.expires_at > clock
                        and (p.kind <> 'reminder' or p.attempt = 0 and p.created_at >= clock - interval '2 seconds') as is_fresh
                    from care.push as p
                    where p.state = 'waiting' and p.platform = lane and p.next_at <= clock
                        and (p.leased_until is null or p.leased_until <= clock) and p.user_id <> all(served)
                    order by p.next_at limit asked for no key update skip locked
                ) as l
            ) as w;
            if locked = 0 then
                exit when cardinality(served) = cardinality(sated);
                served := sated;
                seen := '{}';
                continue;
            end if;
            if doubtful is not null then
                select good || array_agg(f.id) filter (where f.fate is null), array_agg(f.id) filter (where f.fate is not null),
                       array_agg(f.fate) filter (where f.fate is not null)
                into good, bad, fates
                from (select p.id, care.push_fate(p, clock) as fate from care.push as p where p.id = any(doubtful)) as f;
                update care.push as p
                set state = f.fate, settled_at = clock, judged = p.kind = 'notify' or f.fate = 'dropped'
                from unnest(bad, fates) as f(id, fate)
                where p.id = f.id;
            end if;
            return query
            with claimed as (
                update care.push as p
                set attempt = p.attempt + 1, hub = claim_pushes.hub, leased_until = clock + lease,
                    registered_at = d.registered_at
                from unnest(good) as u(id), care.device as d
                where p.id = u.id and d.user_id = p.user_id and d.device_id = p.device_id
                    and d.permission is distinct from 'denied'
                returning p.id, p.attempt, d.platform, d.token, d.environment, d.topic, p.user_id, p.device_id, p.occurrence_id,
                          p.rule_id, p.kind, p.title, p.body, p.start, p.expires_at
            )
            select c.id, c.attempt, c.platform, c.token, c.environment, c.topic, c.user_id, c.device_id, c.occurrence_id, c.rule_id,
                   c.kind, coalesce(c.title, case when labels then (
                       select r.label from care.reminder_rule as r where r.id = c.rule_id and r.user_id = c.user_id) end),
                   c.body, c.start, c.expires_at, here, coalesce((
                       select s.top from sync.stream as s where s.user_id = c.user_id and s.topic = 'reminders'), 0)
            from claimed as c;
            get diagnostics claimed = row_count;
            if claimed < cardinality(good) then
                -- They have no device, or its person declined.
                update care.push as p set state = 'dead', settled_at = clock, judged = p.kind = 'notify'
                where p.id = any(good) and p.leased_until is distinct from clock + lease and p.state = 'waiting';
            end if;
            left_over := left_over - claimed;
            exit when left_over <= 0;
            crowd := array(select u.who from unnest(seen) as u(who) where u.who <> all(served) group by u.who having count(*) >= share);
            if crowd <> '{}' then
                served := served || crowd;
                sated := sated || array(
                    select p.user_id from care.push as p
                    where p.state = 'waiting' and p.user_id = any(crowd) and p.platform = lane
                        and p.hub = claim_pushes.hub and p.leased_until = clock + lease
                    group by p.user_id having count(*) >= share);
            end if;
            if locked < asked then
                -- All others have had their turns.
                exit when cardinality(served) = cardinality(sated);
                served := sated;
                seen := '{}';
            end if;
            if clock_timestamp() >= stop then
                is_more := true;
                exit;
            end if;
        end loop;
    end loop;
    if is_more then
        return next;
    end if;
end
$$;

-- sync.claim_pushes: claims at most `wanted` pushes of each platform, for hubs that know one bound. Locks: those of the
-- overload with `rooms`.
create or replace function sync.claim_pushes(hub text, wanted int, lease interval, labels boolean default false)
returns table(id bigint, attempt int, platform text, token text, environment text, topic text, user_id text, device_id text,
              occurrence_id text, rule_id text, kind text, title text, body text, start timestamptz, expires_at timestamptz,
              epoch text, top bigint)
language plpgsql security definer rows 100
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from sync.claim_pushes(hub, array[wanted, wanted, wanted], lease, labels);
end
$$;

-- care.push_fate: why a waiting push is not sent any more: expired, dead (its device is gone, or declined), or dropped: its
-- rule or its occurrence says otherwise, or its doses were acted on since; null where it is. Only of a push that did not go
-- at once these are asked again: when it was made, they were. No locks.
create or replace function care.push_fate(p care.push, clock timestamptz) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    r care.reminder_rule;
begin
    if p.kind = 'reminder' and (p.attempt > 0 or p.created_at < clock - interval '2 seconds') then
        select * into r from care.reminder_rule as x where x.id = p.rule_id and x.user_id = p.user_id;
        if r.id is null or not r.enabled or r.delivery = 'local' or not exists (
            select from care.occurrence_of(r, p.day) as o
            where o.id = p.occurrence_id and o.fires = p.start and o.status <> 'cancelled')
        then
            return 'dropped';
        elsif (select bool_and(care.acted(d)) from care.rule_doses(r, p.day) as d) then
            return 'dropped';
        end if;
    end if;
    if p.expires_at <= clock then
        return 'expired';
    elsif not exists (
        select from care.device as d
        where d.user_id = p.user_id and d.device_id = p.device_id and d.permission is distinct from 'denied')
    then
        return 'dead';
    end if;
    return null;
end
$$;

-- What a function returns cannot be replaced.
do $$
begin
    if exists (
        select from pg_catalog.pg_proc
        where pronamespace = 'sync'::regnamespace and proname = 'settle_pushes' and not proretset)
    then
        drop function sync.settle_pushes(text, bigint[], int[], text[], int[], timestamptz[]);
    end if;
end
$$;

-- sync.settle_pushes: what became of claimed pushes, each with the attempt that its claim told: `sent` (a provider accepted
-- it), `retry` (again after retry_seconds; expired where that is too late), `dead` or `expired`. Where another hub has
-- claimed a push since, only `sent` counts. `drop_before`: the token with which it was claimed is no good: the device loses
-- it, unless it told it again at that moment or later. One that is dead for a device which has told a token since goes to
-- that one at once. Returns those that it could not settle, for somebody else holds them or their devices. Lock order:
-- care.push by id, care.device by key; it waits for none.
create or replace function sync.settle_pushes(hub text, ids bigint[], attempts int[], results text[], retry_seconds int[],
                                              drop_before timestamptz[]) returns setof bigint
language plpgsql security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    clock constant timestamptz := sync.clock();
    free bigint[];
    devices tid[];
begin
    if exists (select from unnest(results) as r where coalesce(r not in ('sent', 'retry', 'dead', 'expired'), true)) then
        raise exception 'a result must be sent, retry, dead or expired' using errcode = 'invalid_parameter_value';
    end if;
    perform sync.raise_commit();
    free := array(select p.id from care.push as p where p.id = any(ids) order by p.id for no key update skip locked);
    if exists (select from unnest(drop_before) as d where d is not null) then
        devices := array(
            select d.ctid from care.device as d
            where (d.user_id, d.device_id) in (
                select p.user_id, p.device_id
                from unnest(ids, drop_before) as a(id, drop_before) join care.push as p on p.id = a.id
                where a.drop_before is not null)
            order by d.user_id, d.device_id for update skip locked);
        free := array(
            select f.id from unnest(free) as f(id)
            where not exists (
                select from unnest(ids, drop_before) as a(id, drop_before)
                join care.push as p on p.id = a.id
                join care.device as d on d.user_id = p.user_id and d.device_id = p.device_id
                where a.id = f.id and a.drop_before is not null and d.ctid <> all(devices)));
        -- Another claim may have sent to another token since.
        delete from care.device as d
        using unnest(ids, attempts, drop_before) as a(id, attempt, drop_before)
        join care.push as p on p.id = a.id and p.attempt = a.attempt
        where a.id = any(free) and d.user_id = p.user_id and d.device_id = p.device_id
            and d.registered_at = p.registered_at and d.registered_at < a.drop_before;
    end if;
    if 'dead' = any(results) then
        results := array(
            select case when u.result = 'dead' and exists (
                       select from care.push as p
                       join care.device as d on d.user_id = p.user_id and d.device_id = p.device_id
                       where p.id = u.id and p.attempt = u.attempt and d.registered_at > p.registered_at) then 'retry'
                   else u.result end
            from unnest(ids, attempts, results) with ordinality as u(id, attempt, result, n) order by u.n);
    end if;
    update care.push as p
    set state = case when a.result <> 'retry' then a.result when a.again < p.expires_at then 'waiting' else 'expired' end,
        settled_at = case when a.result <> 'retry' or a.again >= p.expires_at then clock end,
        next_at = case when a.result = 'retry' then a.again else p.next_at end,
        leased_until = case when a.result <> 'retry' then p.leased_until end,
        judged = p.kind = 'notify' and a.result <> 'retry'
    from (
        -- Of two claims of one push, that one counts which sent it, else the later one.
        select distinct on (u.id) u.id, u.attempt, u.result,
               clock + make_interval(secs => greatest(coalesce(u.seconds, 0), 0)) as again
        from unnest(ids, attempts, results, retry_seconds) as u(id, attempt, result, seconds)
        -- Nearly always all are free: to look for each among hundreds takes longer than the rest.
        where cardinality(free) = cardinality(ids) or u.id = any(free)
        order by u.id, u.result = 'sent' desc, u.attempt desc
    ) as a
    where p.id = a.id and p.state <> 'sent'
        and (a.result = 'sent' or p.state = 'waiting' and p.attempt = a.attempt and p.hub = settle_pushes.hub);
    if cardinality(free) < cardinality(ids) then
        return query select p.id from care.push as p where p.id = any(ids) and p.id <> all(free);
    end if;
end
$$;

-- sync.push_state: for gauges: how many pushes wait that are due, or leased; for how many seconds the oldest has been due;
-- and how many devices have declined. Counts end at 100,000. No locks.
create or replace function sync.push_state(out waiting bigint, out oldest_seconds double precision, out declined bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    clock constant timestamptz := sync.clock();
begin
    select count(*) into waiting from (select from care.push as p where p.state = 'waiting' limit 100000) as w;
    oldest_seconds := greatest(0, extract(epoch from clock - (
        select min(q.next_at)
        from unnest('{apns,fcm,webhook}'::text[]) as lane
        cross join lateral (
            select p.next_at from care.push as p
            where p.state = 'waiting' and p.platform = lane and (p.leased_until is null or p.leased_until <= clock)
            order by p.next_at limit 1
        ) as q)));
    oldest_seconds := coalesce(oldest_seconds, 0);
    select count(*) into declined from (select from care.device as d where d.permission = 'denied' limit 100000) as x;
end
$$;
