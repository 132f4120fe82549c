-- Writes within writes: triggers of the app's own that write the same table, and statements that update a row twice.
create schema app;

-- Triggers of the app's own that write the same table. What was recorded first is not what came first.
create table app.nested (id int primary key, u text, day date, v int default 0, rev int default 1);
create function app.nested_events(changes sync.change[]) returns setof sync.draft language sql as $$
    select c.user_id, false, c.id, 'nested.' || case when r.id is null then 'deleted' when c.op = 'I' then 'created' else 'updated' end,
           jsonb_build_object('id', c.id, 'op', c.op, 'rev', c.rev, 'days', to_jsonb(array(select d from unnest(c.context || c.contexts) as d where d is not null order by d)))
    from unnest(changes) as c left join app.nested as r on r.id = c.id::int and r.u = c.user_id where r.id is not null or c.op <> 'I'
$$;
select sync.publish_changes('app.nested', 'u', 'nested', 'nested', builder => 'app.nested_events', context_column => 'day');
create function app.again() returns trigger language plpgsql as $$
begin
    if pg_trigger_depth() > 1 then return null; end if;
    if tg_op = 'INSERT' and new.v = 0 then update app.nested set v = 1 where id = new.id;
    elsif tg_op = 'INSERT' and new.v = 2 then delete from app.nested where id = new.id;
    elsif tg_op = 'INSERT' and new.v = 3 then delete from app.nested where id = new.id; insert into app.nested values (new.id, new.u, new.day, 30);
    elsif tg_op = 'INSERT' and new.v = 4 then update app.nested set u = new.u || '2' where id = new.id;
    elsif tg_op = 'UPDATE' and new.v = 5 then update app.nested set day = day + 1, rev = rev + 1 where id = new.id;
    elsif tg_op = 'UPDATE' and new.v = 6 then delete from app.nested where id = new.id;
    elsif tg_op = 'UPDATE' and new.v = 7 then update app.nested set u = 'third' where id = new.id;
    elsif tg_op = 'DELETE' and old.v = 8 then insert into app.nested values (old.id, old.u, old.day, 80, old.rev + 1);
    elsif tg_op = 'DELETE' and old.v = 9 then insert into app.nested values (old.id, old.u, old.day, 90); delete from app.nested where id = old.id;
    end if;
    return null;
end
$$;
create trigger again after insert or update or delete on app.nested for each row execute function app.again();
create function test.news(who text) returns text language plpgsql as $$
declare result text := (select coalesce(string_agg(concat_ws(' ', substr(name, 8), data ->> 'op', data ->> 'rev', nullif(data ->> 'days', '[]')), ', ' order by o), '') from sync.event where user_id = who and topic = 'nested');
begin
    delete from sync.event where user_id = who and topic = 'nested';
    return result;
end
$$;
insert into app.nested values (1, 'nest', '2025-11-20', 0);
select test.is('inserted, then updated by its trigger: created', test.news('nest'), 'created I 1');
insert into app.nested values (2, 'nest', '2025-11-20', 2);
select test.is('inserted, then deleted by its trigger: nothing', test.news('nest'), '');
insert into app.nested values (3, 'nest', '2025-11-20', 3);
select test.is('and inserted again: created', test.news('nest'), 'created I 1');
insert into app.nested values (4, 'nest', '2025-11-20', 4);
select test.is('given to another: nothing', test.news('nest'), '');
select test.is('who sees it created', test.news('nest2'), 'created I');
update app.nested set day = '2025-11-22', v = 5, rev = 2 where id = 1;
select test.is('moved, and moved again: every old day, the last rev', test.news('nest'), 'updated U 2 ["2025-11-20", "2025-11-22"]');
update app.nested set v = 7 where id = 1;
select test.is('given to another by the trigger: deleted', test.news('nest'), 'deleted D 3 ["2025-11-23"]');
select test.is('and created there', test.news('third'), 'created I');
update app.nested set u = 'nest', v = 0 where id = 1;
select test.news('third'), test.news('nest') \g /dev/null
update app.nested set v = 6 where id = 1;
select test.is('updated, then deleted: deleted', test.news('nest'), 'deleted D 3 ["2025-11-23"]');
insert into app.nested values (8, 'nest', '2025-11-20', 8), (9, 'nest', '2025-11-20', 9);
select test.news('nest') \g /dev/null
delete from app.nested where id = 8;
select test.is('deleted, and brought back by its trigger: updated', test.news('nest'), 'updated U 1 ["2025-11-20"]');
delete from app.nested where id = 9;
select test.is('brought back and deleted: deleted', test.news('nest'), 'deleted D 1 ["2025-11-20"]');
begin;
delete from app.nested where id = 8;
insert into app.nested values (8, 'nest', '2025-11-20', 8);
delete from app.nested where id = 8;
commit;
select test.news('nest') \g /dev/null
begin;
insert into app.nested values (10, 'nest', '2025-11-20', 100);
savepoint s;
delete from app.nested where id = 10;
rollback to s;
commit;
select test.is('what a savepoint undid does not count', test.news('nest'), 'created I');
begin;
savepoint s;
delete from app.nested where id = 10;
rollback to s;
delete from app.nested where id = 10;
insert into app.nested values (10, 'nest', '2025-11-21', 100, 2);
commit;
select test.is('deleted and inserted: updated', test.news('nest'), 'updated U 1 ["2025-11-20"]');

