#!/usr/bin/env bash
# How long it takes until many doses that ended in one minute are missed, and how long actions take meanwhile: one job as
# the hub runs it (carillon jobs --once), and devices that take doses of the same users at a steady rate. Prints a table, and
# for how long actions waited for locks of the job: pg_locks is read every 2 ms, so each wait may be so much longer. How long
# an action takes beside that is the share of processors and disk that it gets.
#     sql/bench/missed_doses.sh PROGRAM 'host=/path/to/socket user=postgres dbname=postgres' [doses] [users] [actions a second]
# Makes a database of its own and drops it. Needs psql and pgbench.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sql=$(dirname "$here")
program=${1:?usage: missed_doses.sh PROGRAM CONNECTION [DOSES] [USERS] [RATE]}
admin=${2:?usage: missed_doses.sh PROGRAM CONNECTION [DOSES] [USERS] [RATE]}
doses=${3:-100000}
users=${4:-25000}
rate=${5:-100}
database="carillon_bench_$$"
at="$admin dbname=$database"
work=$(mktemp -d)
run() { PGOPTIONS='-c client_min_messages=warning' psql -XqAt -v ON_ERROR_STOP=1 "$@"; }
finish() { rm -rf "$work"; run -d "$admin" -c "drop database if exists $database with (force)"; }
trap finish EXIT

run -d "$admin" -c "create database $database"
run -d "$at" -f "$sql/roles.sql"
"$sql/tests/install" "$at"
run -d "$at" <<SQL
set sync.notify = 'off';
insert into care.product (id, name) values ('p', 'Magnesium');
-- Their windows ended within one minute; as many that are still open, which devices take.
insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, tz, local_date, local_time, window_end)
select kind || n, 'user' || n % $users, 'p', now() - interval '5 hours', 'UTC', current_date, '08:00',
       case kind when 'due' then now() - interval '32 minutes' + make_interval(secs => 60.0 * n / $doses) else now() + interval '1 day' end
from generate_series(1, $doses) as n, unnest('{due,open}'::text[]) as kind;
create unlogged table public.waited (pid int, since timestamptz, seen timestamptz, primary key (pid, since));
vacuum (analyze);
checkpoint;
SQL
cat > "$work/watch.sql" <<SQL
with l as materialized (
    select pid, granted, waitstart, locktype from pg_locks
), w as materialized (
    select pid, waitstart, clock_timestamp() as seen from l where not granted and waitstart is not null
)
insert into public.waited
select w.pid, w.waitstart, w.seen from w
where pg_blocking_pids(w.pid) && (select array_agg(pid) from l where locktype = 'advisory' and granted)
on conflict (pid, since) do update set seen = excluded.seen;
\\sleep 2 ms
SQL
cat > "$work/act.sql" <<SQL
\set n random(1, $doses)
select status from sync.apply('user' || :n % $users, 'k' || :client_id || '-' || (random() * 1e15)::bigint, null, null, 'markTaken',
                              '{"occurrenceId":"open' || :n || '"}', null, null, null);
SQL
# As the hub sends them: without NOTIFY, for whose lock all commits would wait, each for the disk, one after the other.
act() { (cd "$work" && PGOPTIONS='-c sync.notify=off' pgbench -n -M prepared -c 4 -j 1 -R "$rate" -T "$2" -l --log-prefix="$1" -f act.sql "$at" > "$1.out" 2>&1) || { cat "$work/$1.out" >&2; return 1; }; }
# Milliseconds of a transaction, without the wait for its turn: column 3 less column 7.
times() { awk '{ print ($3 - $7) / 1000 }' "$work/$1".[0-9]* | sort -n | awk '{ v[NR] = $1 } END { printf "%d | %.1f | %.1f | %.1f", NR, v[int((NR + 1) / 2)], v[int(NR * 0.99 + 0.5)], v[NR] }'; }

act alone 10
act beside 60 &
actions=$!
pgbench -n -M prepared -c 1 -T 60 -f "$work/watch.sql" "$at" > "$work/watch.out" 2>&1 &
watch=$!
begun=$(date +%s.%N)
said=$(DATABASE_URL="$at" "$program" jobs --once miss_doses)
ended=$(date +%s.%N)
wait "$actions"
wait "$watch" || { cat "$work/watch.out" >&2; exit 1; }

echo "$doses doses of $users users, $rate actions a second; fsync=$(run -d "$at" -c 'show fsync'), PostgreSQL $(run -d "$at" -c 'show server_version'), $(nproc) cores."
echo "$said, in $(awk -v a="$begun" -v b="$ended" 'BEGIN { printf "%.1f", b - a }') s; left: $(run -d "$at" -c "select count(*) from care.dose_occurrence where id like 'due%' and status <> 'missed'")"
echo
echo "| actions | number | median, ms | 99 of 100, ms | most, ms |"
echo "|---|---|---|---|---|"
echo "| alone | $(times alone) |"
echo "| for a minute from the job's begin | $(times beside) |"
echo
echo "Waits for locks of the job: $(run -d "$at" -F ', ' -c "
    select count(*) || ' seen', 'longest ' || coalesce(round(extract(epoch from max(seen - since)) * 1000, 1), 0) || ' ms',
           count(*) filter (where seen - since > interval '48 milliseconds') || ' of more than 48 ms' from public.waited")"
