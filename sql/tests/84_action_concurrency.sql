-- Actions of several sessions at once, held apart by locks and not by time.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
select test.open(name, :'connection') from unnest('{one,two}'::text[]) as name \g /dev/null
select test.plan('cc', 'cc' || n) from generate_series(1, 8) as n \g /dev/null
create function test.call(key text, type text, dose text, device text default null, n bigint default null) returns text language sql as $$
    select format('select answer from sync.apply(%L, %L, %L, %L, %L, %L, null, null, null)', 'cc', key, device, n, type, jsonb_build_object('occurrenceId', dose, 'text', 'n')) $$;
create function test.begun(session text, statement text) returns jsonb language plpgsql as $$
begin
    perform dblink_exec(session, 'begin');
    return (select t.answer from dblink(session, statement) as t(answer text));
end
$$;
-- The answer to what dblink_send_query began, and the end of its transaction.
create function test.answer(session text) returns jsonb language plpgsql as $$
declare
    a jsonb;
begin
    select t.answer into a from dblink_get_result(session) as t(answer text);
    perform * from dblink_get_result(session) as t(answer text);
    return a;
end
$$;

create temp table one as select test.begun('one', test.call('same', 'markTaken', 'cc1', 'phone', 1)) as a;
select dblink_send_query('two', test.call('same', 'markTaken', 'cc1', 'phone', 1)) \g /dev/null
select test.is('the same key from two sessions: the second waits', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and gets the first''s answer', test.answer('two'), (select a || '{"replayed": true}' from one));
select test.is('applied once', (select rev::text || ' ' || (select count(*) from sync.event where user_id = 'cc' and data #>> '{_sync,k}' = 'same') from care.dose_occurrence where id = 'cc1'), '2 2');

truncate one;
insert into one select test.begun('one', test.call('back', 'markTaken', 'cc2', 'phone', 2));
select dblink_send_query('two', test.call('back', 'markTaken', 'cc2', 'phone', 2)) \g /dev/null
select test.is('the first is undone by its transaction', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'rollback') \g /dev/null
select test.is('the second applies it', test.answer('two'), (select a from one));
select test.is('the number is taken once', (select last_n from sync.device where user_id = 'cc' and device_id = 'phone'), 2::bigint);

select test.begun('one', test.call('a', 'markTaken', 'cc3', 'phone', 3)) \g /dev/null
select dblink_send_query('two', test.call('b', 'markTaken', 'cc4', 'tablet', 1)) \g /dev/null
select test.is('two devices on one day: one after the other', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and both counted', test.short(test.answer('two')), 'applied');
select test.is('four of them', (select taken_count from care.day_summary where user_id = 'cc'), 4);
select test.is('as their events say', (select string_agg(data #>> '{summary,takenCount}', ' ' order by o) from sync.event where user_id = 'cc' and name = 'adherence.summary_updated' and data #>> '{_sync,k}' is not null), '1 2 3 4');

select test.begun('one', $$update care.dose_occurrence set status = 'skipped' where id = 'cc5' returning to_json(id)$$) \g /dev/null
select dblink_send_query('two', test.call('f', 'markTaken', 'cc5')) \g /dev/null
select test.is('a foreign writer on the row: the action waits', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and decides by what that writer left', test.short(test.answer('two')), 'conflict state');
select test.begun('one', test.call('g', 'addNote', 'cc6')) \g /dev/null
select dblink_send_query('two', $$update care.dose_occurrence set note = note || '!' where id = 'cc6'$$) \g /dev/null
select test.is('the other way round: the writer waits', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and is not lost', test.outcome('two') || ' ' || test.row('cc6'), 'done scheduled n! 3 1 3');
select test.begun('one', $$update care.dose_occurrence set status = 'taken' where id = 'cc7' returning to_json(id)$$) \g /dev/null
select dblink_exec('one', 'set constraints all immediate') \g /dev/null
select dblink_send_query('two', test.call('h', 'markTaken', 'cc8')) \g /dev/null
select test.is('a foreign writer on the day: the flush waits', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and counts it', test.short(test.answer('two')), 'applied');
select test.is('six of them', (select taken_count from care.day_summary where user_id = 'cc'), 6);

select test.begun('one', $$select to_json(user_id) from sync.account where user_id = 'cc' for update$$) \g /dev/null
select dblink_exec('two', $$set lock_timeout = '1ms'$$) \g /dev/null
select dblink_send_query('two', test.call('locked', 'skip', 'cc8')) \g /dev/null
select test.is('a locked user: 55P03, and nothing stored', test.outcome('two') || ' ' || (select count(*) from sync.action where key = 'locked'), '55P03 0');
select dblink_exec('one', 'rollback') || dblink_exec('two', 'reset lock_timeout') \g /dev/null
select test.is('who never acted, twice at once', (
    select (test.begun('one', replace(test.call('x', 'skip', 'q'), '''cc''', '''newcomer''')) ->> 'code') || dblink_send_query('two', replace(test.call('y', 'skip', 'q'), '''cc''', '''newcomer'''))), 'gone1');
select test.is('the second waits', test.wait_blocked('two'), 'blocked');
select dblink_exec('one', 'commit') \g /dev/null
select test.is('and follows', test.short(test.answer('two')), 'conflict gone');
select dblink_exec('one', 'begin isolation level repeatable read') || (select max(t.n) from dblink('one', 'select count(*)::text from sync.action') as t(n text)) \g /dev/null
select test.act('cc', 'between', 'skip', '{"occurrenceId":"cc8"}') \g /dev/null
select dblink_send_query('one', test.call('rr', 'addNote', 'cc7')) \g /dev/null
select test.is('repeatable read: applied once, or 40001', test.outcome('one') in ('done', '40001'), true);
select dblink_exec('one', 'rollback') \g /dev/null

select dblink_disconnect(name) from unnest('{one,two}'::text[]) as name \g /dev/null
select test.is('the stream is contiguous', (select count(*) from sync.event where user_id = 'cc'), test.top('cc'));
select test.is('stored summaries are those of the rows', test.summaries_hold(), true);
select test.is('nothing touched is left', (select count(*) from sync.touched) + (select count(*) from sync.ticket), 0::bigint);
