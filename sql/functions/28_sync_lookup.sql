-- sync.id_type: the type as which an id is looked up, in SQL: without a domain's checks and without a length, and bigint
-- for all integers, so that a column that grows (integer to bigint, varchar(10) to text) needs nobody's doing. Null
-- where there is no such column. No locks.
create or replace function sync.id_type(relation regclass, id_column name) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    t pg_type;
begin
    select y.* into t from pg_attribute as a join pg_type as y on y.oid = a.atttypid
    where a.attrelid = relation and a.attname = id_column and not a.attisdropped;
    while t.typtype = 'd' loop
        select y.* into t from pg_type as y where y.oid = t.typbasetype;
    end loop;
    return case
        when t.oid in ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype) then 'bigint'
        when t.oid in ('varchar'::regtype, 'text'::regtype) then 'text'
        else format_type(t.oid, -1)
    end;
end
$$;

-- sync.one_text: whether equal ids have equal texts. Not so: numeric (1.0 and 1.00), float (0 and -0), interval, text under
-- a nondeterministic collation; and nobody knows of other types. No locks.
create or replace function sync.one_text(p sync.published) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when sync.id_type(p.relation, p.id_column) in ('text', 'name') then coalesce(c.collisdeterministic, true)
        else sync.id_type(p.relation, p.id_column) in (
            'bigint', 'uuid', 'date', 'timestamp without time zone', 'timestamp with time zone', 'boolean', 'oid')
    end
    from pg_attribute as a left join pg_collation as c on c.oid = a.attcollation
    where a.attrelid = p.relation and a.attname = p.id_column and not a.attisdropped
$$;

-- sync.hardest: what the types of these columns ask for, the hardest of them. No locks.
--   0  nothing: integers, text, uuid, boolean, enums
--   1  their text depends on a session's settings: dates, intervals, bytea and other built-in ones
--   2  and may be much longer than what is stored: numeric without a scale, floats, jsonb
--   3  and jsonb may be unable to hold it: json, arrays, and all that are not built in
create or replace function sync.hardest(relation regclass, columns name[]) returns int
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(max(case
            when t.typtype = 'e' or t.oid in (
                'bigint'::regtype, 'integer'::regtype, 'smallint'::regtype, 'boolean'::regtype, 'uuid'::regtype,
                'text'::regtype, 'varchar'::regtype, 'bpchar'::regtype) then 0
            when t.typtype <> 'b' or t.typnamespace <> 'pg_catalog'::regnamespace or t.typcategory = 'A'
                or t.oid = 'json'::regtype then 3
            when t.oid in ('real'::regtype, 'double precision'::regtype, 'jsonb'::regtype)
                or t.oid = 'numeric'::regtype and a.atttypmod = -1 then 2
            else 1 end), 0)
        from pg_attribute as a join pg_type as t on t.oid = a.atttypid
        where a.attrelid = relation and a.attname = any(columns) and not a.attisdropped
    );
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
                  case when sync.one_text(p) then '' else format(' and r.%I::text collate "C" = c.id', p.id_column) end,
                  p.user_column);
end
$$;

-- sync.same_id: SQL by which a row `n` has the id that a row `o` had. No locks.
create or replace function sync.same_id(p sync.published) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return format(case when sync.one_text(p) then 'n.%1$I = o.%1$I'
                       else 'n.%1$I::text collate "C" = o.%1$I::text collate "C"' end, p.id_column);
end
$$;
