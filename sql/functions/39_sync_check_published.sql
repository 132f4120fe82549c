-- sync.check_published: what keeps published tables from telling all their changes; no row when all is well. `serve` asks
-- at its start. Locks: none.
drop function if exists sync.check_published();
create function sync.check_published() returns table(relation text, problem text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select p.relation::text, 'the table has been dropped: select sync.withdraw(null)'
    from sync.published as p
    where not exists (select from pg_class where oid = p.relation)
    union all
    select p.relation::text, sync.unpublishable(p.relation)
    from sync.published as p
    where sync.unpublishable(p.relation) is not null
    union all
    select p.relation::text, format('trigger %s is missing, disabled or another: publish the table again', t.name)
    from sync.published as p
    join pg_class as c on c.oid = p.relation
    cross join lateral (values ('sync_insert', p.recorder), ('sync_update', p.recorder), ('sync_delete', p.recorder),
                               ('sync_truncate', 'refuse_truncate')) as t(name, function)
    where not exists (
        select from pg_trigger
        where tgrelid = p.relation and tgname = t.name and tgenabled = 'A'
            and tgfoid = to_regprocedure(format('sync.%I()', t.function))
    )
    union all
    select p.relation::text, 'carillon_owner may not read the table'
    from sync.published as p
    join pg_class as c on c.oid = p.relation
    where not has_table_privilege('carillon_owner', p.relation, 'select')
        or not has_schema_privilege('carillon_owner', c.relnamespace, 'usage')
    union all
    select p.relation::text, format('column %I is gone: publish the table again', col)
    from sync.published as p
    join pg_class as c on c.oid = p.relation
    cross join lateral unnest(array_remove(
        array[p.user_column, p.id_column, p.rev_column, p.context_column] || p.columns, null)) as col
    where not exists (select from pg_attribute where attrelid = p.relation and attname = col and not attisdropped)
    union all
    select 'sync.ticket', 'its trigger flush is missing or not ENABLE ALWAYS'
    where not exists (select from pg_trigger
                      where tgrelid = 'sync.ticket'::regclass and tgname = 'flush' and tgenabled = 'A')
$$;
