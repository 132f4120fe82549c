-- The function files of carillon 0.1.0, one after the other, from which UpgradeTests upgrades. Never changed.
-- 10_sync_camel.sql
-- sync.camel: taken_at -> takenAt, as the events of generated builders name columns. No locks.
create or replace function sync.camel(name text) returns text
language sql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(string_agg(case when n = 1 then part else upper(left(part, 1)) || substr(part, 2) end, '' order by n),
                    name)
    from (select part, row_number() over (order by place) as n
          from string_to_table(name, '_') with ordinality as t(part, place)
          where part <> '') as parts
$$;
-- 11_sync_clock.sql
-- sync.clock: the time by which actions, triggers and events go. Tests replace it. No locks.
create or replace function sync.clock() returns timestamptz
language sql volatile
as $$
    select pg_catalog.clock_timestamp()
$$;

-- sync.raise_commit: raises synchronous_commit for this transaction where it is weaker than `on`, never lowers it: what
-- was told (an offset, an action's answer) must not be lost with the server. No locks.
create or replace function sync.raise_commit() returns void
language plpgsql
as $$
begin
    if pg_catalog.current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then
        perform pg_catalog.set_config('synchronous_commit', 'on', true);
    end if;
end
$$;
-- 12_sync_change.sql
-- sync.change.contexts: the context column's other values, where the row had several before it got its last one. Added
-- here and not by a migration: sync.flush and the type change in one transaction, so that no commit fails between them.
do $$
begin
    if not exists (
        select from pg_catalog.pg_attribute
        where attrelid = 'sync.change'::regclass and attname = 'contexts' and not attisdropped
    ) then
        alter type sync.change add attribute contexts text[];
    end if;
end
$$;
-- 13_care_intent.sql
-- care.intent.time_path: the member of the payload that `taken_at` was read from, clientTime, or null: it is the server's.
-- care.ruling.path: of a ruling that is rejected as invalid, the member that is wrong. Added here and not by a migration:
-- the types change in one transaction with the functions that make them, so that no action fails between them.
do $$
begin
    if not exists (
        select from pg_catalog.pg_attribute
        where attrelid = 'care.intent'::regclass and attname = 'time_path' and not attisdropped
    ) then
        alter type care.intent add attribute time_path text;
    end if;
    if not exists (
        select from pg_catalog.pg_attribute
        where attrelid = 'care.ruling'::regclass and attname = 'path' and not attisdropped
    ) then
        alter type care.ruling add attribute path text;
    end if;
end
$$;
-- 19_sync_sealed.sql
-- sync.pointer: what is left of data of more than 10,000 bytes: the identifying fields and `truncated: true`; the client
-- fetches the entity. No locks.
create or replace function sync.pointer(data jsonb) returns jsonb
language sql immutable parallel safe
as $$
    select pg_catalog.jsonb_object_agg(e.key, e.value) operator(pg_catalog.||) '{"truncated": true}'
    from pg_catalog.jsonb_each(data) as e
    where e.key in ('id', 'rev', 'userId', 'occurrenceId', 'ruleId', 'date', '_sync')
$$;

-- sync.sealed: an event's data with its place in the stream and the key of the action that caused it (or null). Data of
-- more than 10,000 bytes becomes a pointer. No locks.
create or replace function sync.sealed(data jsonb, o bigint, k jsonb) returns jsonb
language plpgsql stable parallel safe
as $$
declare
    whole jsonb := data operator(pg_catalog.||)
        pg_catalog.jsonb_build_object('_sync', pg_catalog.jsonb_build_object('o', o, 'k', k));
begin
    -- Text is at most six times the stored size (escapes), so small ones need not be written out to be measured.
    if pg_catalog.pg_column_size(whole) < 1600 or pg_catalog.octet_length(whole::pg_catalog.text) <= 10000 then
        return whole;
    end if;
    return sync.pointer(whole);
end
$$;

-- sync.bounded: the same for data whose stored size says nothing about its text: a number such as 1e100000 takes few bytes
-- there. Data that is no object has no place for `_sync`, by which devices know what they have: refused. No locks.
create or replace function sync.bounded(data jsonb) returns jsonb
language plpgsql immutable parallel safe
as $$
begin
    if pg_catalog.jsonb_typeof(data) <> 'object' then
        raise exception 'an event''s data must be a JSON object' using errcode = 'data_exception';
    elsif pg_catalog.octet_length(data::pg_catalog.text) > 10000 then
        return coalesce(sync.pointer(data), '{"truncated": true}');
    end if;
    return data;
end
$$;
-- 20_sync_flush.sql
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

-- sync.first_ops: sets the operation of changes whose rows came and went as often ('X'): a row that is there was there
-- before ('U'), one that is not was not ('I'), and that is the same for each builder as what a sole operation says. The
-- row is this transaction's: nobody else can have changed it. Locks: none.
create or replace function sync.first_ops(changes sync.change[]) returns sync.change[]
language plpgsql
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
set array_nulls = on
as $$
declare
    p sync.published;
begin
    for p in
        select * from sync.published as e where e.source in (select c.source from unnest(changes) as c where c.op = 'X')
    loop
        if not exists (select from pg_class as c where c.oid = p.relation) then
            raise exception '% was changed and dropped in one transaction: select sync.unpublish_changes before it is dropped',
                p.published_as using errcode = 'undefined_table';
        end if;
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

-- sync.flush: turns what a transaction touched into events, at commit (deferred constraint trigger on sync.ticket).
--
-- Lock order: the rows of sync.stream concerned, sorted by (user_id, topic): missing ones inserted, present ones
-- locked, in one pass. Then care.day_summary, under those locks. Nothing else is locked here.
--
-- Each statement takes a new snapshot in READ COMMITTED, so after the locks the rows are read as they are then:
-- the transaction that held a stream before us has committed. REPEATABLE READ and SERIALIZABLE get 40001 at the lock and retry.
-- Fired again after SET CONSTRAINTS IMMEDIATE it begins anew: touched and ticket are taken away by the first statement.
--
-- Settings of the function: seqscan off because touched and ticket are vacuumed while empty and would be planned as
-- scans; jit off because a disabled scan's cost alone would start it; generic plans because planning the builders costs
-- several times what running them does, and a plan for one change looks cheaper than one for ten; datestyle and those after
-- it so that events do not depend on the writer's session (sync.drafts has what only few types need); row_security off so
-- that a policy that would hide rows fails the commit: a hidden row would be told as deleted. synchronous_commit is raised (sync.raise_commit): an offset once
-- shown must not be issued again. Events are dated by the clock and not by now(), the transaction's start: what is
-- measured from there is how long after its commit began an event arrives. sync.key, which travels in each event, has at
-- most 200 bytes (22001).
create or replace function sync.flush() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set row_security = off
set datestyle = 'ISO, MDY'
set timezone = 'UTC'
set intervalstyle = 'postgres'
set extra_float_digits = 1
set bytea_output = 'hex'
as $$
declare
    changes sync.change[];
    unsure boolean;
    one sync.change;
    draft sync.draft;
    last bigint;
    whole jsonb;
    events bigint;
    key text := nullif(current_setting('sync.key', true), '');
    origin jsonb := to_jsonb(key);
begin
    with ticket as (
        delete from sync.ticket where xid = pg_current_xact_id()
    ), taken as (
        delete from sync.touched where xid = pg_current_xact_id()
        returning row(source, user_id, topic, id,
                      case when balance > 0 then 'I' when balance < 0 then 'D' when balance = 0 and op <> 'U' then 'X'
                           else op end,
                      case when balance > 0 then null else context end, rev,
                      case when balance > 0 then null else contexts end)::sync.change as change
    )
    select array_agg(change), bool_or((change).op = 'X') into changes, unsure from taken;
    if changes is null then
        return null;
    elsif unsure then
        changes := sync.first_ops(changes);
    end if;
    if octet_length(key) > 200 then
        raise exception 'sync.key is longer than 200 bytes' using errcode = 'string_data_right_truncation';
    end if;

    if cardinality(changes) = 1 then
        -- The usual commit: one row of one table. The same as below, in statements that start faster.
        one := changes[1];
        select s.top into last from sync.stream as s where s.user_id = one.user_id and s.topic = one.topic for update;
        if not found then
            insert into sync.stream as s (user_id, topic)
            values (one.user_id, one.topic)
            on conflict (user_id, topic) do update set top = s.top
            returning s.top into last;
        end if;
        events := last;
        for draft in select * from sync.drafts(one.source, changes) as n order by n.summary, n.id collate "C" loop
            if draft.user_id is distinct from one.user_id then
                perform sync.foreign_draft(one.source);
            end if;
            last := last + 1;
            whole := draft.data || jsonb_build_object('_sync', jsonb_build_object('o', last, 'k', origin));
            if pg_column_size(whole) >= 1600 then
                whole := sync.sealed(draft.data, last, origin);
            end if;
            insert into sync.event (user_id, topic, o, name, data, created_at)
            values (one.user_id, one.topic, last, draft.name, whole, clock_timestamp());
        end loop;
        events := last - events;
        if events > 0 then
            update sync.stream as s set top = last where s.user_id = one.user_id and s.topic = one.topic;
        end if;
    else
        -- DO UPDATE locks the row even where its WHERE refuses it: no new version is written.
        insert into sync.stream as s (user_id, topic)
        select c.user_id, c.topic
        from (select distinct user_id collate "C" as user_id, topic collate "C" as topic from unnest(changes)) as c
        order by c.user_id, c.topic
        on conflict (user_id, topic) do update set top = s.top where false;

        -- Streams are met by key only (a subquery, ON CONFLICT): a join could become a hash over all of them.
        with numbered as (
            select d.user_id, p.topic, d.name, d.data,
                   case when (p.source, d.user_id) in (select c.source, c.user_id from unnest(changes) as c)
                        then (select s.top from sync.stream as s where s.user_id = d.user_id and s.topic = p.topic)
                        else sync.foreign_draft(p.source) end
                   + row_number() over (
                       partition by d.user_id, p.topic
                       order by d.summary, p.source, d.id collate "C"
                   ) as o
            from (
                select c.source, c.topic, array_agg(c) as asked from unnest(changes) as c group by c.source, c.topic
            ) as p
            cross join lateral sync.drafts(p.source, p.asked) as d
        ), appended as (
            insert into sync.event (user_id, topic, o, name, data, created_at)
            select user_id, topic, o, name, sync.sealed(data, o, origin), clock_timestamp() from numbered
            returning user_id, topic, o
        )
        insert into sync.stream as s (user_id, topic, top)
        select user_id, topic, max(o) from appended group by user_id, topic
        on conflict (user_id, topic) do update set top = excluded.top;
        get diagnostics events = row_count;
    end if;

    if events > 0 then
        if current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then
            perform sync.raise_commit();
        end if;
        if current_setting('sync.notify', true) is distinct from 'off' then
            perform pg_notify('sync', '');
        end if;
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
-- 21_sync_refuse_truncate.sql
-- sync.refuse_truncate: TRUNCATE has no rows to tell anyone about, so a published table refuses it. No locks.
create or replace function sync.refuse_truncate() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'table %.% is published by sync.publish_changes and cannot be truncated',
        tg_table_schema, tg_table_name
        using errcode = 'feature_not_supported', hint = 'DELETE the rows, or sync.unpublish_changes first.';
end
$$;
-- 28_sync_lookup.sql
-- sync.base_type: what a domain is made of in the end; any other type itself. No locks.
create or replace function sync.base_type(type oid) returns oid
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    base oid;
begin
    loop
        select t.typbasetype into base from pg_type as t where t.oid = type and t.typtype = 'd';
        exit when not found;
        type := base;
    end loop;
    return type;
end
$$;

-- sync.id_type: the type as which an id is looked up, in SQL: without a domain's checks and without a length, and bigint
-- for all integers, so that a column that grows (integer to bigint, varchar(10) to text) needs nobody's doing. With its
-- collation where texts that differ are equal by that. Null where there is no such column. sync.id_types is the same in
-- one row, or none, and planned into its callers' statements. No locks.
create or replace function sync.id_types(relation regclass, id_column name) returns table(id_type text)
language sql stable rows 1
begin atomic
    select case
        when b.oid in ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype) then 'bigint'
        when b.oid in ('varchar'::regtype, 'text'::regtype) then 'text'
        else format_type(b.oid, -1)
    end || coalesce(case when a.attcollation <> 0 then (
        select format(' collate %I.%I', n.nspname, c.collname)
        from pg_catalog.pg_collation as c join pg_catalog.pg_namespace as n on n.oid = c.collnamespace
        where c.oid = a.attcollation and not c.collisdeterministic) end, '')
    from pg_catalog.pg_attribute as a join pg_catalog.pg_type as t on t.oid = a.atttypid
    cross join lateral (select case t.typtype when 'd' then sync.base_type(t.oid) else t.oid end) as b(oid)
    where a.attrelid = relation and a.attname = id_column and not a.attisdropped;
end;

create or replace function sync.id_type(relation regclass, id_column name) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
begin
    return (select t.id_type from sync.id_types(relation, id_column) as t);
end
$$;

-- sync.one_text: whether equal ids have equal texts. Not so: numeric (1.0 and 1.00), float (0 and -0), interval, text under
-- a nondeterministic collation; and nobody knows of other types. No locks.
create or replace function sync.one_text(p sync.published) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select sync.id_type(p.relation, p.id_column) in (
        'bigint', 'text', 'name', 'uuid', 'date', 'timestamp without time zone', 'timestamp with time zone', 'boolean', 'oid')
$$;

-- sync.made_of: 4 where a type is, or is made of, money or one of those that name an object (regclass); else 3. No locks.
create or replace function sync.made_of(type oid) returns int
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        with recursive part as (
            select type as oid
            union
            select next.oid
            from part join pg_type as t on t.oid = part.oid
            cross join lateral (
                select t.typbasetype
                union all
                select t.typelem where t.typcategory = 'A'
                union all
                select a.atttypid from pg_attribute as a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
                union all
                select r.rngsubtype from pg_range as r where r.rngtypid = t.oid or r.rngmultitypid = t.oid
            ) as next(oid)
        )
        select case when count(*) = 0 then 3 else 4 end
        from part join pg_type as t on t.oid = part.oid
        where t.typnamespace = 'pg_catalog'::regnamespace and (t.typname = 'money' or t.typname like 'reg%')
    );
end
$$;

-- sync.hardness: which of these columns there are, and what their types ask for, the hardest of them. Planned into its
-- callers' statements. No locks.
--   0  nothing: integers, text, uuid, boolean, enums
--   1  their text depends on a session's settings: dates, intervals, bytea and other built-in ones
--   2  and may be much longer than what is stored: numeric without a scale, floats, jsonb
--   3  and jsonb may be unable to hold it: json, arrays, and all that are not built in
--   4  and it depends on settings that nothing else asks for: money, regclass and its like, and what is made of them
create or replace function sync.hardness(relation regclass, columns name[]) returns table(present name[], hardest int)
language sql stable rows 1
begin atomic
    select array_agg(a.attname), coalesce(max(case
        when a.atttypid in (
            'bigint'::regtype, 'integer'::regtype, 'smallint'::regtype, 'boolean'::regtype, 'uuid'::regtype,
            'text'::regtype, 'varchar'::regtype, 'bpchar'::regtype) then 0
        when a.atttypid in ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype) then 1
        when a.atttypid in ('real'::regtype, 'double precision'::regtype, 'jsonb'::regtype) then 2
        when a.atttypid = 'numeric'::regtype then case a.atttypmod when -1 then 2 else 1 end
        else (
            select case
                when t.typtype = 'e' then 0
                when t.typtype <> 'b' or t.typnamespace <> 'pg_catalog'::regnamespace or t.typcategory = 'A'
                    or t.oid in ('json'::regtype, 'money'::regtype) or t.typname like 'reg%' then sync.made_of(t.oid)
                else 1
            end
            from pg_catalog.pg_type as t where t.oid = a.atttypid
        ) end), 0)
    from pg_catalog.pg_attribute as a
    where a.attrelid = relation and a.attnum > 0 and a.attname = any(columns) and not a.attisdropped;
end;

create or replace function sync.hardest(relation regclass, columns name[]) returns int
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select h.hardest from sync.hardness(relation, columns) as h);
end
$$;

-- sync.lookup: SQL by which a row `r` of the table is that of a change `c`: by the id's own operator, which has an index,
-- and by the texts, as they were recorded. No locks.
create or replace function sync.lookup(p sync.published) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return format('r.%1$I = c.id::%2$s%3$s and r.%4$I::text collate "C" = c.user_id',
                  p.id_column, sync.id_type(p.relation, p.id_column),
                  case when sync.one_text(p) then '' else format(' and r.%I::text collate "C" = c.id', p.id_column) end,
                  p.user_column);
end
$$;

-- sync.sent_id: SQL of a change `c`'s id as events have it, whether its row is there or not. Of char(n) that is the text without
-- the blanks that fill it: those are not recorded. No locks.
create or replace function sync.sent_id(p sync.published) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    type text := sync.id_type(p.relation, p.id_column);
begin
    return case when type like 'bpchar%' then 'c.id' else 'c.id::' || type end;
end
$$;

-- sync.same_id: SQL by which a row `n` has the id that a row `o` had. No locks.
create or replace function sync.same_id(p sync.published) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return format(case when sync.one_text(p) then 'n.%1$I = o.%1$I'
                       else 'n.%1$I::text collate "C" = o.%1$I::text collate "C"' end, p.id_column);
end
$$;
-- 29_sync_probe.sql
-- sync.probe: plans what recorder and builder will do with a table's columns, as carillon_owner and with pg_catalog alone
-- to look in, as they will: a type that cannot be compared or read so is refused here, not at a writer's first commit.
-- Called by sync.enroll. Locks: the table (ACCESS SHARE).
create or replace function sync.probe(p sync.published) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set standard_conforming_strings = on
as $$
begin
    if concat_ws(' ', p.relation::text, p.user_column, p.id_column, p.rev_column, p.context_column, p.columns::text, p.builder)
        ~ '\$(recorder|builder|drafts)\$' then
        raise exception 'a name in it contains $recorder$, $builder$ or $drafts$, which end what is generated';
    end if;
    if exists (
        select from pg_attribute where attrelid = p.relation and attname in (p.id_column, p.user_column, p.context_column)
            and sync.base_type(atttypid) = 'money'::regtype and not attisdropped
    ) then
        raise exception 'an id, a user or a context cannot be money: its text depends on lc_monetary';
    end if;
    execute format(
        'explain select o.%2$I::text, %4$s from %1$s as o full join %1$s as n on %3$s where o.* *<> n.*',
        p.relation, p.user_column, sync.same_id(p),
        case when p.context_column is null then 'null' else format('o.%I::text', p.context_column) end);
    execute format('explain select from unnest(null::sync.change[]) as c join %s as r on %s', p.relation, sync.lookup(p));
exception when others then
    if sqlstate like '40%' or sqlstate = '55P03' then
        raise;
    elsif sqlstate = 'P0001' then
        raise exception 'cannot publish %: %', p.relation, sqlerrm using errcode = 'invalid_parameter_value';
    end if;
    raise exception 'cannot publish %: its columns cannot be compared or read with the operators of pg_catalog: %',
        p.relation, sqlerrm
        using errcode = 'invalid_parameter_value', hint = 'Use an id of a built-in type, such as text, bigint or uuid.';
end
$$;
-- 30_sync_generate_recorder.sql
-- sync.generate_recorder: writes the trigger function of one published table. It only records (sync.touched, one
-- ticket); static SQL, so that its plans are cached. Both owners of a row that moves are recorded, each as that owner sees it;
-- a row without a user (null or '') is skipped; updates that change nothing (compared as images, which any type has)
-- are dropped. `o.*` and `n.*`: a bare `n` would be a column of that name. SECURITY DEFINER: who may write the table
-- needs no right on sync. Its settings, where a type needs them: an id and an owner have one text, whatever the writer's
-- session has set.
--
-- A trigger of the app's own that writes the table again has been recorded before the statement that fired it. So
-- nothing here depends on the order: what comes again on a row adds to the balance, keeps every context, and the
-- highest rev. Locks: none of others'.
--
-- One statement may update a row twice: two foreign keys of it that cascade from one parent, or a new id and a cascade. The
-- join by id would then pair each version before with each after, so what came and went is counted. Where no id
-- is twice in either table, a join is the same. An update of one row, the usual one, pays for
-- none of this: its statement comes first, and does nothing where there is a second row.
create or replace function sync.generate_recorder(p sync.published) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    written name[] := array[p.id_column, p.user_column];
    hardest int;
    context text;
    context_type regtype;
    rev text := case when p.rev_column is null then 'null::bigint' else format('o.%I::bigint', p.rev_column) end;
    paired text;
    again text;
