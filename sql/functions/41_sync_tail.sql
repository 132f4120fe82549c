-- sync.tail: exactly the events that became visible since the snapshot `prev`, in pages ordered by (user_id, topic, o),
-- and the snapshot of this very statement, to be the next `prev` (of a read in pages: that of the first page). Always at
-- least one row: where there are no events, one with nulls. `epoch`: of sync.meta, which changes when all streams begin
-- anew. `age`: microseconds by this server's clock since the event was
-- written, at the end of its transaction. `after_user` null: from the start. STABLE: it sees the
-- caller's snapshot, so the two belong together. No locks.
--
-- For hubs of earlier versions, which go on while the schema is newer than they are: later ones read sync.news, for each page
-- here looks at all that is new.
--
-- In plpgsql, whose plan stays with the session: planning this in each call cost three times as much as running it.
-- Collation "C" by the table's columns. OFFSET 0 keeps the planner from walking the primary key in order and filtering:
-- it must come in by event_xid, whatever it guesses about `prev`.
drop function if exists sync.tail(pg_snapshot, text, text, bigint, int);
create function sync.tail(prev pg_snapshot, after_user text, after_topic text, after_o bigint, page int)
returns table(snapshot pg_snapshot, epoch text, user_id text, topic text, o bigint, name text, data text, age bigint)
language plpgsql stable security definer rows 100
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    present constant pg_snapshot := pg_current_snapshot();
begin
    return query
    select present, (select m.epoch from sync.meta as m), e.user_id, e.topic, e.o, e.name, e.data::text,
           (date_part('epoch', clock_timestamp() - e.created_at) * 1e6)::bigint
    from (select) as always
    left join (
        select new.user_id, new.topic, new.o
        from (
            select e.user_id, e.topic, e.o
            from sync.event as e
            where e.xid >= pg_snapshot_xmax(prev) or e.xid = any(array(select pg_snapshot_xip(prev)))
            offset 0
        ) as new
        where after_user is null or (new.user_id, new.topic, new.o) > (after_user, after_topic, after_o)
        order by new.user_id, new.topic, new.o
        limit page
    ) as k on true
    left join sync.event as e on e.user_id = k.user_id and e.topic = k.topic and e.o = k.o
    order by k.user_id, k.topic, k.o;
end
$$;
