-- Cursors: where a page of a snapshot ends, as a text that clients pass back. No locks.

-- care.cursor_text: the parts of a place as a cursor.
create or replace function care.cursor_text(parts jsonb) returns text
language sql immutable
as $$
    -- base64url (RFC 4648 §5): good in a query as it is.
    select translate(encode(convert_to(parts::text, 'UTF8'), 'base64'), E'+/=\n', '-_')
$$;

-- care.cursor_of: such a text again, with that many parts, none of them null; null for null. UQ002: it is none.
create or replace function care.cursor_of(place text, parts int) returns jsonb
language plpgsql immutable
as $$
declare
    found jsonb;
begin
    if place is null then
        return null;
    end if;
    begin
        found := convert_from(decode(translate(place, '-_', '+/') || repeat('=', -length(place) & 3), 'base64'),
                              'UTF8')::jsonb;
    exception when data_exception then
        null;
    end;
    if jsonb_typeof(found) is distinct from 'array' or jsonb_array_length(found) <> parts
        or jsonb_path_exists(found, '$[*] ? (@ == null)')
    then
        raise exception 'not the cursor of a page' using errcode = 'UQ002';
    end if;
    return found;
end
$$;
