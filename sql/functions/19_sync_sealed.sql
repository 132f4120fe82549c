-- sync.pointer: what is left of data of more than 10,000 bytes: the identifying fields and `truncated: true`; the client
-- fetches the entity. No locks.
create or replace function sync.pointer(data jsonb) returns jsonb
language sql immutable parallel safe
as $$
    select pg_catalog.jsonb_object_agg(e.key, e.value) operator(pg_catalog.||) '{"truncated": true}'
    from pg_catalog.jsonb_each(data) as e
    where e.key in ('id', 'rev', 'userId', 'occurrenceId', 'ruleId', 'date', '_sync')
$$;

-- sync.sealed: an event's data with its place in the stream and the key of the action that caused it (or null). Data of
-- more than 10,000 bytes becomes a pointer. No locks.
create or replace function sync.sealed(data jsonb, o bigint, k jsonb) returns jsonb
language plpgsql stable parallel safe
as $$
declare
    whole jsonb := data operator(pg_catalog.||)
        pg_catalog.jsonb_build_object('_sync', pg_catalog.jsonb_build_object('o', o, 'k', k));
begin
    -- Text is at most six times the stored size (escapes), so small ones need not be written out to be measured.
    if pg_catalog.pg_column_size(whole) < 1600 or pg_catalog.octet_length(whole::pg_catalog.text) <= 10000 then
        return whole;
    end if;
    return sync.pointer(whole);
end
$$;

-- sync.bounded: makes data of more than 10,000 bytes a pointer, where its stored size says nothing about its text: a number
-- such as 1e100000 takes few bytes there. Data that is not an object has no place for `_sync`, by which devices know what they
-- have: refused. No locks.
create or replace function sync.bounded(data jsonb) returns jsonb
language plpgsql immutable parallel safe
as $$
begin
    if pg_catalog.jsonb_typeof(data) <> 'object' then
        raise exception 'an event''s data must be a JSON object' using errcode = 'data_exception';
    elsif pg_catalog.octet_length(data::pg_catalog.text) > 10000 then
        return coalesce(sync.pointer(data), '{"truncated": true}');
    end if;
    return data;
end
$$;
