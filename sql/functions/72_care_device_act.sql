-- Actions on the devices that pushes go to, and pushes by hand.

-- care.device_json: a device as answers show it: its token is told to nobody. No locks.
create or replace function care.device_json(d care.device) returns jsonb
language plpgsql stable
as $$
begin
    return jsonb_build_object(
        'deviceId', d.device_id, 'platform', d.platform, 'environment', d.environment, 'topic', d.topic,
        'permission', d.permission, 'registeredAt', d.registered_at);
end
$$;

-- care.device_problem: of registerDevice's payload. Tokens and topics become parts of requests: visible ASCII only. What
-- APNs could never deliver to is refused: a token that is none of its own, and one without the app's topic. No locks.
create or replace function care.device_problem(doc jsonb) returns sync.verdict
language plpgsql stable
as $$
declare
    field text;
    pattern text;
    problem text;
    declined constant boolean := doc ->> 'permission' = 'denied';
begin
    for field, pattern, problem in
        select * from (values
            ('platform', '^(apns|fcm|webhook)$', 'must be apns, fcm or webhook'),
            ('token', '^[!-~]+$', 'must have 1 to 4096 visible characters of ASCII'),
            ('environment', '^(production|sandbox)$', 'must be production or sandbox'),
            ('topic', '^[A-Za-z0-9._-]{1,255}$', 'must have 1 to 255 letters, digits, dots, dashes and underscores'),
            ('permission', '^(granted|denied)$', 'must be granted or denied')
        ) as t
    loop
        if care.given(doc, field) is null then
            continue when field in ('environment', 'topic', 'permission') or field = 'token' and declined;
            return care.invalid('payload.' || field, 'is required');
        elsif jsonb_typeof(doc -> field) <> 'string' then
            return care.invalid('payload.' || field, 'must be a string');
        elsif doc ->> field !~ pattern or octet_length(doc ->> field) > 4096 then
            return care.invalid('payload.' || field, problem);
        end if;
    end loop;
    if doc ->> 'platform' = 'apns' and care.given(doc, 'token') is not null then
        if doc ->> 'token' !~ '^([0-9A-Fa-f]{2}){1,100}$' then
            return care.invalid('payload.token', 'must be a token of APNs: 1 to 100 bytes in hexadecimal digits');
        elsif care.given(doc, 'topic') is null then
            return care.invalid('payload.topic', 'is required for apns: the app''s bundle id');
        end if;
    end if;
    return null;
end
$$;

-- care.register_device: the device with its token of now. A token of APNs or FCM is of one device: another one that had it
-- loses it, for a phone that changed hands must not show the reminders of who had it before. A token of the webhook may be
-- of several: it is no secret, and two people may share a number. Of each user the twenty devices are kept that told theirs
-- last. Lock order: an advisory lock of the token; care.device by key.
create or replace function care.register_device(who text, doc jsonb, clock timestamptz) returns sync.verdict
language plpgsql
as $$
declare
    was care.device;
    d care.device;
    device constant text := doc ->> 'deviceId';
    told constant text := case when care.given(doc, 'token') is not null then doc ->> 'token' end;
    sole constant text := case when doc ->> 'platform' <> 'webhook' then told end;
begin
    if sole is not null then
        perform pg_advisory_xact_lock(hashtextextended('care.device.' || sole, 0));
    end if;
    -- Two that swap their tokens lock both rows in one order.
    perform from care.device as x
    where x.user_id = who and x.device_id = device or x.token = sole and x.platform = doc ->> 'platform'
    order by x.user_id, x.device_id for update;
    delete from care.device as x
    where x.token = sole and x.platform = doc ->> 'platform' and (x.user_id, x.device_id) <> (who, device);
    select * into was from care.device as x where x.user_id = who and x.device_id = device;
    insert into care.device as x (user_id, device_id, platform, token, environment, topic, permission, registered_at, created_at)
    values (who, device, doc ->> 'platform', told, doc ->> 'environment', doc ->> 'topic', doc ->> 'permission', clock, clock)
    on conflict (user_id, device_id) do update
        set platform = excluded.platform, token = excluded.token, environment = excluded.environment, topic = excluded.topic,
            permission = excluded.permission, registered_at = excluded.registered_at
    returning x.* into d;
    if was.device_id is null then
        delete from care.device as x where x.user_id = who and x.device_id in (
            select o.device_id from care.device as o where o.user_id = who and o.device_id <> device
            order by o.registered_at desc, o.device_id offset 19);
    end if;
    return care.done(
        case when (was.platform, was.token, was.environment, was.topic, was.permission)
                    is not distinct from (d.platform, d.token, d.environment, d.topic, d.permission) then 'noop'
             else 'applied' end,
        care.device_json(d));
