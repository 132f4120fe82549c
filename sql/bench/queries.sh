#!/usr/bin/env bash
# What the adherence screens cost beside two years of doses of many users: today, month, statistics, a page of history, the
# page after it, and a page of the doses missed. Prints plans, and a table of medians for README.md.
#     sql/bench/queries.sh 'host=/path/to/socket user=postgres dbname=postgres' [users…]
# Makes a database of its own and drops it. Needs psql, pgbench and auto_explain. Rows are loaded with triggers off, a day of
# all users after the other, so that those of one user lie far apart. Each day's summary is then compared with a recount,
# after writes with triggers on.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sql=$(dirname "$here")
admin=${1:?usage: queries.sh CONNECTION [USERS…]}
shift
[ $# -gt 0 ] || set -- 1000 10000
seconds=${SECONDS_EACH:-5}
database="carillon_queries_$$"
at="$admin dbname=$database"
work=$(mktemp -d)
run() { PGOPTIONS='-c client_min_messages=warning' psql -XqAt -v ON_ERROR_STOP=1 "$@"; }
finish() { rm -rf "$work"; run -d "$admin" -c "drop database if exists $database with (force)"; }
trap finish EXIT

declare -A calls=(
    [today]="sync.adherence_day(:who, null)"
    [month]="sync.adherence_month(:who, date_trunc('month', current_date - 40)::date)"
    [stats]="sync.adherence_stats(:who, null, null)"
    [history]="sync.adherence_history(:who, null, null, null, null, null, 50)"
    [next]="sync.adherence_history(:who, null, current_date - 365, null, null, null, 50)"
    [missed]="sync.adherence_history(:who, null, null, null, 'missed', null, 50)"
)
order='today month stats history next missed'

load() {
    run -d "$admin" -c "drop database if exists $database with (force)" -c "create database $database"
    run -d "$at" -f "$sql/roles.sql"
    "$sql/tests/install" "$at"
    run -d "$at" -v users="$1" <<'SQL'
set synchronous_commit = off;
set maintenance_work_mem = '512MB';
set work_mem = '256MB';
-- Triggers off.
set session_replication_role = replica;
alter table care.dose_occurrence disable trigger user;
insert into care.product (id, name) values ('p0', 'Magnesium'), ('p1', 'Iron');
insert into care.dose_occurrence (id, user_id, product_id, product_name, status, taken_at, scheduled_at, tz, local_date,
                                  local_time, window_start, window_end)
select d.day || '.' || u.n, 'user' || u.n, 'p' || p.n, (array['Magnesium', 'Iron'])[p.n + 1], s.status,
       case when s.status in ('taken', 'made_up') then t.at + interval '7 minutes' end,
       t.at, 'UTC', t.at::date, '08:00', t.at, t.at + interval '4 hours'
from generate_series(730, 0, -1) as d(day)
cross join generate_series(1, :users) as u(n)
cross join lateral (select (current_date - d.day) + time '08:00' at time zone 'UTC' as at) as t
cross join lateral (select (d.day + u.n) % 2 as n) as p
cross join lateral (select abs(hashint4(d.day * 100003 + u.n)) % 100 as dice) as r
cross join lateral (
    select case when d.day = 0 then 'scheduled' when r.dice < 82 then 'taken' when r.dice < 90 then 'missed'
                when r.dice < 95 then 'made_up' when r.dice < 99 then 'skipped' else 'cancelled' end as status
) as s;
insert into sync.stream (user_id, topic, top) select 'user' || n, 'adherence', 0 from generate_series(1, :users) as n
on conflict do nothing;
alter table care.dose_occurrence enable trigger user;
alter table care.dose_occurrence enable always trigger sync_insert;
alter table care.dose_occurrence enable always trigger sync_update;
alter table care.dose_occurrence enable always trigger sync_delete;
create function public.recount() returns setof care.day_summary language sql as $$
    select user_id, date, scheduled, taken, missed, made_up, skipped, pending,
           round(100.0 * (taken + made_up) / due, 1), round(100.0 * taken / due, 1), sync.clock(), run,
           max(run) over (partition by user_id order by date)
    from (
        select *, count(*) filter (where missed + pending = 0 and taken + made_up > 0)
                      over (partition by user_id, breaks order by date)::int as run
        from (
            select *, count(*) filter (where missed + pending > 0) over (partition by user_id order by date) as breaks
            from (
                select user_id, local_date as date, count(*) filter (where status <> 'cancelled')::int as scheduled,
                       count(*) filter (where status = 'taken')::int as taken,
                       count(*) filter (where status = 'missed')::int as missed,
                       count(*) filter (where status = 'made_up')::int as made_up,
                       count(*) filter (where status = 'skipped')::int as skipped,
                       count(*) filter (where status = 'scheduled')::int as pending,
                       nullif(count(*) filter (where status in ('taken', 'missed', 'made_up')
                                                     or status = 'scheduled' and window_end <= sync.clock()), 0) as due
                from care.dose_occurrence group by user_id, local_date
            ) as counted
        ) as broken
    ) as running
$$;
insert into care.day_summary (user_id, date, scheduled_count, taken_count, missed_count, made_up_count, skipped_count,
                              pending_count, adherence_pct, on_time_pct, updated_at, run, best)
select * from public.recount();
SQL
    run -d "$at" -c 'vacuum (analyze) care.dose_occurrence, care.day_summary, care.product, sync.stream' -c checkpoint
}

# Days whose summary is not that of their doses, after writes with triggers on.
differences() {
    run -d "$at" -v users="$1" <<'SQL'
set synchronous_commit = off;
update care.dose_occurrence set status = case status when 'taken' then 'missed' else 'taken' end
where id in (select (n * 7919 % 729 + 1) || '.' || (n * 104729 % :users + 1) from generate_series(1::bigint, 1000) as n);
update care.dose_occurrence set local_date = local_date - 1
where id in (select (n * 6101 % 700 + 1) || '.' || (n * 15485863 % :users + 1) from generate_series(1::bigint, 200) as n);
delete from care.dose_occurrence
where id in (select (n * 4099 % 700 + 1) || '.' || (n * 32452843 % :users + 1) from generate_series(1::bigint, 200) as n);
set work_mem = '256MB';
-- Percentages that are stored are good where nothing is pending.
select count(*) || ' of ' || (select count(*) from care.day_summary)
from (select user_id, date, scheduled_count, taken_count, missed_count, made_up_count, skipped_count, pending_count,
             case when pending_count = 0 then adherence_pct end as pct, case when pending_count = 0 then on_time_pct end as on_time,
             run, best from public.recount()) as r
full join (select user_id, date, scheduled_count, taken_count, missed_count, made_up_count, skipped_count, pending_count,
                  case when pending_count = 0 then adherence_pct end as pct, case when pending_count = 0 then on_time_pct end as on_time,
                  run, best from care.day_summary) as d using (user_id, date)
where (r.*) is distinct from (d.*);
SQL
}

# The plans of the statements on doses and days, as a hub runs them the third time.
plan() {
    local call=${calls[$1]//:who/\'user7\'}
    PGOPTIONS='-c client_min_messages=warning' psql -XqAt -d "$at" > "$work/plan" 2>&1 <<SQL
set default_transaction_isolation = 'repeatable read';
set sync.lineage = '';
load 'auto_explain';
select length(body) from $call;
select length(body) from $call;
set auto_explain.log_min_duration = 0;
set auto_explain.log_analyze = on;
set auto_explain.log_nested_statements = on;
set client_min_messages = log;
select length(body) from $call;
SQL
    awk '/^LOG: +duration/ { if (keep) printf "%s", text; text = ""; keep = 0 }
         /from care\.(dose_occurrence|day_summary)/ && !seen[$0]++ { keep = 1 }
         /^LOG: +duration|->|Index Cond|Filter|Sort Key|Presorted|Scan|Limit|Sort|Aggregate|Result/ { text = text $0 "\n" }
         END { if (keep) printf "%s", text }' "$work/plan" | cut -c1-150
}

# The median of single calls for users at random, in milliseconds: prepared, as a hub's connection has them.
median() {
    local call=${calls[$1]//:who/\'user\' || :n}
    printf '\\set n random(1, %s)\nselect epoch, top, body from %s;\n' "$2" "$call" > "$work/call.sql"
    rm -f "$work"/log*
    PGOPTIONS='-c default_transaction_isolation=repeatable\ read -c default_transaction_read_only=on -c role=carillon_hub -c sync.lineage=' \
        pgbench -n -M prepared -c 1 -T "$seconds" -l --log-prefix="$work/log" -f "$work/call.sql" "$at" > "$work/out" 2>&1 || {
        cat "$work/out" >&2
        return 1
    }
    # Without the first 50 calls, which fill the session's caches.
    cat "$work"/log* | awk 'NR > 50 { print $3 / 1000 }' | middle
}

# The median of the processor time that the server spends on such a call: other work of the machine does not change it.
processor() {
    local call=${calls[$1]//:who/\$1} n
    {
        echo "set default_transaction_isolation = 'repeatable read'; set sync.lineage = '';"
        echo "prepare call(text) as select epoch, top, body from $call;"
        for ((n = 0; n < 250; n++)); do
            [ $n -ne 50 ] || echo 'set log_statement_stats = on; set client_min_messages = log;'
            echo "execute call('user$((n * 7919 % $2 + 1))');"
        done
    } > "$work/calls.sql"
    psql -XqAt -d "$at" -f "$work/calls.sql" 2>&1 | awk '/s user,.* s elapsed/ { print 1000 * ($2 + $5) }' | middle
}

middle() { sort -n | awk '{ v[NR] = $1 } END { printf "%.2f\n", v[int((NR + 1) / 2)] }'; }

declare -A times
for users in "$@"; do
    load "$users"
    echo "== $users users, $(run -d "$at" -c "select count(*) || ' doses, ' || pg_size_pretty(pg_database_size(current_database())) from care.dose_occurrence")"
    for query in $order; do
        times[$query.$users]="$(median "$query" "$users") | $(processor "$query" "$users")"
    done
    for query in $order; do
        echo "-- $query"
        plan "$query"
    done
    echo "-- days whose summary differs from a recount, of all days: $(differences "$users")"
done
echo
echo "PostgreSQL $(run -d "$at" -c 'show server_version'), $(nproc) cores; medians of single calls, in ms: over a local socket, and of the"
echo "server's processor time."
echo
printf '| query |'; for users in "$@"; do printf ' %s users | processor |' "$users"; done; echo
printf '|---|'; for users in "$@"; do printf -- '---|---|'; done; echo
for query in $order; do
    printf '| %s |' "$query"; for users in "$@"; do printf ' %s |' "${times[$query.$users]}"; done; echo
done
