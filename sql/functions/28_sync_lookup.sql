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

-- sync.one_text: whether equal ids have equal texts. Not so: numeric (1.0 and 1.00), float (0 and -0), interval, text under
-- a nondeterministic collation; and nobody knows of other types. No locks.
create or replace function sync.one_text(p sync.published) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select sync.id_type(p.relation, p.id_column) in (
        'bigint', 'text', 'name', 'uuid', 'date', 'timestamp without time zone', 'timestamp with time zone', 'boolean', 'oid')
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
                  case when sync.one_text(p) then '' else format(' and r.%I::text collate "C" = c.id', p.id_column) end,
                  p.user_column);
end
$$;

-- sync.sent_id: SQL of a change `c`'s id as events have it, whether its row is there or not. Of char(n) that is the text without
-- the blanks that fill it: those are not recorded. No locks.
create or replace function sync.sent_id(p sync.published) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    type text := sync.id_type(p.relation, p.id_column);
begin
    return case when type like 'bpchar%' then 'c.id' else 'c.id::' || type end;
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
