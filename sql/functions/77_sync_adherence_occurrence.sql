-- care.notes_page: how many notes a page has: of any length, they fit into one answer of the hub. No locks.
create or replace function care.notes_page() returns int
language sql immutable parallel safe
begin atomic
    select 100;
end;

-- sync.adherence_occurrence: one dose of a user's with its texts, a page of the notes that actions added to it, and its
-- history, the oldest first; `note` is the latest, from any writer. The first page has the newest notes. `notesNext`, the
-- cursor of the page before it, is null where there is none. UQ002: the cursor is none. `body` null: this user has no such
-- dose. No locks.
drop function if exists sync.adherence_occurrence(text, text);
create or replace function sync.adherence_occurrence(who text, id text, place text default null)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
declare
    before constant jsonb := care.cursor_of(place, 2);
    before_at timestamptz;
begin
    begin
        before_at := before ->> 0;
    exception when data_exception then
        raise exception 'not the cursor of a page' using errcode = 'UQ002';
    end;
    return query
    select p.epoch, p.top, (
        select care.dose_json(d) || page.shown || jsonb_build_object('history', care.history(d.user_id, d.id))
        from care.dose_occurrence as d
        cross join lateral (
            select jsonb_build_object(
                'notes', coalesce(jsonb_agg(jsonb_build_object('key', n.key, 'text', n.text, 'createdAt', n.created_at)
                                            order by n.back desc) filter (where n.back <= care.notes_page()), '[]'),
                'notesNext', case when count(*) > care.notes_page() then
                    care.cursor_text((array_agg(jsonb_build_array(n.created_at, n.key) order by n.back))[care.notes_page()])
                end) as shown
            from (
                select *, row_number() over (order by o.created_at desc, o.key collate "C" desc) as back
                from care.dose_note as o
                where o.user_id = d.user_id and o.occurrence_id = d.id
                    and (before is null
                         or (o.created_at, o.key collate "C") < (before_at, before ->> 1))
                order by back limit care.notes_page() + 1
            ) as n
        ) as page
        where d.id = adherence_occurrence.id and d.user_id = who)::text
    from sync.positions(array[who], array['adherence']) as p;
end
$$;