-- The first change of a transaction is in its ticket, where that is an update of one row; what follows is put together with it.
insert into app.nested values (50, 'tick', '2025-11-20', 100), (51, 'tick', '2025-11-20', 100);
select test.news('tick') \g /dev/null
begin;
update app.nested set day = '2025-11-21', rev = 2 where id = 50;
select test.is('the ticket tells it', (select id || ' ' || context || ' ' || (select count(*) from sync.touched) from sync.ticket where xid = pg_current_xact_id()), '50 2025-11-20 0');
update app.nested set day = '2025-11-22', rev = 3 where id = 50;
commit;
select test.is('the same row again: every old day, the last rev', test.news('tick'), 'updated U 2 ["2025-11-20", "2025-11-21"]');
begin;
update app.nested set day = '2025-11-23', rev = 4 where id = 50;
update app.nested set v = 101 where id = 51;
commit;
select test.is('and another row: both', test.news('tick'), 'updated U 3 ["2025-11-22"], updated U 1 ["2025-11-20"]');
begin;
update app.nested set day = '2025-11-24', rev = 5 where id = 50;
delete from app.nested where id = 50;
commit;
select test.is('and gone', test.news('tick'), 'deleted D 5 ["2025-11-23", "2025-11-24"]');
begin;
savepoint s;
update app.nested set day = '2025-11-25' where id = 51;
rollback to s;
update app.nested set day = '2025-11-26', rev = 2 where id = 51;
set constraints sync.flush immediate;
set constraints sync.flush deferred;
update app.nested set day = '2025-11-27', rev = 3 where id = 51;
commit;
select test.is('a savepoint that was undone, a flush in between', test.news('tick'), 'updated U 1 ["2025-11-20"], updated U 2 ["2025-11-26"]');
begin;
update app.nested set v = 102 where id = 51;
insert into app.nested values (52, 'tick', '2025-11-20', 100);
delete from app.nested where id = 52;
commit;
select test.is('beside a row that came and went', test.news('tick'), 'updated U 3 ["2025-11-27"]');
insert into app.nested values (10, 'nest', '2025-11-21', 5, 3) on conflict (id) do update set day = '2025-11-24', v = 5, rev = 3;
select test.is('on conflict do update, and its trigger', test.news('nest'), 'updated U 3 ["2025-11-21", "2025-11-24"]');
insert into app.nested values (10, 'nest') on conflict do nothing;
select test.is('on conflict do nothing: nothing', test.news('nest'), '');
merge into app.nested as t using (values (10, 6), (11, 0), (12, 100)) as s(id, v) on t.id = s.id
    when matched then update set v = s.v when not matched then insert values (s.id, 'nest', '2025-11-20', s.v);
select test.is('merge, and its triggers', test.news('nest'), 'deleted D 4 ["2025-11-25"], created I 1, created I');
with gone as (delete from app.nested where id = 12 returning *) insert into app.nested select 13, u, day, 100 from gone;
select test.is('in one statement with WITH', test.news('nest'), 'deleted D 1 ["2025-11-20"], created I');
create function app.before() returns trigger language plpgsql as $$
begin
    if new.v = 50 then insert into app.nested values (new.id + 1000, new.u, new.day, 100); new.v := 51; end if;
    if new.v = 60 then return null; end if;
    return new;
