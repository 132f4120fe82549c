-- Zones and local times. Bodies in BEGIN ATOMIC are bound when created, and inlined into the plans that use them.
-- No locks.

-- care.zone_of: the user's zone; UTC where there are no settings.
create or replace function care.zone_of(who text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce((select zone from care.user_settings where user_id = who), 'UTC')
$$;

-- care.named_zone: a zone by a name that is no abbreviation too. PostgreSQL takes these four for abbreviations, without
-- summer time, but the time zone database means zones by them.
create or replace function care.named_zone(zone text) returns text
language sql immutable parallel safe
begin atomic
    select case upper(zone) when 'CET' then 'Europe/Brussels' when 'MET' then 'Europe/Brussels'
                            when 'EET' then 'Europe/Athens' when 'WET' then 'Europe/Lisbon' else zone end;
end;

-- care.utc_offset: a zone's offset at an instant.
create or replace function care.utc_offset(at timestamptz, zone text) returns interval
language sql stable parallel safe
begin atomic
    select (at at time zone zone) - (at at time zone 'UTC');
end;

-- care.local_iso: an instant as wall time in a zone, with its offset: 2025-11-14T08:00:00-05:00. In PL/pgSQL, so that a
-- statement has one call and not all of its parts.
create or replace function care.local_iso(at timestamptz, zone text) returns text
language plpgsql stable parallel safe
as $$
declare
    wall constant timestamp := at at time zone zone;
    utc_offset constant interval := wall - (at at time zone 'UTC');
begin
    if utc_offset < interval '0' then
        return to_char(wall, 'YYYY-MM-DD"T"HH24:MI:SS') || to_char(-utc_offset, '"-"HH24:MI');
    end if;
    return to_char(wall, 'YYYY-MM-DD"T"HH24:MI:SS') || to_char(utc_offset, '"+"HH24:MI');
end
$$;

-- care.resolve_local: the instant of a wall time, by RFC 5545 §3.3.5 and Temporal's "compatible": in a gap the offset
-- before it (02:30 becomes 03:30), in an overlap the first of the two. PostgreSQL's own AT TIME ZONE takes the second.
-- The offsets in question are those a day before and a day after. In PL/pgSQL, for as SQL it costs ten times as much.
create or replace function care.resolve_local(wall timestamp, zone text) returns timestamptz
language plpgsql stable parallel safe
as $$
declare
    u constant timestamptz := wall at time zone 'UTC';
    earlier constant timestamptz := u - care.utc_offset(u - interval '24 hours', zone);
    later timestamptz;
begin
    if earlier at time zone zone = wall then
        return earlier;
    end if;
    later := u - care.utc_offset(u + interval '24 hours', zone);
    return case when later at time zone zone = wall then later else earlier end;
end
$$;
