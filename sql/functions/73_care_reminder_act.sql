-- Actions on reminder rules. The user's account is locked (sync.settle): of one user's actions one runs at a time, and only plain
-- SQL may come between. Lock order: the rule, its schedule (SHARE); then the flush.
--
-- What was decided where the specification leaves it open:
--   1  An id that begins with `tmp-` is a client's name of the rule, as `clientId` is; any other id is the rule's, a UUID or not. A rule
--      shows its first name as `clientId`, and answers to all of them, also when it is gone.
--   2  A create without an id of its own is keyless, whatever its key: none, or a `tmp-` one (a clientId of another kind is an
--      id of its own). Where it equals a live rule of the last 24 hours in target, time, repeat, days (of custom) and
--      zone, it IS that rule: noop; the name that it brings is added to the rule's (the first one raises the rev: an event
--      tells it). Seed 001 posts each rule that was made offline twice: under a temporary name by its queue, and without one.
--      So in the ten minutes after a rule was made under a temporary name, one create without a name that equals it as it was
--      made IS it too, whatever became of it: it was changed (noop), or deleted (noop, with its id). Only one: who
--      makes a deleted rule again on purpose gets it, at the second attempt at the latest. A create by another device than the
--      one that made the rule is no such post: it makes a rule. Where one of them names no device, it may be one.
--   3  A create under an id or name that is in use is that rule: noop. Under one that was deleted in the last 90 days it is a conflict,
--      `gone`: a queue that comes late brings nothing back unasked.
--   4  A product that care has never known is the app's own. One that is archived, deleted or another's is refused, and a stack
--      that is not the user's (care.target_problem). A schedule must be the user's, and of the same product or stack; a
--      linked rule may leave out its target.
--   5  repeat is daily and delivery local where nothing is said; tzMode is follow, as that of schedules, but fixed beside a
--      timezone that is not the user's. repeatOn is kept beside any repeat, and counts for custom. A
--      preset gives a time only to a new rule.
--   6  An update of what never was is a conflict too (`gone`); a deletion of it is done already. A deletion conflicts (`state`) where
--      another device has changed the rule since the revision that it names.
--   7  A device knows what it did itself, and what it asked for and found done. Who names no device has only said what it saw: two
--      changes of the same revision without a deviceId conflict, for they may be of two phones.
--   8  keep_local, accept_server and merge of a conflict: 73_care_reminder_resolve.sql.

-- care.find_rule: the id of a rule, living or deleted, by its id or by what a device calls it; null: there is none. No locks.
create or replace function care.find_rule(who text, name text) returns text
language plpgsql stable
as $$
begin
    return coalesce(
        (select r.id from care.reminder_rule as r where r.id = name and r.user_id = who),
        (select n.rule_id from care.reminder_alias as n where n.user_id = who and n.alias = name),
        (select t.id from care.reminder_tombstone as t where t.user_id = who and t.id = name));
end
$$;

-- care.name_rule: what a device calls a rule: the first name stands in the rule. A name that another living rule has stays that
-- one's. Lock order: the rule, the name.
create or replace function care.name_rule(r care.reminder_rule, name text) returns care.reminder_rule
language plpgsql
as $$
begin
    if name is null or name = r.id or exists (
        select from care.reminder_rule as x where x.user_id = r.user_id and x.id = care.find_rule(r.user_id, name)
            and (x.id <> r.id or exists (
                select from care.reminder_alias as n where n.user_id = r.user_id and n.alias = name and n.rule_id = r.id))
    ) then
        return r;
    elsif r.client_id is null then
        update care.reminder_rule as x set client_id = name where x.id = r.id returning x.* into r;
    else
        insert into care.reminder_alias (user_id, alias, rule_id) values (r.user_id, name, r.id)
        on conflict (user_id, alias) do update set rule_id = excluded.rule_id;
    end if;
    return r;
end
$$;

-- care.rule_gone: the verdict on a change of a rule that was deleted, or never was: with keep_local it comes back, with its id, as
-- it was with what the person wants. No locks.
create or replace function care.rule_gone(who text, id text, type text, name text, wanted jsonb, clock timestamptz)
returns sync.verdict
language plpgsql stable
as $$
declare
    t care.reminder_tombstone;
    fields jsonb;
