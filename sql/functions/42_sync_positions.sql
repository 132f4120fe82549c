-- sync.positions: where streams stand: one row for each pair asked, in their order. A stream without events yet is at 0. All
-- are in the epoch of sync.meta. One snapshot; the lineage is asked once. No locks.
drop function if exists sync.positions(text[], text[]);
create function sync.positions(user_ids text[], topics text[])
returns table(user_id text, topic text, epoch text, top bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
    with l as materialized (select sync.lineage() as lineage)
    select asked.user_id, asked.topic, m.epoch || '.' || l.lineage, coalesce(s.top, 0)
    from unnest(user_ids, topics) with ordinality as asked(user_id, topic, place)
    cross join (select epoch from sync.meta) as m
    cross join l
    left join sync.stream as s on s.user_id = asked.user_id and s.topic = asked.topic
    order by asked.place
$$;
