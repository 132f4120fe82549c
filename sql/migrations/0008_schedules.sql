-- Schedules that plan their doses.

-- All locks at once: a writer of doses may read schedules first, or the reverse. Who waits for a lock longer than this gives
-- all of them back and begins anew, before deadlock_timeout (1 s) ends a writer.
do $$
begin
    for attempt in 1..100 loop
        begin
            set local lock_timeout = '200ms';
            lock table care.dose_occurrence, care.user_settings, care.schedule in access exclusive mode;
            set local lock_timeout = 0;
            return;
        exception when lock_not_available then
            perform pg_sleep(0.05 + 0.1 * random());
        end;
    end loop;
    raise exception 'care.dose_occurrence and care.schedule are in use all the time: end long transactions, and migrate again'
        using errcode = 'lock_not_available';
end
$$;

-- `timezone`: where `time` is meant. `tz_mode` follow: the user's zone, always; fixed: it stays. `repeat` as_needed: nothing
-- is planned, and there is no time.
alter table care.schedule
    add column timezone text not null default 'UTC',
    add column tz_mode text not null default 'follow' check (tz_mode in ('fixed', 'follow')),
    alter column time drop not null,
    drop constraint schedule_repeat_check,
    add constraint schedule_repeat_check check (repeat in ('daily', 'weekdays', 'custom', 'as_needed')),
    add constraint schedule_time_check check ((repeat = 'as_needed') = (time is null));
alter table care.schedule alter column timezone drop default;
update care.schedule as s set timezone = u.zone
from care.user_settings as u where u.user_id = s.user_id and u.zone <> 'UTC';

-- `cancelled_by_plan`: the planner cancelled it, and may bring it back; false where a person did.
alter table care.dose_occurrence add column cancelled_by_plan boolean not null default false;

-- A slot is (schedule, product, local date): at most one dose in it is not cancelled. Without `status`, so that updates of
-- it stay in place.
create index dose_occurrence_slot on care.dose_occurrence (schedule_id, local_date) where schedule_id is not null;

-- How far a schedule has been planned. Apart from care.schedule, whose rev and events are about what people change.
-- `planned_until`: the last local day; null: nothing yet. `next_at`: when there is more to plan; infinity: never, as it
-- is. `rules_version`: of the zone's rules with which it was planned. Written under the lock of the schedule's row.
create table care.schedule_plan (
    schedule_id text primary key references care.schedule on delete cascade on update cascade,
    zone text not null,
    planned_until date,
    next_at timestamptz not null,
    rules_version int not null default 0
) with (fillfactor = 70);
create index schedule_plan_next on care.schedule_plan (next_at);
create index schedule_plan_rules on care.schedule_plan (zone, rules_version);
-- Schedules from before begin with the first run of the job, from that moment on.
insert into care.schedule_plan (schedule_id, zone, next_at)
select s.id, s.timezone, '-infinity' from care.schedule as s;

-- What the time zone database says of each zone in use: its offset at `since`, and its transitions in the two years from there.
-- `version` counts its changes. `read_by`: when the session began that read it last; older sessions may know older rules.
create table care.zone_rules (
    zone text primary key,
    since date not null,
    transitions text not null,
    version int not null default 0,
    read_by timestamptz not null
);

-- A dose that a schedule gives: `day` and `wall` by its zone, `at` the instant. `late`: made also where that has passed.
create type care.slot as (
    schedule_id text, user_id text, id text, product_id text, day date, wall time, at timestamptz, zone text,
    window_end timestamptz, late boolean
);
