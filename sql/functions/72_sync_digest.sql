-- sync.digest: of what an action asks for: SHA-256 of [type, payload, base] as jsonb writes it, so that spaces and the
-- order of members make no other action. What cannot be read (a text without its document) counts as spelled; so does what
-- has numbers with long exponents, which would be written out with all their digits. No locks.
create or replace function sync.digest(type text, payload text, doc jsonb, base text, base_doc jsonb) returns bytea
language plpgsql immutable
as $$
begin
    if payload is not null and doc is null or base is not null and base_doc is null then
        return sha256(convert_to(jsonb_build_array(type, payload, base)::text, 'UTF8'));
    elsif payload ~ '[0-9][eE][-+]?[0-9]{3}' or base ~ '[0-9][eE][-+]?[0-9]{3}' then
        -- Outside of strings?
        if regexp_replace(concat(payload, base), E'"([^"\\\\]|\\\\.)*"', '""', 'g') ~ '[0-9][eE][-+]?[0-9]{3}' then
            return sha256(convert_to(jsonb_build_array(type, payload, base)::text, 'UTF8'));
        end if;
    end if;
    return sha256(convert_to(jsonb_build_array(type, doc, nullif(base_doc, 'null'))::text, 'UTF8'));
end
$$;
