-- sync.base_type: what a domain is made of in the end; any other type itself. No locks.
create or replace function sync.base_type(type oid) returns oid
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    base oid;
begin
    loop
        select t.typbasetype into base from pg_type as t where t.oid = type and t.typtype = 'd';
        exit when not found;
        type := base;
    end loop;
    return type;
end
$$;

-- sync.id_type: the type as which an id is looked up, in SQL: without a domain's checks and without a length, and bigint
-- for all integers, so that a column that grows (integer to bigint, varchar(10) to text) needs nobody's doing. With its
-- collation where texts that differ are equal by that. Null where there is no such column. sync.id_types is the same in
-- one row, or none, and planned into its callers' statements. No locks.
create or replace function sync.id_types(relation regclass, id_column name) returns table(id_type text)
language sql stable rows 1
begin atomic
    select case
        when b.oid in ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype) then 'bigint'
        when b.oid in ('varchar'::regtype, 'text'::regtype) then 'text'
        else format_type(b.oid, -1)
    end || coalesce(case when a.attcollation <> 0 then (
        select format(' collate %I.%I', n.nspname, c.collname)
        from pg_catalog.pg_collation as c join pg_catalog.pg_namespace as n on n.oid = c.collnamespace
        where c.oid = a.attcollation and not c.collisdeterministic) end, '')
    from pg_catalog.pg_attribute as a join pg_catalog.pg_type as t on t.oid = a.atttypid
    cross join lateral (select case t.typtype when 'd' then sync.base_type(t.oid) else t.oid end) as b(oid)
    where a.attrelid = relation and a.attname = id_column and not a.attisdropped;
end;

create or replace function sync.id_type(relation regclass, id_column name) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
begin
    return (select t.id_type from sync.id_types(relation, id_column) as t);
end
$$;

-- sync.id_text: SQL of a row's id as text, as it is recorded. Numbers that are equal are one id to a client that reads JSON,
-- so they have one text: 1.0 is 1, and -0 is 0. Not for a builder of an app's own, which compares with the column's text. No locks.
create or replace function sync.id_text(p sync.published, alias text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    id constant text := format('%I.%I', alias, p.id_column);
    type constant text := sync.id_type(p.relation, p.id_column);
begin
    return case when p.builder not like 'sync.build\_%' then id || '::text'
                when type = 'numeric' then format('trim_scale(%s)::text', id)
                when type in ('real', 'double precision') then format('case when %1$s = 0 then ''0'' else %1$s::text end', id)
                else id || '::text' end;
end
$$;

-- sync.one_text: whether equal ids have equal texts (sync.id_text). Not so: interval, text under a nondeterministic collation,
-- numbers for a builder of an app's own; and nobody knows of other types. No locks.
create or replace function sync.one_text(p sync.published) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select t.id_type in (
            'bigint', 'text', 'name', 'uuid', 'date', 'timestamp without time zone', 'timestamp with time zone', 'boolean', 'oid')
        or t.id_type in ('numeric', 'real', 'double precision') and p.builder like 'sync.build\_%'
    from sync.id_types(p.relation, p.id_column) as t
$$;

-- sync.made_of: 4 where a type is, or is made of, money or one of those that name an object (regclass); else 3. No locks.
create or replace function sync.made_of(type oid) returns int
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        with recursive part as (
            select type as oid
            union
            select next.oid
            from part join pg_type as t on t.oid = part.oid
            cross join lateral (
                select t.typbasetype
                union all
                select t.typelem where t.typcategory = 'A'
                union all
                select a.atttypid from pg_attribute as a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
                union all
                select r.rngsubtype from pg_range as r where r.rngtypid = t.oid or r.rngmultitypid = t.oid
            ) as next(oid)
        )
        select case when count(*) = 0 then 3 else 4 end
        from part join pg_type as t on t.oid = part.oid
        where t.typnamespace = 'pg_catalog'::regnamespace and (t.typname = 'money' or t.typname like 'reg%')
    );
end
$$;

-- sync.labels: those of the enums that these columns are, or are made of, in their order; empty where there are none. A row's id
-- changes with the name of its label, and no trigger fires. No locks.
create or replace function sync.labels(relation regclass, columns name[]) returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        with recursive part as (
            select a.atttypid as oid from pg_attribute as a
            where a.attrelid = relation and a.attname = any(columns) and not a.attisdropped
            union
            select next.oid
            from part join pg_type as t on t.oid = part.oid
            cross join lateral (
                select t.typbasetype
                union all
                select t.typelem where t.typcategory = 'A'
                union all
                select a.atttypid from pg_attribute as a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
            ) as next(oid)
        )
        select e.enumlabel::text from part join pg_enum as e on e.enumtypid = part.oid order by part.oid, e.enumsortorder);
end
$$;

