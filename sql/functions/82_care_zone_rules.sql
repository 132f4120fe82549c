-- What the time zone database says. Doses ahead are planned by it; when a package brings other rules, they are planned again.
-- A session keeps the rules that it has read: so each session that runs the job compares them once, when it begins. After an
-- update of the package the server is to be restarted: older sessions go by older rules.

-- care.zone_transitions: a zone's offset at the beginning of a day, and its transitions in the two years from there, to the
-- quarter of an hour. No locks.
create or replace function care.zone_transitions(zone text, since date) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set intervalstyle = 'postgres'
as $$
declare
    start constant timestamptz := since::timestamptz;
begin
    return care.utc_offset(start, zone) || coalesce((
        select string_agg(format(' %s %s', to_char(q, 'YYYY-MM-DD"T"HH24:MI'), care.utc_offset(q, zone)), '' order by q)
        from (
            select d from (
                select d, care.utc_offset(d, zone) as was, lead(care.utc_offset(d, zone)) over (order by d) as will
                from generate_series(start, start + interval '731 days', interval '1 day') as d
            ) as days
            where was <> will
        ) as turning
        cross join lateral generate_series(d + interval '15 minutes', d + interval '1 day', interval '15 minutes') as q
        where care.utc_offset(q, zone) <> care.utc_offset(q - interval '15 minutes', zone)), '');
end
$$;

-- care.know_zones: zones of schedules that are not in care.zone_rules yet get there. Locks: their rows.
create or replace function care.know_zones(schedules care.schedule[], clock timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
begin
    insert into care.zone_rules (zone, since, transitions, read_by)
    select n.zone, n.since, care.zone_transitions(n.zone, n.since), clock_timestamp()
    from (select distinct s.timezone as zone, date_trunc('year', clock)::date as since from unnest(schedules) as s) as n
    where not exists (select from care.zone_rules as z where z.zone = n.zone)
    order by n.zone
    on conflict (zone) do nothing;
end
$$;

-- care.read_zone_rules: compares the rules of the zones in use with what this session reads, once in its life; false: not all by
-- the deadline. A zone that is not there any more keeps its row. Lock order: care.zone_rules; rows that others hold are left
-- to them.
create or replace function care.read_zone_rules(clock timestamptz, deadline timestamptz) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    began timestamptz := nullif(current_setting('carillon.zones_read_since', true), '');
    z care.zone_rules;
    fresh text;
begin
    if current_setting('carillon.zones_read', true) = 'on' then
        return true;
    elsif began is null then
        began := clock_timestamp();
        perform set_config('carillon.zones_read_since', began::text, false);
    end if;
    for z in select * from care.zone_rules as r where r.read_by < began order by r.zone for update skip locked loop
        if clock_timestamp() > deadline then
            return false;
        end if;
        begin
            fresh := care.zone_transitions(z.zone, z.since);
            if fresh <> z.transitions then
                z.version := z.version + 1;
            end if;
            if z.since < date_trunc('year', clock)::date then
                z.since := date_trunc('year', clock)::date;
                fresh := care.zone_transitions(z.zone, z.since);
            end if;
            z.transitions := fresh;
        exception when data_exception then null;
        end;
        update care.zone_rules as r
        set since = z.since, transitions = z.transitions, version = z.version, read_by = began where r.zone = z.zone;
    end loop;
    perform set_config('carillon.zones_read', 'on', false);
    return true;
end
$$;
