-- Snapshots: what a device fetches when events cannot tell it everything. A row for each: the position of the user's
-- stream, and the body as JSON text, built by the builders of the events from the same database snapshot: all events above
-- `top` follow it. That holds in READ COMMITTED for everything but `stats`, whose function must see what its caller writes
-- and so reads anew; hubs ask in REPEATABLE READ.

-- care.doses_shown: doses as occurrence.created shows them, with their notes, in the order of their times. Beyond so many
-- bytes of notes the rest of them are left out: `hasNote` says which. No locks.
create or replace function care.doses_shown(doses care.dose_occurrence[], most int) returns jsonb
language sql stable
as $$
    select coalesce(jsonb_agg(
        care.dose_state(n.d) || jsonb_build_object(
            'id', (n.d).id, 'userId', (n.d).user_id, 'note', case when n.bytes <= most then (n.d).note end)
        order by (n.d).scheduled_at, (n.d).id collate "C"), '[]')
    from (
        select d, sum(coalesce(octet_length(to_jsonb(d.note)::text), 0))
                  over (order by d.scheduled_at, d.id collate "C") as bytes
        from unnest(doses) as d) as n
$$;

-- sync.adherence_day: a user's day: {occurrences, summary, stats}. Doses without the cancelled, with 2 MiB of notes at most;
-- summary and statistics are judged by one clock. Without a day it is today in the user's zone (care.is_of_today), and
-- `elsewhere` has what is of today's date and of another of the person's days: who keeps doses by their dates has all of the
-- date then. No locks.
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
    doses care.dose_occurrence[];
    elsewhere care.dose_occurrence[];
    zone text;
begin
    if day is null then
        zone := care.zone_of(who);
        day := (clock at time zone zone)::date;
        select array_agg(o.d) filter (where o.is_of_today),
               array_agg(o.d) filter (where not o.is_of_today and (o.d).local_date = day)
        into doses, elsewhere
        from (
            select d, care.is_of_today(d, day, zone, clock) as is_of_today from care.dose_occurrence as d
            where d.user_id = who and d.local_date between day - 3 and day + 3 and d.status <> 'cancelled'
        ) as o;
    else
        doses := array(
            select d from care.dose_occurrence as d
            where d.user_id = who and d.local_date = day and d.status <> 'cancelled');
    end if;
    return query
    select p.epoch, p.top, (jsonb_build_object(
        'occurrences', care.doses_shown(doses, 2 << 20),
        'summary', care.day_shown(who, day, clock),
        'stats', care.stats_at(who, clock)) || case
            when zone is null then '{}' else jsonb_build_object('elsewhere', care.doses_shown(elsewhere, 1 << 20)) end)::text
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
            where o.user_id = who and o.local_date = day and o.status = 'scheduled'
                and care.is_over(o.window_end, clock) and not o.as_needed));
    end if;
    return care.summary_json(s);
end
$$;
drop function if exists care.day_summary_json(text, date);