begin
    if p.context_column is null then
        context := 'null::text';
    else
        select atttypid into context_type from pg_attribute
        where attrelid = p.relation and attname = p.context_column and not attisdropped;
        if context_type = 'date'::regtype then
            -- As ISO writes it; to_char knows no infinity.
            context := format($sql$coalesce(to_char(o.%1$I, case when o.%1$I < '0001-01-01' then 'YYYY-MM-DD BC'
                                                            else 'YYYY-MM-DD' end), o.%1$I::text)$sql$, p.context_column);
        else
            context := format('o.%I::text', p.context_column);
            written := written || p.context_column;
        end if;
    end if;
    hardest := sync.hardest(p.relation, written);

    -- Rows before and after, where no id is twice; ready for a further condition.
    paired := format($sql$insert into sync.touched as t (xid, source, user_id, id, topic, op, balance, context, rev)
        select pg_current_xact_id(), %1$s, v.user_id, v.id, %2$L, v.op,
               case v.op when 'I' then 1 when 'D' then -1 else 0 end, v.context, v.rev
        from old_rows as o full join new_rows as n on %5$s
        cross join lateral (values
            (o.%4$I::text collate "C", o.%3$I::text,
             case when n.%4$I::text collate "C" = o.%4$I::text then 'U'::"char" else 'D'::"char" end, %6$s, %7$s),
            (case when n.%4$I::text collate "C" is distinct from o.%4$I::text then n.%4$I::text end, n.%3$I::text,
             'I'::"char", null::text, null::bigint)
        ) as v(user_id, id, op, context, rev)
        where v.user_id <> '' and (o.%3$I is null or n.%3$I is null or o.* *<> n.*)$sql$,
        p.source, p.topic, p.id_column, p.user_column, sync.same_id(p), context, rev);
    -- For an id that this transaction has touched before; the contexts follow.
    again := $sql$on conflict (xid, source, user_id, id) do update
            set op = case when t.op = 'U' then excluded.op else t.op end,
                balance = coalesce(t.balance, case t.op when 'I' then 1 when 'D' then -1 else 0 end) + excluded.balance,
                context = coalesce(t.context, excluded.context),
                rev = greatest(t.rev, excluded.rev),
                contexts = $sql$;

    execute format($generator$
create or replace function sync.%1$I() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp%12$s
as $recorder$
begin
    if tg_op = 'UPDATE' then
        %8$s and not exists (select from new_rows offset 1)
        %10$s;
        if not found then
            -- Several rows, or nothing to tell.
            if exists (select from new_rows offset 1) then
                if exists (select from old_rows as o group by o.%4$I::text collate "C" having count(*) > 1)
                    or exists (select from new_rows as n group by n.%4$I::text collate "C" having count(*) > 1) then
                    insert into sync.touched as t (xid, source, user_id, id, topic, op, balance, context, contexts, rev)
                    select pg_current_xact_id(), %2$s, g.user_id, g.id, %3$L,
                           case when g.balance < 0 then 'D'::"char" else 'I'::"char" end, g.balance,
                           g.contexts[1], nullif(g.contexts[2:], '{}'), g.rev
                    from (
                        select v.user_id, v.id, sum(v.came)::int as balance, max(v.rev) as rev,
                               array_agg(distinct v.context) filter (where v.context is not null) as contexts
                        from (
                            select o.%5$I::text collate "C", o.%4$I::text collate "C", -1, %6$s, %7$s from old_rows as o
                            union all
                            select n.%5$I::text collate "C", n.%4$I::text collate "C", 1, null::text, null::bigint from new_rows as n
                        ) as v(user_id, id, came, context, rev)
                        where v.user_id <> '' and v.id not in (
                            select coalesce(o.%4$I::text, n.%4$I::text) collate "C"
                            from old_rows as o full join new_rows as n on %9$s
                            group by 1
                            having count(*) = 1 and bool_and(o.%4$I is not null and n.%4$I is not null and o.* *= n.*))
                        group by v.user_id, v.id
                    ) as g
                    %11$s;
                else
                    %8$s
                    %10$s;
                end if;
            end if;
        end if;
    elsif tg_op = 'INSERT' then
        insert into sync.touched as t (xid, source, user_id, id, topic, op, balance)
        select pg_current_xact_id(), %2$s, n.%5$I::text, n.%4$I::text, %3$L, 'I', 1
        from new_rows as n
        where n.%5$I::text collate "C" <> ''
        %10$s;
    else
        insert into sync.touched as t (xid, source, user_id, id, topic, op, balance, context, rev)
        select pg_current_xact_id(), %2$s, o.%5$I::text, o.%4$I::text, %3$L, 'D', -1, %6$s, %7$s
        from old_rows as o
        where o.%5$I::text collate "C" <> ''
        %10$s;
    end if;
    if found then
        insert into sync.ticket (xid) values (pg_current_xact_id()) on conflict do nothing;
    end if;
    return null;
end
$recorder$
$generator$,
        p.recorder, p.source, p.topic, p.id_column, p.user_column, context, rev, paired, sync.same_id(p),
        again || $sql$case when excluded.context <> t.context and not excluded.context = any(coalesce(t.contexts, '{}'))
                                then t.contexts || excluded.context else t.contexts end
            where excluded.balance <> 0 or excluded.rev is not null or excluded.context is not null$sql$,
        again || $sql$nullif(array(
                    select distinct c.context from unnest(t.contexts || excluded.context || excluded.contexts) as c(context)
                    where c.context <> coalesce(t.context, excluded.context)), '{}')$sql$,
        case when hardest = 0 then '' else $sql$
set datestyle = 'ISO, MDY'
set timezone = 'UTC'
set intervalstyle = 'postgres'
set extra_float_digits = 1
set bytea_output = 'hex'$sql$ end || case when hardest < 4 then '' else $sql$
set quote_all_identifiers = off$sql$ end);
    execute format('revoke all on function sync.%I() from public', p.recorder);
end
$$;
-- 31_sync_generate_builder.sql
-- sync.builder_query: the SELECT of the events ($1: sync.change[]) of a table whose publisher named no builder:
-- <prefix>.created and <prefix>.updated with the row as it is at commit, <prefix>.deleted with {id, rev}. Keys are
-- camelCase; `id` and `rev` have these names whatever the columns are called, and another column that would have one of
-- them is not sent; nulls are sent. No locks.
create or replace function sync.builder_query(p sync.published) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    fields text;
begin
    -- At most 100 arguments a call: 40 columns each.
    select string_agg(format('jsonb_build_object(%s)', call), ' || ' order by part) into fields
    from (
        select (place - 1) / 40 as part,
               string_agg(format('%L, r.%I', sync.camel(name), name), ', ' order by place) as call
        from unnest(p.columns) with ordinality as c(name, place)
        where name is distinct from p.id_column and name is distinct from p.rev_column
            and sync.camel(name) not in ('id', 'rev')
        group by 1
    ) as calls;
    return format($query$
    select c.user_id, false, c.id,
           %1$L || case when r.%2$I is null then '.deleted' when c.op = 'I' then '.created' else '.updated' end,
           case when r.%2$I is null then jsonb_build_object('id', %3$s, 'rev', c.rev)
                else %8$s(jsonb_build_object('id', %3$s, 'rev', %4$s)%5$s) end
    from unnest($1) as c
    left join lateral (
        select * from %6$s as r where %7$s offset 0
    ) as r on true
    where r.%2$I is not null or c.op <> 'I'$query$,
        p.event_prefix, p.id_column, sync.sent_id(p),
        case when p.rev_column is null then 'null::bigint' else format('r.%I', p.rev_column) end,
        coalesce(' || ' || fields, ''), p.relation, sync.lookup(p),
        case when sync.hardest(p.relation, p.columns || p.id_column) < 2 then '' else 'sync.bounded' end);
end
$$;

-- sync.generate_builder: writes the function that runs it. A table that was renamed is still met under the name that it
-- has now, by a query planned each time; another table that took its name is not read. Locks: none.
create or replace function sync.generate_builder(p sync.published) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format($generator$
create or replace function %1$s(changes sync.change[]) returns setof sync.draft
language plpgsql rows 10%6$s
as $builder$
declare
    named regclass := to_regclass(%2$L);
begin
    -- A restore from a dump gives the table another number: the entry knows it.
    if named is distinct from %3$s::oid::regclass then
        if named is distinct from (select p.relation from sync.published as p where p.source = %4$s) then
            return query execute sync.builder_query((select p from sync.published as p where p.source = %4$s)) using $1;
            return;
        end if;
    end if;
    return query%5$s;
end
$builder$
$generator$,
        p.builder, p.relation::text, p.relation::oid, p.source, sync.builder_query(p),
        -- An array's text is read as an id.
        case when sync.id_type(p.relation, p.id_column) like '%[]' then e'\nset array_nulls = on' else '' end);
    execute format('revoke all on function %s(sync.change[]) from public', p.builder);
end
$$;
-- 32_sync_generate_drafts.sql
-- sync.generate_drafts: writes sync.drafts(source, changes), which calls the builder of each published table by name,
-- so that one flush serves all and every plan is cached. Called under the lock that publishing takes. Locks: none.
--
-- Where a column's type is hard, a generated builder may meet a value that jsonb cannot hold (json with \u0000 or a number
-- beyond numeric): its rows go another way then. Nothing has been returned by that time: a function's rows are taken
-- together. What a builder of an app's own returns is measured.
--
-- Where a column is money or names an object (sync.hardness), the settings that this depends on are fixed, here and not in
-- the flush: each costs half a microsecond. Money goes by the locale that sessions of this database begin with: another
-- would move its decimal point.
create or replace function sync.generate_drafts() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    branches text;
    settings text := '';
begin
    select string_agg(
        format(case when p.builder like 'sync.build\_%' and sync.hardest(p.relation, p.columns || p.id_column) >= 3 then
'        when %1$s then
            begin
                return query select * from %2$s($2);
            exception when data_exception or program_limit_exceeded then
                return query select * from sync.drafts_apart(%1$s, $2);
            end;'
                    when p.builder like 'sync.build\_%' or p.builder like 'care.%' then
'        when %1$s then return query select * from %2$s($2);'
                    else
'        when %1$s then
            return query select d.user_id, d.summary, d.id, d.name, sync.bounded(d.data) from %2$s($2) as d;'
                    end, p.source, p.builder), e'\n' order by p.source)
    into branches from sync.published as p;
    if exists (select from sync.published as p
               where sync.hardest(p.relation, p.columns || array[p.id_column, p.rev_column, p.context_column]) = 4) then
        settings := format(e'\nset quote_all_identifiers = off\nset lc_monetary = %L', s.reset_val)
        from pg_settings as s where s.name = 'lc_monetary';
    end if;
    execute format($generator$
create or replace function sync.drafts(source int, changes sync.change[]) returns setof sync.draft
language plpgsql rows 10%s
as $drafts$
begin
    case source
%s
        else null;
    end case;
end
$drafts$
$generator$, settings, coalesce(branches, '        when 0 then null;'));
    revoke all on function sync.drafts(int, sync.change[]) from public;
end
$$;

