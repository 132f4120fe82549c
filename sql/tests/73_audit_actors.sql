-- Who a change is said to be of: a backend cannot claim to be a user, a device or a job.
drop role if exists carillon_test_backend, carillon_test_owner;
create role carillon_test_backend;
create role carillon_test_owner in role carillon_owner;
grant usage on schema care, test to carillon_test_backend;
grant usage on schema test to carillon_owner;
grant select, insert, update, delete on care.dose_occurrence, care.reminder_rule, care.reminder_occurrence to carillon_test_backend;
insert into care.dose_occurrence (id, user_id, scheduled_at, window_end)
select 'forge' || n, 'forge', '2025-11-20 08:00Z', '2025-11-20 12:00Z' from generate_series(1, 9) as n;
insert into care.reminder_rule (id, user_id, time) values ('forge-rule', 'forge', '08:00');
-- What a session writes while it claims to be somebody.
create function test.forge(claimed text) returns void language plpgsql as $$
begin
    perform set_config('sync.actor', claimed, true), set_config('sync.key', 'forged', true), set_config('sync.device', 'phone', true);
    update care.dose_occurrence set status = 'taken', taken_at = scheduled_at where id = 'forge1';
    update care.dose_occurrence set note = 'n' where id in ('forge2', 'forge3');
    update care.dose_occurrence set product_name = 'other' where id = 'forge4';
    insert into care.dose_occurrence (id, user_id, scheduled_at, window_end)
    values ('forge-new', 'forge', '2025-11-20 09:00Z', '2025-11-20 12:00Z');
    delete from care.dose_occurrence where id in ('forge5', 'forge-new');
    update care.reminder_rule set label = 'l' where id = 'forge-rule';
    insert into care.reminder_occurrence (rule_id, original_local, status) values ('forge-rule', '2025-11-20 08:00', 'cancelled');
    update care.reminder_occurrence set status = 'scheduled' where rule_id = 'forge-rule';
    delete from care.reminder_occurrence where rule_id = 'forge-rule';
end
$$;
create function test.claims() returns text language sql as $$
    select string_agg(distinct format('%s/%s', a.actor, coalesce(a.device, '-')), ' ') || ' ' || count(*) from (
        select actor, device from care.dose_audit where user_id = 'forge' and key = 'forged'
        union all select actor, device from care.reminder_audit where user_id = 'forge' and key = 'forged'
        union all select actor, device from care.reminder_occurrence_audit where user_id = 'forge' and key = 'forged') as a
$$;
create function test.columns() returns text language sql as $$
    select string_agg(distinct format('%s/%s', changed_by, coalesce(changed_device, '-')), ' ') from care.dose_occurrence
    where user_id = 'forge' and changed_key = 'forged'
$$;
grant execute on function test.forge(text) to carillon_test_backend, carillon_owner;
begin;
set local session authorization carillon_test_backend;
select test.forge('user') \g /dev/null
reset session authorization;
set constraints sync.flush immediate;
select test.is('a backend is not a user', test.claims() || ', ' || test.columns(), 'backend/- 11, backend/-');
select test.is('and no device in events', (select string_agg(distinct e.data #>> '{updates,changedBy}', ' ') from sync.event as e where e.user_id = 'forge' and e.data -> '_sync' ->> 'k' = 'forged' and e.data #> '{updates,changedBy}' is not null), '{"actor": "backend", "deviceId": null}');
rollback;
begin;
set local session authorization carillon_test_backend;
select test.forge('system') \g /dev/null
reset session authorization;
select test.is('nor a job', test.claims() || ', ' || test.columns(), 'backend/- 11, backend/-');
rollback;
begin;
set local session authorization carillon_test_owner;
select test.forge('user') \g /dev/null
reset session authorization;
select test.is('an owner of the tables is not a user either', test.claims() || ', ' || test.columns(), 'backend/- 11, backend/-');
rollback;
-- The hub's own call, whatever its session claims.
set session authorization carillon_hub;
select status as applied from sync.apply('forge', 'own', 'phone', null, 'addNote', '{"occurrenceId": "forge6", "note": "n"}', null, null, null) \gset
reset session authorization;
select test.is('an action is the user''s', (select format('%s %s %s', :'applied', actor, device) from care.dose_audit where key = 'own'), 'applied user phone');
select test.is('in events too', (select e.data #> '{updates,changedBy}' from sync.event as e where e.user_id = 'forge' and e.data -> '_sync' ->> 'k' = 'own' and e.data #> '{updates,changedBy}' is not null), '{"actor": "user", "deviceId": "phone"}'::jsonb);
drop owned by carillon_test_backend, carillon_test_owner;
drop role carillon_test_backend, carillon_test_owner;