begin
    select * into t from care.reminder_tombstone as x where x.user_id = who and x.id = rule_gone.id;
    if t.id is null then
        return care.rule_conflict('gone', name, null, null, wanted, '{}', '{}', '["accept_server"]',
                                  jsonb_build_object('type', type, 'id', name, 'rev', 0, 'local', wanted, 'taken', wanted), clock);
    end if;
    fields := care.rule_fields(jsonb_populate_record(null::care.reminder_rule, t.rule));
    return care.rule_conflict(
        'gone', t.id, null, fields, wanted, '{}', fields || wanted, '["keep_local", "accept_server"]',
        jsonb_build_object('type', type, 'id', t.id, 'rev', t.rev, 'local', wanted, 'taken', wanted, 'gone', t.rule), clock);
end
$$;

-- care.is_twin: whether two rules are one to who makes them: in target, time, repeat, days (of custom) and zone. No locks.
create or replace function care.is_twin(a care.reminder_rule, b care.reminder_rule) returns boolean
language plpgsql stable
as $$
begin
    return (a.product_id, a.stack_id) is not distinct from (b.product_id, b.stack_id)
        and (a.time, a.timezone, a.repeat) = (b.time, b.timezone, b.repeat)
        and (a.repeat <> 'custom' or a.repeat_on <@ b.repeat_on and a.repeat_on @> b.repeat_on);
end
$$;

-- care.queued_twin: the rule, living or deleted, that the queue of this device made of the same wish as this create without a name;
-- null where there is none (the second decision above). No locks.
create or replace function care.queued_twin(r care.reminder_rule, clock timestamptz) returns text
language plpgsql stable
as $$
declare
    since constant timestamptz := clock - interval '10 minutes';
    poster constant text := nullif(current_setting('sync.device', true), '');
begin
    return (
        select c.id
        from (
            select x.id, x.created_at from care.reminder_rule as x where x.user_id = r.user_id
            union all
            select t.id, (t.rule ->> 'created_at')::timestamptz from care.reminder_tombstone as t
            where t.user_id = r.user_id and t.deleted_at > since
        ) as c
        cross join lateral (
            select jsonb_populate_record(null::care.reminder_rule, a."is") as rule, a.device from care.reminder_audit as a
            where a.rule_id = c.id and a.user_id = r.user_id and a.was is null order by a.n limit 1
        ) as made
        where c.created_at > since and (made.rule).client_id like 'tmp-%' and care.is_twin(made.rule, r)
            and coalesce(made.device = poster, true)
            and not exists (
                select from sync.action as b
                where b.user_id = r.user_id and b.created_at > since and b.memo ->> 'posted' = c.id
                    and coalesce(made.device = b.device_id, true))
        order by c.created_at, c.id collate "C" limit 1);
end
$$;

-- care.create_reminder. Lock order: the rule that is there; or the schedule (SHARE), the product (SHARE), the new rule.
create or replace function care.create_reminder(who text, doc jsonb, clock timestamptz) returns sync.verdict
language plpgsql
as $$
declare
    given constant text := doc ->> 'id';
    own constant text := case when given not like 'tmp-%' then given end;
    names constant text[] := array_remove(array[doc ->> 'clientId', case when given like 'tmp-%' then given end], null);
    wanted jsonb := care.rule_wanted(who, doc);
    r care.reminder_rule;
    s care.schedule;
    verdict sync.verdict;
    name text;
    found_id text;
    t care.reminder_tombstone;
