-- sync.replay: a stream's events after an offset, in order, at most `page` of them. No locks.
drop function if exists sync.replay(text, text, bigint, int);
create function sync.replay(user_id text, topic text, after_o bigint, page int)
returns table(o bigint, name text, data text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
    select e.o, e.name, e.data::text
    from sync.event as e
    where e.user_id = replay.user_id and e.topic = replay.topic and e.o > after_o
    order by e.o
    limit page
$$;
