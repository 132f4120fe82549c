-- sync.camel: taken_at -> takenAt, as the events of generated builders name columns. No locks.
create or replace function sync.camel(name text) returns text
language sql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(string_agg(case when n = 1 then part else upper(left(part, 1)) || substr(part, 2) end, '' order by n),
                    name)
    from (select part, row_number() over (order by place) as n
          from string_to_table(name, '_') with ordinality as t(part, place)
          where part <> '') as parts
$$;
