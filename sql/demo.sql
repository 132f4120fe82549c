-- A small demonstration: two users in different zones, a few products, a stack, schedules (which plan their doses, from
-- today on), five weeks of history of one of them, and reminder rules. Run as carillon_owner; safe to run again.
begin;

insert into care.user_settings (user_id, zone) values
    ('demo', 'Europe/Berlin'),
    ('demo2', 'America/New_York')
on conflict (user_id) do nothing;

insert into care.product (id, user_id, name, strength, form) values
    ('magnesium', null, 'Magnesium', '200 mg', 'capsule'),
    ('vitamin-d', null, 'Vitamin D3', '1000 IU', 'drops'),
    ('omega-3', null, 'Omega-3', '500 mg', 'capsule'),
    ('iron', null, 'Iron', '14 mg', 'tablet'),
    ('zinc', null, 'Zinc', '10 mg', 'tablet')
on conflict (id) do nothing;

insert into care.stack (id, user_id, name) values ('demo-morning', 'demo', 'Morning'), ('demo2-morning', 'demo2', 'Morning')
on conflict (id) do nothing;
insert into care.stack_item (stack_id, product_id, position, dose) values
    ('demo-morning', 'vitamin-d', 1, '2 drops'), ('demo-morning', 'omega-3', 2, '1 capsule'),
    ('demo2-morning', 'iron', 1, '1 tablet'), ('demo2-morning', 'vitamin-d', 2, '2 drops')
on conflict (stack_id, product_id) do nothing;

-- From today on, there and in UTC.
insert into care.schedule (id, user_id, product_id, stack_id, time, dose, starts_on)
select id, user_id, product_id, stack_id, time, dose,
       least(now() at time zone care.zone_of(user_id), now() at time zone 'UTC')::date
from (values
    ('demo-morning-stack', 'demo', null, 'demo-morning', '08:00'::time, null),
    ('demo-magnesium-noon', 'demo', 'magnesium', null, '12:00', '1 capsule'),
    ('demo-zinc-noon', 'demo', 'zinc', null, '12:30', '1 tablet'),
    ('demo-omega-evening', 'demo', 'omega-3', null, '19:00', '1 capsule'),
    ('demo-magnesium-night', 'demo', 'magnesium', null, '22:00', '2 capsules'),
    ('demo2-morning-stack', 'demo2', null, 'demo2-morning', '07:30', null),
    ('demo2-zinc-noon', 'demo2', 'zinc', null, '12:00', '1 tablet'),
    ('demo2-omega-noon', 'demo2', 'omega-3', null, '13:00', '1 capsule'),
    ('demo2-magnesium-evening', 'demo2', 'magnesium', null, '18:30', '1 capsule'),
    ('demo2-magnesium-night', 'demo2', 'magnesium', null, '22:30', '1 capsule')
) as s(id, user_id, product_id, stack_id, time, dose)
on conflict (id) do nothing;

insert into care.reminder_rule (id, user_id, product_id, stack_id, applies_to, preset, label, time, repeat, repeat_on,
                                snooze_minutes, delivery) values
    ('demo-reminder-morning', 'demo', null, 'demo-morning', 'stack', 'AM_WITH_FOOD', 'Morning, with food', '08:00',
     'daily', null, 10, 'local'),
    ('demo-reminder-night', 'demo', 'magnesium', null, 'item', 'BEDTIME', 'Before sleep', '22:00', 'daily', null, 10, 'both'),
    ('demo-reminder-zinc', 'demo', 'zinc', null, 'item', 'LUNCH', 'Zinc', '12:30', 'custom', '{1,3,5}', 5, 'local'),
    ('demo2-reminder-morning', 'demo2', null, 'demo2-morning', 'stack', 'WITH_BREAKFAST', 'Breakfast', '07:30',
     'weekdays', null, 10, 'local'),
    ('demo2-reminder-night', 'demo2', 'magnesium', null, 'item', 'BEDTIME', 'Before sleep', '22:30', 'daily', null, 10, 'push')
on conflict (id) do nothing;

-- What demo has taken in the five weeks before, for the month and the streaks: nearly all of it, by a pattern that is the same
-- each time. Only at the first run.
insert into care.dose_occurrence (user_id, schedule_id, product_id, status, taken_at, scheduled_at, tz, local_date, local_time,
                                  window_start, window_end, dose)
select 'demo', s.id, p.product_id, p.status,
       case p.status when 'taken' then at.due + make_interval(mins => 2 + p.lot % 23)
                     when 'made_up' then at.due + make_interval(hours => 3) end,
       at.due, 'Europe/Berlin', d.day, s.time, at.due - interval '30 minutes', at.due + interval '30 minutes', p.dose
from care.schedule as s
cross join lateral (select s.starts_on - back as day, back from generate_series(1, 35) as back) as d
cross join lateral (
    select i.product_id, coalesce(i.dose, s.dose) as dose, abs(hashtext(s.id || i.product_id || d.back)) % 100 as lot
    from (select product_id, dose from care.stack_item where stack_id = s.stack_id
          union all select s.product_id, s.dose where s.product_id is not null) as i) as i(product_id, dose, lot)
cross join lateral (
    select i.*, case when d.back < 6 or d.back between 14 and 24 then 'taken' when i.lot < 12 then 'missed'
                     when i.lot < 20 then 'made_up' else 'taken' end as status) as p
cross join lateral (select care.resolve_local(d.day + s.time, 'Europe/Berlin') as due) as at
where s.user_id = 'demo'
  and not exists (select from care.dose_occurrence where user_id = 'demo' and local_date < s.starts_on);

-- Of a later run: the days since.
select care.job_plan_doses(1000, sync.clock());

commit;
