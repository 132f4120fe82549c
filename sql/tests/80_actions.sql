-- sync.apply: the table of transitions cell by cell, what is refused, keys, numbers, repeats, positions.
set timezone = 'UTC';
select test.set_clock('2025-11-20 12:00Z') \g /dev/null

create temp table cell (action text, was text, payload jsonb, want text);
insert into cell values
    ('markTaken', 'scheduled', '{}', 'applied taken 12:00'), ('markTaken', 'taken', '{}', 'noop taken 08:30'),
    ('markTaken', 'missed', '{"takenAt":"2025-11-20T11:30:00Z"}', 'applied taken 11:30'),
    ('markTaken', 'missed', '{"takenAt":"2025-11-20T11:30:01Z"}', 'conflict late missed'),
    ('markTaken', 'missed', '{"takenAt":"2025-11-19T20:00:00Z"}', 'applied taken 20:00'),
    ('markTaken', 'missed', '{"takenAt":"2025-11-19T19:59:59Z"}', 'conflict late missed'),
    ('markTaken', 'scheduled', '{"takenAt":"2025-11-19T19:59:59Z"}', 'applied taken 19:59'),
    ('markTaken', 'made_up', '{}', 'conflict state made_up 08:30 why'), ('markTaken', 'skipped', '{}', 'conflict state skipped why'),
    ('markTaken', 'cancelled', '{}', 'conflict gone cancelled'),
    ('markTaken', 'scheduled', '{"takenAt":"2025-11-20T09:00+01:00"}', 'applied taken 08:00'),
    ('markTaken', 'scheduled', '{"takenAt":1763625600000}', 'applied taken 08:00'),
    ('markTaken', 'scheduled', '{"takenAt":"2025-11-20T12:05:00Z"}', 'applied taken 12:00'),
    ('markMissed', 'scheduled', '{}', 'applied missed'), ('markMissed', 'taken', '{}', 'conflict state taken 08:30'),
    ('markMissed', 'missed', '{}', 'noop missed'), ('markMissed', 'made_up', '{}', 'conflict state made_up 08:30 why'),
    ('markMissed', 'skipped', '{}', 'conflict state skipped why'), ('markMissed', 'cancelled', '{}', 'conflict gone cancelled'),
    ('makeUp', 'scheduled', '{"reason":"r"}', 'applied made_up 12:00 r'), ('makeUp', 'taken', '{}', 'noop taken 08:30'),
    ('makeUp', 'missed', '{"at":"2025-11-20T11:59:59.5Z"}', 'applied made_up 11:59'), ('makeUp', 'made_up', '{"reason":"other"}', 'noop made_up 08:30 why'),
    ('makeUp', 'missed', '{"takenAt":"2025-11-20T11:00Z"}', 'applied made_up 11:00'),
    ('makeUp', 'skipped', '{}', 'conflict state skipped why'), ('makeUp', 'cancelled', '{}', 'conflict gone cancelled'),
    ('skip', 'scheduled', '{"reason":" "}', 'applied skipped  '), ('skip', 'taken', '{}', 'conflict state taken 08:30'),
    ('skip', 'missed', '{"reason":"r"}', 'applied skipped r'), ('skip', 'made_up', '{}', 'conflict state made_up 08:30 why'),
    ('skip', 'skipped', '{"reason":"other"}', 'noop skipped why'), ('skip', 'cancelled', '{}', 'conflict gone cancelled'),
    ('addNote', 'scheduled', '{"text":"n"}', 'applied scheduled n'), ('addNote', 'taken', '{"note":"n"}', 'applied taken 08:30 n'),
    ('addNote', 'missed', '{"text":"n"}', 'applied missed n'), ('addNote', 'made_up', '{"text":"n"}', 'applied made_up 08:30 why n'),
    ('addNote', 'skipped', '{"text":"n"}', 'applied skipped why n'), ('addNote', 'cancelled', '{"text":"n"}', 'applied cancelled n'),
    ('markTaken', 'taken', '{"note":"n"}', 'applied taken 08:30 n'), ('markTaken', 'skipped', '{"note":"n"}', 'conflict state skipped why'),
    ('markTaken', 'scheduled', '{"note":"n"}', 'applied taken 12:00 n'), ('skip', 'skipped', '{"note":"n"}', 'applied skipped why n');
