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
    return (care.given(doc, 'timestamp') is null or care.time_form_problem(doc -> 'timestamp') is null)
        and (care.given(doc, 'properties') is null
             or jsonb_typeof(doc -> 'properties') = 'object' and octet_length((doc -> 'properties')::text) <= 2000);
end
$$;

-- care.feedback_max: how many events of one user are kept; beyond them new ones are dropped until old ones go. No locks.
create or replace function care.feedback_max() returns int
language sql immutable parallel safe
begin atomic
    select 10000;
end;

-- sync.append_feedback: keeps objects of users. The first row says how many were dropped: what is not feedback, and what
-- is more than a user may have. Each row after it names a user who has as many. An event with an `id` that the user has
-- sent before is kept once. Lock order: none; rows are new. Two hubs that write at once may go beyond the bound by a batch.
drop function if exists sync.append_feedback(text[], jsonb[]);
create function sync.append_feedback(users text[], objects jsonb[]) returns table(dropped bigint, filled text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    clock constant timestamptz := sync.clock();
begin
    return query
    with room as materialized (
        select w.who, care.feedback_max() - (
            select count(*) from (
                select from care.feedback as f where f.user_id = w.who limit care.feedback_max()) as f) as n
        from (select distinct who from unnest(users) as who) as w
    ), good as materialized (
        select u.who, u.doc, u.place, row_number() over (partition by u.who order by u.place) as n
        from unnest(users, objects) with ordinality as u(who, doc, place)
        where care.feedback_is_good(u.doc)
    ), told as materialized (
        select g.who, g.doc, g.place
        from good as g join room as r using (who) where g.n <= r.n
    ), kept as (
        insert into care.feedback (user_id, event_id, type, occurrence_id, device_id, properties, at, received_at)
        select t.who, t.doc ->> 'id', care.feedback_type(t.doc ->> 'type'), t.doc ->> 'occurrenceId', t.doc ->> 'deviceId',
               care.given(t.doc, 'properties'),
               coalesce(care.time_of(care.believed(care.given(t.doc, 'timestamp'), clock)), clock), clock
        from told as t order by t.who, t.doc ->> 'id', t.place
        on conflict (user_id, event_id) do nothing
    )
    select cardinality(users) - (select count(*) from told), null::text
    union all
    select 0, r.who from room as r where r.n <= (select count(*) from good as g where g.who = r.who);
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
