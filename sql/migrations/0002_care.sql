-- The app's own tables. User ids are the app's: text, and no table of users here. Everything may be written with plain
-- SQL; what a writer leaves out is filled in by triggers (sql/functions/50_… and following).

create schema care;

-- For UUIDv5 (SHA-1). Trusted: no superuser needed.
create extension if not exists pgcrypto with schema care;

-- A user without a row lives in UTC.
create table care.user_settings (
    user_id text primary key,
    zone text not null default 'UTC',
    rev bigint not null default 1,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);

-- `user_id` null: a product of the common catalogue.
create table care.product (
    id text primary key default gen_random_uuid()::text,
    user_id text,
    name text not null,
    strength text,
    form text,
    rev bigint not null default 1,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);

create table care.stack (
    id text primary key default gen_random_uuid()::text,
    user_id text not null,
    name text not null,
    rev bigint not null default 1,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);

create table care.stack_item (
    stack_id text not null references care.stack on delete cascade,
    product_id text not null references care.product on delete cascade,
    position int not null default 0,
    dose text,
    primary key (stack_id, product_id)
);
create index stack_item_product on care.stack_item (product_id);

-- When something is to be taken: one time of day; twice daily is two schedules. `repeat_on` is ISO: 1 = Monday.
create table care.schedule (
    id text primary key default gen_random_uuid()::text,
    user_id text not null,
    product_id text references care.product on delete cascade,
    stack_id text references care.stack on delete cascade,
    time time not null,
    repeat text not null default 'daily' check (repeat in ('daily', 'weekdays', 'custom')),
    repeat_on smallint[] check (repeat_on <@ '{1,2,3,4,5,6,7}'),
    dose text,
    window_minutes int not null default 240 check (window_minutes between 1 and 1440),
    starts_on date,
    ends_on date,
    enabled boolean not null default true,
    rev bigint not null default 1,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    check (num_nonnulls(product_id, stack_id) = 1),
    check (repeat <> 'custom' or coalesce(cardinality(repeat_on), 0) > 0)
);
create index schedule_user on care.schedule (user_id);
create index schedule_product on care.schedule (product_id);
create index schedule_stack on care.schedule (stack_id);

-- One dose at one time. `local_date` is the day of the scheduled time in the zone in force when the row was made, and
-- it stays: travel never rewrites history. No foreign key to products or schedules: history outlives them. A row
-- without a user (an anonymised one, say) belongs to no stream.
create table care.dose_occurrence (
    id text primary key default gen_random_uuid()::text,
    user_id text,
    schedule_id text,
    product_id text,
    status text not null default 'scheduled'
        check (status in ('scheduled', 'taken', 'missed', 'made_up', 'skipped', 'cancelled')),
    taken_at timestamptz,
    note text,
    scheduled_at timestamptz not null check (isfinite(scheduled_at)),
    tz text not null,
    local_date date not null check (local_date between '0001-01-01' and '9999-12-31'),
    local_time time not null,
    window_start timestamptz,
    window_end timestamptz not null,
    rev bigint not null default 1,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
) with (fillfactor = 85);
create index dose_occurrence_day on care.dose_occurrence (user_id, local_date);

-- Written by the flush under the stream's lock, and nowhere else. A day without any dose has no row.
create table care.day_summary (
    user_id text not null,
    date date not null,
    scheduled_count int not null,
    taken_count int not null,
    missed_count int not null,
    made_up_count int not null,
    skipped_count int not null,
    pending_count int not null,
    adherence_pct numeric(4, 1),
    on_time_pct numeric(4, 1),
    updated_at timestamptz not null default now(),
    primary key (user_id, date)
) with (fillfactor = 70);

-- `tz_mode` follow: the rule's zone moves with the user's; fixed: it stays.
create table care.reminder_rule (
    id text primary key default gen_random_uuid()::text,
    user_id text not null,
    client_id text,
    product_id text,
    stack_id text,
    applies_to text not null default 'item' check (applies_to in ('item', 'stack')),
    preset text check (preset in ('AM_WITH_FOOD', 'WITH_BREAKFAST', 'LUNCH', 'BEDTIME', 'CUSTOM')),
    label text,
    time time not null,
    timezone text not null,
    tz_mode text not null default 'fixed' check (tz_mode in ('fixed', 'follow')),
    repeat text not null default 'daily' check (repeat in ('daily', 'weekdays', 'custom')),
    repeat_on smallint[] check (repeat_on <@ '{1,2,3,4,5,6,7}'),
    snooze_minutes int check (snooze_minutes between 1 and 240),
    delivery text not null default 'local' check (delivery in ('local', 'push', 'both')),
    enabled boolean not null default true,
    rev bigint not null default 1,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    unique (user_id, client_id),
    check ((applies_to = 'stack') = (stack_id is not null)),
    check (num_nonnulls(product_id, stack_id) <= 1),
    check (repeat <> 'custom' or coalesce(cardinality(repeat_on), 0) > 0)
);

-- An occurrence of a rule that differs from it: cancelled, moved, snoozed or sent. Keyed by the rule and the local time
-- that the rule gave it (RFC 5545's RECURRENCE-ID); occurrences without a row are as their rule says.
create table care.reminder_occurrence (
    id text primary key,
    rule_id text not null references care.reminder_rule on delete cascade,
    user_id text not null,
    original_local timestamp not null check (isfinite(original_local)),
    moved_to timestamptz,
    status text not null default 'scheduled' check (status in ('scheduled', 'sent', 'missed', 'cancelled')),
    snoozed_until timestamptz,
    snooze_count int not null default 0,
    rev bigint not null default 1,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    unique (rule_id, original_local)
);
