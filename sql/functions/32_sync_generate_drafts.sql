-- sync.generate_drafts: writes sync.drafts(source, changes), which calls the builder of each published table by name,
-- so that one flush serves all and every plan is cached; and sync.dose_source(), the number of care.dose_occurrence, whose
-- usual commit care.tell_dose tells. Called under the lock that publishing takes. Locks: none.
--
-- Where a column's type is hard, a generated builder may meet a value that jsonb cannot hold (json with \u0000 or a number
-- beyond numeric): its rows go another way then. Nothing has been returned by that time: a function's rows are taken
-- together. What a builder of an app's own returns is measured, and has a name.
--
-- Settings, so that events do not depend on the writer's session; here and not in the flush, for each costs half a
-- microsecond. Those of columns that are money or name an object (sync.hardness) are fixed only where there are such.
-- Money goes by the locale that sessions of this database begin with: another would move its decimal point.
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
            return query select d.user_id, d.summary, d.id, coalesce(d.name, sync.nameless(%1$s)), sync.bounded(d.data)
            from %2$s($2) as d;'
                    end, p.source, p.builder), e'\n' order by p.source)
    into branches from sync.published as p;
    if exists (select from sync.published as p
               where sync.hardest(p.relation, p.columns || array[p.id_column, p.rev_column, p.context_column]) = 4) then
        settings := format(e'\nset quote_all_identifiers = off\nset lc_monetary = %L', s.reset_val)
        from pg_settings as s where s.name = 'lc_monetary';
    end if;
    execute format($generator$
create or replace function sync.drafts(source int, changes sync.change[]) returns setof sync.draft
language plpgsql rows 10
set datestyle = 'ISO, MDY'
set intervalstyle = 'postgres'
set extra_float_digits = 1
set bytea_output = 'hex'%s
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
    execute format($generator$
create or replace function sync.dose_source() returns int
language sql immutable
as $source$
    select %s
$source$
$generator$, coalesce((select p.source from sync.published as p where p.builder = 'care.occurrence_events'), 0));
    revoke all on function sync.dose_source() from public;
end
$$;

-- sync.tell_one: appends the events of one change after the offset `last`, moves the stream's position, and returns how many
-- they were. Called by sync.flush, under the stream's lock. Locks: none.
create or replace function sync.tell_one(one sync.change, last bigint, key text) returns bigint
language plpgsql
as $$
declare
    origin constant jsonb := to_jsonb(key);
    events bigint;
begin
    with made as materialized (
        select * from sync.drafts(one.source, array[one])
    ), appended as (
        insert into sync.event (user_id, topic, o, name, data, created_at)
        select one.user_id, one.topic, n.o, n.name,
               case when pg_column_size(n.whole) < 1600 then n.whole else sync.sealed(n.data, n.o, origin) end, clock_timestamp()
        from (
            select d.o, d.name, d.data,
                   d.data || jsonb_build_object('_sync', jsonb_build_object('o', d.o, 'k', origin)) as whole
            from (
                select m.name, m.data,
                       last + row_number() over (order by m.summary, m.id collate "C")
                       + case when m.user_id = one.user_id then 0 else sync.foreign_draft(one.source) end as o
                from made as m where m.name is not null
            ) as d
            offset 0
        ) as n
        returning o
    )
    update sync.stream as s set top = a.top, kept = k.data, kept_for = k.id
    from (select max(o) as top from appended) as a left join made as k on k.name is null
    where s.user_id = one.user_id and s.topic = one.topic and a.top is not null
    returning a.top - last into events;
    return coalesce(events, 0);
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
