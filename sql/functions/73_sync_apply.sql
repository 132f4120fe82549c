-- sync.json_of: what a text says in JSON; null where it cannot be read: it is no JSON, or jsonb cannot hold it (NUL, lone
-- surrogates, numbers and depths beyond its limits). The error is caught so that no log shows the text. No locks.
create or replace function sync.json_of(spelled text) returns jsonb
language plpgsql immutable strict
as $$
begin
    return spelled::jsonb;
exception when data_exception or statement_too_complex or program_limit_exceeded then
    return null;
end
$$;

-- What a function returns cannot be replaced: those of version 0.1 go first.
do $$
begin
    if exists (
        select from pg_catalog.pg_proc
        where pronamespace = 'sync'::regnamespace and proname = 'settle' and not 'corrections' = any(proargnames)
    ) then
        drop function sync.apply(text, text, text, bigint, text, text, text, text, text);
    end if;
    -- It was not told who calls.
    drop function if exists sync.settle(text, text, text, bigint, text, text, text, text, text, boolean);
end
$$;

-- sync.number_used: the member of an answer that says whether the action has used up its number; none where it has no number.
-- No locks.
create or replace function sync.number_used(n bigint, used boolean) returns jsonb
language sql stable
as $$
    select case when n is null then '{}'::jsonb else jsonb_build_object('numberUsed', used) end
$$;

-- sync.settle: one action of one user, once: what was decided is stored with it, and a repeat gets that.
--
--   who, key, device, n   whose it is; its key (1 to 200 bytes); the device's and its number there (null: no order asked)
--   type, payload, base, client_time, tz   as the device sent them; payload, base and client_time as JSON texts
--   refused               whether it is rejected whatever it says
--   by_app                whether the app's backend sends it: users may not send what only that may
--
-- One row: the status, the whole answer as JSON text, and how many missed doses were corrected, for a metric. Answers that
-- are not stored: `key_reused`, `out_of_order`, and an envelope that cannot be kept. No text raises an error: what cannot be
-- read is a stored rejection. Of an action with a number, each answer but `retry` says whether that is used up: `numberUsed`.
--
-- Of each user the hundred devices are remembered that have acted last. One that was forgotten counts from 1 again, like a new
-- one: its next number is `out_of_order` with 1 expected, it renumbers and keeps its keys, and these alone say what has
-- been done, for 90 days. Numbers never did: an unknown key under an old number is `out_of_order` too, not done.
--
-- Lock order: the user's sync.account; sync.device under it; doses by id; streams and day summaries (sync.flush). Other
-- writers of the same rows take no account: they may come between, and never half.
create or replace function sync.settle(who text, key text, device text, n bigint, type text, payload text, base text,
                                       client_time text, tz text, refused boolean, by_app boolean)
returns table(status text, answer text, corrections int)
language plpgsql rows 1
as $$
declare
    doc jsonb := sync.json_of(payload);
    base_doc jsonb := sync.json_of(base);
    client jsonb := sync.json_of(client_time);
    digest bytea;
    known sync.action;
    last bigint;
    verdict sync.verdict;
    topic text;
    channel text;
    named jsonb;
    positions jsonb := '{}';
    whole jsonb;
    outer_key text := coalesce(current_setting('sync.key', true), '');
    outer_device text := coalesce(current_setting('sync.device', true), '');
    outer_actor text := coalesce(current_setting('sync.actor', true), '');
