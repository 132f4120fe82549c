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

-- sync.action_digest: the digest by which a repeat is known, whichever way it comes. An object of a rule or of the medication list
-- that is sent back whole has its rev in it, by the socket and in a queue. By the route of its own that is the `base`,
-- and no member of an envelope is a part of the payload (ActionShape.whole, with the same exception). Else the conflict of an
-- action whose answer was lost would be `key_reused` by the other way, and nobody would see it. Nulls of a bulkMarkAll do not
-- count: its route leaves them out (ActionShape.plainBulk). No locks.
create or replace function sync.action_digest(type text, payload text, doc jsonb, base text, base_doc jsonb) returns bytea
language plpgsql stable
as $$
declare
    beside text[] := '{deviceId,n,base,clientTime,timestamp,tz,idempotencyKey,rev}';
    seen jsonb := nullif(base_doc, 'null');
begin
    if type = 'bulkMarkAll' and jsonb_typeof(doc) = 'object' then
        doc := (
            select coalesce(jsonb_object_agg(e.key, e.value), '{}') from jsonb_each(doc) as e where e.value <> 'null');
        return sync.digest(type, payload, doc, base, base_doc);
    elsif (jsonb_typeof(doc) = 'object' and doc ?| beside) is not true
        or base is not null and base_doc is null
        or not exists (
            select from sync.action_type as a
            where a.type = action_digest.type and a.function in ('care.act_reminders', 'care.act_medications'))
    then
        return sync.digest(type, payload, doc, base, base_doc);
    elsif type = 'updateReminder' and doc ->> 'applyTo' = 'occurrence' then
        beside := array_remove(beside, 'rev');
    elsif seen is null and nullif(doc -> 'rev', 'null') is not null then
        seen := jsonb_build_object('rev', doc -> 'rev');
    end if;
    return sync.digest(type, payload, doc - beside, case when seen is not null then base end, seen);
end
$$;
