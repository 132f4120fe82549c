-- sync.retain: deletes at most `batch` events older than `days` days, oldest transactions first (no further index
-- needed), and at most `batch` actions and as many revocations written over 90 days ago; returns the largest number. Call
-- until it returns less than `batch`. Locks: the rows it deletes, those nobody else has.
create or replace function sync.retain(days int, batch int) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    events bigint;
    actions bigint;
    revocations bigint;
begin
    if days < 1 or batch < 1 then
        raise exception 'days and batch must be positive' using errcode = 'invalid_parameter_value';
    end if;
    delete from sync.event as e
    using (
        select user_id, topic, o, created_at from sync.event order by xid limit batch
    ) as oldest
    where e.user_id = oldest.user_id and e.topic = oldest.topic and e.o = oldest.o
        and oldest.created_at < now() - make_interval(days => days);
    get diagnostics events = row_count;
    delete from sync.action as a
    using (
        select user_id, key from sync.action where created_at < (select sync.clock()) - interval '90 days'
        order by created_at limit batch
    ) as oldest
    where a.user_id = oldest.user_id and a.key = oldest.key;
    get diagnostics actions = row_count;
    delete from sync.revocation as r
    using (
        select user_id from sync.revocation where written_at < (select sync.clock()) - interval '90 days'
        order by written_at limit batch
    ) as oldest
    where r.user_id = oldest.user_id and r.written_at < (select sync.clock()) - interval '90 days';
    get diagnostics revocations = row_count;
    return greatest(events, actions, revocations);
end
$$;
