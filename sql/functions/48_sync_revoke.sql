-- sync.revoke: ends a user's access for whatever was issued before `before`: open connections are closed within the hubs'
-- poll interval and a second, and older tokens are refused. For backends: grant execute to their role. The greatest
-- `before` stands, and is returned. Refused (22023): no user, no time, one more than a day ahead, for it cannot be taken
-- back. Lock order: the user's row of sync.revocation.
create or replace function sync.revoke(user_id text, before timestamptz default clock_timestamp()) returns timestamptz
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    standing timestamptz;
begin
    if coalesce(revoke.user_id, '') = '' or revoke.before is null or not isfinite(revoke.before)
        or revoke.before > clock_timestamp() + interval '1 day' then
        raise exception 'a user and a time, at most a day ahead, must be given' using errcode = 'invalid_parameter_value';
    end if;
    perform sync.raise_commit();
    insert into sync.revocation as r (user_id, before, written_at) values (revoke.user_id, revoke.before, sync.clock())
    on conflict (user_id) do update
        set before = excluded.before, xid = pg_current_xact_id(), written_at = excluded.written_at
        where excluded.before > r.before;
    if found and current_setting('sync.notify', true) is distinct from 'off' then
        perform pg_notify('sync', '');
    end if;
    select r.before into standing from sync.revocation as r where r.user_id = revoke.user_id;
    return standing;
end
$$;

-- sync.revocations: the revocations that became visible since the snapshot `prev`, all of them where it is null, in pages
-- ordered by user, and the snapshot of this very statement, to be the next `prev` (of a read in pages: that of the first
-- page). `before` in microseconds since 1970. Always at least one row: where there are none, one with nulls. STABLE: it
-- sees the caller's snapshot. No locks.
drop function if exists sync.revocations(pg_snapshot, text, int);
create function sync.revocations(prev pg_snapshot, after_user text, page int)
returns table(snapshot pg_snapshot, user_id text, before bigint)
language plpgsql stable security definer rows 100
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    present constant pg_snapshot := pg_current_snapshot();
begin
    if prev is null then
        return query
        select present, k.user_id, (extract(epoch from k.before) * 1000000)::bigint
        from (select) as always
        left join (
            select r.user_id, r.before from sync.revocation as r
            where r.user_id > coalesce(after_user, '')
            order by r.user_id
            limit page
        ) as k on true
        order by k.user_id;
    else
        return query
        select present, k.user_id, (extract(epoch from k.before) * 1000000)::bigint
        from (select) as always
        left join (
            select new.user_id, new.before
            from (
                select r.user_id, r.before from sync.revocation as r
                where r.xid >= pg_snapshot_xmax(prev) or r.xid = any(array(select pg_snapshot_xip(prev)))
                offset 0
            ) as new
            where new.user_id > coalesce(after_user, '')
            order by new.user_id
            limit page
        ) as k on true
        order by k.user_id;
    end if;
end
$$;
