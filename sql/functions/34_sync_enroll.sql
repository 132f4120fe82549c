-- sync.enroll: carillon_owner's half of publishing: the entry in sync.published and the generated functions. Returns
-- the name of the trigger function. Called by sync.publish_changes, which has checked everything.
-- Lock order: sync.published (SHARE ROW EXCLUSIVE), so that publishers queue.
create or replace function sync.enroll(entry sync.published) returns name
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    p sync.published := entry;
begin
    lock table sync.published in share row exclusive mode;
    insert into sync.published as old (relation, user_column, topic, event_prefix, id_column, rev_column,
                                       context_column, columns, recorder, builder)
    values (p.relation, p.user_column, p.topic, p.event_prefix, p.id_column, p.rev_column,
            p.context_column, p.columns, p.recorder, p.builder)
    on conflict (relation) do update
        set user_column = excluded.user_column, topic = excluded.topic, event_prefix = excluded.event_prefix,
            id_column = excluded.id_column, rev_column = excluded.rev_column,
            context_column = excluded.context_column, columns = excluded.columns, builder = excluded.builder
    returning * into p;
    perform sync.probe(p);
    perform sync.generate_recorder(p);
    if p.builder like 'sync.build_%' then
        perform sync.generate_builder(p);
    end if;
    perform sync.generate_drafts();
    return p.recorder;
end
$$;