begin
    foreach name in array array_remove(own || names, null) loop
        found_id := care.find_rule(who, name);
        continue when found_id is null;
        select * into r from care.reminder_rule as x where x.id = found_id and x.user_id = who for no key update;
        if r.id is null then
            return care.rule_gone(who, found_id, 'createReminder', name, wanted, clock);
        end if;
        return care.named(r, names || own, clock);
    end loop;
    if exists (select from care.reminder_rule as x where x.id = own) then
        return care.invalid('payload.id', 'is in use');
    end if;
    if care.given(wanted, 'scheduleId') is not null then
        select * into s from care.schedule as x where x.id = wanted ->> 'scheduleId' and x.user_id = who;
        if s.id is null then
            return care.unknown('payload.scheduleId', 'names no schedule');
        end if;
        if not wanted ?| '{productId,stackId}' then
            wanted := wanted || jsonb_build_object('productId', s.product_id, 'stackId', s.stack_id);
        end if;
    end if;
    r.user_id := who;
    r.schedule_id := wanted ->> 'scheduleId';
    r := care.rule_with(r, jsonb_build_object(
        'appliesTo', case when care.given(wanted, 'stackId') is null then 'item' else 'stack' end,
        'time', to_char(care.preset_time(who, wanted ->> 'preset'), 'HH24:MI'), 'timezone', care.zone_of(who),
        'tzMode', care.usual_zone_mode(who, wanted ->> 'timezone'), 'repeat', 'daily', 'delivery', 'local', 'enabled', true)
        || wanted);
    verdict := care.rule_problem(r, null);
    if verdict.status is not null then
        return verdict;
    elsif r.schedule_id is not null then
        r := care.linked(r, false);
    end if;
    if own is null and (doc ->> 'clientId' is null or doc ->> 'clientId' like 'tmp-%') then
        select x.id into found_id from care.reminder_rule as x
        where x.user_id = who and x.created_at > clock - interval '24 hours' and care.is_twin(x, r)
        order by x.created_at desc, x.id collate "C" desc limit 1;
        if found_id is null and names = '{}' then
            found_id := care.queued_twin(r, clock);
            select * into t from care.reminder_tombstone as x where x.user_id = who and x.id = found_id;
        end if;
        if t.id is not null then
            verdict := care.done('noop', jsonb_build_object('id', t.id, 'rev', t.rev));
        elsif found_id is not null then
            select * into r from care.reminder_rule as x where x.id = found_id for no key update;
            verdict := care.named(r, names, clock);
        end if;
        if found_id is not null then
            verdict.memo := case when names = '{}' then jsonb_build_object('posted', found_id) end;
            return verdict;
        end if;
    end if;
    if (select count(*) from care.reminder_rule as x where x.user_id = who) >= 200 then
        return care.invalid('payload', 'a user has 200 reminders at most');
    end if;
    -- Who archives it waits, or is seen.
    perform from care.product as p where p.id = r.product_id for share;
    verdict := care.target_problem(r);
    if verdict.status is not null then
        return verdict;
    end if;
    insert into care.reminder_rule as x (id, user_id, client_id, product_id, stack_id, applies_to, preset, label, time, timezone,
                                         tz_mode, repeat, repeat_on, snooze_minutes, delivery, enabled, schedule_id,
                                         created_at, updated_at)
    values (coalesce(own, gen_random_uuid()::text), who, names[1], r.product_id, r.stack_id, r.applies_to, r.preset, r.label,
            r.time, r.timezone, r.tz_mode, r.repeat, r.repeat_on, r.snooze_minutes, r.delivery, r.enabled, r.schedule_id,
            clock, clock)
    returning x.* into r;
    perform care.name_rule(r, names[2]);
    return care.done('applied', care.rule_shown(r, clock));
end
$$;

-- care.named: the verdict of a create that is a rule which is there: what the device calls it is kept. Locks: care.name_rule.
create or replace function care.named(r care.reminder_rule, names text[], clock timestamptz) returns sync.verdict
language plpgsql
as $$
declare
    name text;
begin
    foreach name in array names loop
        r := care.name_rule(r, name);
    end loop;
    perform care.tell_now();
    return care.done('noop', care.rule_shown(r, clock));
end
$$;

-- care.update_reminder: fields, by their wanted values. Locks: the rule, its schedule (SHARE).
create or replace function care.update_reminder(who text, name text, wanted jsonb, base bigint, clock timestamptz)
returns sync.verdict
language plpgsql
as $$
declare
    found_id constant text := care.find_rule(who, name);
    r care.reminder_rule;
    wish care.reminder_rule;
    server jsonb;
    known jsonb;
    taken jsonb;
    conflicts text[];
    verdict sync.verdict;
    said jsonb;
begin
    select * into r from care.reminder_rule as x where x.id = found_id and x.user_id = who for no key update;
    if r.id is null then
        return care.rule_gone(who, found_id, 'updateReminder', name, wanted, clock);
    end if;
    server := care.rule_fields(r);
    known := case when base is null then server else care.known_fields(r, base) end;
    said := case when base < r.rev then care.found_done(r, wanted, server, known) end;
    select m.taken, m.conflicts into taken, conflicts
    from care.merged(wanted, server, known, coalesce(care.unseen_fields(r, base), '{}')) as m;
    if conflicts <> '{}' then
        -- What was sent along unchanged is no wish of the person's.
        wanted := (select jsonb_object_agg(e.key, e.value) from jsonb_each(wanted) as e
                   where taken ? e.key or e.key = any(conflicts));
        return care.rule_conflict('field', r.id, r, known, wanted, conflicts, taken, '["keep_local", "accept_server", "merge"]',
                                  jsonb_build_object('type', 'updateReminder', 'id', r.id, 'rev', r.rev, 'local', wanted,
                                                     'taken', taken), clock);
    end if;
    wish := care.rule_with(r, server || taken);
    -- A rule that follows its user takes no other zone: where nothing else is wished, it is as it was, and nobody is told.
    if taken = '{}' or care.rule_fields(wish) = server then
        verdict := care.done('noop', care.rule_shown(r, clock));
        verdict.memo := said;
        return verdict;
    end if;
    verdict := care.rule_problem(wish, r);
    if verdict.status is null and (wish.product_id, wish.stack_id) is distinct from (r.product_id, r.stack_id) then
        verdict := care.target_problem(wish);
    end if;
    if verdict.status is not null then
        return verdict;
    end if;
    update care.reminder_rule as x
    set product_id = wish.product_id, stack_id = wish.stack_id, applies_to = wish.applies_to, preset = wish.preset,
        label = wish.label, time = wish.time, timezone = wish.timezone, tz_mode = wish.tz_mode, repeat = wish.repeat,
        repeat_on = wish.repeat_on, snooze_minutes = wish.snooze_minutes, delivery = wish.delivery, enabled = wish.enabled,
        schedule_id = wish.schedule_id
    where x.id = r.id
    returning x.* into r;
    verdict := care.done('applied', care.rule_shown(r, clock));
    verdict.memo := said;
    return verdict;
