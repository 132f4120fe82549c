-- sync.regenerate: writes the generated functions of all published tables again, by the generators as they are now. The
-- last function file calls it. Passed over, and left to sync.check_published: tables that were dropped, and those whose
-- columns or types the generators cannot use any more. Their functions stay as they are. Lock order: sync.published.
create or replace function sync.regenerate() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    p sync.published;
begin
    lock table sync.published in share row exclusive mode;
    for p in select * from sync.published where relation in (select oid from pg_class) order by source loop
        begin
            perform sync.probe(p);
            p.id_type := sync.id_type(p.relation, p.id_column);
            perform sync.generate_recorder(p);
            if p.builder like 'sync.build\_%' then
                perform sync.generate_builder(p);
            end if;
            update sync.published as e
            set id_type = p.id_type, labels = coalesce(p.labels, sync.labels(p.relation, array[p.id_column, p.user_column])),
                hardest = sync.hardest(p.relation, array[p.id_column, p.user_column, p.rev_column, p.context_column] || p.columns)
            where e.source = p.source;
        exception when others then
            -- A lock that could not be had, a deadlock: nothing is wrong with the table.
            if sqlstate like '40%' or sqlstate = '55P03' then
                raise;
            end if;
            raise warning 'published table % is passed over: %', p.relation, sqlerrm;
        end;
    end loop;
    perform sync.generate_drafts();
end
$$;