-- sync.hardness: which of these columns there are, and what their types ask for, the hardest of them. Planned into its
-- callers' statements. No locks.
--   0  nothing: integers, text, uuid, boolean, enums
--   1  their text depends on a session's settings: dates, intervals, bytea and other built-in ones
--   2  and may be much longer than what is stored: numeric without a scale, floats, jsonb
--   3  and jsonb may be unable to hold it: json, arrays, and all that are not built in
--   4  and it depends on settings that nothing else asks for: money, regclass and its like, and what is made of them
create or replace function sync.hardness(relation regclass, columns name[]) returns table(present name[], hardest int)
language sql stable rows 1
begin atomic
    select array_agg(a.attname), coalesce(max(case
        when a.atttypid in (
            'bigint'::regtype, 'integer'::regtype, 'smallint'::regtype, 'boolean'::regtype, 'uuid'::regtype,
            'text'::regtype, 'varchar'::regtype, 'bpchar'::regtype) then 0
        when a.atttypid in ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype) then 1
        when a.atttypid in ('real'::regtype, 'double precision'::regtype, 'jsonb'::regtype) then 2
        when a.atttypid = 'numeric'::regtype then case a.atttypmod when -1 then 2 else 1 end
        else (
            select case
                when t.typtype = 'e' then 0
                when t.typtype <> 'b' or t.typnamespace <> 'pg_catalog'::regnamespace or t.typcategory = 'A'
                    or t.oid in ('json'::regtype, 'money'::regtype) or t.typname like 'reg%' then sync.made_of(t.oid)
                else 1
            end
            from pg_catalog.pg_type as t where t.oid = a.atttypid
        ) end), 0)
    from pg_catalog.pg_attribute as a
    where a.attrelid = relation and a.attnum > 0 and a.attname = any(columns) and not a.attisdropped;
end;

create or replace function sync.hardest(relation regclass, columns name[]) returns int
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select h.hardest from sync.hardness(relation, columns) as h);
end
$$;

-- sync.lookup: SQL by which a row `r` of the table is that of a change `c`: by the id's own operator, which has an index,
-- and by the texts, as they were recorded. No locks.
create or replace function sync.lookup(p sync.published) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return format('r.%1$I = c.id::%2$s%3$s and r.%4$I::text collate "C" = c.user_id',
                  p.id_column, sync.id_type(p.relation, p.id_column),
                  case when sync.one_text(p) then '' else format(' and %s collate "C" = c.id', sync.id_text(p, 'r')) end,
                  p.user_column);
end
$$;

-- sync.exact: a value whose numbers a client that reads them as doubles has exactly, wherever they stand in it: integers beyond
-- 2^53 - 1, and other numbers of more than 15 digits, become text. So do those that no double comes near. No locks.
create or replace function sync.exact(value jsonb) returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    n numeric;
begin
    case jsonb_typeof(value)
        when 'number' then
            n := trim_scale(value::numeric);
            return case when scale(n) = 0 and abs(n) <= 9007199254740991
                            or scale(n) between 1 and 300 and length(ltrim(translate(n::text, '-.', ''), '0')) <= 15
                        then value else to_jsonb(n::text) end;
        when 'array' then
            return (select coalesce(jsonb_agg(sync.exact(e.value) order by e.place), '[]')
                    from jsonb_array_elements(value) with ordinality as e(value, place));
        when 'object' then
            return (select coalesce(jsonb_object_agg(e.key, sync.exact(e.value)), '{}') from jsonb_each(value) as e);
        else
            return value;
    end case;
end
$$;

-- sync.json_id: an id as events have it: for snapshots and answers of an app's own, so that both name one row alike. No locks.
create or replace function sync.json_id(id anyelement) returns jsonb
language plpgsql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case when id is not distinct from null then 'null'
                when pg_typeof(id) = 'numeric'::regtype then sync.exact(to_jsonb(trim_scale(id::text::numeric)))
                else sync.exact(to_jsonb(id)) end;
end
$$;

-- sync.sent_id: SQL of a change `c`'s id as events have it, whether its row is there or not. Of char(n) that is the text without
-- the blanks that fill it: those are not recorded. Integers of up to 15 characters, nearly all, are numbers without a further
-- look. No locks.
create or replace function sync.sent_id(p sync.published) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    type text := sync.id_type(p.relation, p.id_column);
begin
    return case
        when p.id_form = 'text' or type like 'bpchar%' then 'c.id'
        when type = 'bigint' then 'case when length(c.id) < 16 then to_jsonb(c.id::bigint) else sync.exact(to_jsonb(c.id::bigint)) end'
        when type = 'numeric' then 'sync.exact(to_jsonb(c.id::numeric))'
        when sync.one_text(p) or type like 'text%' then 'c.id::' || type
        else format('sync.exact(to_jsonb(c.id::%s))', type)
    end;
end
$$;

-- sync.same_id: SQL by which a row `n` has the id that a row `o` had. No locks.
create or replace function sync.same_id(p sync.published) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return case when sync.one_text(p) then format('n.%1$I = o.%1$I', p.id_column)
                else format('%s collate "C" = %s collate "C"', sync.id_text(p, 'n'), sync.id_text(p, 'o')) end;
end
$$;
