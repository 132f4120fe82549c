-- Exports: texts that a hub sends as it reads them, from one snapshot.

-- care.csv_field: a value of a CSV file (RFC 4180), in quotes where it needs them. A spreadsheet takes a text that begins as
-- a formula does for one, also by a full-width sign: such a text gets an apostrophe in front. No locks.
create or replace function care.csv_field(value text) returns text
language plpgsql immutable
as $$
begin
    if value is null then
        return '';
    elsif left(value, 1) in ('=', '+', '-', '@', U&'\FF1D', U&'\FF0B', U&'\FF0D', U&'\FF20', E'\t', E'\r', E'\n') then
        value := '''' || value;
    end if;
    if value ~ '[",\r\n]' then
        return '"' || replace(value, '"', '""') || '"';
    end if;
    return value;
end
$$;

-- care.csv_line: values as a line of a CSV file. No locks.
create or replace function care.csv_line(fields text[]) returns text
language sql immutable
as $$
    select pg_catalog.string_agg(care.csv_field(f.value), ',' order by f.place) || E'\r\n'
    from pg_catalog.unnest(fields) with ordinality as f(value, place)
$$;

-- care.export_line: a dose as a line of an export. Called as a cursor is read, by a role with no right in this schema. No locks.
create or replace function care.export_line(o care.dose_occurrence, format text) returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    doc constant jsonb := care.dose_json(o);
begin
    if format = 'json' then
        return doc::text || E'\n';
    end if;
    return care.csv_line(array[
        doc ->> 'localDate', to_char(o.local_time, 'HH24:MI'), doc ->> 'timezone', doc ->> 'productName', doc ->> 'strength',
        doc ->> 'form', doc ->> 'dose', doc ->> 'status',
        coalesce(doc ->> 'takenAtLocal', care.local_iso(o.taken_at, o.tz)), doc ->> 'reason', doc ->> 'note',
        coalesce(doc ->> 'asNeeded', 'false'), doc ->> 'timeLocal', doc ->> 'id', doc ->> 'productId', doc ->> 'scheduleId']);
end
$$;

-- sync.adherence_export: opens the cursor `export` on a user's doses, the oldest first, and returns the content type. `format`:
-- csv, or json for a list of objects. A table begins with a byte-order mark, without which spreadsheets would not take it for
-- UTF-8. Without a last day, doses of days after today are left out; the cancelled always are. UQ001: the last day is before
-- the first.
-- The cursor's rows come in the order of its parts, without a sort of all doses: one day is sorted at a time. No locks.
create or replace function sync.adherence_export(who text, format text, first_day date, last_day date) returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set max_parallel_workers_per_gather = 0
set jit = off
as $$
declare
    export refcursor := 'export';
    till constant date := coalesce(last_day, (sync.clock() at time zone care.zone_of(who))::date);
begin
    perform care.check_days(first_day, last_day);
    open export no scroll for
    select case when format = 'json' then '['
                else E'\ufeff' || care.csv_line('{date,time,timezone,product,strength,form,dose,status,taken_at,reason,note,as_needed,'
                                   'scheduled_at,id,product_id,schedule_id}') end
    union all
    select case when format = 'json' and row_number() over () > 1 then ',' else '' end || care.export_line(o.d, format)
    from (
        select d from care.dose_occurrence as d
        where d.user_id = who and d.local_date between coalesce(first_day, '-infinity') and till and d.status <> 'cancelled'
        order by d.local_date, d.scheduled_at, d.id collate "C"
    ) as o
    union all
    select ']' where format = 'json';
    return case when format = 'json' then 'application/json' else 'text/csv; charset=utf-8; header=present' end;
end
$$;
