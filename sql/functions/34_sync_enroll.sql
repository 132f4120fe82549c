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
    p.labels := sync.labels(p.relation, array[p.id_column, p.user_column]);
    perform sync.probe(p);
    insert into sync.published (source, relation, user_column, topic, event_prefix, id_column, rev_column,
                                context_column, columns, recorder, builder, published_as, id_type, hardest, id_form, text_columns,
                                labels)
    overriding system value
    values (p.source, p.relation, p.user_column, p.topic, p.event_prefix, p.id_column, p.rev_column,
            p.context_column, p.columns, p.recorder, p.builder, p.published_as, p.id_type, p.hardest, p.id_form, p.text_columns, p.labels)
    on conflict (source) do update
        set user_column = excluded.user_column, topic = excluded.topic, event_prefix = excluded.event_prefix,
            id_column = excluded.id_column, rev_column = excluded.rev_column,
            context_column = excluded.context_column, columns = excluded.columns, builder = excluded.builder,
            published_as = excluded.published_as, id_type = excluded.id_type, hardest = excluded.hardest,
            id_form = excluded.id_form, text_columns = excluded.text_columns, labels = excluded.labels;
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
