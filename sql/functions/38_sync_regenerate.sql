-- sync.regenerate: writes the generated functions of all published tables again, by the generators as they are now. The
-- last function file calls it. Dropped tables are passed over. Lock order: sync.published.
create or replace function sync.regenerate() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    p sync.published;
begin
    lock table sync.published in share row exclusive mode;
    for p in select * from sync.published where relation in (select oid from pg_class) order by source loop
        perform sync.generate_recorder(p);
        if p.builder like 'sync.build_%' then
            perform sync.generate_builder(p);
        end if;
    end loop;
    perform sync.generate_drafts();
end
$$;