-- sync.drafts_apart: the events of changes some of whose rows have a value that jsonb cannot hold: such a row's event is
-- a pointer (id, rev, truncated), as of data too large; the others are whole. By halves, so that one row among many costs
-- little. Locks: none.
create or replace function sync.drafts_apart(of_source int, changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
set search_path = pg_catalog, pg_temp
as $$
declare
    p sync.published;
    middle int := (cardinality(changes) + 1) / 2;
    part sync.change[];
begin
    select * into strict p from sync.published as e where e.source = of_source;
    for half in 1..2 loop
        part := case half when 1 then changes[:middle] else changes[middle + 1:] end;
        continue when part = '{}';
        begin
            return query execute format('select * from %s($1)', p.builder) using part;
        exception when data_exception or program_limit_exceeded then
            if cardinality(part) > 1 then
                return query select * from sync.drafts_apart(of_source, part);
            else
                return query execute format(
                    'select c.user_id, false, c.id, $2 || case when c.op = ''I'' then ''.created'' else ''.updated'' end,
                            jsonb_build_object(''id'', %1$s, ''rev'', %2$s, ''truncated'', true)
                     from unnest($1) as c join %3$s as r on %4$s',
                    sync.sent_id(p), case when p.rev_column is null then 'null::bigint' else format('r.%I', p.rev_column) end,
                    p.relation, sync.lookup(p)) using part, p.event_prefix;
            end if;
        end;
    end loop;
end
$$;
-- 33_sync_unpublishable.sql
-- sync.secured: whether row level security that is on for a table hides rows from carillon_owner: not from a role that may
-- bypass it, nor, where it is not forced, from the owner's. No locks.
create or replace function sync.secured(table_owner oid, forced boolean) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return not (select r.rolsuper or r.rolbypassrls from pg_roles as r where r.rolname = 'carillon_owner')
        and (forced or not pg_has_role('carillon_owner', table_owner, 'usage'));
end
$$;

-- sync.unpublishable: why a table cannot be published; no row if it can. This and those after it are planned into their
-- callers' statements; OFFSET 0 keeps those from reading a whole catalog. Locks: none.
--   Partitions and inheritance children can be written without firing their parent's statement triggers; rows that a
--   subscription applies fire none; views and foreign tables have none; an unlogged table loses rows in silence.
drop function if exists sync.unpublishable(regclass);
create function sync.unpublishable(relation regclass) returns table(problem text)
language sql stable rows 1
begin atomic
    select r.problem
    from (
        select case
            when c.relkind = 'p' then 'it is partitioned: rows can be written to its partitions past any statement trigger'
            when c.relispartition then 'it is a partition'
            when c.relkind in ('v', 'm') then 'it is a view'
            when c.relkind = 'f' then 'it is a foreign table'
            when c.relkind <> 'r' then 'it is not a table'
            when c.relpersistence = 't' then 'it is temporary'
            when c.relpersistence = 'u' then 'it is unlogged: a crash empties it without an event'
            when c.relnamespace = 'sync'::regnamespace or c.relnamespace = 'pg_catalog'::regnamespace
                then 'it belongs to the system'
            when exists (select from pg_catalog.pg_inherits where inhrelid = c.oid offset 0)
                or exists (select from pg_catalog.pg_inherits where inhparent = c.oid offset 0) then 'it takes part in inheritance'
            when exists (select from pg_catalog.pg_subscription_rel where srrelid = c.oid offset 0)
                then 'it is the target of a subscription (pg_subscription_rel): applied rows fire no statement triggers'
            when c.relrowsecurity and sync.secured(c.relowner, c.relforcerowsecurity)
                then 'row level security would hide its rows from carillon_owner'
        end as problem
        from pg_catalog.pg_class as c
        where c.oid = relation
    ) as r
    where r.problem is not null;
end;

-- sync.unidentified: what keeps a column from identifying a table's rows, null values, or no unique index of its own; no
-- row where nothing does. Locks: none.
drop function if exists sync.unidentified(regclass, name);
create function sync.unidentified(relation regclass, id_column name) returns table(problem text)
language sql stable rows 1
begin atomic
    select format('column %I needs to be not null and to have a unique index of its own', id_column)
    where not exists (
        select from pg_catalog.pg_index as i
        join pg_catalog.pg_attribute as a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
        where i.indrelid = relation and i.indisunique and i.indimmediate and i.indisvalid
            and i.indnkeyatts = 1 and i.indpred is null
            and a.attname = id_column and a.attnotnull
        offset 0
    );
end;

-- sync.unnumbered: why a column is no revision: it is no integer; no row where it is one, or is gone. A domain counts as
-- what it is made of. Locks: none.
create or replace function sync.unnumbered(relation regclass, rev_column name) returns table(problem text)
language sql stable rows 1
begin atomic
    select format('rev column %I needs to be an integer', rev_column)
    from pg_catalog.pg_attribute as a
    where a.attrelid = relation and a.attname = rev_column and not a.attisdropped
        and a.atttypid not in ('bigint'::regtype, 'integer'::regtype, 'smallint'::regtype)
        and sync.base_type(a.atttypid) not in ('bigint'::regtype, 'integer'::regtype, 'smallint'::regtype);
end;
-- 34_sync_enroll.sql
-- sync.enroll: carillon_owner's half of publishing: the entry in sync.published and the generated functions. Returns
-- the name of the trigger function. Called by sync.publish, which has checked everything. Names carry the entry's number:
-- another table may come to have this one's name.
-- Lock order: sync.published (SHARE ROW EXCLUSIVE), so that publishers queue.
create or replace function sync.enroll(entry sync.published) returns name
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    p sync.published := entry;
    before sync.published;
    suffix text;
begin
    lock table sync.published in share row exclusive mode;
    select * into before from sync.published as e where e.relation = p.relation;
    p.source := coalesce(before.source, nextval(pg_get_serial_sequence('sync.published', 'source')));
    select format('%I.%I', n.nspname, c.relname),
           lower(p.source || '_' || regexp_replace(left(n.nspname || '_' || c.relname, 40), '[^A-Za-z0-9_]', '_', 'g'))
    into p.published_as, suffix
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace where c.oid = p.relation;
    p.recorder := coalesce(before.recorder, 'record_' || suffix);
    p.builder := coalesce(p.builder, case when before.builder like 'sync.build\_%' then before.builder end,
                          format('sync.%I', 'build_' || suffix));
    p.id_type := sync.id_type(p.relation, p.id_column);
    p.hardest := sync.hardest(p.relation, array[p.id_column, p.user_column, p.rev_column, p.context_column] || p.columns);
    perform sync.probe(p);
    insert into sync.published (source, relation, user_column, topic, event_prefix, id_column, rev_column,
                                context_column, columns, recorder, builder, published_as, id_type, hardest)
    overriding system value
    values (p.source, p.relation, p.user_column, p.topic, p.event_prefix, p.id_column, p.rev_column,
            p.context_column, p.columns, p.recorder, p.builder, p.published_as, p.id_type, p.hardest)
    on conflict (source) do update
        set user_column = excluded.user_column, topic = excluded.topic, event_prefix = excluded.event_prefix,
            id_column = excluded.id_column, rev_column = excluded.rev_column,
            context_column = excluded.context_column, columns = excluded.columns, builder = excluded.builder,
            published_as = excluded.published_as, id_type = excluded.id_type, hardest = excluded.hardest;
    perform sync.generate_recorder(p);
    if p.builder like 'sync.build\_%' then
        perform sync.generate_builder(p);
    end if;
    perform sync.generate_drafts();
    if before.builder like 'sync.build\_%' and before.builder <> p.builder then
        execute format('drop function if exists %s(sync.change[])', before.builder);
    end if;
    -- Hubs learn of the topic at the commit, not with their next poll.
    if current_setting('sync.notify', true) is distinct from 'off' then
        perform pg_notify('sync', 'topics');
    end if;
    return p.recorder;
end
$$;
-- 35_sync_publish_changes.sql
-- sync.publish_changes: from now on every committed change of a table becomes an event on user.<user>.<topic>.
--
--     select sync.publish_changes('app.weight', 'user_id', 'weight', 'weight');
--
--   relation      a plain table; its owner (or a superuser) calls this, as a member of carillon_owner
--   user_column   whose change it is; any type, compared as text; rows with null or '' are skipped
--   topic         [a-z_]+
--   event_prefix  events are <prefix>.created, .updated, .deleted
--   id_column     must alone be unique (primary key or a plain unique index) and not null
--   rev_column    an integer that grows with each change; found by itself where it is called `rev`; 'none': there is none
--   columns       what is sent besides id and rev; by default all columns but the user's. New columns are not sent
--                 until this is called again. No two may have one camelCase name
--   builder       'schema.function' of (sync.change[]) -> setof sync.draft instead of the generated one
--   context_column  for such builders: its value before the change comes as sync.change.context; where it had several in
--                 one transaction, the others come as sync.change.contexts
--
-- Safe to run again, also with other arguments: a NOTICE then says what was replaced. Rename a table or a column it uses,
-- change the id's type: call this again. The product's own tables (schema care) are published by `carillon migrate`, and
-- refused here.
-- Lock order: sync.published, then the table (SHARE ROW EXCLUSIVE, by CREATE TRIGGER): writers wait for the moment.
create or replace function sync.publish_changes(
    relation regclass,
    user_column name,
    topic text,
    event_prefix text,
    id_column name default 'id',
    rev_column name default null,
    columns name[] default null,
    builder text default null,
    context_column name default null
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    before sync.published;
    p sync.published;
begin
    perform sync.refuse_own(relation);
    select * into before from sync.published as e where e.relation = publish_changes.relation;
    perform sync.publish(relation, user_column, topic, event_prefix, id_column, rev_column, columns, builder, context_column);
    select * into p from sync.published as e where e.relation = publish_changes.relation;
    before.published_as := p.published_as;
    before.id_type := p.id_type;
    before.hardest := p.hardest;
    if before.source is not null and before *<> p then
        raise notice '% was published already, on topic % as %.* by %; from now on it is on topic % as %.* by %',
            p.published_as, before.topic, before.event_prefix, before.builder, p.topic, p.event_prefix, p.builder;
    end if;
end
$$;

-- sync.refuse_own: refuses the product's own tables, which no one else publishes or unpublishes: actions would be applied
-- without an event. A table of an app's own in schema care that was published before stays its owner's. No locks.
create or replace function sync.refuse_own(relation regclass) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if relation in (select s.relation from sync.shipped() as s)
        or exists (select from pg_class as c where c.oid = refuse_own.relation and c.relnamespace = 'care'::regnamespace)
            and not exists (select from sync.published as e where e.relation = refuse_own.relation) then
        raise exception '% is one of the product''s own tables: carillon migrate publishes those', relation
            using errcode = 'wrong_object_type', hint = 'Publish a table of your own, in another schema.';
    end if;
end
$$;

-- sync.publish: the same as sync.publish_changes, for any table and without a word. Locks: as there.
create or replace function sync.publish(
    relation regclass,
    user_column name,
    topic text,
    event_prefix text,
    id_column name default 'id',
    rev_column name default null,
    columns name[] default null,
    builder text default null,
    context_column name default null
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    p sync.published;
    reason text;
    existing name[];
    wanted name;
    table_name text;
    table_schema name;
    table_owner oid;
    twins text;
begin
    select format('%I.%I', n.nspname, c.relname), n.nspname, c.relowner into table_name, table_schema, table_owner
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace where c.oid = relation;
    if table_name is null then
        raise exception 'there is no such table' using errcode = 'undefined_table';
    end if;
    if not pg_has_role(current_user, table_owner, 'usage') then
        raise exception 'only the owner of % may publish it', table_name using errcode = 'insufficient_privilege';
    end if;
    select u.problem into reason from sync.unpublishable(relation) as u;
    if reason is not null then
        raise exception 'cannot publish %: %', table_name, reason using errcode = 'wrong_object_type';
    end if;
    if topic is null or topic !~ '^[a-z_]{1,64}$' then
        raise exception 'topic must match [a-z_]{1,64}' using errcode = 'invalid_parameter_value';
    end if;
    if event_prefix is null or event_prefix !~ '^[A-Za-z0-9_.-]{1,64}$' then
        raise exception 'event prefix must match [A-Za-z0-9_.-]{1,64}' using errcode = 'invalid_parameter_value';
    end if;

    select array_agg(attname order by attnum) into existing
    from pg_attribute where attrelid = relation and attnum > 0 and not attisdropped;
    if rev_column is null then
        select attname into rev_column from pg_attribute
        where attrelid = relation and attname = 'rev' and not attisdropped
            and atttypid in ('bigint'::regtype, 'integer'::regtype, 'smallint'::regtype);
    elsif rev_column = 'none' and not rev_column = any(existing) then
        rev_column := null;
    end if;
    foreach wanted in array array_remove(array[user_column, id_column, rev_column, context_column] || columns, null) loop
        if not wanted = any(existing) then
            raise exception '% has no column %', table_name, quote_ident(wanted)
                using errcode = 'undefined_column',
                    hint = case when wanted = id_column then 'Name the column that identifies a row: id_column => ''…''.'
                                else format('Its columns are %s.', array_to_string(existing, ', ')) end;
        end if;
    end loop;
    if user_column is null or id_column is null then
        raise exception 'user column and id column must be named' using errcode = 'null_value_not_allowed';
    end if;
    select u.problem into reason from sync.unidentified(relation, id_column) as u;
    if reason is not null then
        raise exception 'cannot publish %: %', table_name, reason
            using errcode = 'invalid_parameter_value', hint = 'Another column may do: id_column => ''…''.';
    end if;

    select u.problem into reason from sync.unnumbered(relation, rev_column) as u;
    if reason is not null then
        raise exception 'cannot publish %: %', table_name, reason using errcode = 'invalid_parameter_value';
    end if;

    p.relation := relation;
    p.user_column := user_column;
    p.topic := topic;
    p.event_prefix := event_prefix;
    p.id_column := id_column;
    p.rev_column := rev_column;
    p.context_column := context_column;
    p.columns := coalesce(columns, array_remove(existing, user_column));
    if builder is not null then
        select format('%I.%I', n.nspname, f.proname) into p.builder
        from pg_proc as f join pg_namespace as n on n.oid = f.pronamespace
        where f.oid = to_regprocedure(builder || '(sync.change[])') and f.prorettype = 'sync.draft'::regtype and f.proretset
            and n.nspname <> 'sync';
        if p.builder is null then
            raise exception 'builder % is no function of (sync.change[]) that returns setof sync.draft, outside of schema sync',
                builder using errcode = 'undefined_function', hint = 'Write its schema too: builder => ''schema.function''.';
        end if;
    else
        select string_agg(quote_ident(name), ', ') into twins from unnest(p.columns) as name
        where name is distinct from id_column and name is distinct from rev_column
            and sync.camel(name) not in ('id', 'rev')
        group by sync.camel(name) having count(*) > 1 limit 1;
        if twins is not null then
            raise exception 'columns % of % would have one name in events', twins, table_name
                using errcode = 'duplicate_column', hint = 'Name the columns to be sent: columns => ''{…}''.';
        end if;
    end if;

    -- The flush reads the row as carillon_owner.
    if not pg_has_role('carillon_owner', table_owner, 'usage') then
        execute format('grant select on %s to carillon_owner', table_name);
        if not has_schema_privilege('carillon_owner', table_schema, 'usage') then
            execute format('grant usage on schema %I to carillon_owner', table_schema);
        end if;
    end if;
    perform sync.attach(relation, sync.enroll(p));
end
$$;
-- 36_sync_attach.sql
-- sync.triggers: the four triggers of a published table: as CREATE TRIGGER has them, and as pg_trigger does. No locks.
create or replace function sync.triggers(recorder name)
returns table(name name, event text, transition text, function name, type smallint, old_rows name, new_rows name)
language sql immutable rows 4
as $$
    values ('sync_insert'::name, 'after insert', 'referencing new table as new_rows', recorder, 4::smallint,
            null::name, 'new_rows'::name),
           ('sync_update', 'after update', 'referencing old table as old_rows new table as new_rows', recorder, 16::smallint,
            'old_rows', 'new_rows'),
           ('sync_delete', 'after delete', 'referencing old table as old_rows', recorder, 8::smallint, 'old_rows', null),
           ('sync_truncate', 'before truncate', '', 'refuse_truncate'::name, 34::smallint, null, null)
$$;

-- sync.missing_triggers: those of them that do not stand on the table as they should. ENABLE ALWAYS: a session in replica
-- role publishes too. Planned into its callers' statements. No locks.
create or replace function sync.missing_triggers(relation regclass, recorder name)
returns table(name name, event text, transition text, function name)
language sql stable rows 4
begin atomic
    select t.name, t.event, t.transition, t.function
    from sync.triggers(recorder) as t
    where not exists (
        select from pg_catalog.pg_trigger as g join pg_catalog.pg_proc as f on f.oid = g.tgfoid
        where g.tgrelid = relation and g.tgname = t.name and g.tgenabled = 'A' and g.tgtype = t.type
            and f.pronamespace = 'sync'::regnamespace and f.proname = t.function
            and g.tgoldtable is not distinct from t.old_rows and g.tgnewtable is not distinct from t.new_rows
            and g.tgqual is null and g.tgattr = ''
    );
end;

-- sync.detach: drops the table's triggers of these functions, but for those with the names that stay. Locks: the table (ACCESS
-- EXCLUSIVE), if there is one to drop.
create or replace function sync.detach(relation regclass, recorder name, staying name[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    t name;
begin
    for t in
        select g.tgname from pg_trigger as g join pg_proc as f on f.oid = g.tgfoid
        where g.tgrelid = relation and not g.tgisinternal and g.tgname <> all(staying)
            and f.pronamespace = 'sync'::regnamespace and f.proname in (recorder, 'refuse_truncate')
    loop
        execute format('drop trigger %I on %s', t, relation);
    end loop;
end
$$;

-- sync.attach: makes those triggers, as the table's owner. One that stands as it should is left alone; one that was renamed
-- goes, for it would record twice. Locks: the table (SHARE ROW EXCLUSIVE; for one that goes, ACCESS EXCLUSIVE).
create or replace function sync.attach(relation regclass, recorder name) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    t record;
begin
    perform sync.detach(relation, recorder, array(select s.name from sync.triggers(recorder) as s));
    for t in select * from sync.missing_triggers(relation, recorder) loop
        execute format('create or replace trigger %I %s on %s %s for each statement execute function sync.%I()',
                       t.name, t.event, relation, t.transition, t.function);
        execute format('alter table %s enable always trigger %I', relation, t.name);
    end loop;
end
$$;
-- 37_sync_unpublish_changes.sql
-- sync.unpublish_changes: ends what sync.publish_changes began; events already written stay. Called by the table's owner
-- as a member of carillon_owner. Lock order, as in publishing: sync.published, the table (ACCESS EXCLUSIVE), streams (sync.flush).
create or replace function sync.unpublish_changes(relation regclass) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from sync.published as p where p.relation = unpublish_changes.relation) then
        raise exception '% is not published', relation using errcode = 'undefined_object';
    end if;
    perform sync.refuse_own(relation);
    perform sync.lock_published();
    -- What this transaction has changed so far is told. The table first: its writers wait for streams.
    execute format('lock table %s in access exclusive mode', relation);
    set constraints sync.flush immediate;
    set constraints sync.flush deferred;
    perform sync.detach(relation, (select p.recorder from sync.published as p where p.relation = unpublish_changes.relation), '{}');
    perform sync.withdraw(relation);
end
$$;

-- sync.lock_published: publishers and unpublishers queue. Locks: sync.published.
create or replace function sync.lock_published() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    lock table sync.published in share row exclusive mode;
end
$$;

-- sync.withdraw: carillon_owner's half: the entry and the generated functions. Also forgets tables that have been dropped.
create or replace function sync.withdraw(target regclass) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    p sync.published;
begin
    perform sync.refuse_own(target);
    lock table sync.published in share row exclusive mode;
    for p in
        delete from sync.published
        where relation = target or not exists (select from pg_class where oid = relation)
        returning *
    loop
        execute format('drop function if exists sync.%I()', p.recorder);
        if p.builder like 'sync.build\_%' then
            execute format('drop function if exists %s(sync.change[])', p.builder);
        end if;
    end loop;
    perform sync.generate_drafts();
end
$$;
-- 38_sync_regenerate.sql
-- sync.regenerate: writes the generated functions of all published tables again, by the generators as they are now. The
-- last function file calls it. Passed over, and left to sync.check_published: tables that were dropped, and those whose
-- columns or types the generators cannot use any more. Their functions stay as they are. Lock order: sync.published.
create or replace function sync.regenerate() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    p sync.published;
begin
    lock table sync.published in share row exclusive mode;
    for p in select * from sync.published where relation in (select oid from pg_class) order by source loop
        begin
            perform sync.probe(p);
            p.id_type := sync.id_type(p.relation, p.id_column);
            perform sync.generate_recorder(p);
            if p.builder like 'sync.build\_%' then
                perform sync.generate_builder(p);
            end if;
            update sync.published as e
            set id_type = p.id_type,
                hardest = sync.hardest(p.relation, array[p.id_column, p.user_column, p.rev_column, p.context_column] || p.columns)
            where e.source = p.source;
        exception when others then
            -- A lock that could not be had, a deadlock: nothing is wrong with the table.
            if sqlstate like '40%' or sqlstate = '55P03' then
                raise;
            end if;
            raise warning 'published table % is passed over: %', p.relation, sqlerrm;
        end;
    end loop;
    perform sync.generate_drafts();
end
$$;
-- 39_sync_check_published.sql
-- sync.check_published: what keeps published tables, and what carries their events, from telling all changes; no row when
-- all is well. Hubs ask with every position check, and `migrate` at its end. In plpgsql, whose plan stays with the
-- session; the catalogs by their keys, for they may be large. Nothing that somebody drops meanwhile makes it fail.
-- Locks: none.
drop function if exists sync.check_published();
create function sync.check_published() returns table(relation text, problem text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
set jit = off
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    with entry as materialized (
        select p, p.relation as oid, c.relnamespace, c.oid is null as dropped,
               case when c.oid is null then coalesce(p.published_as, p.relation::text)
                    else format('%I.%I', n.nspname, c.relname) end as name
        from sync.published as p
        left join pg_class as c on c.oid = p.relation
        left join pg_namespace as n on n.oid = c.relnamespace
    ), renamed as materialized (
        -- `replaced`: another table has the name that this one was published as.
        select e.name, e.dropped, (e.p).published_as,
               exists (select from pg_namespace as m join pg_class as o on o.relnamespace = m.oid
                       where m.nspname = (parse_ident((e.p).published_as))[1]::name
                           and o.relname = (parse_ident((e.p).published_as))[2]::name and o.oid <> e.oid) as replaced
        from entry as e
        where e.dropped or (e.p).published_as <> e.name
    ), look as materialized (
        -- Each table's columns are read once.
        select e.p, e.oid, e.name, used.columns, coalesce(h.present, '{}') as present, h.hardest
        from entry as e
        cross join lateral (select array_remove(
            array[(e.p).user_column, (e.p).id_column, (e.p).rev_column, (e.p).context_column] || (e.p).columns, null)
        ) as used(columns)
        cross join lateral sync.hardness(e.oid, used.columns) as h
        where not e.dropped
    )
    select r.name, case when r.dropped and r.replaced
                        then 'it was dropped, and another has its name: publish that one, and then select sync.withdraw(null)'
                        when r.dropped then 'the table has been dropped: select sync.withdraw(null)'
                        when r.replaced then format('it was published as %s, which is another table now: publish that one, '
                                                    'and unpublish this one or publish it again', r.published_as)
                        else format('it was published as %s: publish it again', r.published_as) end
    from renamed as r
    union all
    select e.name, u.problem
    from entry as e cross join lateral sync.unpublishable(e.oid) as u
    where not e.dropped
    union all
    select e.name, format('trigger %s is missing, disabled or another: publish the table again', t.name)
    from entry as e cross join lateral sync.missing_triggers(e.oid, (e.p).recorder) as t
    where not e.dropped
    union all
    select e.name, 'carillon_owner may not read the table'
    from entry as e
    where not e.dropped
        and (has_table_privilege('carillon_owner', e.oid, 'select') is not true
             or has_schema_privilege('carillon_owner', e.relnamespace, 'usage') is not true)
    union all
    select l.name, format('column %I is gone: publish the table again', col)
    from look as l
    cross join lateral (select distinct unnest(l.columns) as col) as used
    where not l.columns <@ l.present and not col = any(l.present)
    union all
    select e.name, format('column %I is of type %s now: publish the table again', (e.p).id_column, t.id_type)
    from entry as e cross join lateral sync.id_types(e.oid, (e.p).id_column) as t
    where not e.dropped and t.id_type <> (e.p).id_type
    union all
    select e.name, 'its functions are of an earlier version: publish the table again'
    from entry as e
    where not e.dropped and ((e.p).id_type is null or (e.p).hardest is null)
    union all
    select l.name, 'a column has another type: publish the table again'
    from look as l
    where l.hardest > (l.p).hardest
    union all
    select l.name, u.problem
    from look as l cross join lateral sync.unidentified(l.oid, (l.p).id_column) as u
    where (l.p).id_column = any(l.present)
    union all
    select e.name, u.problem
    from entry as e cross join lateral sync.unnumbered(e.oid, (e.p).rev_column) as u
    where not e.dropped
    union all
    select e.name, format('its builder %s is gone: publish the table again', (e.p).builder)
    from entry as e
    where not e.dropped and (e.p).builder ~ '^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$'
        and not exists (select from pg_proc as f join pg_namespace as n on n.oid = f.pronamespace
                        where f.proname = split_part((e.p).builder, '.', 2) and n.nspname = split_part((e.p).builder, '.', 1))
    union all
    select s.name, case when e.p is null then 'it is not published: run carillon migrate'
                        else 'it is published otherwise than this product does: run carillon migrate' end
    from sync.shipped() as s
    left join entry as e on e.oid = s.relation
    where ((e.p).user_column, (e.p).topic, (e.p).event_prefix, (e.p).id_column, (e.p).rev_column, (e.p).builder,
           (e.p).context_column)
        is distinct from (s.user_column, s.topic, s.event_prefix, s.id_column, s.rev_column, s.builder, s.context_column)
    union all
    select 'sync.ticket', 'its trigger flush is missing, disabled or another: run carillon migrate'
    where not exists (
        select from pg_trigger as g join pg_proc as f on f.oid = g.tgfoid
        where g.tgrelid = 'sync.ticket'::regclass and g.tgname = 'flush' and g.tgenabled = 'A' and g.tgtype = 5
            and g.tginitdeferred and f.pronamespace = 'sync'::regnamespace and f.proname = 'flush')
    union all
    select format('%I.%I', n.nspname, c.relname), case
        when c.relpersistence <> 'p' then 'it is unlogged: a crash empties it: alter table … set logged'
        else 'row level security would hide its rows: alter table … disable row level security' end
    from pg_namespace as n
    join pg_depend as d on d.refclassid = 'pg_namespace'::regclass and d.refobjid = n.oid and d.classid = 'pg_class'::regclass
    join pg_class as c on c.oid = d.objid
    where n.nspname in ('sync', 'care') and c.relkind = 'r'
        and (c.relpersistence <> 'p' and c.relname not in ('touched', 'ticket') or c.relrowsecurity and sync.secured(c.relowner, c.relforcerowsecurity));
end
$$;
-- 40_sync_lineage.sql
-- sync.timeline and sync.lineage: '<system identifier in hex>.<timeline>', the part of every epoch shown to clients that changes by itself
-- when the database is another or was promoted with a loss. The timeline of the running server, not that of its last
-- checkpoint, which lags behind a promotion. No locks.
--
-- Both in plpgsql, whose plans stay with the session: a function in SQL that cannot be inlined is parsed and planned in
-- every transaction. A lineage is read from a file and changes only with a restart or a promotion: past recovery, a session
-- keeps it in its setting sync.lineage.
create or replace function sync.timeline() returns int
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_is_in_recovery() then
        return (select timeline_id from pg_control_checkpoint());
    end if;
    return ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int;
end
$$;

create or replace function sync.lineage() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    lineage text := nullif(current_setting('sync.lineage', true), '');
begin
    if lineage is null then
        select to_hex(system_identifier) || '.' || sync.timeline() into lineage from pg_control_system();
        if not pg_is_in_recovery() then
            perform set_config('sync.lineage', lineage, false);
        end if;
    end if;
    return lineage;
end
$$;
-- 41_sync_tail.sql
-- sync.tail: exactly the events that became visible since the snapshot `prev`, in pages ordered by (user_id, topic, o),
-- and the snapshot of this very statement, to be the next `prev` (of a read in pages: that of the first page). Always at
-- least one row: where there are no events, one with nulls. `epoch`: of sync.meta, which changes when all streams begin
-- anew. `age`: microseconds by this server's clock since the event was
-- written, at the end of its transaction. `after_user` null: from the start. STABLE: it sees the
-- caller's snapshot, so the two belong together. No locks.
--
-- For hubs of earlier versions, which go on while the schema is newer than they are: later ones read sync.news, for each page
-- here looks at all that is new.
--
-- In plpgsql, whose plan stays with the session: planning this in each call cost three times as much as running it.
-- Collation "C" by the table's columns. OFFSET 0 keeps the planner from walking the primary key in order and filtering:
-- it must come in by event_xid, whatever it guesses about `prev`.
drop function if exists sync.tail(pg_snapshot, text, text, bigint, int);
create function sync.tail(prev pg_snapshot, after_user text, after_topic text, after_o bigint, page int)
returns table(snapshot pg_snapshot, epoch text, user_id text, topic text, o bigint, name text, data text, age bigint)
language plpgsql stable security definer rows 100
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    select pg_current_snapshot(), (select m.epoch from sync.meta as m), e.user_id, e.topic, e.o, e.name, e.data::text,
           (date_part('epoch', clock_timestamp() - e.created_at) * 1e6)::bigint
    from (select) as always
    left join (
        select new.user_id, new.topic, new.o
        from (
            select e.user_id, e.topic, e.o
            from sync.event as e
            where e.xid >= pg_snapshot_xmax(prev) or e.xid = any(array(select pg_snapshot_xip(prev)))
            offset 0
        ) as new
        where after_user is null or (new.user_id, new.topic, new.o) > (after_user, after_topic, after_o)
        order by new.user_id, new.topic, new.o
        limit page
    ) as k on true
    left join sync.event as e on e.user_id = k.user_id and e.topic = k.topic and e.o = k.o
    order by k.user_id, k.topic, k.o;
end
$$;
-- 42_sync_positions.sql
-- sync.positions: where streams stand: one row for each pair asked, in their order. A stream without events yet is at 0. All
-- are in the epoch of sync.meta. One snapshot; the lineage is asked once. No locks.
drop function if exists sync.positions(text[], text[]);
create function sync.positions(user_ids text[], topics text[])
returns table(user_id text, topic text, epoch text, top bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
    with l as materialized (select sync.lineage() as lineage)
    select asked.user_id, asked.topic, m.epoch || '.' || l.lineage, coalesce(s.top, 0)
    from unnest(user_ids, topics) with ordinality as asked(user_id, topic, place)
    cross join (select epoch from sync.meta) as m
    cross join l
    left join sync.stream as s on s.user_id = asked.user_id and s.topic = asked.topic
    order by asked.place
$$;
-- 43_sync_replay.sql
-- sync.replay: a stream's events after an offset, in order, at most `page` of them. No locks.
drop function if exists sync.replay(text, text, bigint, int);
create function sync.replay(user_id text, topic text, after_o bigint, page int)
returns table(o bigint, name text, data text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
    select e.o, e.name, e.data::text
    from sync.event as e
    where e.user_id = replay.user_id and e.topic = replay.topic and e.o > after_o
    order by e.o
    limit page
$$;
-- 44_sync_hub_hello.sql
-- sync.hub_hello: what a hub asks first on each connection. No locks.
drop function if exists sync.hub_hello();
create function sync.hub_hello()
returns table(snapshot pg_snapshot, schema_version int, system_identifier text, timeline int, in_recovery boolean,
              database text, epoch text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select pg_current_snapshot(), coalesce((select max(version) from sync.migration), 0), c.system_identifier::text,
           sync.timeline(), pg_is_in_recovery(), current_database()::text, (select m.epoch from sync.meta as m)
    from pg_control_system() as c
$$;
-- 45_sync_new_epoch.sql
-- sync.lineage_here: what tells this database from any other that once was the same, the two restores of one backup among them:
--
--   system identifier   another cluster, which a dump was restored into
--   timeline            a standby was promoted, or files were restored and recovered up to some moment
--   oid                 the database was copied (CREATE DATABASE … TEMPLATE)
--   xmin of sync.meta   the row was written by a dump's restore, which cannot bring back the transaction that it names
--
-- Two recoveries from one backup both make timeline 2, and both find timeline 1 in sync.meta: each takes an epoch of its own.
-- Files put back as they were, on the same timeline, cannot be told from a crash: that takes `carillon migrate --new-epoch`.
-- Not by sync.lineage, which a session may have kept. No locks.
create or replace function sync.lineage_here(meta_xmin xid) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select concat_ws('.', to_hex(c.system_identifier), sync.timeline(), d.oid, meta_xmin)
        from pg_control_system() as c, pg_database as d
        where d.datname = current_database());
end
$$;

-- sync.new_epoch: every client must fetch anew (`carillon migrate --new-epoch`: for restores that cannot be seen). Hubs see it
-- with their next read of the tail, which is at once. One row is written, however many streams there are: an event that
-- is being numbered meanwhile is in the new epoch too, and offsets go on. It is written twice, for the lineage names the
-- transaction that writes it, or the subtransaction, whose id only the row tells. Lock order: sync.meta.
create or replace function sync.new_epoch() returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    fresh text := substr(md5(gen_random_uuid()::text), 1, 8);
begin
    update sync.meta set epoch = fresh;
    update sync.meta as m set lineage = sync.lineage_here(m.xmin);
    if current_setting('sync.notify', true) is distinct from 'off' then
        perform pg_notify('sync', '');
    end if;
    return fresh;
end
$$;

-- sync.repair_after_restore: a hub calls it before its first tail. A database that is another than when it was called last
-- (sync.lineage_here) begins a new epoch, which the server's log tells. A dump restored into another cluster brings events
-- and revocations whose transaction ids this cluster has not reached; the tail would show them again and again. They get
-- id 0, which is never new, and the epoch rotates. Returns how many there were; 0 is the usual answer. On a standby nothing is
-- done; its promotion is seen by the hub that connects after it.
--
-- Two hubs at once: the second waits for the row of sync.meta, and finds what the first has left.
-- Lock order: sync.meta, sync.event, sync.revocation.
create or replace function sync.repair_after_restore() returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    repaired bigint;
    revocations bigint;
begin
    if pg_is_in_recovery()
        or exists (select from sync.meta as m where m.lineage = sync.lineage_here(m.xmin))
            and not exists (select from sync.event where xid >= pg_snapshot_xmax(pg_current_snapshot()))
            and not exists (select from sync.revocation where xid >= pg_snapshot_xmax(pg_current_snapshot())) then
        return 0;
    end if;
    perform from sync.meta for update;
    update sync.event set xid = '0' where xid >= pg_snapshot_xmax(pg_current_snapshot());
    get diagnostics repaired = row_count;
    update sync.revocation set xid = '0' where xid >= pg_snapshot_xmax(pg_current_snapshot());
    get diagnostics revocations = row_count;
    repaired := repaired + revocations;
    if repaired > 0 or not exists (select from sync.meta as m where m.lineage = sync.lineage_here(m.xmin)) then
        perform sync.new_epoch();
        raise log 'this database was restored, copied or promoted: Carillon''s positions begin a new epoch';
    end if;
    return repaired;
end
$$;
-- 46_sync_retain.sql
-- sync.retain: deletes at most `batch` events older than `days` days, oldest transactions first (no further index
-- needed), and at most `batch` actions and as many revocations written over 90 days ago; returns the largest number. Call
-- until it returns less than `batch`. Locks: the rows it deletes, those nobody else has.
create or replace function sync.retain(days int, batch int) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    events bigint;
    actions bigint;
    revocations bigint;
begin
    if days < 1 or batch < 1 then
        raise exception 'days and batch must be positive' using errcode = 'invalid_parameter_value';
    end if;
    delete from sync.event as e
    using (
        select user_id, topic, o, created_at from sync.event order by xid limit batch
    ) as oldest
    where e.user_id = oldest.user_id and e.topic = oldest.topic and e.o = oldest.o
        and oldest.created_at < now() - make_interval(days => days);
    get diagnostics events = row_count;
    delete from sync.action as a
    using (
        select user_id, key from sync.action where created_at < (select sync.clock()) - interval '90 days'
        order by created_at limit batch
    ) as oldest
    where a.user_id = oldest.user_id and a.key = oldest.key;
    get diagnostics actions = row_count;
    delete from sync.revocation as r
    using (
        select user_id from sync.revocation where written_at < (select sync.clock()) - interval '90 days'
        order by written_at limit batch
    ) as oldest
    where r.user_id = oldest.user_id and r.written_at < (select sync.clock()) - interval '90 days';
    get diagnostics revocations = row_count;
    return greatest(events, actions, revocations);
end
$$;
-- 47_sync_read_log.sql
-- sync.read_log: where a stream stands and its events above `after_o` up to `up_to`, in order, in ONE snapshot, so that
-- events of another epoch are known for what they are. At most `page` events, and none after the one that reaches `bytes`
-- bytes of data. Always at least one row: where there are no events, one with nulls. Where the log does not reach back,
-- the first event is not the one after `after_o`. STABLE: it sees the caller's snapshot. No locks.
drop function if exists sync.read_log(text, text, bigint, bigint, int, int);
create function sync.read_log(user_id text, topic text, after_o bigint, up_to bigint, page int, bytes int)
returns table(epoch text, top bigint, o bigint, name text, data text)
language plpgsql stable security definer rows 100
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    kept record;
    read bigint := 0;
begin
    select m.epoch || '.' || sync.lineage(), coalesce(s.top, 0) into strict epoch, top
    from sync.meta as m
    left join sync.stream as s on s.user_id = read_log.user_id and s.topic = read_log.topic;
    for kept in
        select e.o, e.name, e.data
        from sync.event as e
        where e.user_id = read_log.user_id and e.topic = read_log.topic and e.o > after_o and e.o <= up_to
        order by e.o
        limit page
    loop
        -- Rows are fetched ahead as they are stored; what is large is unpacked here alone.
        o := kept.o;
        name := kept.name;
        data := kept.data::text;
        return next;
        read := read + octet_length(data);
        exit when read >= bytes;
    end loop;
    if o is null then
        return next;
    end if;
end
$$;
-- 48_sync_revoke.sql
-- sync.revoke: ends a user's access for whatever was issued before `before`: open connections are closed within the hubs'
-- poll interval and a second, and older tokens are refused. For backends: grant execute to their role. The greatest
-- `before` stands, and is returned. Refused (22023): no user, no time, one more than a day ahead, for it cannot be taken
-- back. Lock order: the user's row of sync.revocation.
create or replace function sync.revoke(user_id text, before timestamptz default clock_timestamp()) returns timestamptz
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    standing timestamptz;
begin
    if coalesce(revoke.user_id, '') = '' or revoke.before is null or not isfinite(revoke.before)
        or revoke.before > clock_timestamp() + interval '1 day' then
        raise exception 'a user and a time, at most a day ahead, must be given' using errcode = 'invalid_parameter_value';
    end if;
    perform sync.raise_commit();
    insert into sync.revocation as r (user_id, before, written_at) values (revoke.user_id, revoke.before, sync.clock())
    on conflict (user_id) do update
        set before = excluded.before, xid = pg_current_xact_id(), written_at = excluded.written_at
        where excluded.before > r.before;
    if found and current_setting('sync.notify', true) is distinct from 'off' then
        perform pg_notify('sync', '');
    end if;
    select r.before into standing from sync.revocation as r where r.user_id = revoke.user_id;
    return standing;
end
$$;

-- sync.revocations: the revocations that became visible since the snapshot `prev`, all of them where it is null, in pages
-- ordered by user, and the snapshot of this very statement, to be the next `prev` (of a read in pages: that of the first
-- page). `before` in microseconds since 1970. Always at least one row: where there are none, one with nulls. STABLE: it
-- sees the caller's snapshot. No locks.
drop function if exists sync.revocations(pg_snapshot, text, int);
create function sync.revocations(prev pg_snapshot, after_user text, page int)
returns table(snapshot pg_snapshot, user_id text, before bigint)
language plpgsql stable security definer rows 100
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    if prev is null then
        return query
        select pg_current_snapshot(), k.user_id, (extract(epoch from k.before) * 1000000)::bigint
        from (select) as always
        left join (
            select r.user_id, r.before from sync.revocation as r
            where r.user_id > coalesce(after_user, '')
            order by r.user_id
            limit page
        ) as k on true
        order by k.user_id;
    else
        return query
        select pg_current_snapshot(), k.user_id, (extract(epoch from k.before) * 1000000)::bigint
        from (select) as always
        left join (
            select new.user_id, new.before
            from (
                select r.user_id, r.before from sync.revocation as r
                where r.xid >= pg_snapshot_xmax(prev) or r.xid = any(array(select pg_snapshot_xip(prev)))
                offset 0
            ) as new
            where new.user_id > coalesce(after_user, '')
            order by new.user_id
            limit page
        ) as k on true
        order by k.user_id;
    end if;
end
$$;
-- 49_sync_bulk.sql
-- sync.news: exactly the events that became visible since the snapshot `prev`, ordered by (user_id, topic, o), and the
-- snapshot of this very statement, to be the next `prev`. Always at least one row: where there are no events, one with
-- nulls. Where there are more than `page`, one with nulls but for `o`, which is more than `page`: they are for sync.open_bulk, and
-- finding that out looks at no more than twice as many of them. `epoch` and `age` as in sync.tail. STABLE: it sees the
-- caller's snapshot, so the two belong together. No locks.
--
-- In plpgsql, as sync.tail. Bitmaps would look at all that is new before the limit holds. Transactions that are still
-- running are left out by their numbers: a large one that is about to commit costs no look at its rows with each call.
drop function if exists sync.news(pg_snapshot, int);
create function sync.news(prev pg_snapshot, page int)
returns table(snapshot pg_snapshot, epoch text, user_id text, topic text, o bigint, name text, data text, age bigint)
language plpgsql stable security definer rows 100
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    with new as materialized (
        (
            select e.user_id, e.topic, e.o
            from sync.event as e
            where e.xid >= pg_snapshot_xmax(prev)
            limit page + 1
        )
        union all
        (
            select e.user_id, e.topic, e.o
            from sync.event as e
            where e.xid = any(array(
                select x from pg_snapshot_xip(prev) as x where pg_visible_in_snapshot(x, pg_current_snapshot())))
            limit page + 1
        )
    )
    select pg_current_snapshot(), (select m.epoch from sync.meta as m), e.user_id, e.topic, coalesce(e.o, many.n), e.name,
           e.data::text, (date_part('epoch', clock_timestamp() - e.created_at) * 1e6)::bigint
    from (select case when count(*) > page then count(*) end as n from new) as many
    left join new as k on many.n is null
    left join sync.event as e on e.user_id = k.user_id and e.topic = k.topic and e.o = k.o
    order by k.user_id, k.topic, k.o;
end
$$;

-- sync.open_bulk: opens the cursor `bulk` on the events that became visible between the snapshots `prev` and `upto`: user_id, topic, o,
-- name, data, age, in the order of the first three. Returns the epoch of sync.meta. To be called in a transaction of
-- REPEATABLE READ, so that both are of one snapshot, on the server that gave `prev` and `upto`. No locks.
--
-- However many they are, they are found and sorted once; joins are nested loops, or the plan for an unknown number of
-- events would walk the whole log.
drop function if exists sync.open_bulk(pg_snapshot, pg_snapshot);
create function sync.open_bulk(prev pg_snapshot, upto pg_snapshot) returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set cursor_tuple_fraction = 1
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    bulk refcursor := 'bulk';
    epoch text;
begin
    select m.epoch into strict epoch from sync.meta as m;
    open bulk no scroll for
        select e.user_id, e.topic, e.o, e.name, e.data::text as data,
               (date_part('epoch', clock_timestamp() - e.created_at) * 1e6)::bigint as age
        from (
            select new.user_id, new.topic, new.o
            from (
                select e.user_id, e.topic, e.o
                from sync.event as e
                where e.xid >= pg_snapshot_xmax(prev) and e.xid < pg_snapshot_xmax(upto)
                    and pg_visible_in_snapshot(e.xid, upto)
                union all
                select e.user_id, e.topic, e.o
                from sync.event as e
                where e.xid = any(array(
                    select x from pg_snapshot_xip(prev) as x where pg_visible_in_snapshot(x, upto)))
                offset 0
            ) as new
            order by new.user_id, new.topic, new.o
            offset 0
        ) as k
        join sync.event as e on e.user_id = k.user_id and e.topic = k.topic and e.o = k.o
        order by k.user_id, k.topic, k.o;
    return epoch;
end
$$;
-- 50_care_zone.sql
-- Zones and local times. Bodies in BEGIN ATOMIC are bound when created, and inlined into the plans that use them.
-- No locks.

-- care.zone_of: the user's zone; UTC where there are no settings.
create or replace function care.zone_of(who text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce((select zone from care.user_settings where user_id = who), 'UTC')
$$;

-- care.utc_offset: a zone's offset at an instant.
create or replace function care.utc_offset(at timestamptz, zone text) returns interval
language sql stable parallel safe
begin atomic
    select (at at time zone zone) - (at at time zone 'UTC');
end;

-- care.local_iso: an instant as wall time in a zone, with its offset: 2025-11-14T08:00:00-05:00.
create or replace function care.local_iso(at timestamptz, zone text) returns text
language sql stable parallel safe
begin atomic
    select to_char(at at time zone zone, 'YYYY-MM-DD"T"HH24:MI:SS')
        || case when care.utc_offset(at, zone) < interval '0' then '-' else '+' end
        || to_char(greatest(care.utc_offset(at, zone), -care.utc_offset(at, zone)), 'HH24:MI');
end;

-- care.resolve_local: the instant of a wall time, by RFC 5545 §3.3.5 and Temporal's "compatible": in a gap the offset
-- before it (02:30 becomes 03:30), in an overlap the first of the two. PostgreSQL's own AT TIME ZONE takes the second.
-- The offsets in question are those a day before and a day after.
create or replace function care.resolve_local(wall timestamp, zone text) returns timestamptz
language sql stable parallel safe
begin atomic
    select case when (earlier at time zone zone) = wall then earlier
                when (later at time zone zone) = wall then later
                else earlier end
    from (select (wall at time zone 'UTC') as u) as t
    cross join lateral (
        select u - care.utc_offset(u - interval '24 hours', zone) as earlier,
               u - care.utc_offset(u + interval '24 hours', zone) as later
    ) as candidates;
end;
-- 51_care_occurrence_id.sql
-- care.occurrence_id: UUIDv5 of a rule and the local date-time it gave, so that server and offline devices make the same
-- id. Namespace: the rule's id where it is a UUID; else the UUIDv5 of that id in Carillon's namespace. Name: the local
-- time as 2025-11-14T08:00, and for items of a stack '/' and the product. No locks.
-- pgcrypto may have been installed by someone else in another schema: the functions are written for where it is.
do $do$
begin
    execute format($generator$
create or replace function care.uuid5(namespace uuid, name text) returns uuid
language sql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select encode(set_byte(set_byte(h, 6, (get_byte(h, 6) & 15) | 80), 8, (get_byte(h, 8) & 63) | 128), 'hex')::uuid
    from (select substr(%I.digest(uuid_send(namespace) || convert_to(name, 'UTF8'), 'sha1'), 1, 16)) as t(h)
$$
$generator$, (select n.nspname from pg_extension as e join pg_namespace as n on n.oid = e.extnamespace
              where e.extname = 'pgcrypto'));
end
$do$;

create or replace function care.occurrence_id(rule_id text, local timestamp, item text default null) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select care.uuid5(
        case when rule_id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then rule_id::uuid
             else care.uuid5('8a9e3b52-6a43-5d0c-9f4e-1c7f5be0ca21', rule_id) end,
        to_char(local, 'YYYY-MM-DD"T"HH24:MI') || coalesce('/' || item, ''))::text
$$;
-- 52_care_before_write.sql
-- What rows get when they are written; 59_care_triggers.sql says which. SECURITY DEFINER where a writer may lack rights on
-- the tables read. No locks but those named.

-- care.bump_rev: rev + 1 and updated_at, if anything changed. A rev that the writer raised is left alone.
create or replace function care.bump_rev() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if new *<> old then
        if new.rev is null or new.rev <= old.rev then
            new.rev := old.rev + 1;
        end if;
        new.updated_at := sync.clock();
    end if;
    return new;
end
$$;

-- care.bump_dose: the same for doses, with what actions go by: the rev with which (status, taken_at, reason) came, the
-- one with which the note came, and the key and device of the action that changed the row (null: no action). Nobody
-- else writes these columns.
create or replace function care.bump_dose() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    new.status_rev := old.status_rev;
    new.note_rev := old.note_rev;
    new.changed_key := old.changed_key;
    new.changed_device := old.changed_device;
    if new *<> old then
        if new.rev is null or new.rev <= old.rev then
            new.rev := old.rev + 1;
        end if;
        new.updated_at := sync.clock();
        if (new.status, new.taken_at, new.reason) is distinct from (old.status, old.taken_at, old.reason) then
            new.status_rev := new.rev;
        end if;
        if new.note is distinct from old.note then
            new.note_rev := new.rev;
        end if;
        new.changed_key := nullif(current_setting('sync.key', true), '');
        new.changed_device := nullif(current_setting('sync.device', true), '');
    end if;
    return new;
end
$$;

-- care.complete_dose: day, time and zone of a new dose from its instant in the user's zone; its window: four hours.
-- Never derived again: a moved dose keeps its day unless the writer moves that too.
create or replace function care.complete_dose() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    wall timestamp;
begin
    new.tz := coalesce(new.tz, care.zone_of(new.user_id));
    wall := new.scheduled_at at time zone new.tz;
    new.local_date := coalesce(new.local_date, wall::date);
    new.local_time := coalesce(new.local_time, wall::time);
    new.window_end := coalesce(new.window_end, new.scheduled_at + interval '4 hours');
    new.status_rev := new.rev;
    new.note_rev := new.rev;
    new.changed_key := nullif(current_setting('sync.key', true), '');
    new.changed_device := nullif(current_setting('sync.device', true), '');
    return new;
end
$$;

-- care.complete_reminder: a rule's zone is the user's where the writer names none.
create or replace function care.complete_reminder() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    new.timezone := coalesce(new.timezone, care.zone_of(new.user_id));
    return new;
end
$$;

-- care.complete_reminder_occurrence: id from the rule, and always its user. KEY SHARE waits for a transaction that
-- moves the rule to another user, and makes a later one wait: that one then sees this row. Lock order: care.reminder_rule.
create or replace function care.complete_reminder_occurrence() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    owner text;
begin
    new.id := coalesce(new.id, care.occurrence_id(new.rule_id, new.original_local));
    select user_id into owner from care.reminder_rule where id = new.rule_id for key share;
    new.user_id := coalesce(owner, new.user_id);
    return new;
end
$$;

-- care.move_reminder: a rule that changes owner takes its occurrences along. Lock order: the rule, then
-- care.reminder_occurrence.
create or replace function care.move_reminder() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update care.reminder_occurrence set user_id = new.user_id where rule_id = new.id and user_id <> new.user_id;
    return null;
end
$$;

-- care.forget_notes: a dose that was deleted leaves no notes behind. Lock order: care.dose_note.
create or replace function care.forget_notes() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from care.dose_note as n using gone where n.user_id = gone.user_id and n.occurrence_id = gone.id;
    return null;
end
$$;

-- care.leave_notes: a dose that changes owner takes none along either. Lock order: care.dose_note.
create or replace function care.leave_notes() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if (new.user_id, new.id) is distinct from (old.user_id, old.id) then
        delete from care.dose_note as n where n.user_id = old.user_id and n.occurrence_id = old.id;
    end if;
    return null;
end
$$;

-- care.check_zone: a zone that PostgreSQL does not know is refused when written, not when an event is built. The column
-- is the trigger's argument.
create or replace function care.check_zone() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform now() at time zone (to_jsonb(new) ->> tg_argv[0]);
    return new;
end
$$;

-- care.follow_zone: rules whose tz_mode is follow move with their user. Lock order: care.reminder_rule by id.
create or replace function care.follow_zone() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from care.reminder_rule where user_id = new.user_id and tz_mode = 'follow' order by id for update;
    update care.reminder_rule set timezone = new.zone
    where user_id = new.user_id and tz_mode = 'follow' and timezone <> new.zone;
    return null;
end
$$;
-- 53_care_next_occurrences.sql
-- care.repeats_on: whether a rule that repeats so fires on a day. ISO weekdays: 1 = Monday … 7 = Sunday. No locks.
create or replace function care.repeats_on(repeat text, repeat_on smallint[], day date) returns boolean
language sql immutable parallel safe
as $$
    select case repeat when 'daily' then true
                       when 'weekdays' then extract(isodow from day) < 6
                       else coalesce(extract(isodow from day)::smallint = any(repeat_on), false) end
$$;

-- care.next_occurrences: the next `wanted` times (at most 30) a rule fires after `since`, in order: wall time in the
-- rule's zone, exceptions applied (cancelled left out, moved where they were moved to). A disabled rule has none. A day
-- that a zone skipped (Apia, 2011-12-30) gives no second event on the next. No locks.
create or replace function care.next_occurrences(rule care.reminder_rule, since timestamptz, wanted int default 10)
returns setof timestamptz
language plpgsql stable
as $$
declare
    first_day date := (since at time zone rule.timezone)::date - 1;
    per_week int := case rule.repeat when 'daily' then 7 when 'weekdays' then 5
                                     else (select count(distinct d) from unnest(rule.repeat_on) as d) end;
    exceptions int;
    days int;
begin
    wanted := least(wanted, 30);
    if not rule.enabled or per_week = 0 then
        return;
    end if;
    select count(*) into exceptions from (
        select from care.reminder_occurrence as x
        where x.rule_id = rule.id and x.original_local >= first_day
        limit 366
    ) as them;
    days := ((wanted + exceptions) * 7 + per_week - 1) / per_week + 9;
    return query
    select distinct at from (
        select coalesce(x.moved_to, care.resolve_local(wall, rule.timezone)) as at
        from generate_series(0, days) as n
        cross join lateral (select first_day + n + rule.time as wall) as w
        left join care.reminder_occurrence as x on x.rule_id = rule.id and x.original_local = wall
            -- The same days once more, so that a plan that reads the rule's exceptions at once leaves out the past.
            and x.original_local >= first_day and x.original_local < first_day + days + 1
        where care.repeats_on(rule.repeat, rule.repeat_on, first_day + n) and x.status is distinct from 'cancelled'
    ) as times
    where at > since
    order by at
    limit wanted;
end
$$;
-- 54_care_count_day.sql
-- Days: their counts, and the streaks that these make. A flush counts all its days, then carries the streaks of each user
-- through them once.

-- care.run_after: the streak that ends with a day, from the one before it. A perfect day (something taken or made up,
-- nothing missed, nothing open) adds one, a day with nothing to judge is passed over, any other ends it. No locks.
create or replace function care.run_after(run_before int, s care.day_summary) returns int
language plpgsql
as $$
begin
    if s.missed_count > 0 or s.pending_count > 0 then
        return 0;
    elsif s.taken_count + s.made_up_count > 0 then
        return coalesce(run_before, 0) + 1;
    end if;
    return coalesce(run_before, 0);
end
$$;

-- care.carry_runs: takes changed streaks to the days after `first_day`, up to the first one after `last_day` that they leave
-- as it is; returns `who`. Between both any day may have been counted anew, come or gone; that of `first_day` has its
-- streak. Only rows that change are written, by one UPDATE. `first_day` null: nothing to do. Lock order: day summaries,
-- under the lock of the user's stream.
create or replace function care.carry_runs(who text, first_day date, last_day date) returns text
language plpgsql
as $$
declare
    s care.day_summary;
    run int;
    best int;
    days date[];
    runs int[];
    bests int[];
begin
    if first_day is null then
        return who;
    end if;
    select d.run, d.best into run, best from care.day_summary as d
    where d.user_id = who and d.date <= first_day order by d.date desc limit 1;
    best := coalesce(best, 0);
    for s in select * from care.day_summary as d where d.user_id = who and d.date > first_day order by d.date loop
        run := care.run_after(run, s);
        best := greatest(best, run);
        if s.run <> run or s.best <> best then
            days := days || s.date;
            runs := runs || run;
            bests := bests || best;
        else
            exit when s.date > last_day;
        end if;
    end loop;
    if days is not null then
        update care.day_summary as d set run = c.run, best = c.best
        from unnest(days, runs, bests) as c(date, run, best)
        where d.user_id = who and d.date = c.date;
    end if;
    return who;
end
$$;

-- care.keep_day: writes the summary of a day that turned, with its streak after the day before it, or takes it away where no
-- dose is left. Lock order: the day's summary, under the lock of the user's stream.
create or replace function care.keep_day(s care.day_summary, present boolean, clock timestamptz) returns void
language plpgsql
as $$
declare
    before care.day_summary;
begin
    if not present then
        delete from care.day_summary as d where d.user_id = s.user_id and d.date = s.date;
        return;
    end if;
    select * into before from care.day_summary as d
    where d.user_id = s.user_id and d.date < s.date order by d.date desc limit 1;
    s.run := care.run_after(before.run, s);
    s.best := greatest(before.best, s.run);
    insert into care.day_summary as d (user_id, date, scheduled_count, taken_count, missed_count, made_up_count,
                                       skipped_count, pending_count, adherence_pct, on_time_pct, updated_at, run, best)
    values (s.user_id, s.date, s.scheduled_count, s.taken_count, s.missed_count, s.made_up_count, s.skipped_count,
            s.pending_count, s.adherence_pct, s.on_time_pct, clock, s.run, s.best)
    on conflict (user_id, date) do update
        set scheduled_count = excluded.scheduled_count, taken_count = excluded.taken_count,
            missed_count = excluded.missed_count, made_up_count = excluded.made_up_count,
            skipped_count = excluded.skipped_count, pending_count = excluded.pending_count,
            adherence_pct = excluded.adherence_pct, on_time_pct = excluded.on_time_pct,
            updated_at = excluded.updated_at, run = excluded.run, best = excluded.best;
end
$$;

-- care.summary_json: a day's summary as events and snapshots show it. No locks.
create or replace function care.summary_json(s care.day_summary) returns jsonb
language plpgsql stable
as $$
begin
    return jsonb_build_object(
        'date', to_char(s.date, 'YYYY-MM-DD'), 'scheduledCount', s.scheduled_count, 'takenCount', s.taken_count,
        'missedCount', s.missed_count, 'madeUpCount', s.made_up_count, 'skippedCount', s.skipped_count,
        'pendingCount', s.pending_count, 'adherencePct', s.adherence_pct, 'onTimePct', s.on_time_pct);
end
$$;

-- care.judged: a summary with the percentages of its counts, `ended` of its pending doses being due. No locks.
--
-- The one rule of percentages: they are of the doses due, which are taken, missed, made up, and pending with a window that has
-- ended by the clock of who shows them: an event's, of its commit; a snapshot's, of its reading. Null when nothing is due.
create or replace function care.judged(s care.day_summary, ended bigint) returns care.day_summary
language plpgsql immutable
as $$
declare
    due constant bigint := nullif(s.taken_count + s.missed_count + s.made_up_count + ended, 0);
begin
    s.adherence_pct := round(100.0 * (s.taken_count + s.made_up_count) / due, 1);
    s.on_time_pct := round(100.0 * s.taken_count / due, 1);
    return s;
end
$$;

-- care.count_day: counts a user's day, stores the counts in care.day_summary, and returns them as clients get them. `turned`:
-- the day is another for the streak than it was, and care.carry_runs is to follow. Called by the builder only, under the
-- lock of the user's stream. Lock order: the day's summary, after the stream.
--
-- A day counts all its doses but the cancelled: scheduled = taken + missed + made_up + skipped + pending. Percentages by
-- care.judged at `clock`, the time of the flush. Those that are stored are good later only where nothing is pending:
-- who shows them reads care.day_shown.
create or replace function care.count_day(who text, day date, clock timestamptz, out summary jsonb, out turned boolean)
language plpgsql
as $$
declare
    s care.day_summary;
    doses bigint;
    ended bigint;
begin
    select count(*),
           count(*) filter (where d.status <> 'cancelled'),
           count(*) filter (where d.status = 'taken'),
           count(*) filter (where d.status = 'missed'),
           count(*) filter (where d.status = 'made_up'),
           count(*) filter (where d.status = 'skipped'),
           count(*) filter (where d.status = 'scheduled'),
           count(*) filter (where d.status = 'scheduled' and d.window_end <= clock)
    into doses, s.scheduled_count, s.taken_count, s.missed_count, s.made_up_count, s.skipped_count, s.pending_count, ended
    from care.dose_occurrence as d
    where d.user_id = who and d.local_date = day;
    s := care.judged(s, ended);
    -- Nobody else writes this row meanwhile. The usual change leaves the day as good or bad for the streak as it was.
    s.user_id := who;
    s.date := day;
    update care.day_summary as d
    set scheduled_count = s.scheduled_count, taken_count = s.taken_count, missed_count = s.missed_count,
        made_up_count = s.made_up_count, skipped_count = s.skipped_count, pending_count = s.pending_count,
        adherence_pct = s.adherence_pct, on_time_pct = s.on_time_pct, updated_at = clock
    where d.user_id = who and d.date = day and doses > 0
        and (d.missed_count + d.pending_count > 0) = (s.missed_count + s.pending_count > 0)
        and (d.taken_count + d.made_up_count > 0) = (s.taken_count + s.made_up_count > 0);
    turned := not found;
    if turned then
        perform care.keep_day(s, doses > 0, clock);
    end if;
    summary := care.summary_json(s);
end
$$;
drop function if exists care.sum_day(text, date, timestamptz);
drop function if exists care.carry_run(text, date, int, int);
-- 55_care_occurrence_events.sql
-- care.dose_state: a dose as events show it. The text of its note is not in it: hasNote is. No locks.
create or replace function care.dose_state(o care.dose_occurrence) returns jsonb
language plpgsql stable
as $$
declare
    product_name text;
begin
    if o.product_id is not null then
        select p.name into product_name from care.product as p
        where p.id = o.product_id and (p.user_id is null or p.user_id = o.user_id);
    end if;
    return jsonb_build_object(
        'scheduleId', o.schedule_id, 'productId', o.product_id, 'productName', product_name, 'status', o.status,
        'takenAt', o.taken_at, 'hasNote', coalesce(o.note, '') <> '', 'rev', o.rev, 'scheduledAt', o.scheduled_at,
        'timeLocal', care.local_iso(o.scheduled_at, o.tz), 'timezone', o.tz,
        'localDate', to_char(o.local_date, 'YYYY-MM-DD'), 'windowStart', o.window_start, 'windowEnd', o.window_end,
        'createdAt', o.created_at, 'updatedAt', o.updated_at);
end
$$;

-- care.dose_json: a dose as answers to its own user show it: what events show, and its texts. No locks.
create or replace function care.dose_json(o care.dose_occurrence) returns jsonb
language plpgsql stable
as $$
begin
    return care.dose_state(o) || jsonb_build_object(
        'id', o.id, 'userId', o.user_id, 'reason', o.reason, 'note', o.note);
end
$$;

-- care.occurrence_event: the event of one dose for one user, with all its state. `o` all null: the user has it no more.
-- The text of a note never leaves the table: hasNote does. No locks.
create or replace function care.occurrence_event(c sync.change, o care.dose_occurrence, summary jsonb)
returns sync.draft
language plpgsql
as $$
declare
    updates jsonb;
    body jsonb;
begin
    if o.id is null then
        updates := jsonb_build_object('status', 'cancelled', 'rev', c.rev);
    else
        updates := care.dose_state(o);
    end if;
    body := jsonb_build_object(
        'userId', c.user_id, 'occurrenceId', c.id, 'updates', updates,
        'daySummary', summary || jsonb_build_object('month', left(summary ->> 'date', 7)));
    if c.op = 'I' then
        body := body || jsonb_build_object(
            'occurrence', updates || jsonb_build_object('id', c.id, 'userId', c.user_id));
    end if;
    return row(
        c.user_id, false, c.id,
        case when c.op = 'I' then 'occurrence.created'
             when o.id is null or o.status = 'cancelled' then 'occurrence.cancelled'
             else 'occurrence.updated' end::text,
        body);
end
$$;

-- care.summary_event: what the summary of a user's day says now, and the user's statistics. No locks.
create or replace function care.summary_event(who text, summary jsonb, stats jsonb) returns sync.draft
language plpgsql
as $$
begin
    return row(who, true, summary ->> 'date', 'adherence.summary_updated'::text,
               jsonb_build_object('userId', who, 'date', summary -> 'date', 'summary', summary, 'stats', stats));
end
$$;
drop function if exists care.summary_event(text, jsonb);

-- care.occurrence_events: the builder of care.dose_occurrence: occurrence.created, .updated and .cancelled, and one
-- adherence.summary_updated for each (user, day) touched: the days a dose had before and the one it has now. Called by
-- sync.flush, under the locks of the streams concerned. Lock order: day summaries in the order of (user, day).
-- The dose is met by key only (OFFSET 0): a join could become a hash over all of the table.
create or replace function care.occurrence_events(changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
as $$
declare
    clock timestamptz := sync.clock();
    one sync.change := changes[1];
    now_is care.dose_occurrence;
    now_day date;
    day_before date;
    days_before date[];
    first_turned date;
    last_turned date;
    told record;
    told_before record;
    summaries_before jsonb[] := '{}';
    summary_before jsonb;
    stats jsonb;
    draft sync.draft;
begin
    if cardinality(changes) = 1 then
        -- The usual commit, at a third of the cost of the statement below.
        select * into now_is from care.dose_occurrence as d where d.id = one.id and d.user_id = one.user_id;
        if now_is.id is null and one.op = 'I' then
            return;
        end if;
        day_before := one.context;
        now_day := coalesce(now_is.local_date, day_before);
        told := care.count_day(one.user_id, now_day, clock);
        draft := care.occurrence_event(one, now_is, told.summary);
        return next draft;
        if told.turned then
            first_turned := now_day;
            last_turned := now_day;
        end if;
        if day_before <> now_day or one.contexts is not null then
            select array_agg(distinct d order by d) into days_before
            from unnest(day_before || one.contexts::date[]) as d where d <> now_day;
            foreach day_before in array days_before loop
                told_before := care.count_day(one.user_id, day_before, clock);
                summaries_before := summaries_before || told_before.summary;
                if told_before.turned then
                    first_turned := least(first_turned, day_before);
                    last_turned := greatest(last_turned, day_before);
                end if;
            end loop;
        end if;
        if first_turned is not null then
            perform care.carry_runs(one.user_id, first_turned, last_turned);
        end if;
        stats := care.stats_at(one.user_id, clock);
        draft := care.summary_event(one.user_id, told.summary, stats);
        return next draft;
        foreach summary_before in array summaries_before loop
            draft := care.summary_event(one.user_id, summary_before, stats);
            return next draft;
        end loop;
        return;
    end if;

    return query
    with dose as materialized (
        select c as change, c.user_id, c.context::date as old_day, r.dose, (r.dose).local_date
        from unnest(changes) as c
        left join lateral (
            select d as dose from care.dose_occurrence as d where d.id = c.id and d.user_id = c.user_id offset 0
        ) as r on true
        where (r.dose).id is not null or c.op <> 'I'
    ), day as materialized (
        select d.user_id, d.date, counted.summary, counted.turned
        from (
            select dose.user_id, dose.old_day as date from dose where dose.old_day is not null
            union
            select dose.user_id, d::date from dose cross join lateral unnest((dose.change).contexts) as d
            union
            select dose.user_id, dose.local_date from dose where dose.local_date is not null
            order by 1, 2
        ) as d
        cross join lateral care.count_day(d.user_id, d.date, clock) as counted
    ), own as materialized (
        -- Grouping takes all days first, and the argument comes before its function: statistics are of what is written.
        select o.user_id, care.stats_at(care.carry_runs(o.user_id, o.first_day, o.last_day), clock) as stats
        from (
            select day.user_id, min(day.date) filter (where day.turned) as first_day,
                   max(day.date) filter (where day.turned) as last_day
            from day group by day.user_id
            offset 0
        ) as o
    )
    select e.* from dose
    join day on day.user_id = dose.user_id and day.date = coalesce(dose.local_date, dose.old_day)
    cross join lateral care.occurrence_event(dose.change, dose.dose, day.summary) as e
    union all
    select e.* from day
    join own on own.user_id = day.user_id
    cross join lateral care.summary_event(day.user_id, day.summary, own.stats) as e;
end
$$;
-- 56_care_reminder_events.sql
-- care.rule_json: a reminder rule as events and snapshots show it, with its next ten times. No locks.
create or replace function care.rule_json(r care.reminder_rule, clock timestamptz) returns jsonb
language plpgsql stable
as $$
begin
    return jsonb_build_object(
        'id', r.id, 'userId', r.user_id, 'clientId', r.client_id, 'productId', r.product_id,
        'stackId', r.stack_id, 'appliesTo', r.applies_to, 'preset', r.preset, 'label', r.label,
        'time', to_char(r.time, 'HH24:MI'), 'timezone', r.timezone, 'tzMode', r.tz_mode, 'repeat', r.repeat,
        'repeatOn', r.repeat_on, 'snoozeMinutes', r.snooze_minutes, 'delivery', r.delivery,
        'enabled', r.enabled, 'rev', r.rev, 'createdAt', r.created_at, 'updatedAt', r.updated_at,
        'nextOccurrences', (
            select coalesce(jsonb_agg(care.local_iso(at, r.timezone) order by at), '[]')
            from care.next_occurrences(r, clock) as at));
end
$$;

-- care.reminder_events: the builder of care.reminder_rule: reminder.created and .updated with the whole rule,
-- reminder.deleted with {id, rev}. Locks: none.
create or replace function care.reminder_events(changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
as $$
declare
    clock timestamptz := sync.clock();
begin
    return query
    select c.user_id, false, c.id,
           case when r.id is null then 'reminder.deleted' when c.op = 'I' then 'reminder.created'
                else 'reminder.updated' end,
           case when r.id is null then jsonb_build_object('id', c.id, 'rev', c.rev)
                else care.rule_json(r::care.reminder_rule, clock) end
    from unnest(changes) as c
    left join lateral (
        select * from care.reminder_rule as r where r.id = c.id and r.user_id = c.user_id offset 0
    ) as r on true
    where r.id is not null or c.op <> 'I';
end
$$;
-- 57_care_reminder_occurrence_events.sql
-- care.rule_start: when an occurrence that differs from its rule fires, before any snooze. No locks.
create or replace function care.rule_start(x care.reminder_occurrence, zone text) returns timestamptz
language plpgsql stable
as $$
begin
    return coalesce(x.moved_to, care.resolve_local(x.original_local, zone));
end
$$;

-- care.rule_occurrence_json: such an occurrence as events and snapshots show it; `zone` is its rule's. No locks.
create or replace function care.rule_occurrence_json(x care.reminder_occurrence, zone text) returns jsonb
language plpgsql stable
as $$
begin
    return jsonb_build_object(
        'userId', x.user_id, 'ruleId', x.rule_id, 'occurrenceId', x.id,
        'originalLocal', to_char(x.original_local, 'YYYY-MM-DD"T"HH24:MI:SS'),
        'start', care.local_iso(care.rule_start(x, zone), zone),
        'status', x.status, 'snoozedUntil', x.snoozed_until, 'snoozeCount', x.snooze_count, 'rev', x.rev,
        'updatedAt', x.updated_at);
end
$$;

-- care.reminder_occurrence_events: the builder of care.reminder_occurrence: reminder.occurrence_updated. A row deleted
-- while its rule lives tells `removed: true`: the occurrence is as its rule says again (where it had several in the
-- transaction: for each); deleted with its rule it tells nothing, for reminder.deleted has. Only the rule's user is told.
-- Locks: none.
create or replace function care.reminder_occurrence_events(changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
as $$
begin
    return query
    select c.user_id, false, c.id, 'reminder.occurrence_updated'::text,
           case when x.id is null then jsonb_build_object(
               'userId', c.user_id, 'ruleId', r.id, 'occurrenceId', c.id, 'rev', c.rev, 'removed', true)
           else care.rule_occurrence_json(x::care.reminder_occurrence, r.timezone) end
    from unnest(changes) as c
    left join lateral (
        select * from care.reminder_occurrence as x where x.id = c.id and x.user_id = c.user_id offset 0
    ) as x on true
    cross join lateral (
        select * from care.reminder_rule as r
        where r.id = any(case when x.id is null then c.context || c.contexts else array[x.rule_id] end)
            and r.user_id = c.user_id
        offset 0
    ) as r
    where x.id is not null or c.op <> 'I';
end
$$;
-- 58_care_plan_day.sql
-- care.plan_day: writes the doses that a user's schedules give for one local day; those already there are left alone
-- (ids are deterministic). Returns how many are new. Lock order: care.dose_occurrence in the order of ids.
create or replace function care.plan_day(who text, day date) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    zone text := care.zone_of(who);
    planned bigint;
begin
    insert into care.dose_occurrence (id, user_id, schedule_id, product_id, scheduled_at, tz, local_date, local_time,
                                      window_end)
    select care.occurrence_id(s.id, day + s.time, i.product_id), who, s.id, coalesce(s.product_id, i.product_id), t.at,
           zone, day, s.time, t.at + make_interval(mins => s.window_minutes)
    from care.schedule as s
    left join care.stack_item as i on i.stack_id = s.stack_id
    cross join lateral (select care.resolve_local(day + s.time, zone) as at) as t
    where s.user_id = who and s.enabled and care.repeats_on(s.repeat, s.repeat_on, day)
        and day between coalesce(s.starts_on, day) and coalesce(s.ends_on, day)
        and coalesce(s.product_id, i.product_id) is not null
    order by 1
    on conflict (id) do nothing;
    get diagnostics planned = row_count;
    return planned;
end
$$;
-- 59_care_triggers.sql
-- The triggers of the app's own tables. One that stands as it should is left alone, so that a rerun locks no table.
-- `belong` comes before `bump_rev` by name: what it puts right is no change. Locks: a table (SHARE ROW EXCLUSIVE) only
-- where a trigger is missing, another or disabled.
do $do$
declare
    t record;
begin
    set local quote_all_identifiers = off;
    for t in
        select 'bump_rev' as name, 'BEFORE UPDATE' as event, place::text, 'bump_rev()' as call, 'A'::"char" as enabled,
               'FOR EACH ROW' as scope
        from unnest('{user_settings,product,stack,schedule,reminder_rule,reminder_occurrence}'::text[]) as place
        union all
        select 'bump_rev', 'BEFORE UPDATE', 'dose_occurrence', 'bump_dose()', 'A', 'FOR EACH ROW'
        union all
        select *, 'O', 'FOR EACH ROW' from (values
            ('complete', 'BEFORE INSERT', 'dose_occurrence', 'complete_dose()'),
            ('zone', 'BEFORE UPDATE OF tz', 'dose_occurrence', $$check_zone('tz')$$),
            ('complete', 'BEFORE INSERT', 'reminder_rule', 'complete_reminder()'),
            ('zone', 'BEFORE INSERT OR UPDATE OF timezone', 'reminder_rule', $$check_zone('timezone')$$),
            ('move', 'AFTER UPDATE OF user_id', 'reminder_rule', 'move_reminder()'),
            ('complete', 'BEFORE INSERT', 'reminder_occurrence', 'complete_reminder_occurrence()'),
            ('belong', 'BEFORE UPDATE OF rule_id, user_id', 'reminder_occurrence', 'complete_reminder_occurrence()'),
            ('zone', 'BEFORE INSERT OR UPDATE OF zone', 'user_settings', $$check_zone('zone')$$),
            ('follow_zone', 'AFTER INSERT OR UPDATE OF zone', 'user_settings', 'follow_zone()')
        ) as own
        union all
        select 'leave_notes', 'AFTER UPDATE OF id, user_id', 'dose_occurrence', 'leave_notes()', 'A', 'FOR EACH ROW'
        union all
        select 'forget_notes', 'AFTER DELETE', 'dose_occurrence', 'forget_notes()', 'A',
               'REFERENCING OLD TABLE AS gone FOR EACH STATEMENT'
    loop
        -- pg_get_triggerdef writes `care.` or not by the search path.
        if not exists (
            select from pg_catalog.pg_trigger
            where tgrelid = format('care.%I', t.place)::regclass and tgname = t.name and tgenabled = t.enabled
                and replace(pg_catalog.pg_get_triggerdef(oid), 'care.', '')
                    = format('CREATE TRIGGER %s %s ON %s %s EXECUTE FUNCTION %s',
                             t.name, t.event, t.place, t.scope, t.call)
        ) then
            execute format('create or replace trigger %s %s on care.%s %s execute function care.%s',
                           t.name, t.event, t.place, t.scope, t.call);
            execute format('alter table care.%s enable %s trigger %s',
                           t.place, case t.enabled when 'A' then 'always' else '' end, t.name);
        end if;
    end loop;
end
$do$;
-- 60_care_stats.sql
-- care.stats_at: a user's streaks and percentages at an instant; today is that of the user's zone. Called by the builder after
-- all days of the flush are written. No locks.
--
-- A day that is still open breaks no streak. Percentages are of the 30 days before today: the mean of the days' own (days
-- with nothing due are left out), and that of all their doses together; by the rule of care.judged.
create or replace function care.stats_at(who text, clock timestamptz) returns jsonb
language plpgsql
as $$
declare
    today date;
    near care.day_summary[];
    s care.day_summary;
    streak int;
    longest int;
    percents numeric;
    days bigint;
    done bigint;
    due bigint;
    open boolean;
    more record;
begin
    -- Each flush asks this: one statement, and of stored columns alone.
    select t.today,
           array(select d from care.day_summary as d where d.user_id = who and d.date <= t.today
                 order by d.date desc limit 2),
           past.percents, past.days, past.done, past.due, past.open
    into today, near, percents, days, done, due, open
    from (
        select (clock at time zone coalesce(
            (select u.zone from care.user_settings as u where u.user_id = who), 'UTC'))::date as today
        offset 0
    ) as t
    cross join lateral (
        select sum(d.adherence_pct) filter (where d.pending_count = 0) as percents,
               count(d.adherence_pct) filter (where d.pending_count = 0) as days,
               sum(d.taken_count + d.made_up_count) as done,
               sum(d.taken_count + d.made_up_count + d.missed_count) as due,
               bool_or(d.pending_count > 0) as open
        from care.day_summary as d
        where d.user_id = who and d.date between t.today - 30 and t.today - 1
    ) as past;
    if open then
        -- Days with open doses are judged by the clock.
        select sum(round(100.0 * d.good / d.due, 1)) as percents, count(nullif(d.due, 0)) as days, sum(d.ended) as ended
        into more
        from (
            select n.ended, d.taken_count + d.made_up_count as good,
                   nullif(d.taken_count + d.made_up_count + d.missed_count + n.ended, 0) as due
            from care.day_summary as d
            cross join lateral (
                select count(*) as ended from care.dose_occurrence as o
                where o.user_id = d.user_id and o.local_date = d.date and o.status = 'scheduled' and o.window_end <= clock
            ) as n
            where d.user_id = who and d.date between today - 30 and today - 1 and d.pending_count > 0
        ) as d;
        percents := coalesce(percents, 0) + coalesce(more.percents, 0);
        days := days + more.days;
        due := due + more.ended;
    end if;

    s := near[1];
    if s.date = today then
        if s.missed_count = 0 and s.pending_count = 0 then
            streak := s.run;
        end if;
        s := near[2];
    end if;
    return jsonb_build_object(
        'currentStreakDays', coalesce(streak, s.run, 0), 'bestStreakDays', greatest(streak, s.best, 0),
        'avg30DaysPct', round(percents / nullif(days, 0), 1), 'doses30Pct', round(100.0 * done / nullif(due, 0), 1));
end
$$;

-- care.stats: the same, now.
create or replace function care.stats(who text) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return care.stats_at(who, sync.clock());
end
$$;
-- 61_care_read.sql
-- Reading what devices send. A `…_problem` function says why a value is no good, or null; nothing here can fail, and no
-- reason quotes a value. A missing member and null are the same. No locks.

-- care.given: a member of an object, null where it is absent or null.
create or replace function care.given(doc jsonb, name text) returns jsonb
language sql immutable
as $$
    select nullif(doc operator(pg_catalog.->) name, 'null')
$$;

-- care.invalid: the verdict on a value that is no good.
create or replace function care.invalid(path text, problem text) returns sync.verdict
language sql stable
as $$
    select row('rejected', pg_catalog.jsonb_build_object('code', 'invalid', 'path', path, 'message', problem),
               null, false)::sync.verdict
$$;

-- care.key_problem: ids and keys: 1 to 200 bytes.
create or replace function care.key_problem(v jsonb) returns text
language plpgsql immutable
as $$
begin
    if v is null then
        return 'is required';
    elsif jsonb_typeof(v) <> 'string' then
        return 'must be a string';
    elsif octet_length(v #>> '{}') not between 1 and 200 then
        return 'must have 1 to 200 bytes';
    end if;
    return null;
end
$$;

-- care.text_problem: a text of 1 to `longest` characters; `blank`: white space alone is good enough.
create or replace function care.text_problem(v jsonb, longest int, blank boolean) returns text
language plpgsql immutable
as $$
begin
    if jsonb_typeof(v) <> 'string' then
        return 'must be a string';
    elsif char_length(v #>> '{}') not between 1 and longest then
        return format('must have 1 to %s characters', longest);
    elsif not blank and btrim(v #>> '{}', E' \t\r\n') = '' then
        return 'must not be blank';
    end if;
    return null;
end
$$;

-- care.boolean_problem: true or false, or nothing.
create or replace function care.boolean_problem(v jsonb) returns text
language sql immutable
as $$
    select case when pg_catalog.jsonb_typeof(v) <> 'boolean' then 'must be true or false' end
$$;

-- care.date_problem: YYYY-MM-DD, a day that exists.
create or replace function care.date_problem(day text) returns text
language plpgsql immutable
as $$
begin
    if day collate "C" !~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$' then
        return 'must be a date such as 2025-11-14';
    elsif left(day, 4) = '0000' or substr(day, 9)::int > extract(day from make_date(
            left(day, 4)::int, substr(day, 6, 2)::int, 1) + interval '1 month' - interval '1 day') then
        return 'is no day of the calendar';
    end if;
    return null;
end
$$;

-- care.time_problem: ISO 8601 with an offset, or an integer number of epoch milliseconds; of the years 2000 to 2100 (UTC).
create or replace function care.time_problem(v jsonb) returns text
language plpgsql stable
as $$
declare
    spelled text := v #>> '{}';
    at timestamptz;
begin
    if jsonb_typeof(v) = 'number' then
        if spelled::numeric <> trunc(spelled::numeric) then
            return 'must be an integer number of milliseconds';
        elsif spelled::numeric not between 946684800000 and 4133980799999 then
            return 'must be of the years 2000 to 2100';
        end if;
        return null;
    elsif jsonb_typeof(v) <> 'string' then
        return 'must be a time: ISO 8601 with an offset, or epoch milliseconds';
    elsif spelled collate "C" !~
        '^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?'
        '(Z|[-+](0[0-9]|1[0-5])(:?[0-5][0-9])?)$'
        or care.date_problem(left(spelled, 10)) is not null
    then
        return 'must be a time such as 2025-11-14T08:00:00-05:00';
    end if;
    at := care.time_of(v);
    if at < '2000-01-01T00:00:00Z' or at >= '2101-01-01T00:00:00Z' then
        return 'must be of the years 2000 to 2100';
    end if;
    return null;
end
$$;

-- care.time_of: the instant that such a value names, microseconds and no more of it; null for none.
create or replace function care.time_of(v jsonb) returns timestamptz
language plpgsql stable
as $$
begin
    if jsonb_typeof(v) = 'number' then
        return timestamptz 'epoch' + (v #>> '{}')::numeric::bigint * interval '1 millisecond';
    end if;
    return regexp_replace(v #>> '{}', '([.][0-9]{6})[0-9]+', E'\\1')::timestamptz;
end
$$;

-- care.past_problem: a time that is not more than five minutes ahead of `clock`.
create or replace function care.past_problem(v jsonb, clock timestamptz) returns text
language plpgsql stable
as $$
begin
    return coalesce(care.time_problem(v), case when care.time_of(v) > clock + interval '5 minutes'
                                               then 'lies in the future' end);
end
$$;

-- care.revision_problem: an integer from 0 to 2^53.
create or replace function care.revision_problem(v jsonb) returns text
language plpgsql immutable
as $$
begin
    if jsonb_typeof(v) <> 'number' or (v #>> '{}')::numeric not between 0 and 9007199254740992
        or (v #>> '{}')::numeric <> trunc((v #>> '{}')::numeric)
    then
        return 'must name revisions, which are integers';
    end if;
    return null;
end
$$;

-- care.base_problem: {rev}, or {<id>: {rev}, …}; other members are ignored.
create or replace function care.base_problem(base jsonb) returns text
language plpgsql immutable
as $$
declare
    v jsonb;
begin
    if base is null then
        return null;
    elsif jsonb_typeof(base) <> 'object' then
        return 'must be an object';
    elsif care.given(base, 'rev') is not null and jsonb_typeof(base -> 'rev') <> 'object' then
        return care.revision_problem(base -> 'rev');
    end if;
    for v in select e.value -> 'rev' from jsonb_each(base) as e where jsonb_typeof(e.value) = 'object' loop
        if v <> 'null' and care.revision_problem(v) is not null then
            return care.revision_problem(v);
        end if;
    end loop;
    return null;
end
$$;

-- care.base_rev: the revision of a dose that a (good) base names, or null.
create or replace function care.base_rev(base jsonb, id text) returns bigint
language plpgsql immutable
as $$
begin
    if jsonb_typeof(base -> 'rev') = 'number' then
        return (base ->> 'rev')::numeric::bigint;
    elsif jsonb_typeof(base -> id -> 'rev') = 'number' then
        return (base -> id ->> 'rev')::numeric::bigint;
    end if;
    return null;
end
$$;

-- care.known_zone: whether a text is the name of a zone of the IANA database. PostgreSQL would take POSIX rules too, and
-- names of the files beside the zones.
create or replace function care.known_zone(zone text) returns boolean
language plpgsql stable
as $$
begin
    if zone collate "C" !~ ('^([A-Za-z_]+(/[A-Za-z_]+(-[A-Za-z_]+)*){0,2}|Etc/GMT[-+]?([0-9]|1[0-4])|GMT[-+]?0'
                           '|EST5EDT|CST6CDT|MST7MDT|PST8PDT|W-SU|NZ-CHAT|GB-Eire)$')
        or zone in ('posixrules', 'localtime', 'Factory')
    then
        return false;
    end if;
    begin
        perform now() at time zone zone;
    exception when invalid_parameter_value then
        return false;
    end;
    return true;
end
$$;
-- 62_care_payload.sql
-- What is wrong with a payload: null, or the verdict. Members are judged in the order of the specification, and the first
-- that is no good is named; members that nobody asked for are ignored. No locks.

-- care.dose_payload_problem: markTaken, markMissed, makeUp, skip, addNote.
create or replace function care.dose_payload_problem(type text, doc jsonb, clock timestamptz) returns sync.verdict
language plpgsql stable
as $$
declare
    field text := case when type = 'makeUp' and care.given(doc, 'at') is not null then 'at' else 'takenAt' end;
    problem text := care.key_problem(care.given(doc, 'occurrenceId'));
begin
    if problem is not null then
        return care.invalid('payload.occurrenceId', problem);
    end if;
    if type in ('markTaken', 'makeUp') and care.given(doc, field) is not null then
        problem := care.past_problem(doc -> field, clock);
        if problem is not null then
            return care.invalid('payload.' || field, problem);
        end if;
    end if;
    if type in ('makeUp', 'skip') and care.given(doc, 'reason') is not null then
        problem := care.text_problem(doc -> 'reason', 500, true);
        if problem is not null then
            return care.invalid('payload.reason', problem);
        end if;
    end if;
    field := case when type = 'addNote' and (care.given(doc, 'text') is not null or care.given(doc, 'note') is null)
                  then 'text' else 'note' end;
    if care.given(doc, field) is not null then
        problem := care.text_problem(doc -> field, 4000, false);
    elsif type = 'addNote' then
        problem := 'is required';
    end if;
    if problem is not null then
        return care.invalid('payload.' || field, problem);
    end if;
    return null;
end
$$;

-- care.criteria_problem: of bulkMarkAll: {date?, productId?, scheduleId?, includeFuture?}, and the zone of today.
create or replace function care.criteria_problem(doc jsonb, tz text) returns sync.verdict
language plpgsql stable
as $$
declare
    field text;
    problem text;
begin
    if jsonb_typeof(doc) <> 'object' then
        return care.invalid('payload.criteria', 'must be an object');
    elsif doc - array['date', 'productId', 'scheduleId', 'includeFuture'] <> '{}' then
        -- A misspelt filter would mark doses that nobody meant.
        return care.invalid('payload.criteria', 'may have date, productId, scheduleId and includeFuture, and no more');
    end if;
    foreach field in array array['date', 'productId', 'scheduleId'] loop
        continue when care.given(doc, field) is null;
        if jsonb_typeof(doc -> field) <> 'string' then
            problem := 'must be a string';
        elsif field = 'date' then
            problem := care.date_problem(doc ->> 'date');
        end if;
        if problem is not null then
            return care.invalid('payload.criteria.' || field, problem);
        end if;
    end loop;
    problem := care.boolean_problem(care.given(doc, 'includeFuture'));
    if problem is not null then
        return care.invalid('payload.criteria.includeFuture', problem);
    elsif care.given(doc, 'date') is null and tz is not null and not care.known_zone(tz) then
        return care.invalid('tz', 'is no zone that is known here');
    end if;
    return null;
end
$$;

-- care.bulk_payload_problem: bulkMarkAll.
create or replace function care.bulk_payload_problem(doc jsonb, clock timestamptz, tz text) returns sync.verdict
language plpgsql stable
as $$
declare
    ids jsonb := care.given(doc, 'occurrenceIds');
    criteria jsonb := care.given(doc, 'criteria');
    v jsonb;
    place int := 0;
    problem text;
    verdict sync.verdict;
begin
    if ids is null and criteria is null then
        return care.invalid('payload.occurrenceIds', 'is required, or criteria');
    elsif ids is not null and criteria is not null then
        return care.invalid('payload.criteria', 'must not stand beside occurrenceIds');
    elsif criteria is not null then
        verdict := care.criteria_problem(criteria, tz);
        if verdict.status is not null then
            return verdict;
        end if;
    elsif jsonb_typeof(ids) <> 'array' then
        return care.invalid('payload.occurrenceIds', 'must be an array');
    elsif jsonb_array_length(ids) not between 1 and 200 then
        return care.invalid('payload.occurrenceIds', 'must have 1 to 200 elements');
    else
        for v in select e from jsonb_array_elements(ids) as e loop
            problem := care.key_problem(nullif(v, 'null'));
            if problem is not null then
                return care.invalid(format('payload.occurrenceIds[%s]', place), problem);
            end if;
            place := place + 1;
        end loop;
    end if;
    if care.given(doc, 'takenAt') is not null then
        problem := care.past_problem(doc -> 'takenAt', clock);
        if problem is not null then
            return care.invalid('payload.takenAt', problem);
        end if;
    end if;
    if ids is not null then
        problem := care.boolean_problem(care.given(doc, 'includeFuture'));
        if problem is not null then
            return care.invalid('payload.includeFuture', problem);
        end if;
    end if;
    return null;
end
$$;

-- care.resolve_payload_problem: resolve.
create or replace function care.resolve_payload_problem(doc jsonb, clock timestamptz) returns sync.verdict
language plpgsql stable
as $$
declare
    choice jsonb := care.given(doc, 'choice');
    merged jsonb := care.given(doc, 'merged');
    field text;
    problem text := care.key_problem(care.given(doc, 'of'));
begin
    if problem is not null then
        return care.invalid('payload.of', problem);
    elsif choice is null then
        return care.invalid('payload.choice', 'is required');
    elsif jsonb_typeof(choice) <> 'string' or choice #>> '{}' not in ('keep_local', 'accept_server', 'merge') then
        return care.invalid('payload.choice', 'must be keep_local, accept_server or merge');
    elsif merged is null then
        return null;
    elsif jsonb_typeof(merged) <> 'object' then
        return care.invalid('payload.merged', 'must be an object');
    elsif merged - array['status', 'takenAt', 'reason', 'note'] <> '{}' then
        return care.invalid('payload.merged', 'may have status, takenAt, reason and note, and no more');
    end if;
    foreach field in array array['status', 'takenAt', 'reason', 'note'] loop
        continue when care.given(merged, field) is null;
        problem := case field
            when 'status' then
                case when jsonb_typeof(merged -> field) <> 'string'
                        or merged ->> field not in ('scheduled', 'taken', 'missed', 'made_up', 'skipped')
                    then 'must be scheduled, taken, missed, made_up or skipped' end
            when 'takenAt' then care.past_problem(merged -> field, clock)
            when 'reason' then care.text_problem(merged -> field, 500, true)
            else care.text_problem(merged -> field, 4000, false) end;
        if problem is not null then
            return care.invalid('payload.merged.' || field, problem);
        end if;
    end loop;
    return null;
end
$$;

-- care.request_problem: the whole action but for what only the tables know.
create or replace function care.request_problem(type text, doc jsonb, base jsonb, client_time jsonb, tz text,
                                                clock timestamptz) returns sync.verdict
language plpgsql stable
as $$
declare
    verdict sync.verdict;
    problem text;
begin
    if doc is null then
        return care.invalid('payload', 'cannot be read');
    elsif jsonb_typeof(doc) <> 'object' then
        return care.invalid('payload', 'must be an object');
    end if;
    case type
        when 'bulkMarkAll' then
            verdict := care.bulk_payload_problem(doc, clock, tz);
        when 'resolve' then
            verdict := care.resolve_payload_problem(doc, clock);
        when 'undo' then
            problem := care.key_problem(care.given(doc, 'targetKey'));
            if problem is not null then
                return care.invalid('payload.targetKey', problem);
            end if;
        else
            verdict := care.dose_payload_problem(type, doc, clock);
    end case;
    if verdict.status is not null then
        return verdict;
    end if;
    problem := care.base_problem(base);
    if problem is not null then
        return care.invalid('base', problem);
    end if;
    if client_time is not null then
        problem := care.time_problem(client_time);
        if problem is not null then
            return care.invalid('clientTime', problem);
        end if;
    end if;
    return null;
end
$$;
-- 63_care_rule.sql
-- The tables of transitions: what becomes of an intent, by the dose as the server has it (all null: the user has none of
-- this id). Nothing is written here. No locks.

-- care.grace: how long after its window a dose may still be marked as taken.
create or replace function care.grace() returns interval
language sql immutable
as $$
    select interval '30 minutes'
$$;

-- care.early: how long before its time a dose that counts as missed may have been taken.
create or replace function care.early() returns interval
language sql immutable
as $$
    select interval '12 hours'
$$;

-- care.untimely: the member `path` that says when a dose was taken, where that is more than a day before its window; else null.
-- What was not said of this dose (the device's clock, an action that a resolve names) may as well be a day before now: a
-- dose far ahead can be marked. `path` null: the server's own time. No locks.
create or replace function care.untimely(taken_at timestamptz, path text, d care.dose_occurrence, clock timestamptz)
returns text
language plpgsql stable
as $$
begin
    return case when taken_at < least(d.window_start, d.scheduled_at,
                                      case when path in ('clientTime', 'payload.of') then clock end) - interval '1 day'
                then path end;
end
$$;

-- care.rule_act: the five actions on a dose, and the items of bulkMarkAll (`due`). A note goes with a status that is
-- applied or already so, and alone it is always added.
--
-- The rule of base.rev (`i.rev`): a status is set only while the dose's is the one that the device saw, whatever else of the
-- dose has changed. It does not matter where the dose is so already, nor where it is missed: that says that nobody has
-- told anything, and stands in nobody's way.
create or replace function care.rule_act(i care.intent, d care.dose_occurrence, clock timestamptz) returns care.ruling
language plpgsql
as $$
declare
    r care.ruling;
    code text;
begin
    r.dose := d;
    if i.status is not null then
        r.path := care.untimely(i.taken_at, i.time_path, d, clock);
        if r.path is not null then
            r.status := 'rejected';
            r.code := 'invalid';
            return r;
        end if;
        code := case
            when d.status = 'cancelled' then 'gone'
            when d.status = i.status then 'noop'
            when i.kind = 'due' and d.status = 'scheduled' and d.scheduled_at > clock then 'not_due'
            when i.status = 'taken' then
                case d.status when 'scheduled' then 'applied'
                              when 'missed' then
                                  case when i.taken_at between least(d.window_start, d.scheduled_at) - care.early()
                                           and d.window_end + care.grace() then 'applied' else 'late' end
                              else 'state' end
            when i.status in ('missed', 'made_up') and d.status = 'scheduled' then
                case when clock >= d.window_end then 'applied' else 'not_due' end
            when i.status = 'missed' then 'state'
            when i.status = 'made_up' then
                case d.status when 'missed' then 'applied' when 'taken' then 'noop' else 'state' end
            when d.status in ('scheduled', 'missed') then 'applied'
            else 'state' end;
        if code = 'applied' and d.status <> 'missed' and d.status_rev > i.rev then
            code := 'state';
        end if;
        if code = 'applied' then
            r.dose.status := i.status;
            r.dose.taken_at := i.taken_at;
            r.dose.reason := i.reason;
        elsif code = 'not_due' then
            r.status := 'rejected';
            r.code := code;
            return r;
        elsif code <> 'noop' then
            r.status := 'conflict';
            r.code := code;
            return r;
        end if;
    end if;
    r.status := coalesce(code, 'applied');
    if i.note is not null then
        r.status := 'applied';
        r.note := i.note;
        r.dose.note := i.note;
    end if;
    return r;
end
$$;

-- care.rule_undo: each part comes back if nothing has touched it since, and both or none. A note stays where another action
-- has added the same one since, or before with none between: it goes with the last of them.
create or replace function care.rule_undo(i care.intent, d care.dose_occurrence) returns care.ruling
language plpgsql
as $$
declare
    r care.ruling;
begin
    r.dose := d;
    r.code := case
        when d.status = 'cancelled' then 'gone'
        when i.kind = 'late' then 'late'
        when d.status_rev <> i.status_rev or d.note_rev <> i.note_rev or d.created_at <> i.born then 'superseded' end;
    r.status := case when r.code is null then 'applied' else 'conflict' end;
    if r.code is null and i.status_rev is not null then
        r.dose.status := i.status;
        r.dose.taken_at := i.taken_at;
        r.dose.reason := i.reason;
    end if;
    if r.code is null and i.note_rev is not null and not exists (
        select from care.same_notes(d, i.note_rev) as n where n.key <> i.note_key
    ) then
        r.dose.note := i.note;
    end if;
    return r;
end
$$;

-- care.rule_resolve: keep: the intent, whatever the status is; merge: its note alone; edit: the fields the user chose. Only
-- if nobody has changed the status since `rev`, and the dose is the one that the user saw.
create or replace function care.rule_resolve(i care.intent, d care.dose_occurrence, clock timestamptz) returns care.ruling
language plpgsql
as $$
declare
    r care.ruling;
begin
    r.dose := d;
    if (d.status_rev > i.rev or d.created_at <> i.born) and (i.kind = 'keep' and i.status is not null
                                 or i.kind = 'edit' and i.merged ?| array['status', 'takenAt', 'reason']) then
        r.status := 'conflict';
        r.code := 'state';
        return r;
    end if;
    r.note := case i.kind when 'edit' then coalesce(i.merged ->> 'note', i.note) else i.note end;
    if i.kind = 'keep' and i.status is not null then
        r.path := care.untimely(i.taken_at, i.time_path, d, clock);
        r.dose.status := i.status;
        r.dose.taken_at := i.taken_at;
        r.dose.reason := i.reason;
    elsif i.kind = 'edit' and i.merged ?| array['status', 'takenAt', 'reason'] then
        r.dose.status := coalesce(i.merged ->> 'status', d.status);
        if (r.dose).status in ('taken', 'made_up') then
            r.dose.taken_at := coalesce(care.time_of(i.merged -> 'takenAt'), d.taken_at, i.taken_at, clock);
            r.path := case when i.merged ? 'takenAt'
                                then care.untimely((r.dose).taken_at, 'payload.merged.takenAt', d, clock)
                           when d.taken_at is null then care.untimely(i.taken_at, i.time_path, d, clock) end;
        else
            r.dose.taken_at := null;
        end if;
        r.dose.reason := coalesce(i.merged ->> 'reason',
                                  case when (r.dose).status in ('made_up', 'skipped') then d.reason end);
    end if;
    if r.path is not null then
        r.status := 'rejected';
        r.code := 'invalid';
        return r;
    end if;
    if r.note is not null then
        r.dose.note := r.note;
    end if;
    r.status := case when r.note is not null
                         or ((r.dose).status, (r.dose).taken_at, (r.dose).reason)
                             is distinct from (d.status, d.taken_at, d.reason)
                     then 'applied' else 'noop' end;
    return r;
end
$$;

-- care.rule: the table that the intent's kind asks for.
create or replace function care.rule(i care.intent, d care.dose_occurrence, clock timestamptz) returns care.ruling
language plpgsql
as $$
declare
    r care.ruling;
begin
    if i.kind = 'accept' then
        r.dose := d;
        r.status := 'noop';
        return r;
    elsif d.id is null then
        r.status := 'conflict';
        r.code := 'gone';
        return r;
    end if;
    case
        when i.kind in ('act', 'due') then return care.rule_act(i, d, clock);
        when i.kind in ('undo', 'late') then return care.rule_undo(i, d);
        else return care.rule_resolve(i, d, clock);
    end case;
end
$$;
-- 64_care_conflict.sql
-- What a conflict tells, so that the user can choose. No locks.

-- care.message: a verdict's code in words.
create or replace function care.message(code text, kind text) returns text
language sql immutable
as $$
    select case code
        when 'state' then 'the status of the dose has been changed since'
        when 'late' then case kind when 'late' then 'more than 24 hours ago: it cannot be undone any more'
                                   else 'this time is outside the window of the dose: makeUp is the way' end
        when 'gone' then 'this dose is not there any more'
        when 'superseded' then 'the dose has been changed since'
        when 'not_due' then 'the time for this has not come yet'
        when 'invalid' then 'lies more than a day before the window of the dose'
    end
$$;

-- care.seen_states: doses as the events with these revisions showed them, by id; those asked with null, and those of which no
-- event is among the last 5,000 of the stream, are missing. One walk through these, however many are asked.
create or replace function care.seen_states(who text, ids text[], revs bigint[]) returns jsonb
language plpgsql
as $$
begin
    if array_remove(revs, null) = '{}' then
        return '{}';
    end if;
    return (
        select coalesce(jsonb_object_agg(asked.id, e.data -> 'updates' order by e.o), '{}')
        from (
            select v.o, v.name, v.data from sync.event as v
            where v.user_id = who and v.topic = 'adherence' order by v.o desc limit 5000
        ) as e
        join unnest(ids, revs) as asked(id, rev)
            on asked.id = e.data ->> 'occurrenceId' and asked.rev::text = e.data #>> '{updates,rev}'
        where e.name like 'occurrence.%');
end
$$;

-- care.conflict: server, base (what the device had seen, or null) and local, the fields in which they differ, the choices,
-- and what `merge` would leave.
create or replace function care.conflict(i care.intent, d care.dose_occurrence, code text, base jsonb) returns jsonb
language plpgsql
as $$
declare
    names constant text[] := array['status', 'takenAt', 'reason', 'note'];
    local jsonb := jsonb_strip_nulls(jsonb_build_object(
        'status', i.status, 'takenAt', case when i.status is not null then i.taken_at end,
        'reason', case when i.status is not null then i.reason end, 'note', i.note));
    server jsonb;
    merged jsonb;
    fields jsonb := '[]';
    name text;
begin
    if d.id is not null then
        merged := care.dose_json(d);
        server := merged || jsonb_build_object('changedBy', jsonb_build_object(
            'deviceId', d.changed_device, 'key', d.changed_key, 'at', d.updated_at));
        if i.note is not null then
            merged := merged || jsonb_build_object('note', i.note, 'hasNote', i.note <> '');
        end if;
    end if;
    foreach name in array names loop
        if local ? name and server -> name is distinct from local -> name then
            fields := fields || jsonb_build_object('name', name, 'base', base -> name, 'server', server -> name,
                                                   'local', local -> name);
        end if;
    end loop;
    return jsonb_build_object(
        'code', code, 'entity', jsonb_build_object('type', 'dose', 'id', i.id), 'server', server, 'base', base,
        'local', local, 'fields', fields, 'merged', merged,
        'options', case when d.id is null then '["accept_server"]'::jsonb
                        else '["keep_local", "accept_server", "merge"]' end);
end
$$;
-- 65_care_memo.sql
-- What is kept of an action for its undo and its resolve. No locks.

-- care.same_notes: the actions whose note is the dose's as it came with the revision `rev`, and what was there before: the one
-- that brought it, and those that added the same again while it stood. Those that were undone are not among them.
create or replace function care.same_notes(d care.dose_occurrence, rev bigint) returns table(key text, before text)
language plpgsql stable
as $$
begin
    return query
    select n.key, e #>> '{note,before}'
    from care.dose_note as n
    join sync.action as a on a.user_id = n.user_id and a.key = n.key
    cross join lateral jsonb_array_elements(
        case jsonb_typeof(a.memo -> 'undo') when 'array' then a.memo -> 'undo' else '[]' end) as e
    where n.user_id = d.user_id and n.occurrence_id = d.id and e ->> 'id' = d.id
        and (e ->> 'noteRev')::bigint = rev and (e ->> 'createdAt')::timestamptz = d.created_at;
end
$$;

-- care.undo_entry: how to take back what one action did to one dose: each part as it was, and the revision it then got.
create or replace function care.undo_entry(was care.dose_occurrence, d care.dose_occurrence, note text) returns jsonb
language plpgsql
as $$
declare
    entry jsonb := '{}';
    before text := was.note;
begin
    if (was.status, was.taken_at, was.reason) is distinct from (d.status, d.taken_at, d.reason) then
        entry := jsonb_build_object(
            'statusRev', d.status_rev,
            'set', jsonb_build_object('status', was.status, 'takenAt', was.taken_at, 'reason', was.reason));
    end if;
    if note is not null then
        if note = was.note then
            -- What was there before the first of them: each may be the one that is undone last.
            select n.before into before from care.same_notes(was, was.note_rev) as n limit 1;
            if not found then
                before := was.note;
            end if;
        end if;
        entry := entry || jsonb_build_object('noteRev', d.note_rev, 'note', jsonb_build_object('before', before));
    end if;
    return entry || jsonb_build_object('id', d.id, 'createdAt', d.created_at);
end
$$;

-- care.pending_entry: an intent that met a conflict, and the revision that the conflict showed (0: there was no dose).
create or replace function care.pending_entry(i care.intent, d care.dose_occurrence) returns jsonb
language plpgsql
as $$
declare
    entry jsonb := jsonb_build_object('id', i.id, 'rev', coalesce(d.rev, 0), 'createdAt', d.created_at);
begin
    if i.status is not null then
        entry := entry || jsonb_build_object(
            'set', jsonb_build_object('status', i.status, 'takenAt', i.taken_at, 'reason', i.reason));
    end if;
    if i.note is not null then
        entry := entry || jsonb_build_object('note', i.note);
    end if;
    return entry;
end
$$;

-- care.memo: both lists; null where there is neither.
create or replace function care.memo(single boolean, undo jsonb, pending jsonb) returns jsonb
language plpgsql
as $$
begin
    return case when undo is not null or pending is not null
                then jsonb_build_object('single', single, 'undo', undo, 'pending', pending) end;
end
$$;

-- care.intent_of: such an entry as an intent again, of the kind given; `rev`: what the device names as seen; `note_key`: of
-- an undo, the action it takes back. An undo that did not set the status leaves it alone.
create or replace function care.intent_of(entry jsonb, kind text, rev bigint, merged jsonb, note_key text)
returns care.intent
language plpgsql
as $$
declare
    i care.intent;
begin
    i.kind := kind;
    i.id := entry ->> 'id';
    i.rev := rev;
    i.merged := merged;
    i.born := (entry ->> 'createdAt')::timestamptz;
    i.note_key := note_key;
    i.time_path := 'payload.of';
    i.status := entry #>> '{set,status}';
    i.taken_at := care.time_of(nullif(entry #> '{set,takenAt}', 'null'));
    i.reason := entry #>> '{set,reason}';
    if kind in ('undo', 'late') then
        i.note := entry #>> '{note,before}';
        i.status_rev := (entry ->> 'statusRev')::bigint;
        i.note_rev := (entry ->> 'noteRev')::bigint;
    else
        i.note := entry ->> 'note';
    end if;
    return i;
end
$$;
-- 66_care_carry.sql
-- Carrying intents out: lock, decide, write, tell. `note_key`: under which a note is added; of an undo, the key of the
-- action whose note goes.

-- care.write_note: the set of notes, as an intent leaves it. Locks: its row.
create or replace function care.write_note(who text, i care.intent, note text, note_key text, clock timestamptz)
returns void
language plpgsql
as $$
begin
    if note is not null then
        insert into care.dose_note (user_id, occurrence_id, key, text, created_at)
        values (who, i.id, note_key, note, clock)
        on conflict (user_id, occurrence_id, key) do nothing;
    elsif i.kind = 'undo' and i.note_rev is not null then
        delete from care.dose_note as n where n.user_id = who and n.occurrence_id = i.id and n.key = note_key;
    end if;
end
$$;

-- care.carry_one: one dose; the answer has it, or its conflict, at the top. Lock order: the dose.
create or replace function care.carry_one(who text, note_key text, i care.intent, clock timestamptz)
returns sync.verdict
language plpgsql
as $$
declare
    was care.dose_occurrence;
    d care.dose_occurrence;
    r care.ruling;
    undo jsonb;
begin
    select * into was from care.dose_occurrence as o where o.id = i.id and o.user_id = who for update;
    r := care.rule(i, was, clock);
    if r.path is not null then
        return care.invalid(r.path, care.message(r.code, i.kind));
    elsif r.status = 'rejected' then
        return row(r.status, jsonb_build_object('code', r.code, 'message', care.message(r.code, i.kind)),
                   null, false)::sync.verdict;
    elsif r.status = 'conflict' then
        return row(
            r.status,
            jsonb_build_object('code', r.code, 'message', care.message(r.code, i.kind),
                               'conflict', care.conflict(i, was, r.code,
                                   care.seen_states(who, array[i.id], array[i.rev]) -> i.id)),
            care.memo(true, null, jsonb_build_array(care.pending_entry(i, was))), false)::sync.verdict;
    end if;
    d := was;
    if r.status = 'applied' then
        if r.dose *<> was then
            update care.dose_occurrence as o
            set status = (r.dose).status, taken_at = (r.dose).taken_at, reason = (r.dose).reason, note = (r.dose).note
            where o.id = i.id
            returning o.* into d;
        end if;
        perform care.write_note(who, i, r.note, note_key, clock);
        if i.kind <> 'undo' then
            undo := jsonb_build_array(care.undo_entry(was, d, r.note));
        end if;
    end if;
    return row(
        r.status,
        case when d.id is null then '{}'::jsonb else jsonb_build_object('result', care.dose_json(d)) end,
        care.memo(true, undo, null), false)::sync.verdict;
end
$$;

-- care.verdict_of_many: the status of the whole, from its items'.
create or replace function care.verdict_of_many(items jsonb, kind text, undo jsonb, pending jsonb) returns sync.verdict
language plpgsql
as $$
declare
    counts jsonb;
    applied int;
    noop int;
    conflict int;
    rejected int;
    told jsonb;
    answer jsonb;
    status text;
begin
    select count(*) filter (where e ->> 'status' = 'applied'), count(*) filter (where e ->> 'status' = 'noop'),
           count(*) filter (where e ->> 'status' = 'conflict'), count(*) filter (where e ->> 'status' = 'rejected')
    into applied, noop, conflict, rejected
    from jsonb_array_elements(items) as e;
    counts := jsonb_build_object('applied', applied, 'noop', noop, 'conflict', conflict, 'rejected', rejected);
    answer := jsonb_build_object('result', jsonb_build_object('items', items, 'counts', counts));
    if conflict + rejected = 0 then
        status := case when applied > 0 then 'applied' else 'noop' end;
    elsif applied + noop > 0 then
        status := 'partial';
    else
        status := case when conflict > 0 then 'conflict' else 'rejected' end;
        select e into told from jsonb_array_elements(items) with ordinality as t(e, place)
        where e ->> 'status' = status order by place limit 1;
        answer := answer || jsonb_strip_nulls(jsonb_build_object(
            'code', told -> 'code', 'path', told -> 'path', 'message', care.message(told ->> 'code', kind)));
    end if;
    return row(status, answer, care.memo(false, undo, pending), false)::sync.verdict;
end
$$;

-- care.carry_many: any number of doses, each once; those that can be written are written together, by one UPDATE. The
-- answer has an item for each intent, in their order. Lock order: the doses by id.
create or replace function care.carry_many(who text, note_key text, intents care.intent[], clock timestamptz)
returns sync.verdict
language plpgsql
as $$
declare
    ids text[] := array(select i.id from unnest(intents) as i);
    i care.intent;
    was care.dose_occurrence;
    d care.dose_occurrence;
    r care.ruling;
    before care.dose_occurrence[];
    rulings care.ruling[];
    item jsonb;
    items jsonb[] := '{}';
    undo jsonb[];
    pending jsonb[];
    revs bigint[] := '{}';
    seen jsonb;
    place int := 0;
begin
    perform from care.dose_occurrence as o
    where o.id = any(ids) and o.user_id = who
    order by o.id collate "C"
    for update;
    before := array(
        select found.dose from unnest(ids) with ordinality as asked(id, n)
        left join lateral (
            select o as dose from care.dose_occurrence as o where o.id = asked.id and o.user_id = who offset 0
        ) as found on true
        order by asked.n);
    foreach i in array coalesce(intents, '{}') loop
        place := place + 1;
        r := care.rule(i, before[place], clock);
        rulings[place] := r;
        revs[place] := case r.status when 'conflict' then i.rev end;
        if r.status = 'applied' then
            perform care.write_note(who, i, r.note, note_key, clock);
        end if;
    end loop;
    update care.dose_occurrence as o
    set status = (w.dose).status, taken_at = (w.dose).taken_at, reason = (w.dose).reason, note = (w.dose).note
    from (select n.dose from unnest(rulings) as n where n.status = 'applied') as w
    where o.id = (w.dose).id;

    seen := care.seen_states(who, ids, revs);
    place := 0;
    foreach i in array coalesce(intents, '{}') loop
        place := place + 1;
        r := rulings[place];
        was := before[place];
        item := jsonb_strip_nulls(jsonb_build_object('occurrenceId', i.id, 'status', r.status, 'code', r.code,
                                                        'path', r.path));
        if r.status = 'conflict' then
            item := item || jsonb_build_object('conflict', care.conflict(i, was, r.code, seen -> i.id));
            pending := pending || care.pending_entry(i, was);
        elsif r.status <> 'rejected' and was.id is not null then
            select * into d from care.dose_occurrence as o where o.id = i.id;
            item := item || jsonb_build_object('occurrence', care.dose_json(d));
            if r.status = 'applied' and i.kind <> 'undo' then
                undo := undo || care.undo_entry(was, d, r.note);
            end if;
        end if;
        items := items || item;
    end loop;
    return care.verdict_of_many(to_jsonb(items), i.kind, to_jsonb(undo), to_jsonb(pending));
end
$$;
-- 67_care_bulk.sql
-- care.due_doses: the doses that criteria mean: of one day, still scheduled, by time and id, and not before their time
-- unless the user says so. At most 201, so that too many can be told. No locks.
create or replace function care.due_doses(who text, criteria jsonb, tz text, clock timestamptz) returns text[]
language plpgsql
as $$
declare
    day date := coalesce(
        (criteria ->> 'date')::date,
        (clock at time zone coalesce(
            tz, (select u.zone from care.user_settings as u where u.user_id = who), 'UTC'))::date);
begin
    return array(
        select d.id from care.dose_occurrence as d
        where d.user_id = who and d.local_date = day and d.status = 'scheduled'
            and (criteria ->> 'productId' is null or d.product_id = criteria ->> 'productId')
            and (criteria ->> 'scheduleId' is null or d.schedule_id = criteria ->> 'scheduleId')
            and (coalesce((criteria ->> 'includeFuture')::boolean, false) or d.scheduled_at <= clock)
        order by d.scheduled_at, d.id collate "C"
        limit 201);
end
$$;

-- care.bulk: bulkMarkAll. Lock order: the doses by id.
create or replace function care.bulk(who text, key text, doc jsonb, base jsonb, client_at timestamptz, tz text,
                                     clock timestamptz) returns sync.verdict
language plpgsql
as $$
declare
    criteria jsonb := care.given(doc, 'criteria');
    given constant boolean := care.given(doc, 'takenAt') is not null;
    taken_at timestamptz := case when given then care.time_of(doc -> 'takenAt') else least(client_at, clock) end;
    time_path constant text := case when given then 'payload.takenAt' when client_at is not null then 'clientTime' end;
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
        ids := care.due_doses(who, criteria, tz, clock);
        if cardinality(ids) > 200 then
            return care.invalid('payload.criteria', 'mean more than 200 doses');
        end if;
    end if;
    return care.carry_many(who, key, array(
        select row(case when future then 'act' else 'due' end, id, 'taken', taken_at, null, null,
                   care.base_rev(base, id), null, null, null, null, null, time_path)::care.intent
        from unnest(ids) with ordinality as asked(id, place) order by place), clock);
end
$$;
-- 68_care_undo.sql
-- care.undo: takes back what an action of the same user did, part by part where nothing has touched it since: within 24
-- hours, and once. What it takes back cannot be taken back. Lock order: the doses by id.
create or replace function care.undo(who text, key text, target_key text, base jsonb, clock timestamptz)
returns sync.verdict
language plpgsql
as $$
declare
    target sync.action;
    kind text := 'undo';
    intents care.intent[];
    verdict sync.verdict;
begin
    select * into target from sync.action as a where a.user_id = who and a.key = target_key;
    if not found then
        verdict := care.invalid('payload.targetKey', 'names no action');
        verdict.early := true;
        return verdict;
    elsif target.type = 'undo' then
        return care.invalid('payload.targetKey', 'names an undo, which cannot be undone');
    elsif target.undone_by is not null or coalesce(jsonb_typeof(target.memo -> 'undo'), '') <> 'array' then
        return row('noop', '{}'::jsonb, null, false)::sync.verdict;
    elsif clock - target.created_at > interval '24 hours' then
        kind := 'late';
    end if;
    intents := array(
        select care.intent_of(e, kind, care.base_rev(base, e ->> 'id'), null, target_key)
        from jsonb_array_elements(target.memo -> 'undo') with ordinality as t(e, place) order by place);
    if (target.memo -> 'single')::boolean then
        verdict := care.carry_one(who, target_key, intents[1], clock);
    else
        verdict := care.carry_many(who, target_key, intents, clock);
    end if;
    if verdict.status in ('applied', 'partial') then
        update sync.action as a set undone_by = undo.key where a.user_id = who and a.key = target_key;
    end if;
    return verdict;
end
$$;
-- 69_care_resolve.sql
-- care.resolve: what the user chose of an action's conflicts. What is in conflict again is pending under the new key. A
-- conflict may be decided more than once, by two devices that both showed it: revisions tell what the second one saw.
-- Lock order: the doses by id.
create or replace function care.resolve(who text, key text, doc jsonb, base jsonb, clock timestamptz)
returns sync.verdict
language plpgsql
as $$
declare
    of constant text := doc ->> 'of';
    merged constant jsonb := jsonb_strip_nulls(doc -> 'merged');
    kind constant text := case doc ->> 'choice' when 'keep_local' then 'keep' when 'accept_server' then 'accept'
                               else case when care.given(doc, 'merged') is null then 'merge' else 'edit' end end;
    target sync.action;
    intents care.intent[];
    verdict sync.verdict;
begin
    select * into target from sync.action as a where a.user_id = who and a.key = of;
    if not found then
        verdict := care.invalid('payload.of', 'names no action');
        verdict.early := true;
        return verdict;
    elsif coalesce(jsonb_typeof(target.memo -> 'pending'), '') <> 'array' then
        return care.invalid('payload.of', 'names an action without a conflict');
    elsif kind = 'edit' and not (target.memo -> 'single')::boolean then
        return care.invalid('payload.merged', 'is for an action on one dose');
    end if;
    intents := array(
        select care.intent_of(e, kind, coalesce(care.base_rev(base, e ->> 'id'), (e ->> 'rev')::bigint), merged, null)
        from jsonb_array_elements(target.memo -> 'pending') with ordinality as t(e, place) order by place);
    if (target.memo -> 'single')::boolean then
        verdict := care.carry_one(who, key, intents[1], clock);
    else
        verdict := care.carry_many(who, key, intents, clock);
    end if;
    if verdict.status in ('applied', 'noop', 'partial', 'conflict') then
        update sync.action as a set resolved_by = resolve.key where a.user_id = who and a.key = of;
    end if;
    return verdict;
end
$$;
-- 70_care_act.sql
-- care.act: what sync.settle hands the types of care to: judges an action and carries it out. `base` and `client_time` null where they
-- are absent. Lock order: the doses by id.
create or replace function care.act(who text, key text, type text, doc jsonb, base jsonb, client_time jsonb, tz text)
returns sync.verdict
language plpgsql
as $$
declare
    clock constant timestamptz := sync.clock();
    verdict sync.verdict := care.request_problem(type, doc, base, client_time, tz, clock);
    client_at timestamptz;
    time_field text;
    i care.intent;
begin
    if verdict.status is not null then
        return verdict;
    end if;
    client_at := care.time_of(client_time);
    case type
        when 'bulkMarkAll' then return care.bulk(who, key, doc, base, client_at, tz, clock);
        when 'undo' then return care.undo(who, key, doc ->> 'targetKey', base, clock);
        when 'resolve' then return care.resolve(who, key, doc, base, clock);
        else null;
    end case;
    i.kind := 'act';
    i.id := doc ->> 'occurrenceId';
    i.rev := care.base_rev(base, i.id);
    i.note := doc ->> 'note';
    if type in ('markTaken', 'makeUp') then
        time_field := case when type = 'makeUp' and care.given(doc, 'at') is not null then 'at'
                           when care.given(doc, 'takenAt') is not null then 'takenAt' end;
        i.taken_at := case when time_field is null then least(client_at, clock) else care.time_of(doc -> time_field) end;
        i.time_path := case when time_field is not null then 'payload.' || time_field
                            when client_at is not null then 'clientTime' end;
    end if;
    case type
        when 'markTaken' then
            i.status := 'taken';
        when 'markMissed' then
            i.status := 'missed';
        when 'makeUp' then
            i.status := 'made_up';
            i.reason := doc ->> 'reason';
        when 'skip' then
            i.status := 'skipped';
            i.reason := doc ->> 'reason';
        else
            i.note := coalesce(doc ->> 'text', doc ->> 'note');
    end case;
    return care.carry_one(who, key, i, clock);
end
$$;
-- 71_sync_positions_of.sql
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
-- 72_sync_digest.sql
-- sync.digest: of what an action asks for: SHA-256 of [type, payload, base] as jsonb writes it, so that spaces and the
-- order of members make no other action. What cannot be read (a text without its document) counts as spelled; so does what
-- has numbers with long exponents, which would be written out with all their digits. No locks.
create or replace function sync.digest(type text, payload text, doc jsonb, base text, base_doc jsonb) returns bytea
language plpgsql immutable
as $$
begin
    if payload is not null and doc is null or base is not null and base_doc is null then
        return sha256(convert_to(jsonb_build_array(type, payload, base)::text, 'UTF8'));
    elsif payload ~ '[0-9][eE][-+]?[0-9]{3}' or base ~ '[0-9][eE][-+]?[0-9]{3}' then
        -- Outside of strings?
        if regexp_replace(concat(payload, base), E'"([^"\\\\]|\\\\.)*"', '""', 'g') ~ '[0-9][eE][-+]?[0-9]{3}' then
            return sha256(convert_to(jsonb_build_array(type, payload, base)::text, 'UTF8'));
        end if;
    end if;
    return sha256(convert_to(jsonb_build_array(type, doc, nullif(base_doc, 'null'))::text, 'UTF8'));
end
$$;
-- 73_sync_apply.sql
-- sync.json_of: what a text says in JSON; null where it cannot be read: it is no JSON, or jsonb cannot hold it (NUL, lone
-- surrogates, numbers and depths beyond its limits). The error is caught so that no log shows the text. No locks.
create or replace function sync.json_of(spelled text) returns jsonb
language plpgsql immutable strict
as $$
begin
    return spelled::jsonb;
exception when data_exception or statement_too_complex or program_limit_exceeded then
    return null;
end
$$;

-- sync.settle: one action of one user, once: what was decided is stored with it, and a repeat gets that.
--
--   who, key, device, n   whose it is; its key (1 to 200 bytes); the device's and its number there (null: no order asked)
--   type, payload, base, client_time, tz   as the device sent them; payload, base and client_time as JSON texts
--   refused               whether it is rejected whatever it says
--
-- One row: the status, and the whole answer as JSON text. Answers that are not stored: `key_reused`, `out_of_order`, an
-- envelope that cannot be kept, and one without a number that names an action which may still come. No text raises an
-- error: what cannot be read is a stored rejection.
--
-- Of each user the hundred devices are remembered that have acted last. One that was forgotten counts from 1 again, like a new
-- one: its next number is `out_of_order` with 1 expected, it renumbers and keeps its keys, and these alone say what has
-- been done, for 90 days. Numbers never did: an unknown key under an old number is `out_of_order` too, not done.
--
-- Lock order: the user's sync.account; sync.device under it; doses by id; streams and day summaries (sync.flush). Other
-- writers of the same rows take no account: they may come between, and never half.
create or replace function sync.settle(who text, key text, device text, n bigint, type text, payload text, base text,
                                       client_time text, tz text, refused boolean)
returns table(status text, answer text)
language plpgsql rows 1
as $$
declare
    doc jsonb := sync.json_of(payload);
    base_doc jsonb := sync.json_of(base);
    client jsonb := sync.json_of(client_time);
    digest bytea;
    known sync.action;
    last bigint;
    verdict sync.verdict;
    topic text;
    positions jsonb := '{}';
    whole jsonb;
    outer_key text := coalesce(current_setting('sync.key', true), '');
    outer_device text := coalesce(current_setting('sync.device', true), '');
begin
    whole := sync.unusable(key, device, n);
    if whole is null then
        digest := sync.digest(coalesce(type, ''), payload, doc, base, base_doc);
        perform sync.raise_commit();
        perform from sync.account as a where a.user_id = who for update;
        if not found then
            insert into sync.account as a (user_id) values (who) on conflict (user_id) do nothing;
            perform from sync.account as a where a.user_id = who for update;
        end if;

        select * into known from sync.action as a where a.user_id = who and a.key = settle.key;
        if found and known.digest = digest then
            status := known.status;
            answer := sync.replayed(who, known.answer)::text;
            return next;
            return;
        elsif found then
            whole := jsonb_build_object('key', key, 'status', 'rejected', 'code', 'key_reused',
                                        'message', 'this key belongs to another action');
        elsif n is not null then
            select d.last_n into last from sync.device as d where d.user_id = who and d.device_id = device;
            if n <> coalesce(last, 0) + 1 then
                whole := jsonb_build_object('key', key, 'status', 'retry', 'code', 'out_of_order',
                                            'expected', coalesce(last, 0) + 1,
                                            'message', 'another number is expected from this device');
            end if;
        end if;
    end if;
    if whole is not null then
        status := whole ->> 'status';
        answer := whole::text;
        return next;
        return;
    end if;

    -- What is written from here to the flush is this action's, and nothing else of the transaction.
    perform set_config('sync.key', key, true), set_config('sync.device', coalesce(device, ''), true);
    if refused then
        verdict.status := 'rejected';
        verdict.answer := '{"code": "invalid", "message": "the database refused it"}';
    else
        -- A text in their place is as wrong as what cannot be read.
        base_doc := case when base is not null and base_doc is null then '""' else nullif(base_doc, 'null') end;
        client := case when client_time is not null and client is null then '""' else nullif(client, 'null') end;
        verdict := sync.act(who, key, type, doc, base_doc, client, tz);
        if (verdict.status in ('applied', 'noop', 'partial', 'conflict', 'rejected')
                and jsonb_typeof(verdict.answer) = 'object') is not true then
            raise exception 'the function of % returned no verdict', type
                using errcode = 'data_exception', detail = 'Its status must be one of five, its answer a JSON object.';
        end if;
    end if;
    if verdict.status in ('applied', 'partial') then
        set constraints sync.flush immediate;
        set constraints sync.flush deferred;
    end if;
    perform set_config('sync.key', outer_key, true), set_config('sync.device', outer_device, true);
    if verdict.status = 'rejected' then
        whole := verdict.answer || jsonb_build_object('key', key, 'status', verdict.status);
    else
        foreach topic in array sync.topics_of(type) loop
            positions := positions || jsonb_build_object(sync.channel(who, topic), sync.position(who, topic));
        end loop;
        whole := verdict.answer || jsonb_build_object('key', key, 'status', verdict.status, 'positions', positions);
    end if;
    status := verdict.status;
    answer := whole::text;
    return next;
    if verdict.early and n is null then
        return;
    end if;
    insert into sync.action (user_id, key, device_id, n, type, digest, status, answer, memo, created_at)
    values (who, key, device, n, left(coalesce(type, ''), 64), digest, verdict.status, whole, verdict.memo, sync.clock());
    if n is not null then
        insert into sync.device as d (user_id, device_id, last_n, used_at) values (who, device, n, sync.clock())
        on conflict (user_id, device_id) do update set last_n = excluded.last_n, used_at = excluded.used_at;
        if last is null then
            -- A hundred devices of each user are remembered, this one among them.
            delete from sync.device as d where d.user_id = who and d.device_id in (
                select o.device_id from sync.device as o where o.user_id = who and o.device_id <> device
                order by o.used_at desc, o.device_id desc offset 99);
        end if;
    end if;
end
$$;

-- sync.apply: decides and carries out; what hubs call to write. Locks: sync.settle.
create or replace function sync.apply(who text, key text, device text, n bigint, type text, payload text, base text,
                                      client_time text, tz text)
returns table(status text, answer text)
language plpgsql security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
begin
    return query select s.status, s.answer
    from sync.settle(who, key, device, n, type, payload, base, client_time, tz, false) as s;
end
$$;

-- sync.refuse: the same for an action that the database will not take (a trigger or constraint of the app's own says no):
-- a stored rejection, so that the device's next one is not held up; a repeat gets what is stored. Locks: sync.settle.
create or replace function sync.refuse(who text, key text, device text, n bigint, type text, payload text, base text,
                                       client_time text, tz text)
returns table(status text, answer text)
language plpgsql security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
begin
    return query select s.status, s.answer
    from sync.settle(who, key, device, n, type, payload, base, client_time, tz, true) as s;
end
$$;

-- sync.unusable: the answer to an envelope that cannot be kept, or null. No locks.
create or replace function sync.unusable(key text, device text, n bigint) returns jsonb
language plpgsql immutable
as $$
declare
    path text := case
        when coalesce(octet_length(key), 0) not between 1 and 200 then 'key'
        when octet_length(device) not between 1 and 200 or n is not null and device is null then 'deviceId'
        when n not between 1 and 9007199254740992 then 'n' end;
begin
    if path is null then
        return null;
    end if;
    return jsonb_build_object('key', key, 'status', 'rejected', 'code', 'invalid', 'path', path,
                              'message', 'cannot be used');
end
$$;

-- sync.announce: wakes the other hubs, once for many actions; actions themselves do not (sync.notify is off). No locks.
--
-- A transaction that does nothing else need not wait for the disk: a wake that a crash loses wakes nobody. What is written
-- after it in the same transaction raises synchronous_commit again (sync.raise_commit).
create or replace function sync.announce() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_current_xact_id_if_assigned() is null then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    perform pg_notify('sync', '');
end
$$;
-- 74_sync_topics.sql
-- sync.topics: the topics that published tables have, comma-separated, '' for none, at most `most` of them; and the epoch
-- in which a stream without events begins. The hub watches streams of these topics. No locks.
drop function if exists sync.topics(int);
create function sync.topics(most int) returns table(epoch text, topics text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select m.epoch || '.' || sync.lineage(),
           coalesce((select string_agg(t.topic, ',')
                     from (select distinct p.topic from sync.published as p order by p.topic limit most) as t), '')
    from sync.meta as m
$$;
-- 75_sync_adherence_day.sql
-- Snapshots: what a device fetches when events cannot tell it everything. A row for each: the position of the user's
-- stream, and the body as JSON text, built by the builders of the events from the same database snapshot: all events above
-- `top` follow it. That holds in READ COMMITTED for everything but `stats`, whose function must see what its caller writes
-- and so reads anew; hubs ask in REPEATABLE READ.

-- sync.adherence_day: a user's day; without a day, today in the user's zone: {occurrences, summary, stats}. Doses as
-- occurrence.created shows them, the cancelled left out, in the order of their times; summary and statistics are judged by
-- one clock. No locks.
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
            select coalesce(jsonb_agg(care.dose_state(d) || jsonb_build_object('id', d.id, 'userId', d.user_id)
                                      order by d.scheduled_at, d.id collate "C"), '[]')
            from care.dose_occurrence as d
            where d.user_id = who and d.local_date = day and d.status <> 'cancelled'),
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
            where o.user_id = who and o.local_date = day and o.status = 'scheduled' and o.window_end <= clock));
    end if;
    return care.summary_json(s);
end
$$;
drop function if exists care.day_summary_json(text, date);
-- 76_sync_adherence_month.sql
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
-- 77_sync_adherence_occurrence.sql
-- sync.adherence_occurrence: one dose of a user's with its texts and all notes that actions added to it, the oldest first;
-- `note` is the latest, from any writer. `body` null: this user has no such dose. No locks.
create or replace function sync.adherence_occurrence(who text, id text)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
begin
    return query
    select p.epoch, p.top, (
        select care.dose_json(d) || jsonb_build_object('notes', (
            select coalesce(jsonb_agg(jsonb_build_object('key', n.key, 'text', n.text, 'createdAt', n.created_at)
                                      order by n.created_at, n.key collate "C"), '[]')
            from care.dose_note as n where n.user_id = d.user_id and n.occurrence_id = d.id))
        from care.dose_occurrence as d
        where d.id = adherence_occurrence.id and d.user_id = who)::text
    from sync.positions(array[who], array['adherence']) as p;
end
$$;
-- 78_sync_reminders.sql
-- sync.reminders: a user's reminder rules, the newest first, and which of their occurrences differ from them:
-- {items, occurrences, position}, each as events show it. Left out are occurrences of which all is over a day ago: their
-- time by the rule, what they were moved to and snoozed until, for one moved to yesterday would fire at its old time still.
-- No locks.
create or replace function sync.reminders(who text)
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
    select p.epoch, p.top, jsonb_build_object(
        'items', (
            select coalesce(jsonb_agg(care.rule_json(r, clock) order by r.created_at desc, r.id collate "C"), '[]')
            from care.reminder_rule as r where r.user_id = who),
        'occurrences', (
            select coalesce(jsonb_agg(care.rule_occurrence_json(x, r.timezone)
                                      order by x.original_local, x.id collate "C"), '[]')
            from care.reminder_rule as r
            cross join lateral (
                -- By index, without those of the past: no zone is a day from UTC.
                select o.* from care.reminder_occurrence as o
                where o.rule_id = r.id and o.original_local > (clock - interval '2 days') at time zone 'UTC'
                union all
                select o.* from care.reminder_occurrence as o
                where o.rule_id = r.id and o.original_local <= (clock - interval '2 days') at time zone 'UTC'
                    and greatest(o.moved_to, o.snoozed_until) > clock - interval '1 day'
            ) as x
            where r.user_id = who and x.user_id = r.user_id
                and greatest(care.resolve_local(x.original_local, r.timezone), x.moved_to, x.snoozed_until)
                    > clock - interval '1 day'),
        'position', jsonb_build_object('epoch', p.epoch, 'offset', p.top))::text
    from sync.positions(array[who], array['reminders']) as p;
end
$$;
-- 79_sync_dispatch.sql
-- sync.dispatch: writes, by the table as it is now, sync.act, which hands an action to the function of its type, and
-- sync.topics_of, which names the topics of a type. In SQL, so that both become a part of the statement that calls them, and
-- are planned once for a session. Locks: those of the two functions.
create or replace function sync.dispatch() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    calls text := '';
    topics text := '';
    t record;
begin
    for t in
        select string_agg(quote_literal(a.type), ', ' order by a.type) as types, a.function, a.topics
        from sync.action_type as a group by a.function, a.topics order by 1
    loop
        calls := calls || format(' when type in (%s) then %s(who, key, type, doc, base, client_time, tz)', t.types, t.function);
        topics := topics || format(' when type in (%s) then %L::text[]', t.types, t.topics);
    end loop;
    execute format('
        create or replace function sync.act(who text, key text, type text, doc jsonb, base jsonb, client_time jsonb, tz text)
        returns sync.verdict language sql
        as $body$ select case when false then null%s else row(''rejected'', %L::jsonb, null, false)::sync.verdict end $body$',
        calls, '{"code": "invalid", "path": "type", "message": "is no type of action"}');
    execute format('
        create or replace function sync.topics_of(type text) returns text[] language sql immutable
        as $body$ select case when false then null%s else ''{}''::text[] end $body$', topics);
end
$$;

-- sync.check_action_type: before each row is written, whether its function can be called; behind the statement, what has been
-- written comes into force. Lock order: an advisory lock of its own (who writes at once, one after the other: the later one
-- must see the earlier's), then the functions that sync.dispatch writes.
create or replace function sync.check_action_type() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    arguments constant text := '(text, text, text, jsonb, jsonb, jsonb, text)';
    f regprocedure;
    full_name text;
begin
    if tg_level = 'STATEMENT' then
        if current_setting('transaction_isolation') <> 'read committed' then
            raise exception 'write sync.action_type in READ COMMITTED' using errcode = 'active_sql_transaction';
        end if;
        perform pg_advisory_xact_lock(hashtextextended('sync.action_type', 0));
        perform sync.dispatch();
        return null;
    end if;
    begin
        f := to_regprocedure(new.function || arguments);
    exception
        when insufficient_privilege then raise;  -- its schema is not carillon_owner's to look into
        when others then null;
    end;
    select format('%I.%I', n.nspname, p.proname) into full_name
    from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
    where p.oid = f and p.prorettype = 'sync.verdict'::regtype and not p.proretset and p.prokind = 'f' and n.nspname <> 'sync';
    if not found then
        raise exception '% is no function of % that returns sync.verdict, outside of schema sync', new.function, arguments
            using errcode = 'undefined_function', hint = 'Write its schema too: ''schema.function''.';
    elsif not has_function_privilege(f, 'execute') then
        raise exception '% may not call %', current_user, full_name
            using errcode = 'insufficient_privilege',
                hint = format('GRANT EXECUTE ON FUNCTION %s TO %I;', f, current_user);
    end if;
    new.function := full_name;
    return new;
end
$$;

create or replace trigger check_row before insert or update on sync.action_type
    for each row execute function sync.check_action_type();
create or replace trigger put_in_force after insert or update or delete or truncate on sync.action_type
    for each statement execute function sync.check_action_type();

-- The product's own. A rerun changes nothing, and puts right what somebody changed.
insert into sync.action_type as t (type, function, topics)
select type, 'care.act', '{adherence}'
from unnest('{markTaken,markMissed,makeUp,skip,addNote,undo,bulkMarkAll,resolve}'::text[]) as type
on conflict (type) do update set function = excluded.function, topics = excluded.topics
where (t.function, t.topics) is distinct from (excluded.function, excluded.topics);
select sync.dispatch();
-- 80_publish_care.sql
-- The app's own tables are published like any other, with builders of their own. Reruns change nothing, and put right
-- what somebody changed.

-- sync.shipped: how this program publishes them; `relation` is null where the table is gone. No locks.
create or replace function sync.shipped()
returns table(name text, relation regclass, user_column name, topic text, event_prefix text, id_column name, rev_column name,
              builder text, context_column name)
language plpgsql stable rows 3
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select t.name, to_regclass(t.name), 'user_id'::name, t.topic, t.event_prefix, 'id'::name, 'rev'::name,
           t.builder, t.context_column
    from (values
        ('care.dose_occurrence', 'adherence', 'occurrence', 'care.occurrence_events', 'local_date'::name),
        ('care.reminder_rule', 'reminders', 'reminder', 'care.reminder_events', null),
        ('care.reminder_occurrence', 'reminders', 'reminder.occurrence', 'care.reminder_occurrence_events', 'rule_id')
    ) as t(name, topic, event_prefix, builder, context_column);
end
$$;

select sync.publish(s.relation, s.user_column, s.topic, s.event_prefix, s.id_column, s.rev_column,
                    builder => s.builder, context_column => s.context_column)
from sync.shipped() as s;
select sync.regenerate();
-- 90_grants.sql
-- What carillon_hub may do: this, and nothing else. Nobody but the owner may call anything further.
revoke all on schema sync, care from public;
do $$
declare
    f regprocedure;
begin
    -- One by one: functions of an extension in care belong to others.
    for f in
        select oid::regprocedure from pg_catalog.pg_proc
        where pronamespace in ('sync'::regnamespace, 'care'::regnamespace)
            and proowner = (select oid from pg_catalog.pg_roles where rolname = current_user)
    loop
        execute format('revoke all on function %s from public', f);
    end loop;
end
$$;
revoke all on all tables in schema sync, care from carillon_hub;
grant usage on schema sync to carillon_hub;
grant execute on function
    sync.tail(pg_snapshot, text, text, bigint, int),
    sync.news(pg_snapshot, int),
    sync.open_bulk(pg_snapshot, pg_snapshot),
    sync.positions(text[], text[]),
    sync.replay(text, text, bigint, int),
    sync.hub_hello(),
    sync.read_log(text, text, bigint, bigint, int, int),
    sync.revocations(pg_snapshot, text, int),
    sync.repair_after_restore(),
    sync.retain(int, int),
    sync.apply(text, text, text, bigint, text, text, text, text, text),
    sync.refuse(text, text, text, bigint, text, text, text, text, text),
    sync.announce(),
    sync.check_published(),
    sync.topics(int),
    sync.adherence_day(text, date),
    sync.adherence_month(text, date),
    sync.adherence_occurrence(text, text),
    sync.reminders(text)
to carillon_hub;
