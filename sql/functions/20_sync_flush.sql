-- sync.foreign_draft: refuses a draft for a user whom its builder was not asked about: that stream is not locked, and it
-- would be another's data. Says nothing of the data. No locks.
create or replace function sync.foreign_draft(source int) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'builder % returned an event for a user whose rows did not change',
        (select p.builder from sync.published as p where p.source = foreign_draft.source)
        using errcode = 'data_exception';
end
$$;

-- sync.nameless: refuses a draft without a name of an app's own builder: the event would be lost, and nobody would be told. Only
-- what care.occurrence_events keeps has no name. Says nothing of the data. No locks.
create or replace function sync.nameless(source int) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'builder % returned an event without a name',
        (select p.builder from sync.published as p where p.source = nameless.source)
        using errcode = 'data_exception';
end
$$;

-- sync.refuse_dropped: refuses to tell of a table that is gone: what became of its rows, nobody can say. No locks.
create or replace function sync.refuse_dropped(p sync.published) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from pg_class as c where c.oid = p.relation) then
        raise exception '% was changed and dropped in one transaction: select sync.unpublish_changes before it is dropped',
            p.published_as using errcode = 'undefined_table';
    end if;
end
$$;

-- sync.first_ops: sets the operation of changes whose rows came and went as often ('X'): a row that is there was there
-- before ('U'), one that is not was not ('I'), and that is the same for each builder as what a sole operation says. The
-- row is this transaction's: nobody else can have changed it. Locks: none.
create or replace function sync.first_ops(changes sync.change[]) returns sync.change[]
language plpgsql
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
set array_nulls = on
set datestyle = 'ISO, MDY'
set intervalstyle = 'postgres'
set extra_float_digits = 1
set bytea_output = 'hex'
as $$
declare
    p sync.published;
begin
    for p in
        select * from sync.published as e where e.source in (select c.source from unnest(changes) as c where c.op = 'X')
    loop
        perform sync.refuse_dropped(p);
        execute format(
            'select array_agg(
                 case when c.source = $2 and c.op = ''X''
                      then row(c.source, c.user_id, c.topic, c.id,
                               case when exists (select from %s as r where %s offset 0) then ''U''::"char" else ''I''::"char" end,
                               c.context, c.rev, c.contexts)::sync.change
                      else c end)
             from unnest($1) as c', p.relation, sync.lookup(p))
        into changes using changes, p.source;
    end loop;
    return changes;
end
$$;

-- sync.taken: takes all changes of a transaction whose ticket was taken: that of the ticket, if it tells one, and those of
-- sync.touched. What the ticket tells came first; where its row was touched again, both are one change, as the recorders
-- make them. Null: there is none. Locks: none of others'.
create or replace function sync.taken(ticket sync.ticket) returns sync.change[]
language plpgsql
as $$
declare
    changes sync.change[];
    unsure boolean;
begin
    if ticket.source is not null then
        insert into sync.touched as t (xid, source, user_id, id, topic, op, balance, context, rev)
        values (ticket.xid, ticket.source, ticket.user_id, ticket.id, ticket.topic, 'U', 0, ticket.context, ticket.rev)
        on conflict (xid, source, user_id, id) do update
            set context = coalesce(excluded.context, t.context),
                rev = greatest(t.rev, excluded.rev),
                contexts = nullif(array(
                    select distinct c.context from unnest(t.contexts || t.context) as c(context)
                    where c.context <> coalesce(excluded.context, t.context)), '{}');
    end if;
    with taken as (
        delete from sync.touched where xid = ticket.xid
        returning row(source, user_id, topic, id,
                      case when balance > 0 then 'I' when balance < 0 then 'D' when balance = 0 and op <> 'U' then 'X'
                           else op end,
                      case when balance > 0 then null else context end, rev,
                      case when balance > 0 then null else contexts end)::sync.change as change
    )
    select array_agg(change), bool_or((change).op = 'X') into changes, unsure from taken;
    return case when unsure then sync.first_ops(changes) else changes end;
end
$$;

-- sync.flush: turns what a transaction touched into events, at commit (deferred constraint trigger on sync.ticket).
--
-- Lock order: the rows of sync.stream concerned, sorted by (user_id, topic): missing ones inserted, present ones
-- locked, in one pass. Then care.day_summary and care.listed, under those locks. Nothing else is locked here.
--
-- Each statement takes a new snapshot in READ COMMITTED, so after the locks the rows are read as they are then:
-- the transaction that held a stream before us has committed. REPEATABLE READ and SERIALIZABLE get 40001 at the lock and retry.
-- Fired again after SET CONSTRAINTS IMMEDIATE it begins anew: the first statements take touched and ticket away. Fired so by what
-- a trigger of the app wrote (below a recorder, the depth is 2), it waits for the commit: the statement that fired that trigger is
-- not recorded yet, and a row would be told as updated before it is told as created. The usual
-- commit, one row of one table, has its change in the ticket and nothing in touched.
--
-- Settings of the function: seqscan off because touched and ticket are vacuumed while empty and would be planned as
-- scans; bitmapscan off because it is for many rows and starts slowly; jit off because a disabled scan's cost alone would
-- start it; generic plans because planning the builders costs several times what running them does, and a plan for one
-- change looks cheaper than one for ten; timezone so that events do not depend on the writer's session (sync.drafts has the
-- other settings of which that is true); row_security off so that a policy that would hide rows fails the commit: a hidden
-- row would be told as deleted. synchronous_commit is raised (sync.raise_commit): an offset once shown must not be issued
-- again. Events are dated by the clock and not by now(), the transaction's start: what is measured from there is how long
-- after its commit began an event arrives. sync.key, which travels in each event, has at most 200 bytes (22001).
create or replace function sync.flush() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set row_security = off
set timezone = 'UTC'
as $$
declare
    changes sync.change[];
    one sync.change;
    stream tid;
    last bigint;
    kept jsonb;
    kept_for text;
    events bigint;
    key text := nullif(current_setting('sync.key', true), '');
    origin jsonb;
    woken text;