end
$$;
create trigger before before insert or update on app.nested for each row execute function app.before();
update app.nested set v = 50 where id = 13;
update app.nested set v = 60 where id = 13;
select test.is('a BEFORE trigger that writes, and one that refuses', test.news('nest'), 'created I, updated U 1 ["2025-11-20"]');
begin;
insert into app.nested values (20, 'nest', '2025-11-20', 0);
set constraints all immediate;
update app.nested set v = 5, day = '2025-11-21' where id = 20;
set constraints all deferred;
update app.nested set v = 100, day = '2025-11-26' where id = 20;
commit;
select test.is('with early flushes every day is named', (select array_agg(distinct d order by d)::text from sync.event as e, jsonb_array_elements_text(e.data -> 'days') as d where user_id = 'nest' and e.data ->> 'id' = '20'), '{2025-11-20,2025-11-21,2025-11-22}');
delete from sync.event where topic = 'nested';
delete from sync.stream where topic = 'nested';
drop table app.nested cascade;
select sync.withdraw(null);

create function app.move() returns trigger language plpgsql as $$
begin
    if new.note = 'on' then
        update care.dose_occurrence set local_date = local_date + 1, note = null where id = new.id;
    end if;
    return null;
end
$$;
create trigger app_move after insert or update on care.dose_occurrence for each row execute function app.move();
insert into care.dose_occurrence (id, user_id, scheduled_at, local_date, note) values ('nested', 'nested', now(), '2025-11-20', 'on');
select test.is('a dose that its trigger moves on: created', test.events('nested', 'adherence'), 'occurrence.created nested, adherence.summary_updated 2025-11-21');
update care.dose_occurrence set local_date = '2025-11-25', note = 'on' where id = 'nested';
select test.is('moved and moved on: every day''s summary', test.events('nested', 'adherence', 2), 'occurrence.updated nested, adherence.summary_updated 2025-11-21, adherence.summary_updated 2025-11-25, adherence.summary_updated 2025-11-26');
insert into care.dose_occurrence (id, user_id, scheduled_at, local_date) select 'nested' || g, 'nested', now(), '2025-11-20' from generate_series(1, 3) as g;
update care.dose_occurrence set local_date = local_date + 10, note = 'on' where user_id = 'nested';
select test.is('several at once', test.summaries_hold(), true);
select test.is('no summary of a day that is empty', (select string_agg(date || ' ' || scheduled_count, ', ' order by date) from care.day_summary where user_id = 'nested'), '2025-12-01 3, 2025-12-07 1');
drop trigger app_move on care.dose_occurrence;
delete from care.dose_occurrence where user_id in ('nested', 'shipped');

-- One statement that updates a row twice, or gives it a new id and then updates it.
create table app.person (id int primary key);
create table app.task (id int primary key, u text, a int references app.person on update cascade on delete set null, b int references app.person on update cascade on delete set null, v int, rev int default 1);
create function app.bump() returns trigger language plpgsql as $$ begin new.rev := old.rev + 1; return new; end $$;
create trigger bump before update on app.task for each row execute function app.bump();
create function app.task_events(changes sync.change[]) returns setof sync.draft language sql as $$
    select c.user_id, false, c.id, 'task', jsonb_build_object('id', c.id, 'op', c.op, 'rev', c.rev, 'was', (select string_agg(w, ',' order by w) from unnest(c.context || c.contexts) as w)) from unnest(changes) as c $$;
