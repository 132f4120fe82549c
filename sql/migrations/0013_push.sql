-- Pushes: exceptions by their day, what is due, devices, and the outbox of pushes.

-- All locks at once, as in 0008: who waits for one gives all of them back, before deadlock_timeout (1 s) ends a writer.
do $$
begin
    for attempt in 1..100 loop
        begin
            set local lock_timeout = '200ms';
            lock table care.reminder_rule, care.reminder_occurrence in access exclusive mode;
            set local lock_timeout = 0;
            return;
        exception when lock_not_available then
            perform pg_sleep(0.05 + 0.1 * random());
        end;
    end loop;
    raise exception 'care.reminder_rule and care.reminder_occurrence are in use all the time: end long transactions, and migrate again'
        using errcode = 'lock_not_available';
end
$$;

-- `day`: the local day that the exception is of: it is found by that, whatever the rule's time becomes. Of two of one day
-- the one that was written last stays. First as a generated column, for that fires no triggers.
delete from care.reminder_occurrence as x
using (
    select o.id, row_number() over (partition by o.rule_id, o.original_local::date order by o.updated_at desc, o.id) as place
    from care.reminder_occurrence as o
) as ranked
where ranked.id = x.id and ranked.place > 1;
alter table care.reminder_occurrence add column day date generated always as (original_local::date) stored;
alter table care.reminder_occurrence alter column day drop expression, alter column day set not null;
create unique index reminder_occurrence_day on care.reminder_occurrence (rule_id, day);
-- `moved_local`: where it was moved to as wall time in the rule's zone; it wins over `moved_to`, which is that instant in
-- the zone of the time when it was written.
alter table care.reminder_occurrence add column moved_local timestamp;

-- Devices that pushes go to. `token`: what the provider knows the device by; one that declined may have none.
-- `registered_at`: when the device told it last. `permission`: granted, denied; null where the device does not say.
create table care.device (
    user_id text collate "C" not null,
    device_id text collate "C" not null,
    platform text not null check (platform in ('apns', 'fcm', 'webhook')),
    token text check (token is not null or permission = 'denied'),
    environment text check (environment in ('production', 'sandbox')),
    topic text,
    permission text check (permission in ('granted', 'denied')),
    registered_at timestamptz not null,
    created_at timestamptz not null default now(),
    primary key (user_id, device_id)
);
-- A token belongs to one device. Tokens may be longer than a B-tree's keys.
create index device_token on care.device using hash (token);
create index device_denied on care.device (user_id) where permission = 'denied';

-- What fires next of each rule that pushes: one row for a rule, and none for one that never fires. `day` and `occurrence_id`
-- null: not yet known (due_at is -infinity then). Written by triggers on rules and exceptions, and by the job that fires.
create table care.reminder_due (
    rule_id text primary key references care.reminder_rule on delete cascade,
    user_id text not null,
    occurrence_id text,
    day date,
    due_at timestamptz not null
) with (fillfactor = 80);
create index reminder_due_at on care.reminder_due (due_at);

insert into care.reminder_due (rule_id, user_id, due_at)
select r.id, r.user_id, '-infinity' from care.reminder_rule as r where r.enabled and r.delivery <> 'local';

-- The outbox: one row for one firing of an occurrence and one device. `kind`: reminder, or notify (by hand: no rule).
-- `next_at`: when it may be claimed; the end of the lease where it is. `attempt`: how often it was claimed. `registered_at`:
-- of the token with which it was claimed last. `state`: waiting; sent (a provider accepted it), dead, expired, or dropped
-- (not wanted any more). `judged`: the occurrence's status says what became of it.
create table care.push (
    id bigint generated always as identity primary key,
    user_id text collate "C" not null,
    device_id text collate "C" not null,
    kind text not null check (kind in ('reminder', 'notify')),
    rule_id text,
    day date,
    occurrence_id text not null,
    start timestamptz not null,
    expires_at timestamptz not null,
    title text,
    body text,
    state text not null default 'waiting' check (state in ('waiting', 'sent', 'dead', 'expired', 'dropped')),
    attempt int not null default 0,
    hub text,
    next_at timestamptz not null,
    registered_at timestamptz,
    judged boolean not null default false,
    created_at timestamptz not null,
    settled_at timestamptz,
    -- A firing that is repeated is no second push.
    unique (user_id, occurrence_id, device_id, start)
) with (fillfactor = 80);
create index push_waiting on care.push (next_at) where state = 'waiting';
create index push_expires on care.push (expires_at) where state = 'waiting';
create index push_unjudged on care.push (settled_at) where state <> 'waiting' and not judged;
create index push_settled on care.push (settled_at) where judged;
