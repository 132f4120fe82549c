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
