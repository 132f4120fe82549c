-- sync.apply_all: several actions in one transaction end as they do one by one.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null

-- The same actions of two users: `qq1` sends them singly, `qq2` in batches as the hub does. What they
-- get and leave is the same but for their names, random ids and what now() dates.
create temp table sent (place int primary key, key text, device text, n bigint, type text, payload text, base text, client_time text, tz text);
insert into sent
select row_number() over (), key, device, n, type, payload, base, client_time, tz from (values
    ('k1', 'phone', 1, 'markTaken', '{"occurrenceId":"WHO1","note":"water"}', '{"rev":1}', '"2025-11-20T11:00:00+01:00"', 'Europe/Berlin'),
    ('k2', 'phone', 2, 'addNote', '{"occurrenceId":"WHO1","text":"second"}', '{"rev":2}', null, null),
    ('k3', 'phone', 3, 'addNote', '{"occurrenceId":"WHO1","text":"second"}', null, null, null),
    ('k4', 'phone', 4, 'undo', '{"targetKey":"k1"}', null, null, null),
    ('k5', 'phone', 5, 'undo', '{"targetKey":"k2"}', null, null, null),
    ('k2', 'phone', 2, 'addNote', '{"occurrenceId":"WHO1","text":"second"}', '{"rev":2}', null, null),
    ('k2', 'phone', 2, 'addNote', '{"occurrenceId":"WHO1","text":"another"}', null, null, null),
    ('k8', 'phone', 9, 'skip', '{"occurrenceId":"WHO2"}', null, null, null),
    ('k9', 'phone', 6, 'skip', '{"occurrenceId":"WHO2","reason":"nausea"}', '{"rev":1}', null, null),
    ('k10', 'tablet', 1, 'markTaken', '{"occurrenceId":"WHO2"}', '{"rev":1}', null, null),
    ('k11', 'tablet', 2, 'resolve', '{"of":"k10","choice":"keep_local"}', '{"rev":2}', null, null),
    ('k12', null, null, 'resolve', '{"of":"later","choice":"keep_local"}', null, null, null),
    ('k13', 'phone', 7, 'markTaken', '{"occurrenceId":"no', null, null, null),
    ('k14', 'phone', 8, 'makeUp', '{"occurrenceId":"WHO3","reason":"late"}', null, '1763636400000', null),
    ('k15', 'phone', 9, 'bulkMarkAll', '{"status":"skipped","occurrenceIds":["WHO3","WHO4","WHO5","gone"]}', null, null, null),
    ('k16', 'phone', 10, 'undo', '{"targetKey":"k15"}', null, null, null),
    ('k17', 'phone', 11, 'markMissed', '{"occurrenceId":"WHO4"}', null, null, null),
    ('k18', 'phone', 12, 'markTaken', '{"occurrenceId":"WHO4","takenAt":"2025-11-20T09:00:00Z"}', null, null, null),
    ('k19', 'phone', 13, 'createReminder', '{"id":"WHOr","time":"14:00","repeat":"daily","timezone":"UTC"}', null, null, null),
    ('k20', 'phone', 14, 'updateReminder', '{"id":"WHOr","time":"15:00"}', '{"rev":1}', null, null),
    ('k21', 'phone', 15, 'updateReminder', '{"id":"WHOr","time":"16:00"}', '{"rev":1}', null, null),
    ('k22', 'phone', 16, 'snoozeReminder', '{"id":"WHOr","date":"2025-11-20","minutes":10}', null, null, null),
    ('k23', 'phone', 17, 'deleteReminder', '{"id":"WHOr"}', null, null, null),
    ('', 'phone', 18, 'skip', '{}', null, null, null),
    ('k25', 'phone', 18, 'notify', '{}', null, null, null),
    ('k26', 'phone', 19, 'nothing', '{}', null, null, null),
    ('k27', 'phone', 20, 'createMedication', '{"id":"WHOm","name":"Zinc","frequency":"as_needed"}', null, null, null),
    ('k28', 'phone', 21, 'logDose', '{"id":"WHOl","productId":"WHOm"}', null, null, null),
    ('k29', 'phone', 22, 'markTaken', '{"occurrenceId":"WHO5"}', 'null', 'null', null),
    ('k30', 'phone', 23, 'updateMedication', '{"id":"WHOm","name":"Zinc 2"}', null, null, null),
    ('k31', 'phone', 24, 'updateMedication', '{"id":"WHOm","name":"Zinc 3"}', '{"rev":1}', null, null),
    ('k32', 'phone', 25, 'addNote', '{"occurrenceId":"WHO5","text":"third"}', null, null, null),
    ('k33', 'phone', 26, 'resolve', '{"of":"k31","choice":"keep_local"}', null, null, null),
    ('k34', 'phone', 27, 'addNote', '{"occurrenceId":"WHO5","text":"fourth"}', null, null, null)
) as t(key, device, n, type, payload, base, client_time, tz);
select test.plan(who, who || n) from unnest('{qq1,qq2}'::text[]) as who, generate_series(1, 5) as n \g /dev/null
create temp table got (who text, place int, status text, answer text, corrections int, xid xid8);
create procedure test.singly(who text) language plpgsql as $$
declare
    s record;
