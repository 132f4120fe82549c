-- care.intent.time_path: the member of the payload that `taken_at` was read from, clientTime, or null: it is the server's.
-- care.intent.taken_offset: seconds east of UTC of what `taken_at` was read from; null where it names no offset.
-- care.intent.acted_at: when the person acted (care.acted_at).
-- care.ruling.path: of a ruling that is rejected as invalid, the member that is wrong. Added here and not by a migration:
-- the types change in one transaction with the functions that make them, so that no action fails between them.
do $$
begin
    if not exists (
        select from pg_catalog.pg_attribute
        where attrelid = 'care.intent'::regclass and attname = 'time_path' and not attisdropped
    ) then
        alter type care.intent add attribute time_path text;
    end if;
    if not exists (
        select from pg_catalog.pg_attribute
        where attrelid = 'care.intent'::regclass and attname = 'acted_at' and not attisdropped
    ) then
        alter type care.intent add attribute taken_offset int, add attribute acted_at timestamptz;
    end if;
    if not exists (
        select from pg_catalog.pg_attribute
        where attrelid = 'care.ruling'::regclass and attname = 'path' and not attisdropped
    ) then
        alter type care.ruling add attribute path text;
    end if;
end
$$;

-- care.moment: when the person acted whose action is being carried out (care.acted_at); now where it is nobody's. What a person's
-- act decides goes by it: a device without a network tells it late. No locks.
create or replace function care.moment() returns timestamptz
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return coalesce(nullif(current_setting('care.acted_at', true), '')::timestamptz, sync.clock());
end
$$;

-- care.was_archived: whether a medication that is archived since then was so when the person acted: what was told late may have
-- come first. No locks.
create or replace function care.was_archived(since timestamptz) returns boolean
language sql
as $$
    select coalesce(since <= care.moment(), false)
$$;
