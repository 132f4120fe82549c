-- sync.topics: the topics that published tables have, comma-separated, '' for none, at most `most` of them; and the epoch
-- in which a stream without events begins. The hub watches streams of these topics. No locks.
drop function if exists sync.topics(int);
create function sync.topics(most int) returns table(epoch text, topics text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select m.epoch || '.' || sync.lineage(),
           coalesce((select string_agg(t.topic, ',')
                     from (select distinct p.topic from sync.published as p order by p.topic limit most) as t), '')
    from sync.meta as m
$$;
