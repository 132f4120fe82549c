-- sync.check_published: what keeps published tables, and what carries their events, from telling all changes; no row when
-- all is well. Hubs ask with every position check, and `migrate` at its end. In plpgsql, whose plan stays with the
-- session; the catalogs by their keys, for they may be large. Nothing that somebody drops meanwhile makes it fail.
-- Locks: none.
drop function if exists sync.check_published();
create function sync.check_published() returns table(relation text, problem text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
set jit = off
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    with entry as materialized (
        select p, p.relation as oid, c.relnamespace, c.oid is null as dropped,
               case when c.oid is null then coalesce(p.published_as, p.relation::text)
                    else format('%I.%I', n.nspname, c.relname) end as name
        from sync.published as p
        left join pg_class as c on c.oid = p.relation
        left join pg_namespace as n on n.oid = c.relnamespace
    ), renamed as materialized (
        -- `replaced`: another table has the name that this one was published as.
        select e.name, e.dropped, (e.p).published_as,
               exists (select from pg_namespace as m join pg_class as o on o.relnamespace = m.oid
                       where m.nspname = (parse_ident((e.p).published_as))[1]::name
                           and o.relname = (parse_ident((e.p).published_as))[2]::name and o.oid <> e.oid) as replaced
        from entry as e
        where e.dropped or (e.p).published_as <> e.name
    ), look as materialized (
        -- Each table's columns are read once.
        select e.p, e.oid, e.name, used.columns, coalesce(h.present, '{}') as present, h.hardest
        from entry as e
        cross join lateral (select array_remove(
            array[(e.p).user_column, (e.p).id_column, (e.p).rev_column, (e.p).context_column] || (e.p).columns, null)
        ) as used(columns)
        cross join lateral sync.hardness(e.oid, used.columns) as h
        where not e.dropped
    )
    select r.name, case when r.dropped and r.replaced
                        then 'it was dropped, and another has its name: publish that one, and then select sync.withdraw(null)'
                        when r.dropped then 'the table has been dropped: select sync.withdraw(null)'
                        when r.replaced then format('it was published as %s, which is another table now: publish that one, '
                                                    'and unpublish this one or publish it again', r.published_as)
                        else format('it was published as %s: publish it again', r.published_as) end
    from renamed as r
    union all
    select e.name, u.problem
    from entry as e cross join lateral sync.unpublishable(e.oid) as u
    where not e.dropped
    union all
    select e.name, format('trigger %s is missing, disabled or another: publish the table again', t.name)
    from entry as e cross join lateral sync.missing_triggers(e.oid, (e.p).recorder) as t
    where not e.dropped
    union all
    select e.name, 'carillon_owner may not read the table'
    from entry as e
    where not e.dropped
        and (has_table_privilege('carillon_owner', e.oid, 'select') is not true
             or has_schema_privilege('carillon_owner', e.relnamespace, 'usage') is not true)
    union all
    select l.name, format('column %I is gone: publish the table again', col)
    from look as l
    cross join lateral (select distinct unnest(l.columns) as col) as used
    where not l.columns <@ l.present and not col = any(l.present)
    union all
    select e.name, format('column %I is of type %s now: publish the table again', (e.p).id_column, t.id_type)
    from entry as e cross join lateral sync.id_types(e.oid, (e.p).id_column) as t
    where not e.dropped and t.id_type <> (e.p).id_type
    union all
    select e.name, format('a value of an enum in column %I or %I has another name now, and devices keep the rows by the old '
                          'one: publish the table again, then select sync.new_epoch()', (e.p).id_column, (e.p).user_column)
    from entry as e
    where not e.dropped and (e.p).labels <> '{}' and (e.p).labels <> array(
        select l.label from unnest(sync.labels(e.oid, array[(e.p).id_column, (e.p).user_column])) with ordinality as l(label, place)
        where l.label = any((e.p).labels) order by l.place)
    union all
    select e.name, 'its functions are of an earlier version: publish the table again'
    from entry as e
    where not e.dropped and ((e.p).id_type is null or (e.p).hardest is null)
    union all
    select l.name, 'a column has another type: publish the table again'
    from look as l
    where l.hardest > (l.p).hardest
    union all
    select l.name, u.problem
    from look as l cross join lateral sync.unidentified(l.oid, (l.p).id_column) as u
    where (l.p).id_column = any(l.present)
    union all
    select e.name, u.problem
    from entry as e cross join lateral sync.unnumbered(e.oid, (e.p).rev_column) as u
    where not e.dropped
    union all
    select e.name, format('its builder %s is gone: publish the table again', (e.p).builder)
    from entry as e
    where not e.dropped and (e.p).builder ~ '^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$'
        and not exists (select from pg_proc as f join pg_namespace as n on n.oid = f.pronamespace
                        where f.proname = split_part((e.p).builder, '.', 2) and n.nspname = split_part((e.p).builder, '.', 1))
    union all
    select s.name, case when e.p is null then 'it is not published: run carillon migrate'
                        else 'it is published otherwise than this product does: run carillon migrate' end
    from sync.shipped() as s
    left join entry as e on e.oid = s.relation
    where ((e.p).user_column, (e.p).topic, (e.p).event_prefix, (e.p).id_column, (e.p).rev_column, (e.p).builder,
           (e.p).context_column)
        is distinct from (s.user_column, s.topic, s.event_prefix, s.id_column, s.rev_column, s.builder, s.context_column)
    union all
    select 'sync.ticket', 'its trigger flush is missing, disabled or another: run carillon migrate'
    where not exists (
        select from pg_trigger as g join pg_proc as f on f.oid = g.tgfoid
        where g.tgrelid = 'sync.ticket'::regclass and g.tgname = 'flush' and g.tgenabled = 'A' and g.tgtype = 5
            and g.tginitdeferred and f.pronamespace = 'sync'::regnamespace and f.proname = 'flush')
    union all
    select format('%I.%I', n.nspname, c.relname), case
        when c.relpersistence <> 'p' then 'it is unlogged: a crash empties it: alter table … set logged'
        else 'row level security would hide its rows: alter table … disable row level security' end
    from pg_namespace as n
    join pg_depend as d on d.refclassid = 'pg_namespace'::regclass and d.refobjid = n.oid and d.classid = 'pg_class'::regclass
    join pg_class as c on c.oid = d.objid
    where n.nspname in ('sync', 'care') and c.relkind = 'r'
        and (c.relpersistence <> 'p' and c.relname not in ('touched', 'ticket') or c.relrowsecurity and sync.secured(c.relowner, c.relforcerowsecurity));
end
$$;