end
$$;

-- care.delete_reminder: with its occurrences. Without a revision it is forced. Lock order: the rule, its occurrences.
create or replace function care.delete_reminder(who text, name text, base bigint, clock timestamptz) returns sync.verdict
language plpgsql
as $$
declare
    found_id constant text := care.find_rule(who, name);
    r care.reminder_rule;
    t care.reminder_tombstone;
begin
    select * into r from care.reminder_rule as x where x.id = found_id and x.user_id = who for update;
    if r.id is null then
        select * into t from care.reminder_tombstone as x where x.user_id = who and x.id = found_id;
        return row('noop', case when t.id is null then '{}'::jsonb
                                else jsonb_build_object('result', jsonb_build_object('id', t.id, 'rev', t.rev)) end,
                   null, t.id is null)::sync.verdict;
    elsif base is not null and care.rule_changed(r, base) then
        return care.rule_conflict('state', r.id, r, care.known_fields(r, base), '{}', '{}', '{}',
                                  '["keep_local", "accept_server"]',
                                  jsonb_build_object('type', 'deleteReminder', 'id', r.id, 'rev', r.rev), clock);
    end if;
    delete from care.reminder_rule as x where x.id = r.id;
    return care.done('applied', jsonb_build_object('id', r.id, 'rev', r.rev));
end
$$;

-- care.act_reminders: what sync.settle hands the types of reminders to. `base` and `client_time` null where they are absent. An
-- update with applyTo occurrence is about one occurrence. Locks: those of the type's own function.
create or replace function care.act_reminders(who text, key text, type text, doc jsonb, base jsonb, client_time jsonb,
                                              tz text) returns sync.verdict
language plpgsql
as $$
declare
    clock constant timestamptz := sync.clock();
    kind constant text := case when type = 'updateReminder' and doc ->> 'applyTo' = 'occurrence' then 'setReminderOccurrence'
                               else type end;
    verdict sync.verdict;
    rev bigint;
begin
    client_time := care.believed(client_time, clock);
    if type = 'updateReminder' and care.given(doc, 'applyTo') is not null then
        if care.choice_problem(doc -> 'applyTo', '{rule,occurrence}') is not null then
            return care.invalid('payload.applyTo', care.choice_problem(doc -> 'applyTo', '{rule,occurrence}'));
        end if;
    end if;
    verdict := care.reminder_problem(kind, doc, base, client_time);
    if verdict.status is not null then
        return verdict;
    end if;
    perform set_config('care.acted_at', care.acted_at(care.time_of(client_time), clock)::text, true);
    rev := care.rule_base(doc, base, coalesce(doc ->> 'id', ''), coalesce(care.find_rule(who, doc ->> 'id'), ''));
    case kind
        when 'createReminder' then verdict := care.create_reminder(who, doc, clock);
        when 'updateReminder' then verdict := care.update_reminder(who, doc ->> 'id', care.rule_wanted(who, doc), rev, clock);
        when 'deleteReminder' then verdict := care.delete_reminder(who, doc ->> 'id', rev, clock);
        when 'snoozeReminder' then verdict := care.snooze_reminder(who, doc, client_time, clock);
        -- The rev of an occurrence that is sent back is the occurrence's, that of a rule the rule's.
        else verdict := care.set_reminder_day(
            who, case type when 'updateReminder' then care.day_wanted(who, doc) else doc end,
            coalesce(care.base_rev(base, doc ->> 'occurrenceId'), care.base_rev(base, doc ->> 'id'),
                     case when base is null and type = kind then (doc ->> 'rev')::numeric::bigint end), client_time, clock);
    end case;
    perform set_config('care.acted_at', '', true);
    return verdict;
end
$$;
