#!/usr/bin/env bash
# How many rows the scan for due reminders touches, and how fast reminders fire: rules of which half are due within one minute,
# and half tomorrow. Prints the plan of the scan, what the job read of each table, and how long the job, the claims and
# the settling took.
#     sql/bench/due_reminders.sh 'host=/path/to/socket user=postgres dbname=postgres' [due rules] [users]
# Makes a database of its own and drops it. Needs psql.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sql=$(dirname "$here")
admin=${1:?usage: due_reminders.sh CONNECTION [RULES] [USERS]}
rules=${2:-100000}
users=${3:-25000}
database="carillon_bench_$$"
at="$admin dbname=$database"
run() { PGOPTIONS='-c client_min_messages=warning' psql -XqAt -v ON_ERROR_STOP=1 "$@"; }
finish() { run -d "$admin" -c "drop database if exists $database with (force)"; }
trap finish EXIT

run -d "$admin" -c "create database $database"
run -d "$at" -f "$sql/roles.sql"
"$sql/tests/install" "$at"
run -d "$at" <<SQL
begin;
alter table care.reminder_rule disable trigger user;
insert into care.reminder_rule (id, user_id, time, timezone, delivery)
select kind || n, 'user' || n % $users, at::time, 'UTC', 'push'
from generate_series(1, $rules) as n, unnest('{due,later}'::text[]) as kind
cross join lateral (
    select date_trunc('minute', now() at time zone 'UTC') - interval '2 minutes' + make_interval(secs => 60.0 * n / $rules) as at) as t;
insert into care.reminder_due (rule_id, user_id, occurrence_id, day, due_at)
select r.id, r.user_id, care.occurrence_id(r.id, day + r.time), day, (day + r.time) at time zone 'UTC'
from care.reminder_rule as r
cross join lateral (
    select (now() at time zone 'UTC' - interval '3 minutes')::date + case when r.id like 'later%' then 1 else 0 end as day) as d;
insert into care.device (user_id, device_id, platform, token, registered_at)
select 'user' || n, 'phone', 'apns', 'token' || n, now() from generate_series(0, $users - 1) as n;
alter table care.reminder_rule enable trigger user;
commit;
vacuum (analyze);
checkpoint;
SQL
reads() { run -d "$at" -F ' | ' -c "select pg_stat_force_next_flush()" -c "
    select '| ' || relname, seq_scan, idx_tup_fetch, n_tup_ins, n_tup_upd || ' |' from pg_stat_user_tables
    where schemaname = 'care' and relname in ('reminder_due', 'reminder_rule', 'reminder_occurrence', 'push') order by relname" | grep '|'; }

echo "$rules rules of $users users due within one minute, as many due tomorrow; PostgreSQL $(run -d "$at" -c 'show server_version'), fsync=$(run -d "$at" -c 'show fsync'), $(nproc) cores."
echo
echo "The scan for the first 25, and for all that is due:"
echo
run -d "$at" <<'SQL' | sed 's/^/    /'
set enable_seqscan = off;
begin;
explain (analyze, buffers, costs off, timing off, summary off)
select x from care.reminder_due as x where x.due_at <= now() order by x.due_at limit 25 for update skip locked;
rollback;
explain (analyze, buffers, costs off, timing off, summary off)
select count(*) from care.reminder_due as x where x.due_at <= now();
SQL
echo
run -d "$at" -c "select pg_stat_reset()" > /dev/null
began=$(date +%s.%N)
# The job as a hub runs it: one batch, one transaction.
run -d "$at" -c "do \$\$ declare more boolean := true; begin while more loop
    select j.more into more from sync.job('fire_reminders', 1000, null) as j; commit; end loop; end \$\$"
fired=$(date +%s.%N)
echo "| table | sequential scans | rows by index | rows written | rows changed |"
echo "|---|---|---|---|---|"
reads
echo
run -d "$at" -c "do \$\$ declare ids bigint[]; begin loop
    ids := array(select c.id from sync.claim_pushes('bench', 500, interval '1 minute') as c); commit; exit when ids = '{}';
    perform sync.settle_pushes('bench', ids, array_fill(1, array[cardinality(ids)]), array_fill('sent'::text, array[cardinality(ids)]),
                               array_fill(null::int, array[cardinality(ids)]), array_fill(null::timestamptz, array[cardinality(ids)]));
    commit; end loop; end \$\$"
settled=$(date +%s.%N)
run -d "$at" -c "do \$\$ declare more boolean := true; begin while more loop
    select j.more into more from sync.job('fire_reminders', 1000, null) as j; commit; end loop; end \$\$"
told=$(date +%s.%N)
echo "$(run -d "$at" -c "select count(*) filter (where state = 'sent') || ' pushes sent, ' || count(*) filter (where state <> 'sent') || ' not; '
    || (select count(*) from care.reminder_occurrence where status = 'sent') || ' occurrences are sent' from care.push")"
awk -v a="$began" -v b="$fired" -v c="$settled" -v d="$told" -v n="$rules" 'BEGIN {
    printf "fired: %.1f s, %d a second; claimed and settled: %.1f s, %d a second; statuses told: %.1f s, %d a second\n",
        b - a, n / (b - a), c - b, n / (c - b), d - c, n / (d - c) }'
