-- sync.too_long: refuses a change of a row whose user and id are longer than the indexes over both can hold. Called by recorders,
-- which look at the lengths first. Says nothing of either. No locks.
create or replace function sync.too_long(source int, user_id text, id text) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'a row of % has a user''s id of % bytes and an id of % bytes: together they may have 2600',
        (select p.published_as from sync.published as p where p.source = too_long.source), octet_length(user_id), octet_length(id)
        using errcode = 'string_data_right_truncation';
end
$$;

-- sync.touch: has the events of rows told at the commit although the rows themselves did not change: something did that
-- is shown inside them. One row for each element; those of nobody ('' or null) are skipped. The table must be published
-- with a builder of its own, which judges what is there then. Called by triggers. Locks: none of others'.
create or replace function sync.touch(relation regclass, users text[], ids text[]) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into sync.touched (xid, source, user_id, id, topic, op, balance)
    select pg_current_xact_id(), p.source, v.user_id, v.id, p.topic, 'U', 0
    from sync.published as p cross join lateral (
        select distinct w.user_id collate "C" as user_id, w.id collate "C" as id from unnest(users, ids) as w(user_id, id)
    ) as v
    where p.relation = touch.relation and v.user_id <> '' and v.id is not null
    on conflict (xid, source, user_id, id) do nothing;
    if found then
        insert into sync.ticket (xid) values (pg_current_xact_id()) on conflict do nothing;
    end if;
end
$$;
