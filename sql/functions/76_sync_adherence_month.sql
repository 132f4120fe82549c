-- sync.adherence_month: the summaries of a user's month, one for each day of the calendar, which `first_day` begins: an
-- array, judged by one clock. No locks.
create or replace function sync.adherence_month(who text, first_day date)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
declare
    clock timestamptz := sync.clock();
begin
    return query
    select p.epoch, p.top, (
        select jsonb_agg(care.day_shown(who, first_day + n, clock) order by n)
        from generate_series(0, extract(day from first_day + interval '1 month' - interval '1 day')::int - 1) as n)::text
    from sync.positions(array[who], array['adherence']) as p;
end
$$;