end
$$;

-- care.notify: a push by hand to each of the user's devices that has not declined: of one occurrence of a reminder, or with
-- a text of its own. It expires after `expiresInSeconds` (four hours by default). Locks: none; rows are new.
create or replace function care.notify(who text, key text, doc jsonb, clock timestamptz) returns sync.verdict
language plpgsql
as $$
declare
    field text;
    problem text;
    of_rule text;
    of_day date;
    written int;
begin
    foreach field in array array['title', 'body'] loop
        if care.given(doc, field) is not null then
            problem := care.text_problem(doc -> field, case field when 'title' then 200 else 1000 end, false);
            if problem is not null then
                return care.invalid('payload.' || field, problem);
            end if;
        end if;
    end loop;
    if care.given(doc, 'expiresInSeconds') is not null and (
        jsonb_typeof(doc -> 'expiresInSeconds') <> 'number'
        or (doc ->> 'expiresInSeconds')::numeric not between 1 and 2419200)
    then
        return care.invalid('payload.expiresInSeconds', 'must be a number from 1 to 2419200');
    end if;
    if care.given(doc, 'occurrenceId') is not null then
        problem := care.key_problem(doc -> 'occurrenceId');
        if problem is not null then
            return care.invalid('payload.occurrenceId', problem);
        end if;
        select f.rule_id, f.day into of_rule, of_day from care.find_reminder_occurrence(who, doc ->> 'occurrenceId') as f;
        if of_rule is null then
            return care.unknown('payload.occurrenceId', 'names no occurrence of a reminder');
        end if;
    elsif care.given(doc, 'body') is null then
        return care.invalid('payload.body', 'is required, or occurrenceId');
    end if;
    insert into care.push (user_id, device_id, platform, kind, rule_id, day, occurrence_id, start, expires_at, title, body,
                           next_at, created_at)
    select d.user_id, d.device_id, d.platform, 'notify', of_rule, of_day, coalesce(care.given(doc, 'occurrenceId') #>> '{}', key), clock,
           clock + make_interval(secs => coalesce((care.given(doc, 'expiresInSeconds') #>> '{}')::numeric, 14400)::double precision),
           care.given(doc, 'title') #>> '{}', care.given(doc, 'body') #>> '{}', clock, clock
    from care.device as d
    where d.user_id = who and d.permission is distinct from 'denied'
    on conflict (user_id, occurrence_id, device_id, start) do nothing;
    get diagnostics written = row_count;
    return care.done(case when written > 0 then 'applied' else 'noop' end, jsonb_build_object('pushes', written));
end
$$;

-- care.act_devices: what sync.settle hands the types of devices to. Locks: those of the type's own function.
create or replace function care.act_devices(who text, key text, type text, doc jsonb, base jsonb, client_time jsonb, tz text)
returns sync.verdict
language plpgsql
as $$
declare
    clock constant timestamptz := sync.clock();
    problem text;
    verdict sync.verdict;
    gone int;
begin
    if doc is null then
        return care.invalid('payload', 'cannot be read');
    elsif jsonb_typeof(doc) <> 'object' then
        return care.invalid('payload', 'must be an object');
    elsif type = 'notify' then
        return care.notify(who, key, doc, clock);
    end if;
    problem := care.key_problem(care.given(doc, 'deviceId'));
    if problem is not null then
        return care.invalid('payload.deviceId', problem);
    elsif type = 'registerDevice' then
        verdict := care.device_problem(doc);
        return case when verdict.status is not null then verdict else care.register_device(who, doc, clock) end;
    end if;
    delete from care.device as d where d.user_id = who and d.device_id = doc ->> 'deviceId';
    get diagnostics gone = row_count;
    return care.done(case when gone > 0 then 'applied' else 'noop' end, jsonb_build_object('deviceId', doc -> 'deviceId'));
end
$$;
