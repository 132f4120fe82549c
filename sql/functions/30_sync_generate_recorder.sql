-- sync.generate_recorder: writes the trigger function of one published table. It only records (sync.touched, one
-- ticket); static SQL, so that its plans are cached. Both owners of a row that moves are recorded, each as he sees it;
-- a row without a user (null or '') is skipped; updates that change nothing (compared as images, which any type has)
-- are dropped. SECURITY DEFINER: who may write the table needs no right on sync. Locks: none of others'.
create or replace function sync.generate_recorder(p sync.published) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    context text;
    context_type regtype;
begin
    if p.context_column is null then
        context := 'null::text';
    else
        select atttypid into context_type from pg_attribute
        where attrelid = p.relation and attname = p.context_column and not attisdropped;
        context := case context_type when 'date'::regtype then format('to_char(o.%I, ''YYYY-MM-DD'')', p.context_column)
                                     else format('o.%I::text', p.context_column) end;
    end if;
    execute format($generator$
create or replace function sync.%1$I() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $recorder$
begin
    if tg_op = 'UPDATE' then
        insert into sync.touched as t (xid, source, user_id, id, topic, op, context, rev)
        select pg_current_xact_id(), %2$s, v.user_id, v.id, %3$L, v.op, v.context, v.rev
        from old_rows as o full join new_rows as n on n.%4$I = o.%4$I
        cross join lateral (values
            (o.%5$I::text, o.%4$I::text,
             case when n.%5$I::text = o.%5$I::text then 'U'::"char" else 'D'::"char" end, %6$s, %7$s),
            (case when n.%5$I::text is distinct from o.%5$I::text then n.%5$I::text end, n.%4$I::text,
             'I'::"char", null::text, null::bigint)
        ) as v(user_id, id, op, context, rev)
        where v.user_id <> '' and (o.%4$I is null or n.%4$I is null or o *<> n)
        on conflict (xid, source, user_id, id)
            do update set rev = excluded.rev where excluded.rev is not null;
    elsif tg_op = 'INSERT' then
        insert into sync.touched (xid, source, user_id, id, topic, op)
        select pg_current_xact_id(), %2$s, n.%5$I::text, n.%4$I::text, %3$L, 'I'
        from new_rows as n
        where n.%5$I::text <> ''
        on conflict (xid, source, user_id, id) do nothing;
    else
        insert into sync.touched as t (xid, source, user_id, id, topic, op, context, rev)
        select pg_current_xact_id(), %2$s, o.%5$I::text, o.%4$I::text, %3$L, 'D', %6$s, %7$s
        from old_rows as o
        where o.%5$I::text <> ''
        on conflict (xid, source, user_id, id)
            do update set rev = excluded.rev where excluded.rev is not null;
    end if;
    if found then
        insert into sync.ticket (xid) values (pg_current_xact_id()) on conflict do nothing;
    end if;
    return null;
end
$recorder$
$generator$,
        p.recorder, p.source, p.topic, p.id_column, p.user_column, context,
        case when p.rev_column is null then 'null::bigint' else format('o.%I::bigint', p.rev_column) end);
    execute format('revoke all on function sync.%I() from public', p.recorder);
end
$$;
