-- Snapshots: what a device fetches when events cannot tell it everything. A row for each: the position of the user's
-- stream, and the body as JSON text, built by the builders of the events from the same database snapshot: all events above
-- `top` follow it. That holds in READ COMMITTED for everything but `stats`, whose function must see what its caller writes
-- and so reads anew; hubs ask in REPEATABLE READ.

-- sync.adherence_day: a user's day; without a day, today in the user's zone: {occurrences, summary, stats}. Doses as
-- occurrence.created shows them, with their notes, the cancelled left out, in the order of their times; summary and
-- statistics are judged by one clock. Beyond 2 MiB of notes the rest of them are left out: `hasNote` says which. No locks.
create or replace function sync.adherence_day(who text, day date)
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
    if day is null then
        day := (clock at time zone care.zone_of(who))::date;
    end if;
    return query
    select p.epoch, p.top, jsonb_build_object(
        'occurrences', (
            select coalesce(jsonb_agg(
                care.dose_state(n.d) || jsonb_build_object(
                    'id', (n.d).id, 'userId', (n.d).user_id, 'note', case when n.bytes <= 2 << 20 then (n.d).note end)
                order by (n.d).scheduled_at, (n.d).id collate "C"), '[]')
            from (
                select d, sum(coalesce(octet_length(to_jsonb(d.note)::text), 0))
                          over (order by d.scheduled_at, d.id collate "C") as bytes
                from care.dose_occurrence as d
                where d.user_id = who and d.local_date = day and d.status <> 'cancelled') as n),
        'summary', care.day_shown(who, day, clock),
        'stats', care.stats_at(who, clock))::text
    from sync.positions(array[who], array['adherence']) as p;
end
$$;

-- care.day_shown: a day's summary at an instant: what is stored of it, but for the percentages of a day with pending doses,
-- which change as their windows end; or the counts of a day without doses. No locks.
create or replace function care.day_shown(who text, day date, clock timestamptz) returns jsonb
language plpgsql stable
as $$
declare
    s care.day_summary;
begin
    select * into s from care.day_summary as d where d.user_id = who and d.date = day;
    if not found then
        s := row(who, day, 0, 0, 0, 0, 0, 0, null, null, null, 0, 0);
    elsif s.pending_count > 0 then
        s := care.judged(s, (
            select count(*) from care.dose_occurrence as o
            where o.user_id = who and o.local_date = day and o.status = 'scheduled' and o.window_end <= clock
                and not o.as_needed));
    end if;
    return care.summary_json(s);
end
$$;
drop function if exists care.day_summary_json(text, date);
