-- sync.change.contexts: the context column's other values, where the row had several before it got its last one. Added
-- here and not by a migration: sync.flush and the type change in one transaction, so that no commit fails between them.
do $$
begin
    if not exists (
        select from pg_catalog.pg_attribute
        where attrelid = 'sync.change'::regclass and attname = 'contexts' and not attisdropped
    ) then
        alter type sync.change add attribute contexts text[];
    end if;
end
$$;
