#!/usr/bin/env bash
# What publishing costs a writer: one-row updates and bulk updates of 1,000 rows (250 users, four doses of a day each),
# with the recording triggers and with them disabled, in one run, paired and alternating. Prints a table for loadtest/README.md.
#     sql/bench/trigger_cost.sh 'host=/path/to/socket user=postgres dbname=postgres' [rounds] [seconds]
# Makes a database of its own and drops it. Needs psql and pgbench. The care tables' own triggers (rev, zone) stay on in
# both cases: they belong to the tables, not to publishing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sql=$(dirname "$here")
admin=${1:?usage: trigger_cost.sh CONNECTION [ROUNDS] [SECONDS]}
rounds=${2:-7}
seconds=${3:-3}
database="carillon_bench_$$"
at="$admin dbname=$database"
work=$(mktemp -d)
run() { PGOPTIONS='-c client_min_messages=warning' psql -XqAt -v ON_ERROR_STOP=1 "$@"; }
finish() { rm -rf "$work"; run -d "$admin" -c "drop database if exists $database with (force)"; }
trap finish EXIT

run -d "$admin" -c "create database $database"
run -d "$at" -f "$sql/roles.sql"
"$sql/tests/install" "$at"
run -d "$at" <<'SQL'
set sync.notify = 'off';
insert into care.product (id, name) values ('p', 'Magnesium');
insert into care.dose_occurrence (id, user_id, product_id, scheduled_at)
select 'd' || n, 'user' || n / 4 % 250, 'p', '2025-11-20 08:00+00'::timestamptz + make_interval(days => n / 1000)
from generate_series(0, 9999) as n;
vacuum (analyze) care.dose_occurrence, care.day_summary, sync.stream, sync.event;
SQL
cat > "$work/one.sql" <<'SQL'
\set n random(0, 9999)
update care.dose_occurrence set status = case status when 'taken' then 'scheduled' else 'taken' end, taken_at = now() where id = 'd' || :n;
SQL
cat > "$work/bulk.sql" <<'SQL'
\set day random(0, 9)
update care.dose_occurrence set status = case status when 'taken' then 'scheduled' else 'taken' end where local_date = date '2025-11-20' + cast(:day as int);
SQL

triggers() {
    for t in sync_insert sync_update sync_delete; do
        run -d "$at" -c "alter table care.dose_occurrence $1 trigger $t"
    done
}
# Milliseconds per transaction, without the time to connect.
latency() {
    pgbench -n -M prepared -c 1 -T "$seconds" -f "$work/$1.sql" "$at" > "$work/out" 2>&1 || { cat "$work/out" >&2; return 1; }
    sed -n 's/^latency average = \([0-9.]*\) ms$/\1/p' "$work/out"
}
middle() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)], v[1], v[NR] }'; }

for kind in one bulk; do
    for ((r = 0; r < rounds; r++)); do
        triggers disable; run -d "$at" -c 'vacuum care.dose_occurrence'; off=$(latency $kind)
        triggers 'enable always'; on=$(latency $kind)
        echo "$off" >> "$work/$kind.off"; echo "$on" >> "$work/$kind.on"
        awk -v a="$on" -v b="$off" 'BEGIN { print a / b }' >> "$work/$kind.ratio"
        run -d "$at" -c 'truncate sync.event' -c 'vacuum care.dose_occurrence, care.day_summary, sync.stream, sync.touched, sync.ticket'
    done
done

echo "One client, prepared statements, fsync=$(run -d "$at" -c 'show fsync'), synchronous_commit=$(run -d "$at" -c 'show synchronous_commit'),"
echo "PostgreSQL $(run -d "$at" -c 'show server_version'), $(nproc) cores; $rounds pairs of ${seconds} s each: median (least to most)."
echo
echo "| update | without, ms | with, ms | with / without |"
echo "|---|---|---|---|"
for kind in one bulk; do
    name='one row'; [ $kind = one ] || name='1,000 rows, 250 users'
    printf '| %s |' "$name"
    for column in off on ratio; do
        middle < "$work/$kind.$column" | awk '{ printf " %.2f (%.2f to %.2f) |", $1, $2, $3 }'
    done
    echo
done