insert into app.person values (1), (2);
select sync.publish_changes('app.task', 'u', 'task', 'task');
insert into app.task values (1, 'twice', 1, 1, 7), (2, 'twice', 1, 2, 7), (3, 'twice', 2, 2, 7);
update app.person set id = 10 where id = 1;
select test.is('two cascades to one row: one event, as it is', test.told('twice', 'task', 3), 'task.updated {"a": 10, "b": 10, "v": 7, "id": 1, "rev": 3}; task.updated {"a": 10, "b": 2, "v": 7, "id": 2, "rev": 2}');
delete from app.person where id = 10;
select test.is('set null too', test.told('twice', 'task', 5), 'task.updated {"a": null, "b": null, "v": 7, "id": 1, "rev": 5}; task.updated {"a": null, "b": 2, "v": 7, "id": 2, "rev": 3}');
begin;
insert into app.task values (4, 'twice', 2, 2, 7);
update app.person set id = 20 where id = 2;
delete from app.task where id = 3;
commit;
select test.is('beside other changes', test.told('twice', 'task', 7), 'task.deleted {"id": 3, "rev": 3}; task.updated {"a": null, "b": 20, "v": 7, "id": 2, "rev": 4}; task.created {"a": 20, "b": 20, "v": 7, "id": 4, "rev": 3}');
begin;
update app.person set id = 21 where id = 20;
update app.task set v = 8 where id = 4;
update app.person set id = 22 where id = 21;
commit;
select test.is('twice in one transaction', test.told('twice', 'task', 10), 'task.updated {"a": null, "b": 22, "v": 7, "id": 2, "rev": 6}; task.updated {"a": 22, "b": 22, "v": 8, "id": 4, "rev": 8}');
create table app.owner (u text primary key);
insert into app.owner values ('twice'), ('other');
alter table app.task add foreign key (u) references app.owner on update cascade, add w text references app.owner on update cascade;
update app.task set w = u;
begin;
update app.owner set u = 'thrice' where u = 'twice';
update app.owner set u = 'fourth' where u = 'thrice';
commit;
select test.is('a cascade that moves them: the former owner', test.events('twice', 'task', 15), 'task.deleted 1, task.deleted 2, task.deleted 4');
select test.is('one between has none', test.events('thrice', 'task'), '');
select test.is('the last one has them', test.told('fourth', 'task'), 'task.created {"a": null, "b": null, "v": 7, "id": 1, "rev": 10}; task.created {"a": null, "b": 22, "v": 7, "id": 2, "rev": 11}; task.created {"a": 22, "b": 22, "v": 8, "id": 4, "rev": 13}');
select sync.publish_changes('app.task', 'u', 'task', 'task', builder => 'app.task_events', context_column => 'a');
begin;
update app.task set a = 22 where id = 2;
update app.person set id = 23 where id = 22;
commit;
select test.is('contexts are kept, each once, and the highest rev', test.told('fourth', 'task', 3), 'task {"id": "2", "op": "U", "rev": 13, "was": "22,23"}; task {"id": "4", "op": "U", "rev": 14, "was": "22,23"}');
select sync.unpublish_changes('app.task');
create table app.chain (id int primary key, u text, up int references app.chain on update cascade, more int references app.chain on update cascade);
insert into app.chain values (1, 'chain', 1, 1), (2, 'chain', 1, 1);
select sync.publish_changes('app.chain', 'u', 'chain', 'chain');
update app.chain set id = 10 where id = 1;
select test.is('a new id that cascades to the row itself', test.told('chain', 'chain'), 'chain.deleted {"id": 1, "rev": null}; chain.created {"id": 10, "up": 10, "rev": null, "more": 10}; chain.updated {"id": 2, "up": 10, "rev": null, "more": 10}');
select sync.unpublish_changes('app.chain');

drop schema app cascade;
select sync.withdraw(null);
select test.is('nothing touched is left', (select count(*) from sync.touched) + (select count(*) from sync.ticket), 0::bigint);

create schema app;
-- SET CONSTRAINTS IMMEDIATE: what triggers of the app write waits for the commit, and is told in its order.
create table app.echoes (id int primary key, u text, v int);
create table app.quiet (id int primary key);
select sync.publish_changes('app.echoes', 'u', 'echoes', 'echo');
create function app.echo() returns trigger language plpgsql as $$ begin update app.echoes set v = v + 1 where id = new.id and v < 3; return null; end $$;
create trigger echo after insert or update on app.echoes for each row execute function app.echo();
create function app.call() returns trigger language plpgsql as $$ begin insert into app.echoes values (new.id, 'quiet', 3); return null; end $$;
create trigger call after insert on app.quiet for each row execute function app.call();
begin; set constraints all immediate; insert into app.echoes values (1, 'echo', 0); commit;
select test.is('created once, as it ended', test.told('echo', 'echoes'), 'echo.created {"v": 3, "id": 1, "rev": null}');
begin; set constraints all immediate; insert into app.echoes values (2, 'echo', 3); update app.echoes set v = 0 where id = 2; insert into app.echoes values (3, 'echo', 3); commit;
select test.is('and in order', test.told('echo', 'echoes', 1), 'echo.created {"v": 3, "id": 2, "rev": null}; echo.updated {"v": 3, "id": 2, "rev": null}; echo.created {"v": 3, "id": 3, "rev": null}');
begin; set constraints all immediate; insert into app.quiet values (9); commit;
select test.is('also where nothing else is recorded', test.told('quiet', 'echoes'), 'echo.created {"v": 3, "id": 9, "rev": null}');
begin; set constraints all immediate; insert into app.quiet values (8); rollback;
select test.is('a rollback tells nothing', test.told('quiet', 'echoes', 1), '');
select test.is('nothing stays behind', (select count(*) from sync.ticket) + (select count(*) from sync.touched), 0::bigint);
select sync.unpublish_changes('app.echoes'); 
drop schema app cascade;
