-- sync.secured: whether row level security that is on for a table hides rows from carillon_owner: not from a role that may
-- bypass it, nor, where it is not forced, from the owner's. No locks.
create or replace function sync.secured(table_owner oid, forced boolean) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return not (select r.rolsuper or r.rolbypassrls from pg_roles as r where r.rolname = 'carillon_owner')
        and (forced or not pg_has_role('carillon_owner', table_owner, 'usage'));
end
$$;

-- sync.unpublishable: why a table cannot be published; no row if it can. This and those after it are planned into their
-- callers' statements; OFFSET 0 keeps those from reading a whole catalog. Locks: none.
--   Partitions and inheritance children can be written without firing their parent's statement triggers; rows that a
--   subscription applies fire none; views and foreign tables have none; an unlogged table loses rows in silence.
drop function if exists sync.unpublishable(regclass);
create function sync.unpublishable(relation regclass) returns table(problem text)
language sql stable rows 1
begin atomic
    select r.problem
    from (
        select case
            when c.relkind = 'p' then 'it is partitioned: rows can be written to its partitions past any statement trigger'
            when c.relispartition then 'it is a partition'
            when c.relkind in ('v', 'm') then 'it is a view'
            when c.relkind = 'f' then 'it is a foreign table'
            when c.relkind <> 'r' then 'it is not a table'
            when c.relpersistence = 't' then 'it is temporary'
            when c.relpersistence = 'u' then 'it is unlogged: a crash empties it without an event'
            when c.relnamespace = 'sync'::regnamespace or c.relnamespace = 'pg_catalog'::regnamespace
                then 'it belongs to the system'
            when exists (select from pg_catalog.pg_inherits where inhrelid = c.oid offset 0)
                or exists (select from pg_catalog.pg_inherits where inhparent = c.oid offset 0) then 'it takes part in inheritance'
            when exists (select from pg_catalog.pg_subscription_rel where srrelid = c.oid offset 0)
                then 'it is the target of a subscription (pg_subscription_rel): applied rows fire no statement triggers'
            when c.relrowsecurity and sync.secured(c.relowner, c.relforcerowsecurity)
                then 'row level security would hide its rows from carillon_owner'
        end as problem
        from pg_catalog.pg_class as c
        where c.oid = relation
    ) as r
    where r.problem is not null;
end;

-- sync.unidentified: what keeps a column from identifying a table's rows, null values, or no unique index of its own; no
-- row where nothing does. Locks: none.
drop function if exists sync.unidentified(regclass, name);
create function sync.unidentified(relation regclass, id_column name) returns table(problem text)
language sql stable rows 1
begin atomic
    select format('column %I needs to be not null and to have a unique index of its own', id_column)
    where not exists (
        select from pg_catalog.pg_index as i
        join pg_catalog.pg_attribute as a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
        where i.indrelid = relation and i.indisunique and i.indimmediate and i.indisvalid
            and i.indnkeyatts = 1 and i.indpred is null
            and a.attname = id_column and a.attnotnull
        offset 0
    );
end;

-- sync.identify_hint: what to do for a table whose rows the column does not identify: name another column that does, or add one.
-- Called by sync.publish. Locks: none.
create or replace function sync.identify_hint(relation regclass) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    others text;
    key text;
begin
    select string_agg(quote_ident(a.attname), ', ' order by a.attnum) into others
    from pg_attribute as a
    where a.attrelid = relation and a.attnum > 0 and not a.attisdropped
        and not exists (select from sync.unidentified(relation, a.attname));
    if others is not null then
        return format('Name a column that identifies a row: id_column => ''…''. There is %s.', others);
    end if;
    select string_agg(quote_ident(a.attname), ', ' order by k.place) into key
    from pg_index as i cross join unnest(i.indkey) with ordinality as k(attnum, place)
    join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
    where i.indrelid = relation and i.indisprimary;
    return case when key like '%, %' then format('The key (%s) identifies a row by several columns together, and no column alone does. ', key)
                else 'No column of it does. ' end
        || format('Add one, and name it: alter table %s add column row_id bigint generated always as identity unique; '
                  'id_column => ''row_id''.', relation);
end
$$;

-- sync.as_published: true; raises where a column that a published table's functions name is gone, for the writer's screen: their
-- own statements would fail in words that tell nobody of publishing. Immutable, so that planning calls it and a statement does
-- not: a statement that reads the table, or its transition tables, is planned again after the table has changed.
-- Called by recorders and builders, but for the product's own tables. Locks: none.
create or replace function sync.as_published(of_source int) returns boolean
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    p sync.published;
    gone text;
begin
    select * into p from sync.published as e where e.source = of_source;
    select string_agg(distinct quote_ident(used.name), ', ') into gone
    from unnest(array[p.user_column, p.id_column, p.rev_column, p.context_column]
                || case when p.builder like 'sync.build\_%' then p.columns end) as used(name)
    where used.name is not null
        and not exists (select from pg_attribute as a
                        where a.attrelid = p.relation and a.attname = used.name and a.attnum > 0 and not a.attisdropped);
    if gone is not null then
        raise exception 'Carillon publishes the table %, of which the column % is gone', p.relation, gone
            using errcode = 'undefined_column',
                hint = format('Its owner publishes it again, as it is now: select sync.publish_changes(%L, …), with the arguments of before.',
                              p.relation::text);
    end if;
    return true;
end
$$;

-- sync.unnumbered: why a column is no revision: it is no integer; no row where it is one, or is gone. A domain counts as
-- what it is made of. Locks: none.
create or replace function sync.unnumbered(relation regclass, rev_column name) returns table(problem text)
language sql stable rows 1
begin atomic
    select format('rev column %I needs to be an integer', rev_column)
    from pg_catalog.pg_attribute as a
    where a.attrelid = relation and a.attname = rev_column and not a.attisdropped
        and a.atttypid not in ('bigint'::regtype, 'integer'::regtype, 'smallint'::regtype)
        and sync.base_type(a.atttypid) not in ('bigint'::regtype, 'integer'::regtype, 'smallint'::regtype);
end;
