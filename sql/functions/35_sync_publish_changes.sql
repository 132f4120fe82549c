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
--   context_column  for such builders: its value before the change comes as sync.change.context
--
-- Safe to run again, also with other arguments. Rename a table or a column it uses: call this again.
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
    p sync.published;
    reason text;
    existing name[];
    wanted name;
    table_name text;
    table_owner oid;
    suffix text;
    twins text;
begin
    select format('%I.%I', n.nspname, c.relname), c.relowner,
           regexp_replace(left(n.nspname || '_' || c.relname, 40), '[^A-Za-z0-9_]', '_', 'g')
               || '_' || left(md5(n.nspname || '.' || c.relname), 6)
    into table_name, table_owner, suffix
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace where c.oid = relation;
    if table_name is null then
        raise exception 'there is no such table' using errcode = 'undefined_table';
    end if;
    if not pg_has_role(current_user, table_owner, 'usage') then
        raise exception 'only the owner of % may publish it', table_name using errcode = 'insufficient_privilege';
    end if;
    reason := sync.unpublishable(relation);
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
            raise exception '% has no column %', table_name, quote_ident(wanted) using errcode = 'undefined_column';
        end if;
    end loop;
    if user_column is null or id_column is null then
        raise exception 'user column and id column must be named' using errcode = 'null_value_not_allowed';
    end if;
    if not exists (
        select from pg_index as i
        join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
        where i.indrelid = relation and i.indisunique and i.indimmediate and i.indisvalid
            and i.indnkeyatts = 1 and i.indpred is null
            and a.attname = id_column and a.attnotnull
    ) then
        raise exception 'column % of % needs to be not null and to have a unique index of its own',
            quote_ident(id_column), table_name using errcode = 'invalid_parameter_value';
    end if;

    -- A domain counts as what it is made of.
    if rev_column is not null and not exists (
        select from pg_attribute as a join pg_type as t on t.oid = a.atttypid
        where a.attrelid = relation and a.attname = rev_column
            and coalesce(nullif(t.typbasetype, 0), t.oid) in ('bigint'::regtype, 'integer'::regtype, 'smallint'::regtype)
    ) then
        raise exception 'rev column % of % needs to be an integer', quote_ident(rev_column), table_name
            using errcode = 'invalid_parameter_value';
    end if;

    p.relation := relation;
    p.user_column := user_column;
    p.topic := topic;
    p.event_prefix := event_prefix;
    p.id_column := id_column;
    p.rev_column := rev_column;
    p.context_column := context_column;
    p.columns := coalesce(columns, array_remove(existing, user_column));
    p.recorder := 'record_' || suffix;
    p.builder := coalesce(builder, 'sync.build_' || suffix);
    if builder is null then
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
        if not has_schema_privilege('carillon_owner', split_part(table_name, '.', 1)::regnamespace, 'usage') then
            execute format('grant usage on schema %s to carillon_owner', split_part(table_name, '.', 1));
        end if;
    end if;
    perform sync.attach(relation, sync.enroll(p));
end
$$;
