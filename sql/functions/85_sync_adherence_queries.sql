-- Statistics and history of a user's doses: rows as those of the snapshots, (epoch, top, body). The functions are stable, so
-- that all of a body is of the caller's snapshot. The cancelled doses are left out, unless history is asked for them; those
-- taken as needed are in history, and in no statistics.

-- care.check_days: UQ001 if the last day is before the first. No locks.
create or replace function care.check_days(first_day date, last_day date) returns void
language plpgsql immutable
as $$
begin
    if last_day < first_day then
        raise exception 'the range is reversed' using errcode = 'UQ001';
    end if;
end
$$;

-- care.range_of: the days that statistics are about. Without days: the 30 that end today. UQ001: the last day is before the
-- first, or the range has more than 366 days. No locks.
create or replace function care.range_of(first_day date, last_day date, today date, out first date, out last date)
language plpgsql immutable
as $$
begin
    last := coalesce(last_day, greatest(first_day, today));
    first := coalesce(first_day, greatest(last - 29, '0001-01-01'));
    if last - first not between 0 and 365 then
        raise exception 'the range is reversed, or too long' using errcode = 'UQ001';
    end if;
end
$$;

-- sync.adherence_stats: a user's streaks, the percentages of the 30 days before today, and of a range of days: the
-- percentages of all its doses together, and its doses by day, by the hour of their local time, and by product. All are
-- judged by one clock. `lastSyncAt`: the time of the newest action that any device of the user sent. No locks.
create or replace function sync.adherence_stats(who text, first_day date, last_day date)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
declare
    clock timestamptz := sync.clock();
    days record;
begin
    days := care.range_of(first_day, last_day, (clock at time zone care.zone_of(who))::date);
    return query
    with dose as materialized (
        select d.local_date, extract(hour from d.local_time)::int as hour, d.product_id, d.product_name, d.status,
               d.status = 'scheduled' and care.is_over(d.window_end, clock) as ended
        from care.dose_occurrence as d
        where d.user_id = who and d.local_date between days.first and days.last and d.status <> 'cancelled'
            and not d.as_needed
    ), counted as materialized (
        -- All, by hour, by product: told apart by `kind`.
        select grouping(d.hour, d.product_id) as kind, d.hour, d.product_id, max(d.product_name) as name, care.judged(row(
                   null, null, count(*), count(*) filter (where d.status = 'taken'),
                   count(*) filter (where d.status = 'missed'), count(*) filter (where d.status = 'made_up'),
                   count(*) filter (where d.status = 'skipped'), count(*) filter (where d.status = 'scheduled'),
                   null, null, null, 0, 0)::care.day_summary, count(*) filter (where d.ended)) as s
        from dose as d
        group by grouping sets ((), (d.hour), (d.product_id))
    )
    select p.epoch, p.top, (care.stats_at(who, clock) || jsonb_build_object(
        'start', to_char(days.first, 'YYYY-MM-DD'), 'end', to_char(days.last, 'YYYY-MM-DD'),
        'adherencePct', (a.s).adherence_pct, 'onTimePct', (a.s).on_time_pct,
        'lastSyncAt', (select max(t.created_at) from sync.action as t where t.user_id = who),
        'histogram', jsonb_build_object(
            'byDay', (
                select jsonb_agg(care.counts_json(kept, case when kept.pending_count > 0
                                                             then (care.judged(kept, coalesce(e.ended, 0))).adherence_pct
                                                             else kept.adherence_pct end)
                                 || jsonb_build_object('date', to_char(days.first + n, 'YYYY-MM-DD')) order by n)
                from generate_series(0, days.last - days.first) as n
                left join care.day_summary as kept on kept.user_id = who and kept.date = days.first + n
                    and kept.date between days.first and days.last
                left join (
                    select d.local_date, count(*) as ended from dose as d where d.ended group by d.local_date
                ) as e on e.local_date = kept.date),
            'byHour', (
                select jsonb_agg(care.counts_json(c.s, (c.s).adherence_pct) || jsonb_build_object('hour', n) order by n)
                from generate_series(0, 23) as n left join counted as c on c.kind = 1 and c.hour = n)),
        'byProduct', (
            select coalesce(jsonb_agg(
                care.counts_json(c.s, (c.s).adherence_pct)
                    || jsonb_build_object('productId', c.product_id, 'productName', coalesce(m.name, c.name))
                order by (c.s).scheduled_count desc, c.product_id collate "C"), '[]')
            from counted as c
            left join care.product as m on m.id = c.product_id and (m.user_id is null or m.user_id = who)
            where c.kind = 2)))::text
    from sync.positions(array[who], array['adherence']) as p
    cross join counted as a
    where a.kind = 3;