begin
    corrections := 0;
    whole := sync.unusable(key, device, n);
    if whole is null then
        digest := sync.action_digest(coalesce(type, ''), payload, doc, base, base_doc);
        perform sync.raise_commit();
        perform from sync.account as a where a.user_id = who for update;
        if not found then
            insert into sync.account as a (user_id) values (who) on conflict (user_id) do nothing;
            perform from sync.account as a where a.user_id = who for update;
        end if;

        -- The range and its order are those of the primary key: a table without statistics, in a new database, would be read
        -- by (user_id, created_at) else, which is all actions of the user.
        select * into known from sync.action as a
        where a.user_id = who and a.key between settle.key and settle.key order by a.key limit 1;
        -- Older versions stored the digest of what was sent.
        if found and (known.digest = digest or known.digest = sync.digest(coalesce(type, ''), payload, doc, base, base_doc)) then
            status := known.status;
            answer := (sync.replayed(who, known.answer)
                       || sync.number_used(n, (known.device_id, known.n) is not distinct from (device, n)))::text;
            return next;
            return;
        elsif found then
            whole := jsonb_build_object('key', key, 'status', 'rejected', 'code', 'key_reused',
                                        'message', 'this key belongs to another action');
        elsif n is not null then
            select d.last_n into last from sync.device as d where d.user_id = who and d.device_id = device;
            if n <> coalesce(last, 0) + 1 then
                whole := jsonb_build_object('key', key, 'status', 'retry', 'code', 'out_of_order',
                                            'expected', coalesce(last, 0) + 1,
                                            'message', 'another number is expected from this device');
            end if;
        end if;
    end if;
    if whole is not null then
        status := whole ->> 'status';
        answer := (whole || sync.number_used(case when status <> 'retry' then n end, false))::text;
        return next;
        return;
    end if;

    -- What is written from here to the flush is this action's, and nothing else of the transaction.
    perform set_config('sync.key', key, true), set_config('sync.device', coalesce(device, ''), true),
            set_config('sync.actor', 'user', true);
    if refused then
        verdict.status := 'rejected';
        verdict.answer := '{"code": "invalid", "message": "the database refused it"}';
    elsif not by_app and sync.is_for_app(type) then
        verdict.status := 'rejected';
        verdict.answer := '{"code": "forbidden", "path": "type", "message": "only the app''s backend may do this"}';
    else
        -- A text in their place is as wrong as what cannot be read.
        base_doc := case when base is not null and base_doc is null then '""' else nullif(base_doc, 'null') end;
        client := case when client_time is not null and client is null then '""' else nullif(client, 'null') end;
        verdict := sync.act(who, key, type, doc, base_doc, client, tz);
        if (verdict.status in ('applied', 'noop', 'partial', 'conflict', 'rejected')
                and jsonb_typeof(verdict.answer) = 'object') is not true then
            raise exception 'the function of % returned no verdict', type
                using errcode = 'data_exception', detail = 'Its status must be one of five, its answer a JSON object.';
        end if;
    end if;
    if verdict.status in ('applied', 'partial') then
        corrections := care.corrections(type, verdict.answer, verdict.memo);
        set constraints sync.flush immediate;
        set constraints sync.flush deferred;
    end if;
    perform set_config('sync.key', outer_key, true), set_config('sync.device', outer_device, true),
            set_config('sync.actor', outer_actor, true);
    if verdict.status = 'rejected' then
        whole := verdict.answer || jsonb_build_object('key', key, 'status', verdict.status);
    else
        if type = 'resolve' then
            -- It writes what the action writes whose conflict it decides: that one's answer has named these streams.
            select a.answer -> 'positions' into named from sync.action as a where a.user_id = who and a.key = doc ->> 'of';
        end if;
        foreach topic in array sync.topics_of(type) loop
            channel := sync.channel(who, topic);
            if coalesce(named ? channel, true) then
                positions := positions || jsonb_build_object(channel, sync.position(who, topic));
            end if;
        end loop;
        whole := verdict.answer || jsonb_build_object('key', key, 'status', verdict.status, 'positions', positions);
    end if;
    status := verdict.status;
    answer := (whole || sync.number_used(n, true))::text;
    return next;
    insert into sync.action (user_id, key, device_id, n, type, digest, status, answer, memo, created_at)
    values (who, key, device, n, left(coalesce(type, ''), 64), digest, verdict.status, whole, verdict.memo, sync.clock());
    if n is not null then
        insert into sync.device as d (user_id, device_id, last_n, used_at) values (who, device, n, sync.clock())
        on conflict (user_id, device_id) do update set last_n = excluded.last_n, used_at = excluded.used_at;
        if last is null then
            -- A hundred devices of each user are remembered, this one among them.
            delete from sync.device as d where d.user_id = who and d.device_id in (
                select o.device_id from sync.device as o where o.user_id = who and o.device_id <> device
                order by o.used_at desc, o.device_id desc offset 99);
        end if;
    end if;
end
$$;

-- sync.apply: decides and carries out what a user sends; what hubs call to write. Locks: sync.settle.
create or replace function sync.apply(who text, key text, device text, n bigint, type text, payload text, base text,
                                      client_time text, tz text)
returns table(status text, answer text, corrections int)
language plpgsql security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
begin
    return query select s.status, s.answer, s.corrections
    from sync.settle(who, key, device, n, type, payload, base, client_time, tz, false, false) as s;
