-- Reminders: rules that are linked to schedules, the times of presets, what was deleted, and who changed what.

-- All locks at once, as in 0008: who waits for one gives all of them back, before deadlock_timeout (1 s) ends a writer.
do $$
begin
    for attempt in 1..100 loop
        begin
            set local lock_timeout = '200ms';
            lock table care.user_settings, care.schedule, care.reminder_rule in access exclusive mode;
            set local lock_timeout = 0;
            return;
        exception when lock_not_available then
            perform pg_sleep(0.05 + 0.1 * random());
        end;
    end loop;
    raise exception 'care.schedule and care.reminder_rule are in use all the time: end long transactions, and migrate again'
        using errcode = 'lock_not_available';
end
$$;

-- `schedule_id`: the rule's time, repeat, repeat_on, timezone and tz_mode are copies of this schedule's, which triggers keep
-- equal. A schedule that is deleted leaves them as they were.
alter table care.reminder_rule
    add column schedule_id text references care.schedule on delete set null on update cascade;
create index reminder_rule_schedule on care.reminder_rule (schedule_id) where schedule_id is not null;

-- The user's own times of presets, such as {"LUNCH": "13:00"}; care.preset_time has the others.
alter table care.user_settings add column preset_times jsonb;

-- Rules that were deleted: 90 days, so that a late change of one is a conflict, and a late repeat makes no second one. `rule`:
-- the row as it was. Written by triggers.
create table care.reminder_tombstone (
    user_id text collate "C" not null,
    id text collate "C" not null,
    rev bigint not null,
    rule jsonb not null,
    deleted_at timestamptz not null,
    primary key (user_id, id)
);
create index reminder_tombstone_age on care.reminder_tombstone (deleted_at);

-- The names by which devices call a rule before they know its id: `client_id`, and those of other devices that made an equal
-- one. For as long as the rule or its tombstone is there.
create table care.reminder_alias (
    user_id text collate "C" not null,
    alias text collate "C" not null,
    rule_id text collate "C" not null,
    primary key (user_id, alias)
);
create index reminder_alias_rule on care.reminder_alias (rule_id);
insert into care.reminder_alias (user_id, alias, rule_id)
select r.user_id, r.client_id, r.id from care.reminder_rule as r where r.client_id is not null;

-- Every change of a rule, the latest last by `n`: who, when, by which action of which device, the row before (null: it is new)
-- and after (null: it was deleted, or went to another user). So a rule is known at each revision. Append-only: triggers refuse
-- all else.
create table care.reminder_audit (
    rule_id text collate "C" not null,
    n bigint generated always as identity,
    user_id text collate "C" not null,
    at timestamptz not null,
    actor text not null,
    device text,
    key text,
    was jsonb,
    "is" jsonb,
    was_rev bigint,
    rev bigint,
    primary key (rule_id, n)
);
create index reminder_audit_user on care.reminder_audit (user_id);

-- Every change of an occurrence that differs from its rule, but for what jobs write there: nobody decided that.
create table care.reminder_occurrence_audit (
    occurrence_id text collate "C" not null,
    n bigint generated always as identity,
    rule_id text not null,
    user_id text collate "C" not null,
    at timestamptz not null,
    actor text not null,
    device text,
    key text,
    was jsonb,
    "is" jsonb,
    was_rev bigint,
    rev bigint,
    primary key (occurrence_id, n)
);
create index reminder_occurrence_audit_user on care.reminder_occurrence_audit (user_id);
