-- sync.channel: the name of a user's channel: what is outside [-A-Za-z0-9_@,.;] is written =XX. No locks.
create or replace function sync.channel(who text, topic text) returns text
language plpgsql immutable
as $$
declare
    name text := who;
begin
    if who collate "C" ~ '[^-A-Za-z0-9_@,.;]' then
        name := (
            select string_agg(
                case when chr(byte) collate "C" ~ '[-A-Za-z0-9_@,.;]' and byte < 128 then chr(byte)
                     else '=' || upper(lpad(to_hex(byte), 2, '0')) end, '' order by place)
            from (
                select place, get_byte(bytes, place) as byte
                from (select convert_to(who, 'UTF8') as bytes) as b
                cross join lateral generate_series(0, length(bytes) - 1) as place
            ) as each);
    end if;
    return 'user.' || name || '.' || topic;
end
$$;

-- sync.position: where a stream stands now, as answers show it. No locks.
create or replace function sync.position(who text, topic text) returns jsonb
language plpgsql
as $$
begin
    return (
        select jsonb_build_object('epoch', m.epoch || '.' || sync.lineage(), 'offset', coalesce(s.top, 0))
        from sync.meta as m
        left join sync.stream as s on s.user_id = who and s.topic = position.topic);
end
$$;

-- sync.replayed: a stored answer for a repeat: positions whose epoch has passed are replaced by those of now. No locks.
create or replace function sync.replayed(who text, answer jsonb) returns jsonb
language plpgsql
as $$
declare
    channel text;
    present jsonb;
begin
    for channel in select jsonb_object_keys(answer -> 'positions') loop
        present := sync.position(who, regexp_replace(channel, '^.*[.]', ''));
        if answer #> array['positions', channel, 'epoch'] <> present -> 'epoch' then
            answer := jsonb_set(answer, array['positions', channel], present);
        end if;
    end loop;
    return answer || '{"replayed": true}';
end
$$;
