-- sync.news: exactly the events that became visible since the snapshot `prev`, ordered by (user_id, topic, o), and the
-- snapshot of this very statement, to be the next `prev`. Always at least one row: where there are no events, one with
-- nulls. Where there are more than `page`, one with nulls but for `o`, which is more than `page`: they are for sync.open_bulk, and
-- finding that out looks at no more than twice as many of them. `epoch` and `age` as in sync.tail. STABLE: it sees the
-- caller's snapshot, so the two belong together. No locks.
--
-- In plpgsql, as sync.tail. Bitmaps would look at all that is new before the limit holds. Transactions that are still
-- running are left out by their numbers: a large one that is about to commit costs no look at its rows with each call. The
-- snapshot is read once: each reading costs more with each transaction that runs.
drop function if exists sync.news(pg_snapshot, int);
create function sync.news(prev pg_snapshot, page int)
returns table(snapshot pg_snapshot, epoch text, user_id text, topic text, o bigint, name text, data text, age bigint)
language plpgsql stable security definer rows 100
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    present constant pg_snapshot := pg_current_snapshot();
begin
    return query
    with new as materialized (
        (
            select e.user_id, e.topic, e.o
            from sync.event as e
            where e.xid >= pg_snapshot_xmax(prev)
            limit page + 1
        )
        union all
        (
            select e.user_id, e.topic, e.o
            from sync.event as e
            where e.xid = any(array(
                select x from pg_snapshot_xip(prev) as x where pg_visible_in_snapshot(x, present)))
            limit page + 1
        )
    )
    select present, (select m.epoch from sync.meta as m), e.user_id, e.topic, coalesce(e.o, many.n), e.name,
           e.data::text, (date_part('epoch', clock_timestamp() - e.created_at) * 1e6)::bigint
    from (select case when count(*) > page then count(*) end as n from new) as many
    left join new as k on many.n is null
    left join sync.event as e on e.user_id = k.user_id and e.topic = k.topic and e.o = k.o
    order by k.user_id, k.topic, k.o;
end
$$;

-- sync.open_bulk: opens the cursor `bulk` on the events that became visible between the snapshots `prev` and `upto`: user_id, topic, o,
-- name, data, age, in the order of the first three. Returns the epoch of sync.meta. To be called in a transaction of
-- REPEATABLE READ, so that both are of one snapshot, on the server that gave `prev` and `upto`. No locks.
--
-- However many they are, they are found and sorted once; joins are nested loops, or the plan for an unknown number of
-- events would walk the whole log.
drop function if exists sync.open_bulk(pg_snapshot, pg_snapshot);
create function sync.open_bulk(prev pg_snapshot, upto pg_snapshot) returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set cursor_tuple_fraction = 1
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    bulk refcursor := 'bulk';
    epoch text;
begin
    select m.epoch into strict epoch from sync.meta as m;
    open bulk no scroll for
        select e.user_id, e.topic, e.o, e.name, e.data::text as data,
               (date_part('epoch', clock_timestamp() - e.created_at) * 1e6)::bigint as age
        from (
            select new.user_id, new.topic, new.o
            from (
                select e.user_id, e.topic, e.o
                from sync.event as e
                where e.xid >= pg_snapshot_xmax(prev) and e.xid < pg_snapshot_xmax(upto)
                    and pg_visible_in_snapshot(e.xid, upto)
                union all
                select e.user_id, e.topic, e.o
                from sync.event as e
                where e.xid = any(array(
                    select x from pg_snapshot_xip(prev) as x where pg_visible_in_snapshot(x, upto)))
                offset 0
            ) as new
            order by new.user_id, new.topic, new.o
            offset 0
        ) as k
        join sync.event as e on e.user_id = k.user_id and e.topic = k.topic and e.o = k.o
        order by k.user_id, k.topic, k.o;
    return epoch;
end
$$;
