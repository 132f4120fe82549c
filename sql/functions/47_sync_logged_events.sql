-- sync.logged_events: for the console: the last events of a user's stream up to `up_to` (null: all), the newest first, at
-- most `most`: number, name, size and age in milliseconds since the start of the transaction. With `shows` only that of
-- the number `up_to`, with its data, which is health data: so nobody sees another one than the audit names. `top` says
-- where the stream stands. No locks.
create or replace function sync.logged_events(who text, topic text, up_to bigint, most int, shows boolean)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    select p.epoch, p.top, (
        select coalesce(jsonb_agg(
            jsonb_build_object(
                'o', e.o, 'name', e.name, 'bytes', octet_length(e.data::text),
                'ageMs', round(extract(epoch from clock_timestamp() - e.created_at) * 1000))
            || case when shows then jsonb_build_object('data', e.data) else '{}' end
            order by e.o desc), '[]')
        from (
            select k.o, k.name, k.data, k.created_at
            from sync.event as k
            where k.user_id = who and k.topic = logged_events.topic and k.o <= coalesce(up_to, 9223372036854775807)
                and (not shows or k.o = up_to)
            order by k.o desc
            limit most) as e)::text
    from sync.positions(array[who], array[logged_events.topic]) as p;
end
$$;
