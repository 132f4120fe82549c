-- sync.generate_builder: writes the function that makes the events of a table whose publisher named no builder of his
-- own: <prefix>.created and <prefix>.updated with the row as it is at commit, <prefix>.deleted with {id, rev}. Keys are
-- camelCase; `id` and `rev` have these names whatever the columns are called, and another column that would have one of
-- them is not sent; nulls are sent. Locks: none.
create or replace function sync.generate_builder(p sync.published) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    fields text;
begin
    -- At most 100 arguments a call: 40 columns each.
    select string_agg(format('jsonb_build_object(%s)', call), ' || ' order by part) into fields
    from (
        select (place - 1) / 40 as part,
               string_agg(format('%L, r.%I', sync.camel(name), name), ', ' order by place) as call
        from unnest(p.columns) with ordinality as c(name, place)
        where name is distinct from p.id_column and name is distinct from p.rev_column
            and sync.camel(name) not in ('id', 'rev')
        group by 1
    ) as calls;
    execute format($generator$
create or replace function %1$s(changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
as $builder$
begin
    return query
    select c.user_id, false, c.id,
           %2$L || case when r.%3$I is null then '.deleted' when c.op = 'I' then '.created' else '.updated' end,
           case when r.%3$I is null then jsonb_build_object('id', c.id::%7$s, 'rev', c.rev)
                else jsonb_build_object('id', r.%3$I, 'rev', %4$s)%5$s end
    from unnest(changes) as c
    left join lateral (
        select * from %6$s as r where r.%3$I = c.id::%7$s and r.%8$I::text = c.user_id offset 0
    ) as r on true
    where r.%3$I is not null or c.op <> 'I';
end
$builder$
$generator$,
        p.builder, p.event_prefix, p.id_column,
        case when p.rev_column is null then 'null::bigint' else format('r.%I', p.rev_column) end,
        coalesce(' || ' || fields, ''), p.relation,
        (select format_type(atttypid, atttypmod) from pg_attribute
         where attrelid = p.relation and attname = p.id_column and not attisdropped),
        p.user_column);
    execute format('revoke all on function %s(sync.change[]) from public', p.builder);
end
$$;