create function test.send(who text, key text, type text, payload text, base text default null, client_time text default null) returns text language sql as $$
    select test.short(answer::jsonb) from sync.apply(who, key, null, null, type, payload, base, client_time, null) $$;
create temp sequence place;
create function test.cell(c cell) returns text language plpgsql as $$
#variable_conflict use_variable
declare
    dose text := 'cell' || nextval('place');
    a jsonb;
begin
    perform test.plan('cells', dose, c.was);
    a := test.act('cells', dose, c.action, c.payload || jsonb_build_object('occurrenceId', dose));
    if (a ->> 'status' = 'conflict') <> (a ? 'conflict') or (a ->> 'status' in ('applied', 'noop')) <> (a ? 'result')
        or a ? 'conflict' and (a #>> '{conflict,server,status}', a #>> '{conflict,code}', a #>> '{conflict,entity,id}') is distinct from (c.was, a ->> 'code', dose)
        or a ? 'result' and a -> 'result' is distinct from (select care.dose_json(d) from care.dose_occurrence as d where d.id = dose)
        or a #>> '{positions,user.cells.adherence,offset}' is distinct from test.top('cells')::text then
        return a::text;
    end if;
    return test.short(a) || (select concat(' ' || status, ' ' || to_char(taken_at, 'HH24:MI'), ' ' || reason, ' ' || note) from care.dose_occurrence as d where d.id = dose);
end
$$;
select test.is(format('%s on %s %s', action, was, payload), test.cell(cell), want) from cell;
select test.plan('words', 'words1', 'skipped') \g /dev/null
select test.is('a state in the way, in words: without a base', test.act('words', '1', 'markTaken', '{"occurrenceId":"words1"}') ->> 'message', 'the dose has another status');
select test.is('with a base', test.act('words', '2', 'markTaken', '{"occurrenceId":"words1"}', '{"rev":0}') ->> 'message', 'the status of the dose has been changed since');
select test.is('of several', test.act('words', '3', 'bulkMarkAll', '{"occurrenceIds":["words1"]}') ->> 'message', 'the dose has another status');

select test.set_clock('2025-11-20 10:59:59Z') \g /dev/null
select test.plan('early', d) from unnest('{e1,e2,e3,e4}'::text[]) as d \g /dev/null
select test.is('before the window ends: markMissed', test.short(test.act('early', '1', 'markMissed', '{"occurrenceId":"e1","note":"n"}')), 'rejected not_due');
select test.is('and makeUp', test.short(test.act('early', '2', 'makeUp', '{"occurrenceId":"e1"}')), 'rejected not_due');
select test.is('a rejection is stored, tells no positions and changes nothing', (select status || ' ' || (answer ? 'positions') || ' ' || test.row('e1') from sync.action where user_id = 'early' and key = '1'), 'rejected false scheduled 1 1 1');
select test.is('markTaken without a time: when the device says', test.act('early', '3', 'markTaken', '{"occurrenceId":"e1"}', client_time => '"2025-11-20T09:10:00+00:00"') #>> '{result,takenAt}', '2025-11-20T09:10:00+00:00');
select test.is('or now, where its clock is ahead', test.act('early', '4', 'markTaken', '{"occurrenceId":"e2"}', client_time => '1763700000000') #>> '{result,takenAt}', '2025-11-20T10:59:59+00:00');
select test.is('no dose of this id', test.act('early', '5', 'skip', '{"occurrenceId":"nowhere"}', '{"rev":3}') - '{key,message,positions}'::text[],
    '{"status": "conflict", "code": "gone", "conflict": {"code": "gone", "entity": {"type": "dose", "id": "nowhere"}, "server": null, "base": null, "local": {"status": "skipped"},
      "fields": [{"name": "status", "base": null, "server": null, "local": "skipped"}], "options": ["accept_server"], "merged": null}}'::jsonb);
select test.is('nor of another user', test.short(test.act('early', '6', 'addNote', '{"occurrenceId":"cell1","text":"n"}')), 'conflict gone');
update care.dose_occurrence set status = 'skipped' where id = 'e3';
select test.is('a conflict: server, base, local, fields, merged', (select jsonb_build_object('base', c #> '{base,status}', 'brev', c #> '{base,rev}', 'local', c -> 'local', 'fields', c -> 'fields', 'options', c -> 'options', 'by', c #> '{server,changedBy}',
        'merged', (c -> 'merged') - '{id,userId,scheduleId,productId,productName,strength,form,dose,asNeeded,timeLocal,timezone,localDate,scheduledAt,windowStart,windowEnd,createdAt,updatedAt,takenAt,takenAtLocal,changedBy,reason}'::text[])
    from test.act('early', '7', 'markTaken', '{"occurrenceId":"e3","note":"n"}', '{"e3":{"rev":1},"x":5}', 'phone') as a cross join lateral (select a -> 'conflict' as c) as conflict),
    '{"base": "scheduled", "brev": 1, "local": {"status": "taken", "takenAt": "2025-11-20T10:59:59+00:00", "note": "n"}, "by": {"at": "2025-11-20T10:59:59+00:00", "key": null, "actor": "backend", "deviceId": null},
      "fields": [{"name": "status", "base": "scheduled", "server": "skipped", "local": "taken"}, {"name": "takenAt", "base": null, "server": null, "local": "2025-11-20T10:59:59+00:00"}, {"name": "note", "base": null, "server": null, "local": "n"}],
      "options": ["keep_local", "accept_server", "merge"], "merged": {"status": "skipped", "note": "n", "hasNote": true, "rev": 2}}'::jsonb);
select test.act('early', '8', 'markTaken', '{"occurrenceId":"e4"}', device => 'phone') \g /dev/null
select test.is('who changed it', test.act('early', '9', 'skip', '{"occurrenceId":"e4"}', device => 'tablet') #> '{conflict,server,changedBy}', '{"at": "2025-11-20T10:59:59+00:00", "key": "8", "actor": "user", "deviceId": "phone"}');
update care.dose_occurrence set note = 'foreign' where id = 'e4';
select test.is('a foreign writer leaves no key', test.row('e4'), 'taken 10:59 foreign 3 2 3');
select test.is('notes and status merge: a note on a stale rev', test.short(test.act('early', '10', 'addNote', '{"occurrenceId":"e4","text":"mine"}', '{"rev":1}')) || ' ' || test.row('e4'), 'applied taken 10:59 mine 4 2 4 10');
select test.is('the same text again: in the set, and no event', test.short(test.act('early', '11', 'addNote', '{"occurrenceId":"e4","text":"mine"}')) || ' ' || test.row('e4'), 'applied taken 10:59 mine 4 2 4 10');
select test.is('and both are in the set', (select string_agg(key || '=' || text, ',' order by key) from care.dose_note where occurrence_id = 'e4'), '10=mine,11=mine');
select test.is('its event has the key, and no text', (select (data #>> '{_sync,k}') || ' ' || (data #>> '{updates,hasNote}') || ' ' || (data::text like '%mine%') from sync.event where user_id = 'early' and name = 'occurrence.updated' order by o desc limit 1), '10 true false');
select test.is('nor any of the columns for actions', (select count(*) from sync.event where data::text ~ 'status_?rev|changed_|statusRev|taken_|takenOffset|reason'), 0::bigint);

-- What is refused, and by which path.
create temp table refused (type text, payload jsonb, path text, base jsonb, client jsonb, tz text);
insert into refused (type, payload, path) values
    ('eat', '{}', 'type'), ('markTaken', '[]', 'payload'), ('markTaken', '{}', 'payload.occurrenceId'), ('markTaken', '{"occurrenceId":null}', 'payload.occurrenceId'),
    ('skip', '{"occurrenceId":1}', 'payload.occurrenceId'), ('skip', '{"occurrenceId":""}', 'payload.occurrenceId'),
    ('skip', jsonb_build_object('occurrenceId', repeat('ü', 100) || 'x'), 'payload.occurrenceId'),
    ('skip', '{"occurrenceId":"e1","reason":""}', 'payload.reason'), ('skip', jsonb_build_object('occurrenceId', 'e1', 'reason', repeat('ü', 501)), 'payload.reason'),
    ('skip', '{"occurrenceId":"e1","reason":7}', 'payload.reason'), ('markMissed', E'{"occurrenceId":"e1","note":" \\t\\r\\n"}', 'payload.note'),
    ('addNote', '{"occurrenceId":"e1"}', 'payload.text'), ('addNote', '{"occurrenceId":"e1","text":null,"note":5}', 'payload.note'),
    ('addNote', jsonb_build_object('occurrenceId', 'e1', 'text', repeat('ü', 4001)), 'payload.text'),
    ('makeUp', '{"occurrenceId":"e1","at":"now","takenAt":"2025-11-20T08:00Z"}', 'payload.at'), ('makeUp', '{"occurrenceId":"e1","takenAt":true}', 'payload.takenAt'),
    ('undo', '{}', 'payload.targetKey'), ('undo', '{"targetKey":"unknown"}', 'payload.targetKey'), ('resolve', '{"choice":"merge"}', 'payload.of'),
    ('resolve', '{"of":"x"}', 'payload.choice'), ('resolve', '{"of":"x","choice":"both"}', 'payload.choice'), ('resolve', '{"of":"x","choice":"merge"}', 'payload.of'),
    ('resolve', '{"of":"x","choice":"merge","merged":[]}', 'payload.merged'), ('resolve', '{"of":"x","choice":"merge","merged":{"status":"cancelled"}}', 'payload.merged.status'),
    ('resolve', '{"of":"x","choice":"merge","merged":{"takenAt":"x"}}', 'payload.merged.takenAt'), ('resolve', '{"of":"x","choice":"merge","merged":{"reason":""}}', 'payload.merged.reason'),
    ('resolve', '{"of":"x","choice":"merge","merged":{"note":" "}}', 'payload.merged.note'), ('resolve', '{"of":"x","choice":"merge","merged":{"state":"taken"}}', 'payload.merged'),
    ('bulkMarkAll', '{}', 'payload.occurrenceIds'), ('bulkMarkAll', '{"occurrenceIds":["a"],"criteria":{}}', 'payload.criteria'), ('bulkMarkAll', '{"occurrenceIds":{}}', 'payload.occurrenceIds'),
    ('bulkMarkAll', '{"occurrenceIds":[]}', 'payload.occurrenceIds'), ('bulkMarkAll', '{"occurrenceIds":["a","b",null]}', 'payload.occurrenceIds[2]'),
    ('bulkMarkAll', jsonb_build_object('occurrenceIds', (select jsonb_agg(n::text) from generate_series(1, 201) as n)), 'payload.occurrenceIds'),
    ('bulkMarkAll', '{"occurrenceIds":["a"],"takenAt":"x"}', 'payload.takenAt'), ('bulkMarkAll', '{"occurrenceIds":["a"],"includeFuture":"yes"}', 'payload.includeFuture'),
    ('bulkMarkAll', '{"criteria":7}', 'payload.criteria'), ('bulkMarkAll', '{"criteria":{"productID":"p"}}', 'payload.criteria'), ('bulkMarkAll', '{"criteria":{"date":"2025-02-29"}}', 'payload.criteria.date'), ('bulkMarkAll', '{"criteria":{"date":20250228}}', 'payload.criteria.date'),
    ('bulkMarkAll', '{"criteria":{"productId":7}}', 'payload.criteria.productId'), ('bulkMarkAll', '{"criteria":{"scheduleId":[]}}', 'payload.criteria.scheduleId'),
    ('bulkMarkAll', '{"criteria":{"includeFuture":1}}', 'payload.criteria.includeFuture');
insert into refused (type, payload, path)
select 'markTaken', jsonb_build_object('occurrenceId', 'e1', 'takenAt', t), 'payload.takenAt' from jsonb_array_elements(
    '["2025-11-20", "2025-11-20T08:00", "2025-11-20 08:00Z", "2025-11-20t08:00Z", "2025-11-20T08:00z", "2025-11-20T24:00Z", "2025-11-20T08:60Z", "2025-11-20T08:00:60Z", "2025-02-30T08:00Z", "2025-13-01T08:00Z", "0000-01-01T00:00Z",
      "2025-11-20T08:00:00.Z", "2025-11-20T08:00:00.1234567891Z", "2025-11-20T08:00+010", "2025-11-20T08:00+16:00", "1999-12-31T23:59:59Z", "2000-01-01T00:00+00:01", "2101-01-01T00:00Z", "2025-11-21T11:00:00Z", 1.5, 946684799999, 4133980800000,
      1e131000, -1e131000, 1e-16000, "", {}, [], true, "٢٠٢٥-11-20T08:00Z"]') as t;
insert into refused (type, payload, path, base, client, tz) values
    ('skip', '{"occurrenceId":"e1"}', 'base', '[]', null, null), ('skip', '{"occurrenceId":"e1"}', 'base', '{"rev":-1}', null, null), ('skip', '{"occurrenceId":"e1"}', 'base', '{"rev":"1"}', '7', null),
    ('skip', '{"occurrenceId":"e1"}', 'base', '{"rev":1.5}', null, null), ('skip', '{"occurrenceId":"e1"}', 'base', '{"rev":1e100000}', null, null), ('skip', '{"occurrenceId":"e1"}', 'base', '{"a":{"rev":1},"e1":{"rev":true}}', null, null),
    ('skip', '{"occurrenceId":"e1"}', 'clientTime', '{"rev":1}', '"yesterday"', null), ('skip', '{"occurrenceId":"e1"}', 'clientTime', null, '{}', null),
    ('bulkMarkAll', '{"criteria":{}}', 'tz', null, null, 'Mars/Olympus'), ('bulkMarkAll', '{"criteria":{}}', 'tz', null, null, 'Foo/Bar+3'), ('bulkMarkAll', '{"criteria":{}}', 'tz', null, null, '');
select test.is(format('refused: %s %s %s %s %s', type, left(payload::text, 90), left(base::text, 30), client, tz), test.short(test.act('early', 'refused' || row_number() over (), type, payload, base, null, null, client, tz)), 'rejected invalid ' || path) from refused;
select test.is('no reason quotes a value', (select count(*) from sync.action where user_id = 'early' and answer ->> 'message' ~ 'Mars|yesterday|2025-11-20|nowhere'), 0::bigint);
select test.is('and nothing has changed', test.row('e1'), 'taken 09:10 2 2 1 3');
select test.is('good edges of times', care.past_problem(t, sync.clock()), null) from jsonb_array_elements(
    '["2000-01-01T00:00Z", "2024-02-29T08:00:00.123456-05:30", "2025-11-21T10:59:59+00:00", "2025-11-22T02:00+15:59", 946684800000, 1763636000000.0]') as t;
select test.is('other members are ignored, null is absent', test.short(test.act('early', 'ignored', 'markTaken', '{"occurrenceId":"e1","takenAt":null,"note":null,"_sync":{"o":1},"x":[[]]}', '{"rev":null,"y":true}', client_time => 'null')), 'noop');
select test.is('zones', (select string_agg(z, ' ') from unnest('{UTC,Europe/Berlin,America/Argentina/Buenos_Aires,America/Port-au-Prince,Etc/GMT+12,EST5EDT,GMT0,GMT+3,EST6EDT,Etc/GMT+15,X/Y-3,../UTC,Nowhere,posixrules,localtime}'::text[]) as z where care.known_zone(z)), 'UTC Europe/Berlin America/Argentina/Buenos_Aires America/Port-au-Prince Etc/GMT+12 EST5EDT GMT0');

-- No text raises an error, and none comes into the server's log: what cannot be read is a stored rejection.
create temp table unreadable as select place, spelled from (values (1, '{"canary":'), (2, '{"canary":"\u0000"}'), (3, '{"canary":"\ud800"}'), (4, '{"canary":1e400000}'),
    (5, '{"canary":' || repeat('[', 100000) || repeat(']', 100000) || '}'), (6, '')) as t(place, spelled);
select test.is('unreadable payload ' || place, test.send('early', 'up' || place, 'skip', spelled), 'rejected invalid payload') from unreadable;
select test.is('unreadable base ' || place, test.send('early', 'ub' || place, 'skip', '{"occurrenceId":"e2"}', spelled), 'rejected invalid base') from unreadable;
select test.is('unreadable clientTime ' || place, test.send('early', 'uc' || place, 'skip', '{"occurrenceId":"e2"}', null, spelled), 'rejected invalid clientTime') from unreadable;
select test.is('which repeat', test.send('early', 'up2', 'skip', '{"canary":"\u0000"}') || ', ' || test.send('early', 'ub2', 'skip', '{"occurrenceId":"e2"}', '{"canary":"\u0000"}'), 'rejected invalid payload replayed, rejected invalid base replayed');
select test.is('and are told apart as they are spelled', test.send('early', 'up2', 'skip', '{"canary":"\u0000 "}') || ', ' || test.send('early', 'ub2', 'skip', '{"occurrenceId":"e2"}', '{"canary":"\u0000 "}'), 'rejected key_reused, rejected key_reused');
select test.is('base null is none', test.send('early', 'null', 'skip', '{"occurrenceId":"e2"}', 'null', 'null') || ', ' || test.send('early', 'null', 'skip', '{"occurrenceId":"e2"}'), 'conflict state, conflict state replayed');
select test.is('the log says nothing of them', position('canary' in pg_read_file(log)), 0)
from (select regexp_replace(current_setting('data_directory'), '[^/]*$', 'log') as log) as l where exists (select from pg_stat_file(log, true) as f where f.size is not null);

-- What the database will not take.
select test.plan('refuse', 'rf') \g /dev/null
select test.is('refused', (select answer::jsonb from sync.refuse('refuse', 'a', 'phone', 1, 'skip', '{"occurrenceId":"rf"}', null, null, null)), '{"key": "a", "code": "invalid", "status": "rejected", "message": "the database refused it", "numberUsed": true}');
select test.is('is stored, with its number, for the same action', test.short(test.act('refuse', 'a', 'skip', '{"occurrenceId":"rf"}', null, 'phone', 1)) || ', ' || test.short(test.act('refuse', 'a', 'skip', '{"occurrenceId":"x"}', null, 'phone', 1)) || ', ' || test.short(test.act('refuse', 'b', 'skip', '{"occurrenceId":"rf"}', null, 'phone', 2)), 'rejected invalid replayed, rejected key_reused, applied');
select test.is('what is known, or out of order, is not refused', (select string_agg(test.short(answer::jsonb), ', ') from (values ('b', 2), ('c', 7)) as t(k, n) cross join lateral sync.refuse('refuse', k, 'phone', n, 'skip', '{"occurrenceId":"rf"}', null, null, null)), 'applied replayed, retry out_of_order 3');
select test.is('numbers that would be written out with a hundred thousand digits each', (select test.short(answer::jsonb) from sync.apply('early', 'digits', null, null, 'skip', '{"occurrenceId":"e2","x":[' || repeat('1e131000,', 7000) || '1]}', null, null, null)), 'conflict state');

-- Keys: a repeat gets what was stored.
select test.plan('keys', 'k' || n) from generate_series(1, 6) as n \g /dev/null
create temp table first_answer as select test.act('keys', 'key', 'markTaken', '{"occurrenceId":"k1","note":"n"}', '{"rev":1}', 'phone', 1) as a;
create temp table top_then as select test.top('keys') as top;
update care.dose_occurrence set status = 'missed', note = 'other' where id = 'k1';
select test.is('a repeat: the stored answer, marked', test.act('keys', 'key', 'markTaken', '{"note":"n","occurrenceId":"k1"}', '{"rev": 1}', 'phone', 1), (select a || '{"replayed": true}' from first_answer));
select test.is('from another device too', test.short(test.act('keys', 'key', 'markTaken', '{"occurrenceId":"k1","note":"n"}', '{"rev":1}', 'tablet', 7)), 'applied replayed');
select test.is('and nothing happens', (select status || ' ' || note || ' ' || rev from care.dose_occurrence where id = 'k1'), 'missed other 3');
select test.is('the key with another payload', test.act('keys', 'key', 'markTaken', '{"occurrenceId":"k2"}', '{"rev":1}', 'phone', 2) - 'message', '{"key": "key", "status": "rejected", "code": "key_reused", "numberUsed": false}');
select test.is('or type', test.short(test.act('keys', 'key', 'skip', '{"occurrenceId":"k1","note":"n"}', '{"rev":1}')), 'rejected key_reused');
select test.is('or base', test.short(test.act('keys', 'key', 'markTaken', '{"occurrenceId":"k1","note":"n"}', '{"rev":2}')), 'rejected key_reused');
select test.is('changes nothing, nor the number', test.row('k2') || ' ' || (select last_n from sync.device where user_id = 'keys'), 'scheduled 1 1 1 1');
select test.is('the same key of another user is another', test.short(test.act('keys2', 'key', 'markTaken', '{"occurrenceId":"k2"}')), 'conflict gone');
select test.is('an envelope that cannot be kept', (select string_agg(test.short(answer::jsonb), ', ') from (values ('', null, null), (repeat('ü', 101), null, null), ('k', repeat('d', 201), null), ('k', null, 1), ('k', 'd', 0)) as t(k, d, n)
    cross join lateral sync.apply('keys', k, d, n, 'skip', '{}', null, null, null)), 'rejected invalid key, rejected invalid key, rejected invalid deviceId, rejected invalid deviceId, rejected invalid n');
select test.is('is not stored', (select count(*) from sync.action where user_id = 'keys'), 1::bigint);

-- Numbers.
select test.is('a gap', test.short(test.act('keys', 'n3', 'skip', '{"occurrenceId":"k3"}', null, 'phone', 3)), 'retry out_of_order 2');
select test.is('the next', test.short(test.act('keys', 'n2', 'skip', '{"occurrenceId":"k2"}', null, 'phone', 2)), 'applied');
select test.is('then that', test.short(test.act('keys', 'n3', 'skip', '{"occurrenceId":"k3"}', null, 'phone', 3)), 'applied');
select test.is('a conflict takes its number', test.short(test.act('keys', 'n4', 'makeUp', '{"occurrenceId":"k3"}', null, 'phone', 4)), 'conflict state');
select test.is('and a rejection', test.short(test.act('keys', 'n5', 'makeUp', '{}', null, 'phone', 5)), 'rejected invalid payload.occurrenceId');
select test.is('and a noop', test.short(test.act('keys', 'n6', 'skip', '{"occurrenceId":"k3"}', null, 'phone', 6)), 'noop');
select test.is('a restored phone: an unknown key under an old number is not done', test.short(test.act('keys', 'restored', 'skip', '{"occurrenceId":"k4"}', null, 'phone', 2)) || ' ' || test.row('k4'), 'retry out_of_order 7 scheduled 1 1 1');
select test.is('it renumbers and keeps its key', test.short(test.act('keys', 'restored', 'skip', '{"occurrenceId":"k4"}', null, 'phone', 7)), 'applied');
select test.is('devices count apart', test.short(test.act('keys', 't1', 'skip', '{"occurrenceId":"k5"}', null, 'tablet', 1)), 'applied');
select test.is('without a number no order is asked for', test.short(test.act('keys', 'none', 'skip', '{"occurrenceId":"k6"}', null, 'phone')), 'applied');
select test.is('device order is that of commits', (select string_agg(key, ' ' order by n) from sync.action where user_id = 'keys' and device_id = 'phone' and n is not null), 'key n2 n3 n4 n5 n6 restored');

-- Positions, and epochs that pass.
select test.is('the name of a channel', sync.channel(u, 'adherence'), 'user.' || want || '.adherence') from (values ('a-Z_0@,.;', 'a-Z_0@,.;'), ('a b=', 'a=20b=3D'), ('ü€', '=C3=BC=E2=82=AC'), ('a:b/c', 'a=3Ab=2Fc')) as t(u, want);
create temp table pos as select test.act('keys', 'pos', 'addNote', '{"occurrenceId":"k6","text":"p"}') -> 'positions' as p;
select test.is('positions are those of sync.positions', (select p from pos), (select jsonb_build_object('user.keys.adherence', jsonb_build_object('epoch', epoch, 'offset', top)) from sync.positions('{keys}', '{adherence}')));
select test.is('the offset is that of its last event', (select name || ' ' || (data #>> '{_sync,k}') from sync.event where user_id = 'keys' and topic = 'adherence' order by o desc limit 1), 'adherence.summary_updated pos');
select test.is('a user without a stream', (select (a #>> '{positions,user.nobody=21.adherence,epoch}') = p.epoch and (a #> '{positions,user.nobody=21.adherence,offset}') = '0' from test.act('nobody!', 'a', 'skip', '{"occurrenceId":"zz"}') as a, sync.positions('{nobody!}', '{adherence}') as p), true);
select sync.new_epoch() \g /dev/null
select test.is('after a new epoch a repeat tells the present position', (select a -> 'positions' = jsonb_build_object('user.keys.adherence', jsonb_build_object('epoch', epoch, 'offset', top)) and a ->> 'replayed' = 'true' from sync.positions('{keys}', '{adherence}'), test.act('keys', 'n2', 'skip', '{"occurrenceId":"k2"}', null, 'phone', 2) as a), true);

begin;
set local synchronous_commit = off;
select test.act('keys', 'commit', 'skip', '{}') \g /dev/null
select test.is('an answer is as durable as an event', current_setting('synchronous_commit'), 'on');
commit;
begin;
select test.act('keys', 'in', 'addNote', '{"occurrenceId":"k6","text":"in"}') \g /dev/null
update care.dose_occurrence set note = 'after' where id = 'k5';
select test.is('after it the flush is at commit again', (select count(*) from sync.ticket where xid = pg_current_xact_id()), 1::bigint);
commit;
update sync.action set created_at = sync.clock() - interval '91 days' where user_id = 'cells';
select test.is('actions stay ninety days', (select sync.retain(7, 5) || ' ' || count(*) from sync.action where user_id = 'cells'), '5 42');
select test.is('and go', (select string_agg(sync.retain(7, 20)::text, ' ') from generate_series(1, 4)), '20 17 0 0');
select test.is('nothing touched is left', (select count(*) from sync.touched) + (select count(*) from sync.ticket), 0::bigint);
grant usage on schema test to public;
grant execute on all functions in schema test to public;
set role carillon_hub;
select test.is('the hub may refuse', (select status from sync.refuse('keys', 'refuse', null, null, 'skip', '{}', null, null, null)), 'rejected');
select test.is('the hub may call it', (select status from sync.apply('keys', 'hub', null, null, 'skip', '{}', null, null, null)), 'rejected');
select sync.announce() \g /dev/null
select test.fails('and nothing under it: ' || f, 'select ' || f, '42501') from unnest('{sync.clock(),care.stats(''u''),"sync.position(''u'',''adherence'')","care.undo(''u'',''k'',''t'',null,now(),now())"}'::text[]) as f;
reset role;
