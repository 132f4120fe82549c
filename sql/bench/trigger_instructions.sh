#!/usr/bin/env bash
# What publishing costs a writer in user-space instructions, which do not depend on the machine's load: the updates of
# trigger_cost.sh, of care.dose_occurrence and of a table of the same columns and indexes without triggers. PostgreSQL runs in
# its single-user mode under callgrind, once with N commits and once with 2 N of the same data; the difference is N commits,
# without start-up, planning and shutdown. Prints a table for loadtest/README.md.
#     sql/bench/trigger_instructions.sh [folder for callgrind's files] [one|bulk]
# Makes a cluster of its own and deletes it. Needs PostgreSQL's programs and valgrind. As root it runs them as postgres.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
sql=$(dirname "$here")
profiles=${1:-}
kinds=${2:-one bulk}
# Commits of one row, of 1,000 rows, and the days that those are about: the second half takes a day back and takes it again.
ones=100
bulks=2
days=(0 7 0 0)
programs=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -n 1)
work=$(mktemp -d /tmp/carillon-instructions.XXXXXX)
as=()
if [ "$(id -u)" -eq 0 ]; then
    chown postgres:postgres "$work"
    as=(setpriv --reuid=postgres --regid=postgres --clear-groups --)
fi
stop() { "${as[@]}" "$programs/pg_ctl" -D "$work/data" -m "$1" -w stop >/dev/null 2>&1; }
finish() {
    stop immediate || true
    rm -rf "$work"
}
trap finish EXIT
at="host=$work user=postgres dbname=bulk"
run() { PGOPTIONS='-c client_min_messages=warning' psql -XqAt -v ON_ERROR_STOP=1 "$@"; }

cd /
"${as[@]}" "$programs/initdb" -D "$work/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >/dev/null
"${as[@]}" "$programs/pg_ctl" -D "$work/data" -w -l "$work/log" \
    -o "-c listen_addresses= -c unix_socket_directories=$work -c fsync=off -c jit=off -c autovacuum=off" start >/dev/null
run -d "host=$work user=postgres dbname=postgres" -c 'create database bulk'
run -d "$at" -f "$sql/roles.sql"
"$sql/tests/install" "$at"

# 250 users, ten days, four doses of a day each. In `one` half of the doses are taken: there an update turns a day from good
# to bad as often as in trigger_cost.sh, which takes and opens doses at random.
run -d "$at" <<'SQL'
insert into care.product (id, name) values ('p', 'Magnesium');
insert into care.dose_occurrence (id, user_id, product_id, scheduled_at)
select 'd' || n, 'user' || n / 4 % 250, 'p', '2025-11-20 08:00+00'::timestamptz + make_interval(days => n / 1000)
from generate_series(0, 9999) as n;
SQL
run -d "host=$work user=postgres dbname=postgres" -c 'create database one template bulk'
for database in one bulk; do
    [ $database = bulk ] || run -d "host=$work user=postgres dbname=one" -c \
        "update care.dose_occurrence set status = 'taken', taken_at = now() where hashtext(id) % 2 = 0"
    run -d "host=$work user=postgres dbname=$database" <<'SQL'
create table public.bare (like care.dose_occurrence including all) with (fillfactor = 85);
insert into public.bare select * from care.dose_occurrence;
truncate sync.event;
vacuum (full, analyze);
checkpoint;
SQL
done
stop fast

# statements TABLE KIND COUNT: what the server reads, a statement a line, each a transaction.
statements() {
    echo 'set plan_cache_mode = force_generic_plan'
    if [ "$2" = one ]; then
        echo "prepare u(text) as update $1 set status = case status when 'taken' then 'scheduled' else 'taken' end, taken_at = now() where id = \$1"
        for ((n = 1; n <= $3; n++)); do echo "execute u('d$((n * 7919 % 10000))')"; done
    else
        echo "prepare u(int) as update $1 set status = case status when 'taken' then 'scheduled' else 'taken' end where local_date = date '2025-11-20' + \$1"
        for ((n = 0; n < $3; n++)); do echo "execute u(${days[n]})"; done
    fi
}

# instructions TABLE KIND COUNT: of a server that runs so many, from its start to its end.
instructions() {
    local name=${1//*./}.$2.$3
    rm -rf "$work/copy"
    "${as[@]}" cp -a "$work/data" "$work/copy"
    statements "$1" "$2" "$3" > "$work/statements"
    "${as[@]}" valgrind --tool=callgrind --callgrind-out-file="$work/$name.callgrind" "$programs/postgres" --single \
        -D "$work/copy" -c fsync=off -c jit=off "$2" < "$work/statements" > "$work/out" 2> "$work/err"
    if grep -qE '(ERROR|FATAL|PANIC):' "$work/err"; then
        cat "$work/err" >&2
        return 1
    fi
    [ -z "$profiles" ] || cp "$work/$name.callgrind" "$profiles/"
    sed -n 's/^\(summary\|totals\): *\([0-9]*\).*/\2/p' "$work/$name.callgrind" | tail -n 1
}

# per_commit TABLE KIND COUNT: of one commit.
per_commit() {
    local once twice
    once=$(instructions "$1" "$2" "$3")
    twice=$(instructions "$1" "$2" $((2 * $3)))
    echo $(((twice - once) / $3))
}

echo "PostgreSQL $("$programs/postgres" --version | awk '{ print $3 }'), single-user mode; $(valgrind --version); the mean of $ones commits of one row and of $bulks of 1,000."
echo
echo "| update | without, thousands of instructions | with | ratio |"
echo "|---|---|---|---|"
for kind in $kinds; do
    name='one row'; count=$ones
    [ $kind = one ] || { name='1,000 rows of 250 users'; count=$bulks; }
    bare=$(per_commit public.bare $kind "$count")
    real=$(per_commit care.dose_occurrence $kind "$count")
    awk -v name="$name" -v a="$bare" -v b="$real" 'BEGIN { printf "| %s | %.0f | %.0f | %.2f |\n", name, a / 1000, b / 1000, b / a }'
done
