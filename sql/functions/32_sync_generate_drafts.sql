-- sync.generate_drafts: writes sync.drafts(source, changes), which calls the builder of each published table by name,
-- so that one flush serves all and every plan is cached. Called under the lock that publishing takes. Locks: none.
create or replace function sync.generate_drafts() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    branches text;
begin
    select string_agg(
        format('        when %s then return query select * from %s(changes);', source, builder), e'\n' order by source)
    into branches from sync.published;
    execute format($generator$
create or replace function sync.drafts(source int, changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
as $drafts$
begin
    case source
%s
        else null;
    end case;
end
$drafts$
$generator$, coalesce(branches, '        when 0 then null;'));
    revoke all on function sync.drafts(int, sync.change[]) from public;
end
$$;
