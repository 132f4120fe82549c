-- Medications: what a dose was when it was taken, products that are archived, and what devices know of medications and stacks.

-- A product with `archived_at` is in no list and gives no new doses. Actions archive; they delete no product.
alter table care.product add column archived_at timestamptz;
create index product_user on care.product (user_id) where user_id is not null;
create index stack_user on care.stack (user_id);

-- What the product and the schedule said. Scheduled doses follow the product; all others keep what was true. Rows from before
-- have null, and are shown with the product's name. `as_needed`: an intake that no schedule asked for. It counts nowhere.
alter table care.dose_occurrence
    add column product_name text,
    add column strength text,
    add column form text,
    add column dose text,
    add column as_needed boolean not null default false;

-- The doses that follow a product. It holds no history: it is as large as the days that are planned ahead.
create index dose_occurrence_product on care.dose_occurrence (product_id) where status = 'scheduled';

-- The medications and stacks that a user's devices were told of. `rev` rises with each event; `fields_rev` is the rev with
-- which its own fields came, and `fields` their digest (null: unknown); schedules inside have revs of their own. `present`:
-- it is in the list. Written by the flush under the stream's lock, and nowhere else; never deleted, for a rev never falls.
create table care.listed (
    user_id text collate "C" not null,
    kind text not null check (kind in ('medication', 'stack')),
    id text collate "C" not null,
    rev bigint not null default 1,
    fields_rev bigint not null default 1,
    fields text,
    present boolean not null default true,
    primary key (user_id, kind, id)
) with (fillfactor = 85);
create index listed_id on care.listed (id, user_id);

insert into care.listed (user_id, kind, id)
select p.user_id, 'medication', p.id from care.product as p where p.user_id <> ''
union
select s.user_id, 'medication', p.id
from care.product as p
join (
    select s.user_id, s.product_id from care.schedule as s where s.product_id is not null
    union
    select k.user_id, i.product_id from care.stack as k join care.stack_item as i on i.stack_id = k.id
) as s on s.product_id = p.id
where p.user_id is null and s.user_id <> ''
union
select k.user_id, 'stack', k.id from care.stack as k where k.user_id <> '';

-- Products of the catalogue that changed: care.job_spread_products carries each to doses and devices. `told`: the last user
-- whose devices know. `replan`: it was archived, or came back: schedules are to be planned again.
create table care.product_spread (
    product_id text primary key,
    since timestamptz not null,
    told text collate "C" not null default '',
    replan boolean not null default false
);
