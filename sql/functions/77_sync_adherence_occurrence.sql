-- sync.adherence_occurrence: one dose of a user's with its texts, all notes that actions added to it, and its history, the
-- oldest first; `note` is the latest, from any writer. `body` null: this user has no such dose. No locks.
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
            from care.dose_note as n where n.user_id = d.user_id and n.occurrence_id = d.id),
            'history', care.history(d.user_id, d.id))
        from care.dose_occurrence as d
        where d.id = adherence_occurrence.id and d.user_id = who)::text
    from sync.positions(array[who], array['adherence']) as p;
end
$$;
