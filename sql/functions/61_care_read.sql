-- Reading what devices send. A `…_problem` function says why a value is no good, or null; nothing here can fail, and no
-- reason quotes a value. A missing member and null are the same. No locks.

-- care.given: a member of an object, null where it is absent or null.
create or replace function care.given(doc jsonb, name text) returns jsonb
language sql immutable
as $$
    select nullif(doc operator(pg_catalog.->) name, 'null')
$$;

-- care.invalid: the verdict on a value that is no good.
create or replace function care.invalid(path text, problem text) returns sync.verdict
language sql stable
as $$
    select row('rejected', pg_catalog.jsonb_build_object('code', 'invalid', 'path', path, 'message', problem),
               null, false)::sync.verdict
$$;

-- care.key_problem: ids and keys: 1 to 200 bytes.
create or replace function care.key_problem(v jsonb) returns text
language plpgsql immutable
as $$
begin
    if v is null then
        return 'is required';
    elsif jsonb_typeof(v) <> 'string' then
        return 'must be a string';
    elsif octet_length(v #>> '{}') not between 1 and 200 then
        return 'must have 1 to 200 bytes';
    end if;
    return null;
end
$$;

-- care.text_problem: a text of 1 to `longest` characters; `blank`: white space alone is good enough.
create or replace function care.text_problem(v jsonb, longest int, blank boolean) returns text
language plpgsql immutable
as $$
begin
    if jsonb_typeof(v) <> 'string' then
        return 'must be a string';
    elsif char_length(v #>> '{}') not between 1 and longest then
        return format('must have 1 to %s characters', longest);
    elsif not blank and btrim(v #>> '{}', E' \t\r\n') = '' then
        return 'must not be blank';
    end if;
    return null;
end
$$;

-- care.boolean_problem: true or false, or nothing.
create or replace function care.boolean_problem(v jsonb) returns text
language sql immutable
as $$
    select case when pg_catalog.jsonb_typeof(v) <> 'boolean' then 'must be true or false' end
$$;

-- care.date_problem: YYYY-MM-DD, a day that exists.
create or replace function care.date_problem(day text) returns text
language plpgsql immutable
as $$
begin
    if day collate "C" !~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$' then
        return 'must be a date such as 2025-11-14';
    elsif left(day, 4) = '0000' or substr(day, 9)::int > extract(day from make_date(
            left(day, 4)::int, substr(day, 6, 2)::int, 1) + interval '1 month' - interval '1 day') then
        return 'is no day of the calendar';
    end if;
    return null;
end
$$;

-- care.time_form_problem: ISO 8601 with an offset, or an integer number of epoch milliseconds; of any year.
create or replace function care.time_form_problem(v jsonb) returns text
language plpgsql immutable
as $$
declare
    spelled text := v #>> '{}';
begin
    if jsonb_typeof(v) = 'number' then
        return case when spelled::numeric <> trunc(spelled::numeric) then 'must be an integer number of milliseconds' end;
    elsif jsonb_typeof(v) <> 'string' then
        return 'must be a time: ISO 8601 with an offset, or epoch milliseconds';
    elsif spelled collate "C" !~
        '^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?'
        '(Z|[-+](0[0-9]|1[0-5])(:?[0-5][0-9])?)$'
        or care.date_problem(left(spelled, 10)) is not null
    then
        return 'must be a time such as 2025-11-14T08:00:00-05:00';
    end if;
    return null;
end
$$;

-- care.time_problem: such a time of the years 2000 to 2100 (UTC).
create or replace function care.time_problem(v jsonb) returns text
language plpgsql stable
as $$
declare
    problem text := care.time_form_problem(v);
begin
    if problem is null and not (case
        when jsonb_typeof(v) = 'number' then (v #>> '{}')::numeric between 946684800000 and 4133980799999
        else care.time_of(v) >= '2000-01-01T00:00:00Z' and care.time_of(v) < '2101-01-01T00:00:00Z' end)
    then
        problem := 'must be of the years 2000 to 2100';
    end if;
    return problem;
end
$$;

-- care.time_of: the instant that such a value names, microseconds and no more of it; null for none.
create or replace function care.time_of(v jsonb) returns timestamptz
language plpgsql stable
as $$
begin
    if jsonb_typeof(v) = 'number' then
        return timestamptz 'epoch' + (v #>> '{}')::numeric::bigint * interval '1 millisecond';
    end if;
    return regexp_replace(v #>> '{}', '([.][0-9]{6})[0-9]+', E'\\1')::timestamptz;
end
$$;

-- care.offset_of: the offset that a (good) time names, in seconds east of UTC; null for `Z` and milliseconds, which name an
-- instant and say nothing of where.
create or replace function care.offset_of(v jsonb) returns int
language plpgsql immutable
as $$
declare
    part text[] := regexp_match(case when jsonb_typeof(v) = 'string' then v #>> '{}' end,
                                'T.*([-+])([0-9]{2}):?([0-9]{2})?$');
begin
    return (part[1] || '1')::int * (part[2]::int * 3600 + coalesce(part[3]::int, 0) * 60);
end
$$;

-- care.believed: a device's clientTime, or null where its clock has lost the time: it is 90 days old, or of no year in which
-- anybody acts. What is not a time at all stays, and is refused.
create or replace function care.believed(client_time jsonb, clock timestamptz) returns jsonb
language plpgsql stable
as $$
begin
    if care.time_form_problem(client_time) is null
        and (care.time_problem(client_time) is not null or care.time_of(client_time) <= clock - interval '90 days')
    then
        return null;
    end if;
    return client_time;
end
$$;

-- care.acted_at: when the person acted, by what the device says: not later than now, and now where it says nothing or
-- names a time that is 90 days old, as clocks do that have lost theirs.
create or replace function care.acted_at(client_at timestamptz, clock timestamptz) returns timestamptz
language sql immutable
as $$
    select case when client_at > clock - interval '90 days' and client_at < clock then client_at else clock end
$$;

-- care.past_problem: a time that is not more than a day ahead of `clock`: the clocks of phones may be fast, and what lies
-- ahead was now.
create or replace function care.past_problem(v jsonb, clock timestamptz) returns text
language plpgsql stable
as $$
begin
    return coalesce(care.time_problem(v), case when care.time_of(v) > clock + interval '24 hours'
                                               then 'lies in the future' end);
end
$$;

-- care.revision_problem: an integer from 0 to 2^53.
create or replace function care.revision_problem(v jsonb) returns text
language plpgsql immutable
as $$
begin
    if jsonb_typeof(v) <> 'number' or (v #>> '{}')::numeric not between 0 and 9007199254740992
        or (v #>> '{}')::numeric <> trunc((v #>> '{}')::numeric)
    then
        return 'must name revisions, which are integers';
    end if;
    return null;
end
$$;

-- care.base_problem: {rev}, or {<id>: {rev}, …}; other members are ignored.
create or replace function care.base_problem(base jsonb) returns text
language plpgsql immutable
as $$
declare
    v jsonb;
begin
    if base is null then
        return null;
    elsif jsonb_typeof(base) <> 'object' then
        return 'must be an object';
    elsif care.given(base, 'rev') is not null and jsonb_typeof(base -> 'rev') <> 'object' then
        return care.revision_problem(base -> 'rev');
    end if;
    for v in select e.value -> 'rev' from jsonb_each(base) as e where jsonb_typeof(e.value) = 'object' loop
        if v <> 'null' and care.revision_problem(v) is not null then
            return care.revision_problem(v);
        end if;
    end loop;
    return null;
end
$$;

-- care.base_rev: the revision of a dose that a (good) base names, or null.
create or replace function care.base_rev(base jsonb, id text) returns bigint
language plpgsql immutable
as $$
begin
    if jsonb_typeof(base -> 'rev') = 'number' then
        return (base ->> 'rev')::numeric::bigint;
    elsif jsonb_typeof(base -> id -> 'rev') = 'number' then
        return (base -> id ->> 'rev')::numeric::bigint;
    end if;
    return null;
end
$$;

-- care.known_zone: whether a text is the name of a zone of the IANA database. PostgreSQL would take POSIX rules too, and
-- names of the files beside the zones.
create or replace function care.known_zone(zone text) returns boolean
language plpgsql stable
as $$
begin
    if zone collate "C" !~ ('^([A-Za-z_]+(/[A-Za-z_]+(-[A-Za-z_]+)*){0,2}|Etc/GMT[-+]?([0-9]|1[0-4])|GMT[-+]?0'
                           '|EST5EDT|CST6CDT|MST7MDT|PST8PDT|W-SU|NZ-CHAT|GB-Eire)$')
        or zone in ('posixrules', 'localtime', 'Factory')
    then
        return false;
    end if;
    begin
        perform now() at time zone zone;
    exception when invalid_parameter_value then
        return false;
    end;
    return true;
end
$$;
