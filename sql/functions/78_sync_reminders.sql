-- sync.reminders: a user's reminder rules, the newest first, each with its next occurrences, and which of their occurrences differ from
-- them: {items, occurrences, position}. Left out are occurrences of which all is over a day ago: their
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
            select coalesce(jsonb_agg(care.rule_shown(r, clock) order by r.created_at desc, r.id collate "C"), '[]')
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

-- sync.reminder: one rule with its next `n` occurrences (1 to 30) after `since`, an instant as devices write it (null: now). `body`
-- null: the user has none of this id, or of what a device calls it. No locks.
create or replace function sync.reminder(who text, id text, n bigint, since text)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
declare
    r care.reminder_rule;
begin
    if care.time_problem(to_jsonb(since)) is not null then
        raise exception 'since is no instant' using errcode = 'UQ003';
    end if;
    select * into r from care.reminder_rule as x where x.id = care.find_rule(who, reminder.id) and x.user_id = who;
    return query
    select p.epoch, p.top,
           case when r.id is not null
                then care.rule_shown(r, coalesce(care.time_of(to_jsonb(since)), sync.clock()), n::int)::text end
    from sync.positions(array[who], array['reminders']) as p;
end
$$;

-- sync.preview_reminder: the next times of a rule that is not stored: `doc` is a rule as createReminder takes it, or the changes of
-- one, with its id. Times of a linked one are its schedule's. Beside them `n` and `from`, as sync.reminder has them. No locks.
create or replace function sync.preview_reminder(who text, doc text)
returns table(epoch text, top bigint, body text)
language plpgsql stable security definer rows 1
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
declare
    clock constant timestamptz := sync.clock();
    given constant jsonb := sync.json_of(doc);
    r care.reminder_rule;
    wanted jsonb;
    verdict sync.verdict;
begin
    verdict := care.reminder_problem('createReminder', given, null, null);
    if verdict.status is not null
        or care.given(given, 'n') is not null and care.whole_problem(given -> 'n', 1, 30) is not null
        or care.given(given, 'from') is not null and care.time_problem(given -> 'from') is not null
    then
        raise exception 'this is no rule' using errcode = 'UQ004';
    end if;
    wanted := care.rule_wanted(who, given);
    select * into r from care.reminder_rule as x where x.id = care.find_rule(who, given ->> 'id') and x.user_id = who;
    if r.id is not null then
        r := care.rule_with(r, care.rule_fields(r) || wanted);
    else
        r.id := coalesce(given ->> 'id', gen_random_uuid()::text);
        r.user_id := who;
        r := care.rule_with(r, jsonb_build_object(
            'time', to_char(care.preset_time(who, wanted ->> 'preset'), 'HH24:MI'), 'timezone', care.zone_of(who),
            'tzMode', care.usual_zone_mode(who, wanted ->> 'timezone'), 'repeat', 'daily', 'enabled', true) || wanted);
    end if;
    r := care.previewed(r);
    if r.time is null or r.repeat = 'custom' and coalesce(cardinality(r.repeat_on), 0) = 0 then
        raise exception 'this is no rule' using errcode = 'UQ004';
    end if;
    return query
    select p.epoch, p.top, (
        select jsonb_build_object('nextOccurrences', shown -> 'nextOccurrences', 'upcoming', shown -> 'upcoming')::text
        from care.rule_shown(r, coalesce(care.time_of(care.given(given, 'from')), clock),
                             coalesce((given ->> 'n')::numeric::int, 10)) as shown)
    from sync.positions(array[who], array['reminders']) as p;
end
$$;

-- care.previewed: what triggers say of a rule (care.linked, care.silence_reminder), without their locks: nothing is written.
-- No locks.
create or replace function care.previewed(r care.reminder_rule) returns care.reminder_rule
language plpgsql stable
as $$
declare
    s care.schedule;
begin
    select * into s from care.schedule as x where x.id = r.schedule_id and x.user_id = r.user_id and x.time is not null;
    if s.id is not null then
        r.time := s.time;
        r.repeat := s.repeat;
        r.repeat_on := s.repeat_on;
        r.timezone := s.timezone;
        r.tz_mode := s.tz_mode;
    end if;
    r.silent := (s.id is null or r.stack_id is not null) and care.is_silent(r.user_id, r.product_id, r.stack_id);
    return r;
end
$$;