begin
    if pg_trigger_depth() > 2 then
        set constraints sync.flush deferred;
        delete from sync.ticket where xid = new.xid;
        insert into sync.ticket select new.*;
        return null;
    end if;
    if octet_length(key) > 200 then
        raise exception 'sync.key is longer than 200 bytes' using errcode = 'string_data_right_truncation';
    end if;
    -- Takes the ticket, and the lock of its stream where there is nothing else to be locked before that.
    with ticket as (
        delete from sync.ticket where xid = new.xid
    )
    select s.ctid, s.top, s.kept, s.kept_for into stream, last, kept, kept_for from sync.stream as s
    where s.user_id = new.user_id and s.topic = new.topic
        and not exists (select from sync.touched as t where t.xid = new.xid)
    for update of s;
    if found then
        one := row(new.source, new.user_id, new.topic, new.id, 'U', new.context, new.rev, null);
    else
        changes := sync.taken(new);
        if changes is null then
            return null;
        elsif cardinality(changes) = 1 then
            one := changes[1];
            select s.ctid, s.top, s.kept, s.kept_for into stream, last, kept, kept_for from sync.stream as s
            where s.user_id = one.user_id and s.topic = one.topic for update;
            if not found then
                insert into sync.stream as s (user_id, topic)
                values (one.user_id, one.topic)
                on conflict (user_id, topic) do update set top = s.top
                returning s.ctid, s.top into stream, last;
            end if;
        end if;
    end if;

    if last is not null then
        -- One row of one table. The same as below, in statements that start faster.
        if one.source = sync.dose_source() then
            events := care.tell_dose(one, stream, last, key, kept, kept_for);
        end if;
        if events is null then
            events := sync.tell_one(one, last, key);
        end if;
    else
        -- DO UPDATE locks the row even where its WHERE refuses it: no new version is written.
        insert into sync.stream as s (user_id, topic)
        select c.user_id, c.topic
        from (select distinct user_id collate "C" as user_id, topic collate "C" as topic from unnest(changes)) as c
        order by c.user_id, c.topic
        on conflict (user_id, topic) do update set top = s.top where false;

        -- Streams are met by key only (a subquery, ON CONFLICT): a join could become a hash over all of them.
        origin := to_jsonb(key);
        with place as materialized (
            select c.source, c.user_id, c.topic,
                   (select s.top from sync.stream as s where s.user_id = c.user_id and s.topic = c.topic) as top
            from (
                select distinct c.source, c.user_id collate "C" as user_id, c.topic collate "C" as topic
                from unnest(changes) as c
            ) as c
        ), made as materialized (
            select p.source, p.topic, d.*
            from (
                select c.source, c.topic, array_agg(c) as asked from unnest(changes) as c group by c.source, c.topic
            ) as p
            cross join lateral sync.drafts(p.source, p.asked) as d
        ), numbered as (
            select p.user_id, p.topic, p.name, p.data,
                   coalesce(place.top, sync.foreign_draft(p.source)) + row_number() over (
                       partition by p.user_id, p.topic
                       order by p.summary, p.source, (right(p.name, 8) = '.deleted') desc, p.id collate "C"
                   ) as o
            from made as p
            left join place on place.source = p.source and place.user_id = p.user_id
            where p.name is not null
        ), whole as (
            select n.user_id, n.topic, n.o, n.name, n.data,
                   n.data || jsonb_build_object('_sync', jsonb_build_object('o', n.o, 'k', origin)) as whole
            from numbered as n
            offset 0
        ), appended as (
            insert into sync.event (user_id, topic, o, name, data, created_at)
            select w.user_id, w.topic, w.o, w.name,
                   case when pg_column_size(w.whole) < 1600 then w.whole else sync.sealed(w.data, w.o, origin) end,
                   clock_timestamp()
            from whole as w
            returning user_id, topic, o
        )
        insert into sync.stream as s (user_id, topic, top, kept, kept_for)
        select a.user_id, a.topic, a.top, k.data, k.id
        from (select user_id, topic, max(o) as top from appended group by user_id, topic) as a
        left join made as k on k.user_id = a.user_id and k.topic = a.topic and k.name is null
        on conflict (user_id, topic) do update set top = excluded.top, kept = excluded.kept, kept_for = excluded.kept_for;
        get diagnostics events = row_count;
    end if;

    if events > 0 then
        if current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then
            perform sync.raise_commit();
        end if;
        woken := case when current_setting('sync.notify', true) is distinct from 'off' then pg_notify('sync', '')::text end;
    end if;
    return null;
end
$$;

do $$
declare
    enabled "char" := (select tgenabled from pg_catalog.pg_trigger
                       where tgrelid = 'sync.ticket'::regclass and tgname = 'flush' and tgtype = 5 and tginitdeferred
                           and tgfoid = 'sync.flush()'::regprocedure);
begin
    if enabled is null then
        drop trigger if exists flush on sync.ticket;
        create constraint trigger flush after insert on sync.ticket
            deferrable initially deferred for each row execute function sync.flush();
    end if;
    if enabled is distinct from 'A' then
        alter table sync.ticket enable always trigger flush;
    end if;
end
$$;
