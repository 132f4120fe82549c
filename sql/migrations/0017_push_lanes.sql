-- Actions that only the app's backend may send, and the platforms of pushes.

-- All locks at once, as in 0008: who waits for one gives all of them back, before deadlock_timeout (1 s) ends a writer.
do $$
begin
    for attempt in 1..100 loop
        begin
            set local lock_timeout = '200ms';
            lock table sync.action_type, care.push in access exclusive mode;
            set local lock_timeout = 0;
            return;
        exception when lock_not_available then
            perform pg_sleep(0.05 + 0.1 * random());
        end;
    end loop;
    raise exception 'sync.action_type and care.push are in use all the time: end long transactions, and migrate again'
        using errcode = 'lock_not_available';
end
$$;

-- `by_app`: only the app's backend may send actions of this type; users may not, whatever door they take.
alter table sync.action_type add column by_app boolean not null default false;

-- `platform`: the device's when the push was made. Hubs claim by it: a platform that answers slowly holds up no other.
alter table care.push
    add column platform text not null default 'apns' check (platform in ('apns', 'fcm', 'webhook'));
update care.push as p set platform = d.platform
from care.device as d
where p.state = 'waiting' and d.user_id = p.user_id and d.device_id = p.device_id and d.platform <> 'apns';
drop index care.push_waiting;
create index push_waiting on care.push (platform, next_at) where state = 'waiting';
