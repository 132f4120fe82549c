import Postgres

/// How a migration gets its locks while devices, hubs and backends go on.
///
/// Those who queue behind a lock that the migrator waits for wait too. So each attempt is short: it gives back all that it
/// has, lets the others go on, and begins anew. It is shorter than `deadlock_timeout`, after which PostgreSQL would end a
/// writer that crosses it.
struct MigrationLocks {
    let connection: BlockingConnection
    /// How long one transaction tries to get its locks.
    let patience: Duration

    /// Runs `body` in a transaction, again and again while others hold what it needs, until `patience` ends.
    ///
    /// - Parameter path: the file that runs when something fails.
    func transaction(_ path: @autoclosure () -> String, _ body: () throws(StatementError) -> Void) throws(Failure) {
        let clock = ContinuousClock()
        let start = clock.now
        while true {
            let attempt = clock.now
            do {
                try connection.execute("begin")
                try limitWaiting()
                try body()
                try connection.execute("commit")
                return
            } catch {
                try? connection.execute("rollback")
                guard error.sqlstate == Self.lockTimeout || error.sqlstate == Self.deadlock else {
                    throw Failure("sql/\(path()) failed, and nothing of it was kept: \(error.line)")
                }
            }
            let seconds = (clock.now - attempt) / .seconds(1)
            guard clock.now - start < patience else {
                let holders = try holders(since: seconds)
                throw Failure(
                    "sql/\(path()) failed, and nothing of it was kept: for \(patience.components.seconds) seconds, others held "
                        + "what it locks"
                        + (holders.isEmpty
                            ? ", each for a short time; migrate again when fewer write"
                            : ": \(holders.joined(separator: ", ")); end them, and migrate again"))
            }
            // Longer than the attempt: the others have more than half of the time.
            try connection.asking("the migrator cannot wait") { () throws(StatementError) in
                _ = try connection.query(
                    "select pg_sleep(greatest($1::float8, 0.05) * (1 + random()))", [String(seconds)])
            }
        }
    }

    private static let lockTimeout: SQLState = "55P03"
    private static let deadlock: SQLState = "40P01"

    /// Bounds each wait for a lock in this transaction: by half of the others' `deadlock_timeout` at most, often by less.
    /// Long ones succeed where transactions are slow, and short ones where they are many and lock in another order.
    private func limitWaiting() throws(StatementError) {
        _ = try connection.query(
            """
            select set_config('lock_timeout', ceil(least(s.reset_val::int, 1000) * power(2, -1 - 4 * random()))::text, true)
            from pg_settings as s where s.name = 'deadlock_timeout'
            """)
    }

    /// Locks the tables that the text of a migration names, before it begins: a migration that waited for a second table
    /// while it builds an index on a first one would be a deadlock for writers of both. Tables that it alters are
    /// closed to readers too. What it changes may be published: its commit then takes streams, which no writer may hold.
    ///
    /// All waits together are no longer than one may be.
    func lockTables(named text: String) throws(StatementError) {
        _ = try connection.query("select set_config('carillon.migration', $1, true)", [text])
        try connection.execute(
            #"""
            do $$
            declare
                text constant text := current_setting('carillon.migration');
                patience constant int := (select setting from pg_settings where name = 'lock_timeout');
                start constant timestamptz := clock_timestamp();
                t record;
            begin
                for t in
                    select c.oid::regclass as name,
                           text ~* '\mdrop\s+index\M' or text ~* ('\malter\s+table\s[^;]*\m' || n.name || '\M')
                               or text ~* ('\mlock\s+table\s[^;]*\m' || n.name || '\M[^;]*access\s+exclusive') as closed
                    from (
                        select distinct m[1] as name from regexp_matches(text, '\m((?:sync|care)\.[a-z_]+)\M', 'g') as m
                        union
                        select 'sync.ticket' where text ~* '\m(update|delete\s+from)\s+care\.'
                    ) as n
                    join pg_class as c on c.oid = to_regclass(n.name) and c.relkind = 'r'
                    order by n.name
                loop
                    perform set_config('lock_timeout', greatest(
                        1, patience - extract(epoch from clock_timestamp() - start) * 1000)::int::text, true);
                    execute format('lock table %s in %s mode', t.name,
                                   case when t.closed then 'access exclusive' else 'share row exclusive' end);
                end loop;
                perform set_config('lock_timeout', patience::text, true), set_config('carillon.migration', '', true);
            end
            $$
            """#)
    }

    /// The sessions and prepared transactions that have held a lock on one of the tables since before the last attempt, the
    /// oldest first: what an operator needs to find and end them, and no word of their queries.
    private func holders(since seconds: Double) throws(Failure) -> [String] {
        // Only a superuser, or a member of pg_monitor, sees what other sessions do.
        try? connection.execute("reset role")
        return try connection.asking("the sessions cannot be read") { () throws(StatementError) in
            try connection.query(
                """
                select h.name from (
                    select distinct on (coalesce(l.pid::text, l.virtualtransaction))
                           case when p.gid is not null then format('the prepared transaction %L', p.gid)
                                else format('session %s (%s)', l.pid, concat_ws(', ',
                                    case when a.backend_type <> 'client backend' then a.backend_type end,
                                    'role ' || a.usename, nullif(a.application_name, ''), host(a.client_addr), a.state,
                                    'for ' || round(extract(epoch from now() - a.xact_start)) || ' s'))
                           end as name, coalesce(p.prepared, a.xact_start) as since
                    from pg_locks as l
                    join pg_class as c on c.oid = l.relation
                    left join pg_stat_activity as a on a.pid = l.pid
                    left join pg_prepared_xacts as p on p.transaction::text = split_part(l.virtualtransaction, '/', 2)
                        and l.pid is null
                    where l.granted and l.pid is distinct from pg_backend_pid()
                        -- A session that waits for another's lock is not the one to end.
                        and a.wait_event_type is distinct from 'Lock'
                        and l.database = (select oid from pg_database where datname = current_database())
                        and c.relnamespace::regnamespace::text in ('sync', 'care')
                ) as h
                where coalesce(h.since < now() - $1 * interval '1 s', true)
                order by h.since limit 5
                """, [String(seconds)]
            ).compactMap { $0.first ?? nil }
        }
    }
}
