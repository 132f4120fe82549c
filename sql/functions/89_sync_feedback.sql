-- Feedback: what apps tell of how their screens are used.

-- care.feedback_type: the name under which a kind of event is kept; null where it is none. No locks.
create or replace function care.feedback_type(name text) returns text
language plpgsql immutable
as $$
begin
    return case
        when name in ('tap', 'view', 'mark', 'markAll', 'undo', 'makeUp', 'skip', 'note', 'resolve', 'export') then name
        when name in ('make-up', 'make_up') then 'makeUp'
        when name in ('mark-all', 'mark_all') then 'markAll'
    end;
end
$$;

-- care.feedback_is_good: whether an object is feedback: {type, id?, occurrenceId?, deviceId?, timestamp?, properties?}. Other
-- members are ignored. `properties` has 2,000 bytes at most. No locks.
create or replace function care.feedback_is_good(doc jsonb) returns boolean
language plpgsql stable
as $$
declare
    field text;
begin
    if jsonb_typeof(doc) <> 'object' or jsonb_typeof(doc -> 'type') is distinct from 'string'
        or care.feedback_type(doc ->> 'type') is null
    then
        return false;
    end if;
    foreach field in array array['id', 'occurrenceId', 'deviceId'] loop
        if care.given(doc, field) is not null and care.key_problem(doc -> field) is not null then
            return false;
        end if;
    end loop;
    return (care.given(doc, 'timestamp') is null or care.time_problem(doc -> 'timestamp') is null)
        and (care.given(doc, 'properties') is null
             or jsonb_typeof(doc -> 'properties') = 'object' and octet_length((doc -> 'properties')::text) <= 2000);
end
$$;

-- sync.append_feedback: keeps objects of users, and returns how many were none that can be kept. An event with an `id` that
-- the user has sent before is kept once. Lock order: none; rows are new.
create or replace function sync.append_feedback(users text[], objects jsonb[]) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    clock constant timestamptz := sync.clock();
    good bigint;
begin
    with told as materialized (
        select u.who, u.doc, u.place from unnest(users, objects) with ordinality as u(who, doc, place)
        where care.feedback_is_good(u.doc)
    ), kept as (
        insert into care.feedback (user_id, event_id, type, occurrence_id, device_id, properties, at, received_at)
        select t.who, t.doc ->> 'id', care.feedback_type(t.doc ->> 'type'), t.doc ->> 'occurrenceId', t.doc ->> 'deviceId',
               care.given(t.doc, 'properties'), coalesce(care.time_of(care.given(t.doc, 'timestamp')), clock), clock
        from told as t order by t.who, t.doc ->> 'id', t.place
        on conflict (user_id, event_id) do nothing
    )
    select count(*) into good from told;
    return cardinality(users) - good;
end
$$;

-- care.job_retain_feedback: deletes at most `batch` events of feedback that came over 90 days before `clock`, the oldest
-- first. `more`: there may be others. Locks: the rows it deletes, those that nobody else has.
create or replace function care.job_retain_feedback(batch int, clock timestamptz, out done bigint, out more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
begin
    delete from care.feedback as f
    where f.id = any (array(
        select o.id from care.feedback as o where o.received_at < clock - interval '90 days'
        order by o.received_at limit batch for update skip locked));
    get diagnostics done = row_count;
    more := done >= batch;
end
$$;
