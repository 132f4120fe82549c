-- sync.builder_query: the SELECT of the events ($1: sync.change[]) of a table whose publisher named no builder:
-- <prefix>.created and <prefix>.updated with the row as it is at commit, <prefix>.deleted with {id, rev}. Keys are
-- camelCase; `id` and `rev` have these names whatever the columns are called, and another column that would have one of
-- them is not sent; nulls are sent. `is distinct from null`: as in sync.generate_recorder. No locks.
create or replace function sync.builder_query(p sync.published) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    fields text;
begin
    perform sync.refuse_dropped(p);
    -- At most 100 arguments a call: 40 columns each.
    select string_agg(format('jsonb_build_object(%s)', call), ' || ' order by part) into fields
    from (
        select (place - 1) / 40 as part,
               string_agg(format('%L, r.%I', sync.camel(name), name) || case when name = any(p.text_columns) then '::text' else '' end,
                          ', ' order by place) as call
        from unnest(p.columns) with ordinality as c(name, place)
        where name is distinct from p.id_column and name is distinct from p.rev_column
            and sync.camel(name) not in ('id', 'rev')
        group by 1
    ) as calls;
    return format($query$
    select c.user_id, false, c.id,
           %1$L || case when r.%2$I is not distinct from null then '.deleted' when c.op = 'I' then '.created' else '.updated' end,
           case when r.%2$I is not distinct from null then jsonb_build_object('id', %3$s, 'rev', c.rev)
                else %8$s(jsonb_build_object('id', %3$s, 'rev', %4$s)%5$s) end
    from unnest($1) as c
    left join lateral (
        select * from %6$s as r where %7$s offset 0
    ) as r on true
    where r.%2$I is distinct from null or c.op <> 'I'$query$,
        p.event_prefix, p.id_column, sync.sent_id(p),
        case when p.rev_column is null then 'null::bigint' else format('r.%I', p.rev_column) end,
        coalesce(' || ' || fields, ''), p.relation, sync.lookup(p),
        case when sync.hardest(p.relation, p.columns || p.id_column) < 2 then '' else 'sync.bounded' end);
end
$$;

-- sync.generate_builder: writes the function that runs it. A table that was renamed is still met under the name that it
-- has now, by a query planned each time; another table that took its name is not read. Locks: none.
create or replace function sync.generate_builder(p sync.published) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format($generator$
create or replace function %1$s(changes sync.change[]) returns setof sync.draft
language plpgsql rows 10%6$s
as $builder$
declare
    named regclass := to_regclass(%2$L);
begin
    -- A restore from a dump gives the table another number: the entry knows it.
    if named is distinct from %3$s::oid::regclass then
        if named is distinct from (select p.relation from sync.published as p where p.source = %4$s) then
            return query execute sync.builder_query((select p from sync.published as p where p.source = %4$s)) using $1;
            return;
        end if;
    end if;
    perform from %7$s where not sync.as_published(%4$s);
    return query%5$s;
end
$builder$
$generator$,
        p.builder, p.relation::text, p.relation::oid, p.source, sync.builder_query(p),
        -- An array's text is read as an id.
        case when sync.id_type(p.relation, p.id_column) like '%[]' then e'\nset array_nulls = on' else '' end, p.relation);
    execute format('revoke all on function %s(sync.change[]) from public', p.builder);
end
$$;
