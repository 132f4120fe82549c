-- The audit of reminder rules and of their occurrences, and what is kept of rules that were deleted. 59_care_triggers.sql has the
-- triggers that write and keep it.

-- care.audit_rules: one row for each rule that a statement changed (care.audit_doses says how). A rule that is deleted leaves its
-- tombstone, one that goes to another user leaves none: it is not gone. A rule that comes back takes its tombstone away. What
-- devices call it is kept beside it. Lock order: aliases and tombstones of the rules, by rule.
create or replace function care.audit_rules() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    clock constant timestamptz := sync.clock();
    actor constant text := care.actor();
    device constant text := care.acting_device();
    key constant text := nullif(current_setting('sync.key', true), '');
begin
    if tg_op = 'UPDATE' then
        insert into care.reminder_audit (rule_id, user_id, at, actor, device, key, was, "is", was_rev, rev)
        select coalesce(n.id, o.id), coalesce(n.user_id, o.user_id), clock, actor, device, key,
               case when o.id is not null then to_jsonb(o) end, case when n.id is not null then to_jsonb(n) end,
               o.rev, n.rev
        from old_rows as o
        full join new_rows as n on n.id = o.id and n.user_id = o.user_id
        where n.rev is distinct from o.rev;
    elsif tg_op = 'INSERT' then
        insert into care.reminder_audit (rule_id, user_id, at, actor, device, key, "is", rev)
        select n.id, n.user_id, clock, actor, device, key, to_jsonb(n), n.rev
        from new_rows as n;
        delete from care.reminder_tombstone as t using new_rows as n where t.user_id = n.user_id and t.id = n.id;
    else
        insert into care.reminder_audit (rule_id, user_id, at, actor, device, key, was, was_rev)
        select o.id, o.user_id, clock, actor, device, key, to_jsonb(o), o.rev
        from old_rows as o;
        insert into care.reminder_tombstone (user_id, id, rev, rule, deleted_at)
        select o.user_id, o.id, o.rev, to_jsonb(o), clock
        from old_rows as o order by o.user_id, o.id
        on conflict (user_id, id) do update
            set rev = excluded.rev, rule = excluded.rule, deleted_at = excluded.deleted_at;
        return null;
    end if;
    insert into care.reminder_alias (user_id, alias, rule_id)
    select n.user_id, n.client_id, n.id from new_rows as n where n.client_id is not null
    order by n.user_id, n.client_id
    on conflict (user_id, alias) do update set rule_id = excluded.rule_id
        where reminder_alias.rule_id <> excluded.rule_id;
    return null;
end
$$;

-- care.audit_rule_occurrences: one row for each occurrence that a statement changed. What jobs write is left out, and what
-- follows from a rule's other zone (care.keep_days). No locks.
create or replace function care.audit_rule_occurrences() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    clock constant timestamptz := sync.clock();
    actor constant text := care.actor();
    device constant text := care.acting_device();
    key constant text := nullif(current_setting('sync.key', true), '');
begin
    if actor = 'system' then
        return null;
    elsif tg_op = 'UPDATE' then
        insert into care.reminder_occurrence_audit
            (occurrence_id, rule_id, user_id, at, actor, device, key, was, "is", was_rev, rev)
        select n.id, n.rule_id, n.user_id, clock, actor, device, key, to_jsonb(o), to_jsonb(n), o.rev, n.rev
        from old_rows as o
        join new_rows as n on n.id = o.id
        where n.rev is distinct from o.rev and not (pg_trigger_depth() > 1 and n.kept <> o.kept);
    elsif tg_op = 'INSERT' then
        insert into care.reminder_occurrence_audit (occurrence_id, rule_id, user_id, at, actor, device, key, "is", rev)
        select n.id, n.rule_id, n.user_id, clock, actor, device, key, to_jsonb(n), n.rev
        from new_rows as n where not n.kept;
    else
        insert into care.reminder_occurrence_audit
            (occurrence_id, rule_id, user_id, at, actor, device, key, was, was_rev)
        select o.id, o.rule_id, o.user_id, clock, actor, device, key, to_jsonb(o), o.rev
        from old_rows as o;
    end if;
    return null;
end
$$;

-- care.rule_at: a rule as it was at a revision; null where nobody knows that any more. No locks.
create or replace function care.rule_at(who text, rule text, at_rev bigint) returns care.reminder_rule
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    r care.reminder_rule;
begin
    select * into r from care.reminder_rule as x where x.id = rule and x.user_id = who and x.rev = at_rev;
    if found then
        return r;
    end if;
    select (jsonb_populate_record(null::care.reminder_rule, case when a.rev = at_rev then a."is" else a.was end)).*
    into r
    from care.reminder_audit as a
    where a.rule_id = rule and a.user_id = who and (a.rev = at_rev or a.was_rev = at_rev)
    order by a.n desc limit 1;
    return r;
end
$$;

-- care.rule_changed: whether another than this transaction's device changed a rule after a revision. What a device did itself,
-- it knew: its actions come in order. No locks.
create or replace function care.rule_changed(r care.reminder_rule, since bigint) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    own constant text := nullif(current_setting('sync.device', true), '');
begin
    return r.rev > since and (
        select count(*) < r.rev - since or bool_or(own is null or a.device is distinct from own)
        from care.reminder_audit as a
        where a.rule_id = r.id and a.user_id = r.user_id and a.rev > since);
end
$$;
