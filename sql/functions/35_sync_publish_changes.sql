-- sync.publish_changes: from now on every committed change of a table becomes an event on user.<user>.<topic>.
--
--     select sync.publish_changes('app.weight', 'user_id', 'weight', 'weight');
--
--   relation      a plain table; its owner (or a superuser) calls this, as a member of carillon_owner. Everybody else is told
--                 so: the right to call it is everybody's
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
--   ids           'number': an id that is a number is a JSON number where that is exact (sync.exact), else text; 'text': always text
--   text          columns that are sent as text, such as amounts and integers beyond 2^53
--
-- Safe to run again, also with other arguments: a NOTICE then says what was replaced. Rename a table or a column it uses,
-- change the id's type: call this again. The product's own tables (schema care) are published by `carillon migrate`, and
-- refused here.
-- Lock order: sync.published, then the table (SHARE ROW EXCLUSIVE, by CREATE TRIGGER): writers wait for the moment.
drop function if exists sync.publish_changes(regclass, name, text, text, name, name, name[], text, name);
create or replace function sync.publish_changes(
    relation regclass,
    user_column name,
    topic text,
    event_prefix text,
    id_column name default 'id',
    rev_column name default null,
    columns name[] default null,
    builder text default null,
    context_column name default null,
    ids text default 'number',
    text name[] default null
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    before sync.published;
    p sync.published;
begin
    perform sync.refuse_strangers();
    perform sync.refuse_own(relation);
    select * into before from sync.published as e where e.relation = publish_changes.relation;
    perform sync.publish(relation, user_column, topic, event_prefix, id_column, rev_column, columns, builder, context_column,
                         ids, text);
    select * into p from sync.published as e where e.relation = publish_changes.relation;
    before.published_as := p.published_as;
    before.id_type := p.id_type;
    before.hardest := p.hardest;
    before.labels := p.labels;
    if before.source is not null and before *<> p then
        raise notice '% was published already, on topic % as %.* by %; from now on it is on topic % as %.* by %',
            p.published_as, before.topic, before.event_prefix, before.builder, p.topic, p.event_prefix, p.builder;
    end if;
end
$$;

-- sync.refuse_strangers: tells a caller that may not publish what is missing. Called first by publish_changes and
-- unpublish_changes, which everybody may call. No locks.
create or replace function sync.refuse_strangers() returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not pg_has_role(current_user, 'carillon_owner', 'usage') then
        raise exception 'the role % may not publish tables: it is not a member of carillon_owner', quote_ident(current_user)
            using errcode = 'insufficient_privilege',
                hint = format('A superuser types: grant carillon_owner to %I.', current_user);
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

-- sync.publish: publishes any table, the product's own too, without a NOTICE. Locks: those of sync.publish_changes.
drop function if exists sync.publish(regclass, name, text, text, name, name, name[], text, name);
create or replace function sync.publish(
    relation regclass,
    user_column name,
    topic text,
    event_prefix text,
    id_column name default 'id',
    rev_column name default null,
    columns name[] default null,
    builder text default null,
    context_column name default null,
    ids text default 'number',
    text name[] default null
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
    foreach wanted in array array_remove(
        array[user_column, id_column, rev_column, context_column] || columns || publish."text", null)
    loop
        if not wanted = any(existing) then
            raise exception '% has no column %', table_name, quote_ident(wanted)
                using errcode = 'undefined_column',
                    hint = case when wanted = id_column then sync.identify_hint(relation)
                                else format('Its columns are %s.', array_to_string(existing, ', ')) end;
        end if;
    end loop;
    if user_column is null or id_column is null then
        raise exception 'user column and id column must be named' using errcode = 'null_value_not_allowed';
    end if;
    select u.problem into reason from sync.unidentified(relation, id_column) as u;
    if reason is not null then
        raise exception 'cannot publish %: %', table_name, reason
            using errcode = 'invalid_parameter_value', hint = sync.identify_hint(relation);
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
    p.text_columns := coalesce(publish."text", '{}');
    p.id_form := ids;
    if ids is null or ids not in ('number', 'text') then
        raise exception 'ids must be number or text' using errcode = 'invalid_parameter_value';
    elsif not p.text_columns <@ array_remove(array_remove(p.columns, id_column), rev_column) then
        raise exception 'text must name columns that are sent, besides the id and the revision'
            using errcode = 'invalid_parameter_value', hint = 'For the id: ids => ''text''.';
    elsif builder is not null and (ids = 'text' or p.text_columns <> '{}') then
        raise exception 'ids and text are for events that Carillon makes: builder % makes its own', builder
            using errcode = 'invalid_parameter_value';
    end if;
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
