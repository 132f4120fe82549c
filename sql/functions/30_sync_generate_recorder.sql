-- sync.generate_recorder: writes the trigger function of one published table. It only records (sync.touched, one
-- ticket); static SQL, so that its plans are cached. Both owners of a row that moves are recorded, each as that owner sees it;
-- a row without a user (null or '') is skipped; updates that change nothing (compared as images, which any type has)
-- are dropped. `o.*` and `n.*`: a bare `n` would be a column of that name. `is distinct from null`: a composite id that has a
-- null inside is neither null nor not null. SECURITY DEFINER: who may write the table
-- needs no right on sync. Its settings, where a type needs them: an id and an owner have one text, whatever the writer's
-- session has set.
--
-- What is too long to be told is refused (sync.too_long); where it ends, it was never told.
--
-- A trigger of the app's own that writes the table again has been recorded before the statement that fired it. So
-- nothing here depends on the order: what comes again on a row adds to the balance, keeps every context, and the
-- highest rev. Locks: none of others'.
--
-- One statement may update a row twice: two foreign keys of it that cascade from one parent, or a new id and a cascade. The
-- join by id would then pair each version before with each after, so what came and went is counted. Where no id
-- is twice in either table, a join is the same. An update of one row, the usual one, pays for
-- none of this: its statement comes first, and does nothing where there is a second row, or where the id or the user changed.
-- Where it is the first change of its transaction, it writes nothing but the ticket; of doses, their audit with it
-- (care.audited_recorder).
create or replace function sync.generate_recorder(p sync.published) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    was constant text := sync.id_text(p, 'o');
    is_now constant text := sync.id_text(p, 'n');
    written name[] := array[p.id_column, p.user_column];
    hardest int;
    context text;
    context_type regtype;
    rev text := case when p.rev_column is null then 'null::bigint' else format('o.%I::bigint', p.rev_column) end;
    paired text;
    stayed text;
    audited constant boolean := p.builder = 'care.occurrence_events';
    first text;
    again text;
    -- Before the statement of an event: whether its columns are there. The product's own always are.
    known text := case when p.builder like 'care.%' then '' else format($sql$
        perform from %%s where not sync.as_published(%s);$sql$, p.source) end;
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
            (o.%4$I::text collate "C", %8$s,
             case when n.%4$I::text collate "C" = o.%4$I::text then 'U'::"char" else 'D'::"char" end, %6$s, %7$s),
            (case when n.%4$I::text collate "C" is distinct from o.%4$I::text then n.%4$I::text end, %9$s,
             'I'::"char", null::text, null::bigint)
        ) as v(user_id, id, op, context, rev)
        where v.user_id <> ''
            and (octet_length(v.user_id) + octet_length(v.id) <= 2600 or v.op <> 'D' and sync.too_long(%1$s, v.user_id, v.id))
            and (o.%3$I is not distinct from null or n.%3$I is not distinct from null or o.* *<> n.*)$sql$,
        p.source, p.topic, p.id_column, p.user_column, sync.same_id(p), context, rev, was, is_now);
    -- The one row of a statement, whose id and user stayed: the same, without the hash of a join. Where it is the transaction's
    -- first change, the ticket tells it.
    stayed := format($sql$pg_current_xact_id(), %1$s,
        case when octet_length(o.%4$I::text) + octet_length(%3$s) <= 2600 or sync.too_long(%1$s, o.%4$I::text, %3$s)
            then o.%4$I::text end,
        %3$s, %2$L, %5$s, %6$s
        from old_rows as o cross join new_rows as n
        where o.%4$I::text collate "C" <> '' and o.* *<> n.*
            and %3$s collate "C" is not distinct from %7$s collate "C"
            and o.%4$I::text collate "C" is not distinct from n.%4$I::text collate "C"
            and not exists (select from new_rows offset 1)$sql$,
        p.source, p.topic, was, p.user_column, context, rev, is_now);
    -- Of doses, a statement that writes their audit too.
    first := case when audited then care.audited_recorder(p.source, p.topic) else format($sql$
        insert into sync.ticket (xid, source, user_id, id, topic, context, rev)
        select %s
        on conflict do nothing;
        if found then
            return null;
        end if;$sql$, stayed) end;
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
    if tg_op = 'UPDATE' then%15$s%14$s
        insert into sync.touched as t (xid, source, user_id, id, topic, context, rev, op, balance)
        select s.*, 'U', 0 from (select %13$s) as s
        %10$s;
        if not found then
            -- Several rows, one that moved, or nothing to tell.
            if exists (select from new_rows offset 1) then
                if exists (select from old_rows as o group by %17$s collate "C" having count(*) > 1)
                    or exists (select from new_rows as n group by %18$s collate "C" having count(*) > 1) then
                    insert into sync.touched as t (xid, source, user_id, id, topic, op, balance, context, contexts, rev)
                    select pg_current_xact_id(), %2$s, g.user_id, g.id, %3$L,
                           case when g.balance < 0 then 'D'::"char" else 'I'::"char" end, g.balance,
                           g.contexts[1], nullif(g.contexts[2:], '{}'), g.rev
                    from (
                        select v.user_id, v.id, sum(v.came)::int as balance, max(v.rev) as rev,
                               array_agg(distinct v.context) filter (where v.context is not null) as contexts
                        from (
                            select o.%5$I::text collate "C", %17$s collate "C", -1, %6$s, %7$s from old_rows as o
                            union all
                            select n.%5$I::text collate "C", %18$s collate "C", 1, null::text, null::bigint from new_rows as n
                        ) as v(user_id, id, came, context, rev)
                        where v.user_id <> '' and v.id not in (
                            select coalesce(%17$s, %18$s) collate "C"
                            from old_rows as o full join new_rows as n on %9$s
                            group by 1
                            having count(*) = 1 and bool_and(o.%4$I is distinct from null and n.%4$I is distinct from null and o.* *= n.*))
                        group by v.user_id, v.id
                    ) as g
                    where octet_length(g.user_id) + octet_length(g.id) <= 2600
                        or g.balance >= 0 and sync.too_long(%2$s, g.user_id, g.id)
                    %11$s;
                else
                    %8$s
                    %10$s;
                end if;
            else
                %8$s
                %10$s;
            end if;
        end if;
    elsif tg_op = 'INSERT' then%16$s
        insert into sync.touched as t (xid, source, user_id, id, topic, op, balance)
        select pg_current_xact_id(), %2$s, n.%5$I::text, %18$s, %3$L, 'I', 1
        from new_rows as n
        where n.%5$I::text collate "C" <> ''
            and (octet_length(n.%5$I::text) + octet_length(%18$s) <= 2600 or sync.too_long(%2$s, n.%5$I::text, %18$s))
        %10$s;
    else%15$s
        insert into sync.touched as t (xid, source, user_id, id, topic, op, balance, context, rev)
        select pg_current_xact_id(), %2$s, o.%5$I::text, %17$s, %3$L, 'D', -1, %6$s, %7$s
        from old_rows as o
        where o.%5$I::text collate "C" <> '' and octet_length(o.%5$I::text) + octet_length(%17$s) <= 2600
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
set quote_all_identifiers = off$sql$ end, stayed, first, format(known, 'old_rows'), format(known, 'new_rows'), was, is_now);
    execute format('revoke all on function sync.%I() from public', p.recorder);
end
$$;
