import Postgres

/// The statements of jobs, for the hub's connection and for the command's.
package enum JobStatement {
    /// What a connection for jobs is greeted with, and its parameters. Nobody answers a device here, but a lock that a
    /// batch waits for keeps others from the locks that it has. A batch does not NOTIFY: its commit would hold NOTIFY's
    /// lock, of which there is one in all databases, until the disk has it, and announcements of actions would wait.
    package static let greeting = """
        SELECT set_config('sync.notify', 'off', false), set_config('lock_timeout', $1, false),
            set_config('statement_timeout', $2, false), set_config('idle_session_timeout', '0', false),
            set_config('sync.lineage', '', false), set_config('sync.system', '', false),
            set_config('sync.retain_days', $3, false),
            set_config('default_transaction_isolation', 'read committed', false)
        """

    static func greeting(retainDays: Int) -> ConnectionSlot.Greeting {
        ConnectionSlot.Greeting(
            greeting, greetingParameters(retainDays: retainDays), timeout: JobsLimits.statementTimeout)
    }

    /// The greeting's parameters.
    package static func greetingParameters(retainDays: Int) -> [String] {
        [JobsLimits.lockTimeout.setting, JobsLimits.statementTimeout.setting, String(max(1, retainDays))]
    }

    /// One batch: `$1` the job, `$2` its size, `$3` the time by which it goes; null stands for the present. A row: how many
    /// it did, whether there may be more, and for how many seconds the oldest work had been due when it began, or null.
    package static let run = """
        SELECT j.done, j.more, sync.job_lag($1, $3::timestamptz) FROM sync.job($1, $2::int, $3::timestamptz) AS j
        """

    /// Wakes the hubs after a batch. It writes nothing, so it does not wait for the disk.
    package static let announcement = "SELECT sync.announce()"
}

/// What a batch did, from its row.
package struct BatchResult: Sendable {
    /// What it changed.
    package let count: Int
    /// Whether there may be more.
    package let isMore: Bool
    /// In seconds; nil where nobody can tell.
    let lag: Double?

    /// Nil if the rows have another shape.
    package init?(_ rows: [[String?]]) {
        guard rows.count == 1, rows[0].count == 3, let count = rows[0][0].flatMap({ Int($0) }), let more = rows[0][1]
        else { return nil }
        (self.count, isMore) = (count, more == "t")
        lag = rows[0][2].flatMap { Double($0) }
    }
}
