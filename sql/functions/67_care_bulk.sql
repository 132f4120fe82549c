drop function if exists care.due_doses(text, jsonb, text, timestamptz);

-- care.due_doses: the doses that criteria mean: of one day, still scheduled when the person acted, by time and id, and not before
-- their time unless the user says so. Without a day: those of today's list (care.is_of_today) then, which are of no date
-- further away than three days. At most 201, so that too many can be told. No locks.
create or replace function care.due_doses(who text, criteria jsonb, tz text, acted timestamptz, clock timestamptz) returns text[]
language plpgsql
as $$
declare
    given constant date := (criteria ->> 'date')::date;
    zone constant text := case when given is null then coalesce(tz, care.zone_of(who)) end;
    today constant date := (acted at time zone zone)::date;
begin
    return array(
        select d.id from care.dose_occurrence as d
        where d.user_id = who and d.local_date between coalesce(given, today - 3) and coalesce(given, today + 3)
            and care.open_since(d, clock, acted) and (given is not null or care.is_of_today(d, today, zone, acted))
            and (criteria ->> 'productId' is null or d.product_id = criteria ->> 'productId')
            and (criteria ->> 'scheduleId' is null or d.schedule_id = criteria ->> 'scheduleId')
            and (coalesce((criteria ->> 'includeFuture')::boolean, false) or d.scheduled_at <= acted)
        order by d.scheduled_at, d.id collate "C"
        limit 201);
end
$$;

-- care.bulk: bulkMarkAll. Named doses are taken ahead of their time too, where their day has come; what criteria mean must
-- be due. Lock order: the doses by id.
drop function if exists care.bulk(text, text, jsonb, jsonb, timestamptz, text, timestamptz);
create or replace function care.bulk(who text, key text, doc jsonb, base jsonb, client_time jsonb, tz text,
                                     clock timestamptz) returns sync.verdict
language plpgsql
as $$
declare
    criteria jsonb := care.given(doc, 'criteria');
    given constant boolean := care.given(doc, 'takenAt') is not null;
    told constant jsonb := case when given then doc -> 'takenAt' else client_time end;
    taken_at constant timestamptz := least(care.time_of(told), clock);
    acted_at constant timestamptz := care.acted_at(care.time_of(client_time), clock);
    time_path constant text := case when given then 'payload.takenAt' end;
    future boolean := coalesce((coalesce(criteria, doc) ->> 'includeFuture')::boolean, false);
    ids text[];
begin
    if criteria is null then
        ids := array(
            select id from (
                select id, min(place) as first
                from jsonb_array_elements_text(doc -> 'occurrenceIds') with ordinality as asked(id, place)
                group by id
            ) as once
            order by first);
    else
        ids := care.due_doses(who, criteria, tz, acted_at, clock);
        if cardinality(ids) > 200 then
            return care.invalid('payload.criteria', 'mean more than 200 doses');
        end if;
    end if;
    return care.carry_many(who, key, array(
        select row(case when future then 'any' when criteria is null then 'act' else 'due' end, id, 'taken', taken_at, null,
                   null, care.base_rev(base, id), null, null, null, null, null, time_path,
                   care.offset_of(told), acted_at)::care.intent
        from unnest(ids) with ordinality as asked(id, place) order by place), clock);
end
$$;
