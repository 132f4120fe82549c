-- sync.reminders: a user's reminder rules, the newest first, and which of their occurrences differ from them:
-- {items, occurrences, position}, each as events show it. Left out are occurrences of which all is over a day ago: their
-- time by the rule, what they were moved to and snoozed until, for one moved to yesterday would fire at its old time still.
-- No locks.
create or replace function sync.reminders(who text)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
declare
    clock timestamptz := sync.clock();
begin
    return query
    select p.epoch, p.top, jsonb_build_object(
        'items', (
            select coalesce(jsonb_agg(care.rule_json(r, clock) order by r.created_at desc, r.id collate "C"), '[]')
            from care.reminder_rule as r where r.user_id = who),
        'occurrences', (
            select coalesce(jsonb_agg(care.rule_occurrence_json(x, r)
                                      order by x.original_local, x.id collate "C"), '[]')
            from care.reminder_rule as r
            cross join lateral (
                -- By index, without those of the past: no zone is more than a day from UTC, or from another.
                select o.* from care.reminder_occurrence as o
                where o.rule_id = r.id and o.day >= (clock at time zone 'UTC')::date - 2
                union all
                select o.* from care.reminder_occurrence as o
                where o.rule_id = r.id and o.day < (clock at time zone 'UTC')::date - 2
                    and greatest(o.moved_to, o.snoozed_until) > clock - interval '3 days'
            ) as x
            where r.user_id = who and x.user_id = r.user_id
                and greatest(care.resolve_local(x.day + r.time, r.timezone), care.moved_start(x, r.timezone), x.snoozed_until)
                    > clock - interval '1 day'),
        'position', jsonb_build_object('epoch', p.epoch, 'offset', p.top))::text
    from sync.positions(array[who], array['reminders']) as p;
end
$$;