begin
    for s in select * from sent order by place loop
        insert into got
        select who, s.place, a.status, a.answer, a.corrections, pg_current_xact_id()
        from sync.apply(who, s.key, s.device, s.n, s.type, replace(s.payload, 'WHO', who), s.base, s.client_time, s.tz) as a;
        commit;
    end loop;
end
$$;
create procedure test.in_batches(who text, most int) language plpgsql as $$
declare
    next int := 1;
    rows int;
begin
    while next <= (select count(*) from sent) loop
        insert into got
        select who, next + a.line - 1, a.status, a.answer, a.corrections, pg_current_xact_id()
        from (
            select array_agg(key order by place) as keys, array_agg(device order by place) as devices, array_agg(n order by place) as ns,
                   array_agg(type order by place) as types, array_agg(replace(payload, 'WHO', who) order by place) as payloads,
                   array_agg(base order by place) as bases, array_agg(client_time order by place) as times, array_agg(tz order by place) as zones
            from sent where place between next and next + most - 1
        ) as b
        cross join lateral sync.apply_all(who, keys, devices, ns, types, payloads, bases, times, zones) with ordinality as a(status, answer, corrections, line);
        get diagnostics rows = row_count;
        if rows = 0 then
            rows := 1;
            insert into got
            select who, place, a.status, a.answer, a.corrections, pg_current_xact_id()
            from sent as s cross join lateral sync.apply(who, key, device, n, type, replace(payload, 'WHO', who), base, client_time, tz) as a
            where place = next;
        end if;
        next := next + rows;
        commit;
    end loop;
end
$$;
call test.singly('qq1');
call test.in_batches('qq2', 7);

-- A text without what may differ: names, random ids, and times of rows that are dated by now().
create function test.plain(who text, said text) returns text language sql as $$
    select regexp_replace(regexp_replace(replace(said, who, 'WHO'), '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}', 'ID', 'g'),
                          '"(createdAt|updatedAt)": "[^"]*"', '"\1": "…"', 'g') $$;
select test.is(format('action %s (%s): the same answer', s.place, s.type), test.plain('qq2', b.answer), test.plain('qq1', a.answer))
from sent as s join got as a on a.place = s.place and a.who = 'qq1' join got as b on b.place = s.place and b.who = 'qq2' order by s.place;
select test.is('as many answers', (select count(*) from got where who = 'qq2'), (select count(*) from sent));
select test.is('the same corrections, one at least', (select string_agg(corrections::text, '' order by place) from got where who = 'qq2'),
               (select string_agg(corrections::text, '' order by place) from got where who = 'qq1' having sum(corrections) > 0));
select test.is('statuses as the answers say', (select count(*) from got where status is distinct from answer::jsonb ->> 'status'), 0::bigint);
select test.is('all of them occur', (select string_agg(distinct status, ' ' order by status) from got), 'applied conflict noop partial rejected retry');
select test.is('singly, each in a transaction', (select count(distinct xid) from got where who = 'qq1'), (select count(*) from sent));
select test.is('in batches, in fewer', (select count(distinct xid) from got where who = 'qq2') <= 20, true);
select test.is('an own type of the app, or another''s, is alone', (
    select count(*) from got as g join sent as s using (place)
    where g.who = 'qq2' and s.type not in ('createMedication', 'updateMedication', 'logDose', 'notify', 'nothing')
        and g.xid in (select o.xid from got as o join sent as t using (place) where o.who = 'qq2' and t.type in ('createMedication', 'updateMedication', 'logDose', 'notify', 'nothing'))), 0::bigint);