end
$$;

-- care.counts_json: the counts of a group of doses, as statistics show them; of no group, zeros. No locks.
create or replace function care.counts_json(s care.day_summary, pct numeric) returns jsonb
language sql stable
as $$
    select pg_catalog.jsonb_build_object(
        'scheduled', coalesce((s).scheduled_count, 0), 'taken', coalesce((s).taken_count, 0),
        'missed', coalesce((s).missed_count, 0), 'madeUp', coalesce((s).made_up_count, 0),
        'skipped', coalesce((s).skipped_count, 0), 'pending', coalesce((s).pending_count, 0), 'adherencePct', pct)
$$;

-- care.place_of: where a page of history ends, by its cursor. UQ002: it is none. No locks.
create or replace function care.place_of(place text, out day date, out at timestamptz, out id text)
language plpgsql stable
as $$
declare
    parts constant jsonb := care.cursor_of(place, 3);
begin
    day := parts ->> 0;
    at := parts ->> 1;
    id := parts ->> 2;
exception when data_exception then
    raise exception 'not the cursor of a page' using errcode = 'UQ002';
end
$$;
drop function if exists care.place_text(care.dose_occurrence);

-- sync.adherence_history: a page of a user's doses, the newest first: {items, next}. `next`, the cursor of the page after it,
-- is null on the last one. A page ends before 2 MiB of texts. Without a last day, doses of days after today are left out. UQ001: the last
-- day is before the first. UQ002: the cursor is none. No locks.
--
-- The index of (user_id, local_date) brings the days in order, and a page sorts within a day only (an incremental sort, which
-- enable_sort does not switch off); so a page costs what it shows, whatever the planner knows of the user's doses. A filter
-- by status or product has no index: it would end HOT updates.
create or replace function sync.adherence_history(who text, first_day date, last_day date, product text, state text,
                                                  place text, most bigint)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
declare
    before record;
    doses care.dose_occurrence[];
begin
    perform care.check_days(first_day, last_day);
    last_day := coalesce(last_day, (sync.clock() at time zone care.zone_of(who))::date);
    if place is not null then
        before := care.place_of(place);
        last_day := least(last_day, before.day);
        doses := array(
            select d from care.dose_occurrence as d
            where d.user_id = who and d.local_date between coalesce(first_day, '-infinity') and last_day
                and (d.local_date, d.scheduled_at, d.id collate "C") < (before.day, before.at, before.id)
                and (product is null or d.product_id = product)
                and case when state is null then d.status <> 'cancelled' else d.status = state end
            order by d.local_date desc, d.scheduled_at desc, d.id collate "C" desc limit most + 1);
    else
        doses := array(
            select d from care.dose_occurrence as d
            where d.user_id = who and d.local_date between coalesce(first_day, '-infinity') and last_day
                and (product is null or d.product_id = product)
                and case when state is null then d.status <> 'cancelled' else d.status = state end
            order by d.local_date desc, d.scheduled_at desc, d.id collate "C" desc limit most + 1);
    end if;
    most := least(most, (
        select greatest(1, count(*)) from (
            select sum(octet_length(to_jsonb(concat(d.note, d.reason))::text)) over (order by d.ordinality) as bytes
            from unnest(doses) with ordinality as d) as r
        where r.bytes <= 2 << 20));
    return query
    select p.epoch, p.top, jsonb_build_object(
        'items', (
            select coalesce(jsonb_agg(care.dose_json(d) order by d.local_date desc, d.scheduled_at desc, d.id collate "C" desc),
                            '[]')
            from unnest(doses[:most]) as d),
        'next', case when cardinality(doses) > most then care.cursor_text(jsonb_build_array(
            doses[most].local_date, doses[most].scheduled_at, doses[most].id)) end)::text
    from sync.positions(array[who], array['adherence']) as p;
end
$$;
