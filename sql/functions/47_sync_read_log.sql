-- sync.read_log: where a stream stands and its events above `after_o` up to `up_to`, in order, in ONE snapshot, so that
-- events of another epoch are known for what they are. At most `page` events, and none after the one that reaches `bytes`
-- bytes of data. Always at least one row: where there are no events, one with nulls. Where the log does not reach back,
-- the first event is not the one after `after_o`. STABLE: it sees the caller's snapshot. No locks.
drop function if exists sync.read_log(text, text, bigint, bigint, int, int);
create function sync.read_log(user_id text, topic text, after_o bigint, up_to bigint, page int, bytes int)
returns table(epoch text, top bigint, o bigint, name text, data text)
language plpgsql stable security definer rows 100
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    kept record;
    read bigint := 0;
begin
    select m.epoch || '.' || sync.lineage(), coalesce(s.top, 0) into strict epoch, top
    from sync.meta as m
    left join sync.stream as s on s.user_id = read_log.user_id and s.topic = read_log.topic;
    for kept in
        select e.o, e.name, e.data
        from sync.event as e
        where e.user_id = read_log.user_id and e.topic = read_log.topic and e.o > after_o and e.o <= up_to
        order by e.o
        limit page
    loop
        -- Rows are fetched ahead as they are stored; what is large is unpacked here alone.
        o := kept.o;
        name := kept.name;
        data := kept.data::text;
        return next;
        read := read + octet_length(data);
        exit when read >= bytes;
    end loop;
    if o is null then
        return next;
    end if;
end
$$;