select test.is('the same events of ' || topic, test.plain('qq2', test.told('qq2', topic)), test.plain('qq1', test.told('qq1', topic)))
from unnest('{adherence,reminders,medications}'::text[]) as topic;
select test.is('each with the key of its action', (select string_agg(data #>> '{_sync,k}', ' ' order by topic, o) from sync.event where user_id = 'qq2'),
               (select string_agg(data #>> '{_sync,k}', ' ' order by topic, o) from sync.event where user_id = 'qq1'));
select test.is('the same doses', (select string_agg(test.plain('qq2', d::text), ' ' order by test.plain('qq2', id)) from (
                   select id, test.row(id) as d from care.dose_occurrence where user_id = 'qq2' and schedule_id is null) as d),
               (select string_agg(test.plain('qq1', d::text), ' ' order by test.plain('qq1', id)) from (
                   select id, test.row(id) as d from care.dose_occurrence where user_id = 'qq1' and schedule_id is null) as d));
select test.is('the same actions are kept', (select string_agg(concat_ws(' ', key, device_id, n, type, status, undone_by, resolved_by), ', ' order by key) from sync.action where user_id = 'qq2'),
               (select string_agg(concat_ws(' ', key, device_id, n, type, status, undone_by, resolved_by), ', ' order by key) from sync.action where user_id = 'qq1'));
select test.is('the same numbers', (select string_agg(device_id || last_n, ' ' order by device_id) from sync.device where user_id = 'qq2'), 'phone27 tablet2');
select test.is('stored summaries are those of the rows', test.summaries_hold(), true);
select test.is('nothing touched is left', (select count(*) from sync.touched) + (select count(*) from sync.ticket), 0::bigint);
delete from got;
call test.in_batches('qq2', 32);
select test.is('again: what is stored', (select string_agg(distinct case when b.answer::jsonb ->> 'replayed' = 'true' then 'replayed' else a.status end, ' ') from got as b join got as a using (place, who)), (
    select string_agg(distinct kind, ' ' order by kind) from unnest('{rejected,replayed,retry}'::text[]) as kind));
select test.is('and nothing new', test.plain('qq2', test.told('qq2', 'adherence')), test.plain('qq1', test.told('qq1', 'adherence')));

-- What a batch is called with, in short: one note for each dose.
create function test.notes(who text, variadic doses text[]) returns text language sql as $$
    select format('select string_agg(status, '' '') from sync.apply_all(%L, %L, %L, %L, %L, %L, %3$L, %3$L, %3$L)', who,
                  array(select 'note-' || d from unnest(doses) as d), array_fill(null::text, array[cardinality(doses)]), array_fill(null::bigint, array[cardinality(doses)]),
                  array_fill('addNote'::text, array[cardinality(doses)]), array(select jsonb_build_object('occurrenceId', d, 'text', 'n')::text from unnest(doses) as d)) $$;
create function test.notes_said(who text, variadic doses text[]) returns text language plpgsql as $$
declare
    said text;
begin
    execute test.notes(who, variadic doses) into said;
    return coalesce(said, 'none');
exception when others then
    return sqlstate;
end
$$;
-- A batch is over after 50 ms, also on a busy machine: what came to fewer actions is undone, and tried again.
create function test.notes_become(want text, who text, variadic doses text[]) returns text language plpgsql as $$
declare
    said text;
begin
    for try in 1..100 loop
        begin
            execute test.notes(who, variadic doses) into said;
            exit when said = want;
            raise 'again';
        exception when others then
            if sqlerrm <> 'again' then
                said := sqlstate;
                exit when said = want;
            end if;
        end;
    end loop;
    return said;
end
$$;
select test.plan('qb', 'qb' || n) from generate_series(1, 20) as n \g /dev/null

-- An error of one.
create function test.refuse_note() returns trigger language plpgsql as $$
begin
    if new.occurrence_id = 'qb2' then
        raise exception 'no' using errcode = 'P0001';
    elsif new.occurrence_id = 'qb9' then
        perform pg_sleep(0.06);
    end if;
    return null;
end
$$;
create trigger refuse_note after insert on care.dose_note for each row execute function test.refuse_note();
select test.is('an error of one is that of all', test.notes_become('P0001', 'qb', 'qb1', 'qb2', 'qb3'), 'P0001');
select test.is('nothing is done', (select count(*) from sync.action where user_id = 'qb') + (select count(*) from sync.event where user_id = 'qb' and name = 'occurrence.updated'), 0::bigint);
select test.is('without it, all are', test.notes_become('applied applied', 'qb', 'qb1', 'qb3'), 'applied applied');

-- A long one: the others are not begun.
select test.is('none is begun when time is over', test.notes_become('applied applied', 'qb', 'qb4', 'qb9', 'qb5', 'qb6'), 'applied applied');
select test.is('they can be sent again', test.notes_become('applied applied', 'qb', 'qb5', 'qb6'), 'applied applied');
drop trigger refuse_note on care.dose_note;

-- Another writer has a row: the first waits no longer than the others.
select test.open(name, :'connection') from unnest('{one,two}'::text[]) as name \g /dev/null
select dblink_exec('one', 'begin') || dblink_exec('one', $$update care.dose_occurrence set note = 'mine' where id = 'qb8'$$) \g /dev/null
-- A session's first action plans all functions, and a batch is over after 50 ms.
select test.plan('qb', 'qbfirst') \g /dev/null
select t.said from dblink('two', test.notes('qb', 'qbfirst')) as t(said text) \g /dev/null
select dblink_exec('two', $$set lock_timeout = '60s'$$) || dblink_send_query('two', test.notes('qb', 'qb7', 'qb8')) \g /dev/null
select test.is('a batch waits for a lock for a moment', test.outcome('two') || ' ' || (select count(*) from sync.action where key = 'note-qb7'), '55P03 0');
select test.is('what was set for it ends with it', (select t.value from dblink('two', 'show lock_timeout') as t(value text)), '1min');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('then it is applied', test.notes_become('applied applied', 'qb', 'qb7', 'qb8'), 'applied applied');
-- The batch has flushed the first, and holds the stream; the other writer has the second''s row, and wants the stream.
select dblink_exec('one', 'begin') || dblink_exec('one', $$update care.dose_occurrence set note = 'mine' where id = 'qb11'$$) \g /dev/null
select dblink_exec('two', 'begin') || (select t.said from dblink('two', test.notes('qb', 'qb10')) as t(said text)) \g /dev/null
select dblink_send_query('one', 'set constraints all immediate') \g /dev/null
select test.is('another writer waits for the stream', test.wait_blocked('one'), 'blocked');
select dblink_send_query('two', test.notes('qb', 'qb11')) \g /dev/null
select test.is('a batch that wants its row gives way', test.outcome('two'), '55P03');
select dblink_exec('two', 'rollback') \g /dev/null
select test.is('and it goes on', test.outcome('one'), 'done');
select dblink_exec('one', 'commit') \g /dev/null
select dblink_disconnect(name) from unnest('{one,two}'::text[]) as name \g /dev/null

-- What cannot share.
select test.is('an unknown type first: none', (
    select count(*) from sync.apply_all('qb', '{x1,x2}', '{NULL,NULL}', '{NULL,NULL}', '{nothing,addNote}',
        array['{}', '{"occurrenceId":"qb12","text":"n"}'], '{NULL,NULL}', '{NULL,NULL}', '{NULL,NULL}')), 0::bigint);
select test.is('no type at all', (
    select count(*) from sync.apply_all('qb', '{x1,x2}', '{NULL,NULL}', '{NULL,NULL}', '{NULL,addNote}', '{NULL,NULL}', '{NULL,NULL}', '{NULL,NULL}', '{NULL,NULL}')), 0::bigint);
create function test.wait_for_commit() returns trigger language plpgsql as 'begin return null; end';
create constraint trigger own after insert on care.dose_note deferrable initially deferred for each row execute function test.wait_for_commit();
select test.is('an own trigger at the commit: none', test.notes_said('qb', 'qb12', 'qb13'), 'none');
drop trigger own on care.dose_note;
select test.is('without it, they share', test.notes_become('applied applied', 'qb', 'qb12', 'qb13'), 'applied applied');
