-- sync.unpublish_changes: ends what sync.publish_changes began; events already written stay. Called by the table's owner
-- as a member of carillon_owner. Lock order, as in publishing: sync.published, the table (ACCESS EXCLUSIVE), streams (sync.flush).
create or replace function sync.unpublish_changes(relation regclass) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform sync.refuse_strangers();
    if not exists (select from sync.published as p where p.relation = unpublish_changes.relation) then
        raise exception '% is not published', relation using errcode = 'undefined_object';
    end if;
    perform sync.refuse_own(relation);
    perform sync.lock_published();
    -- What this transaction has changed so far is told. The table first: its writers wait for streams.
    execute format('lock table %s in access exclusive mode', relation);
    set constraints sync.flush immediate;
    set constraints sync.flush deferred;
    perform sync.detach(relation, (select p.recorder from sync.published as p where p.relation = unpublish_changes.relation), '{}');
    perform sync.withdraw(relation);
end
$$;

-- sync.lock_published: publishers and unpublishers queue. Locks: sync.published.
create or replace function sync.lock_published() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    lock table sync.published in share row exclusive mode;
end
$$;

-- sync.withdraw: carillon_owner's half: the entry and the generated functions. Also forgets tables that have been dropped.
create or replace function sync.withdraw(target regclass) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    p sync.published;
begin
    perform sync.refuse_own(target);
    lock table sync.published in share row exclusive mode;
    for p in
        delete from sync.published
        where relation = target or not exists (select from pg_class where oid = relation)
        returning *
    loop
        execute format('drop function if exists sync.%I()', p.recorder);
        if p.builder like 'sync.build\_%' then
            execute format('drop function if exists %s(sync.change[])', p.builder);
        end if;
    end loop;
    perform sync.generate_drafts();
end
$$;
