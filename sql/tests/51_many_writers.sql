-- What hubs read beside many open transactions that write: each is looked at once.
create table test.open_writes (n int);
insert into sync.event (user_id, topic, o, name, data) values ('many', 'adherence', 1, 'before', '{}');
create function test.open_writers(first int, last int) returns setof text language sql as $$
    select step from generate_series(first, last) as n
    cross join lateral unnest(array['begin', 'insert into test.open_writes values (1)', format('prepare transaction %L', 'w' || n)])
        with ordinality as t(step, place) order by n, place
$$;
-- The quickest of fifty reads, in microseconds, of a session that saw the same transactions.
create function test.quickest(call text) returns numeric language plpgsql as $$
declare
    prev pg_snapshot := pg_current_snapshot();
    best interval;
    t timestamptz;
begin
    for i in 1..50 loop
        t := clock_timestamp();
        execute format('select count(*) from %s', call) using prev;
        best := least(best, clock_timestamp() - t);
    end loop;
    return extract(epoch from best) * 1e6;
end
$$;
select test.open_writers(1, 100) \gexec
insert into test.open_writes values (2);
select test.is('a hundred are open', (select count(*) from pg_snapshot_xip(pg_current_snapshot())), 100::bigint);
select test.quickest('sync.news($1, 1000)') as few_news, test.quickest('sync.tail($1, null, null, null, 1000)') as few_tail \gset
select pg_current_snapshot() as prev \gset
-- One of them tells something.
begin;
insert into sync.event (user_id, topic, o, name, data) values ('many', 'adherence', 2, 'late', '{}');
prepare transaction 'teller';
select test.open_writers(101, 500) \gexec
insert into test.open_writes values (2);
select pg_current_snapshot() as later \gset
select test.is('what is open is not told', (select count(*) from sync.news(:'prev', 10) where user_id = 'many'), 0::bigint);
select test.quickest('sync.news($1, 1000)') as many_news, test.quickest('sync.tail($1, null, null, null, 1000)') as many_tail \gset
select test.is('five times as many take no more than a dozen times as long', :many_news < 12 * :few_news and :many_tail < 12 * :few_tail, true)
    || format(' (%s and %s us, %s and %s us)', :few_news, :many_news, :few_tail, :many_tail);
commit prepared 'teller';
select test.is('what was committed is told once', (select string_agg(name, ' ') from sync.news(:'later', 10) where user_id = 'many'), 'late');
select test.is('and no more', (select count(*) from sync.news(pg_current_snapshot(), 10) where user_id = 'many'), 0::bigint);
select format('rollback prepared %L', gid) from pg_prepared_xacts \gexec
delete from sync.event where user_id = 'many';