end
$$;

-- sync.shares: whether actions of this type may share a transaction with others: they neither keep the time at which it began
-- (now()) nor leave anything for its end. What an app's own function does is not known. `resolve` may change a medication: a
-- schedule that it makes is then dated by that begin, which is 50 ms before at most. No locks.
create or replace function sync.shares(type text) returns boolean
language plpgsql stable
as $$
begin
    return exists (
        select from sync.action_type as a where a.type = shares.type and a.function in ('care.act', 'care.act_reminders'));
end
$$;

-- sync.apply_all: decides several actions of one user in one transaction: a row for each of the first ones, in their order.
-- The others are not begun and may be sent again: no time was left for them, their type does not share, or one before them is
-- to be sent again, from which they may follow. No row: they must
-- be sent one by one, because the first one's type does not share, or the app has triggers of its own that wait for the
-- commit. An error undoes all of them: then too they must be sent one by one.
--
-- Locks: sync.settle, for one after the other: a later action waits for rows while the streams of an earlier one are held,
-- which is no order. So it waits for a moment only: then an error undoes all of them, and the other writer goes on.
create or replace function sync.apply_all(who text, keys text[], devices text[], numbers bigint[], types text[],
                                          payloads text[], bases text[], client_times text[], zones text[])
returns table(status text, answer text, corrections int)
language plpgsql security definer rows 10
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
declare
    began constant timestamptz := clock_timestamp();
begin
    if exists (select from pg_trigger as t
               where t.tginitdeferred and not t.tgisinternal and t.tgfoid <> 'sync.flush()'::regprocedure) then
        return;
    end if;
    perform set_config('lock_timeout', '30ms', true);
    for i in 1 .. cardinality(keys) loop
        exit when not sync.shares(types[i]) or i > 1 and clock_timestamp() - began > interval '50 ms';
        select s.status, s.answer, s.corrections into status, answer, corrections
        from sync.apply(who, keys[i], devices[i], numbers[i], types[i], payloads[i], bases[i], client_times[i], zones[i]) as s;
        return next;
        exit when status = 'retry';
    end loop;
end
$$;

-- sync.apply_by_app: decides an action that the app's backend signed for a user. Locks: sync.settle.
create or replace function sync.apply_by_app(who text, key text, device text, n bigint, type text, payload text, base text,
                                             client_time text, tz text)
returns table(status text, answer text, corrections int)
language plpgsql security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
begin
    return query select s.status, s.answer, s.corrections
    from sync.settle(who, key, device, n, type, payload, base, client_time, tz, false, true) as s;
end
$$;

-- sync.refuse: stores a rejection of an action that the database will not take (a trigger or constraint of the app's own
-- says no): a stored rejection, so that the device's next one is not held up; a repeat gets what is stored. Locks:
-- sync.settle.
create or replace function sync.refuse(who text, key text, device text, n bigint, type text, payload text, base text,
                                       client_time text, tz text)
returns table(status text, answer text)
language plpgsql security definer rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set timezone = 'UTC'
as $$
begin
    return query select s.status, s.answer
    from sync.settle(who, key, device, n, type, payload, base, client_time, tz, true, true) as s;
end
$$;

-- sync.unusable: the answer to an envelope that cannot be kept, or null. No locks.
create or replace function sync.unusable(key text, device text, n bigint) returns jsonb
language plpgsql immutable
as $$
declare
    path text := case
        when coalesce(octet_length(key), 0) not between 1 and 200 then 'key'
        when octet_length(device) not between 1 and 200 or n is not null and device is null then 'deviceId'
        when n not between 1 and 9007199254740992 then 'n' end;
begin
    if path is null then
        return null;
    end if;
    return jsonb_build_object('key', key, 'status', 'rejected', 'code', 'invalid', 'path', path,
                              'message', 'cannot be used');
end
$$;

-- sync.announce: wakes the other hubs, once for many actions; actions themselves do not (sync.notify is off). No locks.
--
-- A transaction that does nothing else need not wait for the disk: a wake that a crash loses wakes nobody. What is written
-- after it in the same transaction raises synchronous_commit again (sync.raise_commit).
create or replace function sync.announce() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_current_xact_id_if_assigned() is null then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    perform pg_notify('sync', '');
end
$$;
