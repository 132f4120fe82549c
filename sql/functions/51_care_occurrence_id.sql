-- care.occurrence_id: UUIDv5 of a rule and the local date-time it gave, so that server and offline devices make the same
-- id. Namespace: the rule's id where it is a UUID; else the UUIDv5 of that id in Carillon's namespace. Name: the local
-- time as 2025-11-14T08:00, and for items of a stack '/' and the product. No locks.
-- pgcrypto may have been installed by someone else in another schema: the functions are written for where it is.
do $do$
begin
    execute format($generator$
create or replace function care.uuid5(namespace uuid, name text) returns uuid
language sql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select encode(set_byte(set_byte(h, 6, (get_byte(h, 6) & 15) | 80), 8, (get_byte(h, 8) & 63) | 128), 'hex')::uuid
    from (select substr(%I.digest(uuid_send(namespace) || convert_to(name, 'UTF8'), 'sha1'), 1, 16)) as t(h)
$$
$generator$, (select n.nspname from pg_extension as e join pg_namespace as n on n.oid = e.extnamespace
              where e.extname = 'pgcrypto'));
end
$do$;

-- In PL/pgSQL, for a plan makes many: as SQL it costs five times as much.
create or replace function care.occurrence_id(rule_id text, local timestamp, item text default null) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return care.uuid5(
        case when rule_id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then rule_id::uuid
             else care.uuid5('8a9e3b52-6a43-5d0c-9f4e-1c7f5be0ca21', rule_id) end,
        to_char(local, 'YYYY-MM-DD"T"HH24:MI') || coalesce('/' || item, ''))::text;
end
$$;
