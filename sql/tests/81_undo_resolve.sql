-- undo and resolve of single actions.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null
create function test.undo(who text, key text, target text) returns text language sql as $$
    select test.short(test.act(who, key, 'undo', jsonb_build_object('targetKey', target))) $$;
create function test.resolve(who text, key text, target text, choice text, merged jsonb default null, base jsonb default null) returns text language sql as $$
    select test.short(test.act(who, key, 'resolve', jsonb_build_object('of', target, 'choice', choice, 'merged', merged), base)) $$;

-- Undo of each action.
select test.plan('un', 'u' || n, (array['scheduled', 'scheduled', 'missed', 'missed', 'skipped'])[n]) from generate_series(1, 5) as n \g /dev/null
select test.act('un', 'a1', 'markTaken', '{"occurrenceId":"u1","note":"n"}'), test.act('un', 'a2', 'markMissed', '{"occurrenceId":"u2"}'), test.act('un', 'a3', 'makeUp', '{"occurrenceId":"u3","reason":"r"}'),
    test.act('un', 'a4', 'skip', '{"occurrenceId":"u4","reason":"r"}'), test.act('un', 'a5', 'skip', '{"occurrenceId":"u5","note":"n"}') \g /dev/null
select test.is('undo of a' || n, test.undo('un', 'un' || n, 'a' || n) || ' ' || test.row('u' || n), 'applied ' || (array['scheduled 3 3 3 un1', 'scheduled 3 3 1 un2', 'missed 3 3 1 un3', 'missed 3 3 1 un4', 'skipped why 3 1 3 un5'])[n]) from generate_series(1, 5) as n;
select test.is('its notes have gone', (select count(*) from care.dose_note where user_id = 'un'), 0::bigint);
select test.is('takenAt null is told', (select (data #> '{updates,takenAt}')::text || (data #>> '{_sync,k}') from sync.event where user_id = 'un' and data ->> 'occurrenceId' = 'u1' order by o desc limit 1), 'nullun1');
select test.is('once', test.undo('un', 'again', 'a1'), 'noop');
select test.is('a noop tells positions and nothing else', (select string_agg(k, ' ' order by k) from sync.action, jsonb_object_keys(answer) as k where user_id = 'un' and key = 'again'), 'key positions status');
select test.is('an undo cannot be undone', test.undo('un', 'unun', 'un1'), 'rejected invalid payload.targetKey');
select test.is('nor what another user did', test.undo('nu', 'x', 'a1'), 'rejected invalid payload.targetKey');
select test.act('un', 'noop', 'skip', '{"occurrenceId":"u5"}'), test.act('un', 'con', 'makeUp', '{"occurrenceId":"u5"}'), test.act('un', 'rej', 'skip', '{}') \g /dev/null
select test.is('undo of a ' || k, test.undo('un', 'of' || k, k), 'noop') from unnest('{noop,con,rej}'::text[]) as k;

-- Superseded, part by part.
select test.plan('su', 's' || n) from generate_series(1, 6) as n \g /dev/null
select test.act('su', 'a' || n, 'markTaken', jsonb_build_object('occurrenceId', 's' || n, 'note', 'first')) from generate_series(1, 5) as n \g /dev/null
update care.dose_occurrence set status = 'missed' where id = 's1';
select test.act('su', 'n2', 'addNote', '{"occurrenceId":"s2","text":"second"}') \g /dev/null
update care.dose_occurrence set window_end = window_end + interval '1 hour' where id = 's3';
update care.dose_occurrence set status = 'cancelled' where id = 's4';
delete from care.dose_occurrence where id = 's5';
select test.is('the status has changed since: nothing comes back', test.undo('su', 'u1', 'a1') || ' ' || test.row('s1'), 'conflict superseded missed 12:00 first 3 3 2');
select test.is('so has the note', test.undo('su', 'u2', 'a2') || ' ' || test.row('s2'), 'conflict superseded taken 12:00 second 3 2 3 n2');
select test.is('another column is no matter', test.undo('su', 'u3', 'a3') || ' ' || test.row('s3'), 'applied scheduled 4 4 4 u3');
select test.is('cancelled', test.undo('su', 'u4', 'a4'), 'conflict gone');
select test.is('deleted', test.undo('su', 'u5', 'a5'), 'conflict gone');
select test.is('the later note comes off', test.undo('su', 'un2', 'n2') || ' ' || test.row('s2'), 'applied taken 12:00 first 4 2 4 un2');
select test.is('its intents are the states from before', (select answer #> '{conflict,local}' from sync.action where user_id = 'su' and key = 'u1'), '{"status": "scheduled"}');
select test.is('a conflict of an undo can be resolved', test.resolve('su', 'r1', 'u1', 'keep_local') || ' ' || test.row('s1'), 'applied scheduled first 4 4 2 r1');
select test.act('su', 'same', 'addNote', '{"occurrenceId":"s6","text":"t"}'), test.act('su', 'same2', 'addNote', '{"occurrenceId":"s6","text":"t"}') \g /dev/null
select test.is('a note that was the same text', test.undo('su', 'usame', 'same2') || ' ' || test.row('s6'), 'applied scheduled t 2 1 2 same');
select test.is('leaves the other in the set', (select string_agg(key, ' ') from care.dose_note where occurrence_id = 's6'), 'same');

-- 24 hours.
select test.plan('late', 'l' || n) from generate_series(1, 2) as n \g /dev/null
select test.act('late', 'a' || n, 'skip', jsonb_build_object('occurrenceId', 'l' || n)) from generate_series(1, 2) as n \g /dev/null
select test.set_clock('2025-11-21 12:00Z') \g /dev/null
select test.is('after 24 hours', test.undo('late', 'u1', 'a1'), 'applied');
select test.set_clock('2025-11-21 12:00:00.000001Z') \g /dev/null
select test.is('and a moment', test.undo('late', 'u2', 'a2') || ' ' || test.row('l2'), 'conflict late skipped 2 2 1 a2');
select test.set_clock('2025-11-20 12:00Z') \g /dev/null

-- Resolve. The conflicts: markTaken with a note on a dose that was skipped meanwhile.
create function test.clash(who text, n int) returns void language plpgsql as $$
begin
    update care.dose_occurrence set status = 'skipped', reason = 'theirs' where id = who || n;
    perform test.act(who, 'c' || n, 'markTaken', jsonb_build_object('occurrenceId', who || n, 'note', 'mine'), '{"rev":1}');
end $$;
select test.plan('re', 're' || n) from generate_series(1, 20) as n \g /dev/null
select test.clash('re', n) from generate_series(1, 20) as n \g /dev/null
select test.is('keep_local while base is what the device had seen first: a conflict again', test.resolve('re', 'k1', 'c1', 'keep_local', null, '{"rev":1}'), 'conflict state');
select test.is('its base is the event it saw', (select (answer #>> '{conflict,base,rev}') || (answer #>> '{conflict,base,status}') from sync.action where user_id = 're' and key = 'k1'), '1scheduled');
select test.is('the first may still be decided, by who has seen what is there', test.resolve('re', 'k1b', 'c1', 'keep_local') || ' ' || test.row('re1'), 'applied taken 12:00 mine 3 3 3 k1b');
select test.is('and the second, of what is there no more, is a conflict', test.resolve('re', 'k1c', 'k1', 'keep_local', null, '{"rev":2}'), 'conflict state');
select test.is('what another device has decided is not dropped: accept_server', test.resolve('re', 'k1e', 'k1c', 'accept_server') || ' ' || test.resolve('re', 'k1f', 'k1c', 'keep_local'), 'noop applied');
select test.is('an action without conflict', test.resolve('re', 'k1d', 'k1b', 'keep_local'), 'rejected invalid payload.of');
select test.is('keep_local', test.resolve('re', 'k2', 'c2', 'keep_local') || ' ' || test.row('re2'), 'applied taken 12:00 mine 3 3 3 k2');
select test.is('only the stream of doses is named', (select string_agg(c, ' ') from sync.action as a, jsonb_object_keys(a.answer -> 'positions') as c where a.user_id = 're' and a.key = 'k2'), 'user.re.adherence');
select test.is('can be undone', test.undo('re', 'uk2', 'k2') || ' ' || test.row('re2'), 'applied skipped theirs 4 4 4 uk2');
update care.dose_occurrence set status = 'missed', reason = null where id = 're3';
select test.is('the server moved again', test.resolve('re', 'k3', 'c3', 'keep_local') || ' ' || test.resolve('re', 'k3b', 'k3', 'keep_local') || ' ' || test.row('re3'), 'conflict state applied taken 12:00 mine 4 4 4 k3b');
update care.dose_occurrence set note = 'theirs' where id = 're4';
select test.is('a note meanwhile is no matter', test.resolve('re', 'k4', 'c4', 'keep_local') || ' ' || test.row('re4'), 'applied taken 12:00 mine 4 4 4 k4');
update care.dose_occurrence set status = 'cancelled' where id = 're5';
select test.is('also on a cancelled dose', test.resolve('re', 'k5', 'c5', 'keep_local', null, '{"re5":{"rev":3}}') || ' ' || test.row('re5'), 'applied taken 12:00 mine 4 4 4 k5');
delete from care.dose_occurrence where id in ('re6', 're7');
select test.is('a dose that is no more', test.resolve('re', 'k6', 'c6', 'keep_local') || ', ' || test.resolve('re', 'm6', 'k6', 'merge') || ', ' || test.resolve('re', 'a6', 'm6', 'accept_server'), 'conflict gone, conflict gone, noop');
select test.is('accepted without a dose', (select answer ? 'result' from sync.action where user_id = 're' and key = 'a6'), false);
select test.is('accept_server', test.resolve('re', 'a8', 'c8', 'accept_server') || ' ' || test.row('re8'), 'noop skipped theirs 2 2 1');
select test.is('tells the dose', (select answer #>> '{result,status}' from sync.action where user_id = 're' and key = 'a8'), 'skipped');
select test.is('and ends no other device''s choice', test.resolve('re', 'a8b', 'c8', 'keep_local') || ' ' || test.resolve('re', 'a8c', 'c8', 'accept_server') || ' ' || test.row('re8'), 'applied noop taken 12:00 mine 3 3 3 a8b');
select test.is('merge: the note alone', test.resolve('re', 'm9', 'c9', 'merge') || ' ' || test.row('re9'), 'applied skipped theirs mine 3 2 3 m9');
select test.is(format('merge with %s', merged), test.resolve('re', 'e' || n, 'c' || n, 'merge', merged) || ' ' || test.row('re' || n), want) from (values
    (10, '{"status":"taken"}'::jsonb, 'applied taken 12:00 mine 3 3 3 e10'), (11, '{"status":"made_up","takenAt":"2025-11-20T09:00Z","reason":"r","note":"m"}', 'applied made_up 09:00 r m 3 3 3 e11'),
    (12, '{"status":"made_up"}', 'applied made_up 12:00 theirs mine 3 3 3 e12'), (13, '{"status":"scheduled","takenAt":"2025-11-20T09:00Z"}', 'applied scheduled mine 3 3 3 e13'),
    (14, '{"reason":"both"}', 'applied skipped both mine 3 3 3 e14'), (15, '{"note":"m"}', 'applied skipped theirs m 3 2 3 e15'), (16, '{}', 'applied skipped theirs mine 3 2 3 e16'),
    (17, '{"status":"missed","note":null}', 'applied missed mine 3 3 3 e17')) as t(n, merged, want);
update care.dose_occurrence set status = 'missed', reason = null where id in ('re18', 're19');
select test.is('merge of a status that moved', test.resolve('re', 'e18', 'c18', 'merge', '{"status":"taken"}'), 'conflict state');
select test.is('of a note only', test.resolve('re', 'e19', 'c19', 'merge', '{"note":"m"}') || ' ' || test.row('re19'), 'applied missed m 4 3 4 e19');
select test.plan('re', 'gone') \g /dev/null
select test.act('re', 'nothing', 'addNote', '{"occurrenceId":"missing","text":"n"}') \g /dev/null
select test.plan('re', 'missing') \g /dev/null
select test.is('a note for a dose that came to be', test.resolve('re', 'came', 'nothing', 'keep_local') || ' ' || test.row('missing'), 'applied scheduled n 2 1 2 came');
select test.is('a resolve is stored and repeats', test.resolve('re', 'k2', 'c2', 'keep_local'), 'applied replayed');
select test.is('streams are contiguous', (select count(*) from sync.event where user_id in ('re', 'su', 'un')) = test.top('re') + test.top('su') + test.top('un'), true);

-- A note that two actions added stays until both are undone.
select test.plan('two', 't' || n) from generate_series(1, 3) as n \g /dev/null
select test.act('two', 'a1', 'addNote', '{"occurrenceId":"t1","text":"t"}'), test.act('two', 'b1', 'addNote', '{"occurrenceId":"t1","text":"t"}') \g /dev/null
select test.is('undo of the first of two same notes: the note stays', test.undo('two', 'u1', 'a1') || ' ' || test.row('t1'), 'applied scheduled t 2 1 2 a1');
select test.is('its row goes', (select string_agg(key, ' ') from care.dose_note where occurrence_id = 't1'), 'b1');

-- A refusal is kept, also of what names an action that comes later: the device was told to drop it.
select test.is('undo of what is not there yet', test.undo('two', 'early', 'a2') || ', ' || test.resolve('two', 'early2', 'c2', 'keep_local'), 'rejected invalid payload.targetKey, rejected invalid payload.of');
select test.act('two', 'a2', 'skip', '{"occurrenceId":"t2"}') \g /dev/null
select test.is('and once it is there', test.undo('two', 'early', 'a2') || ', ' || test.row('t2') || ', ' || test.resolve('two', 'early2', 'c2', 'keep_local'), 'rejected invalid payload.targetKey replayed, skipped 2 2 1 a2, rejected invalid payload.of replayed');
select test.is('the key with another type', test.short(test.act('two', 'early', 'addNote', '{"occurrenceId":"t2","text":"x"}')), 'rejected key_reused');
select test.is('a new undo is applied', test.undo('two', 'late', 'a2') || ' ' || test.row('t2'), 'applied scheduled 3 3 1 late');
select test.is('with a number it is kept', test.short(test.act('two', 'numbered', 'undo', '{"targetKey":"a3"}', null, 'phone', 1)) || ', ' || test.short(test.act('two', 'numbered', 'undo', '{"targetKey":"a3"}', null, 'phone', 1)), 'rejected invalid payload.targetKey, rejected invalid payload.targetKey replayed');

-- Notes go with their dose.
select test.act('two', 'n3', 'addNote', '{"occurrenceId":"t3","text":"n"}') \g /dev/null
update care.dose_occurrence set user_id = user_id where id = 't3';
select test.is('a dose that stays keeps its notes', (select string_agg(key, ' ') from care.dose_note where occurrence_id = 't3'), 'n3');
update care.dose_occurrence set user_id = 'taker' where id = 't3';
select test.is('one that changes owner has none', (select count(*) from care.dose_note where occurrence_id = 't3'), 0::bigint);
delete from care.dose_occurrence where id in ('t1', 't2');
select test.is('nor one that is deleted', (select count(*) from care.dose_note where user_id = 'two'), 0::bigint);

-- A dose that is deleted and made again is another.
select test.plan('life', 'f' || n) from generate_series(1, 3) as n \g /dev/null
select test.act('life', 'a1', 'skip', '{"occurrenceId":"f1"}') \g /dev/null
update care.dose_occurrence set status = 'skipped' where id = 'f2';
select test.act('life', 'c2', 'markTaken', '{"occurrenceId":"f2","note":"n"}') \g /dev/null
delete from care.dose_occurrence where id in ('f1', 'f2');
select test.plan('life', 'f' || n) from generate_series(1, 2) as n \g /dev/null
update care.dose_occurrence set status = 'skipped' where id in ('f1', 'f2');
select test.is('undo of an earlier life', test.undo('life', 'u1', 'a1') || ' ' || test.row('f1'), 'conflict superseded skipped 2 2 1');
select test.is('keep_local of one', test.resolve('life', 'k2', 'c2', 'keep_local') || ', ' || test.resolve('life', 'k3', 'k2', 'keep_local') || ' ' || test.row('f2'), 'conflict state, applied taken 12:00 n 3 3 3 k3');

-- What the device had seen is looked for in the last 5,000 events.
select test.plan('seen', 'seen') \g /dev/null
update care.dose_occurrence set status = 'skipped' where id = 'seen';
select test.is('what the device had seen', test.act('seen', '1', 'makeUp', '{"occurrenceId":"seen"}', '{"rev":1}') #>> '{conflict,base,status}', 'scheduled');
insert into sync.event (user_id, topic, o, name, data) select 'seen', 'adherence', o, 'occurrence.updated', '{}' from generate_series((select top + 1 from sync.stream where user_id = 'seen' and topic = 'adherence'), 5001) as o;
update sync.stream set top = 5001 where user_id = 'seen' and topic = 'adherence';
select test.is('is no more', test.act('seen', '2', 'makeUp', '{"occurrenceId":"seen"}', '{"rev":1}') #>> '{conflict,base,status}', null);
