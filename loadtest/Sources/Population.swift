import Postgres

/// The table whose rows a run changes.
enum RowKind: String, CaseIterable {
    /// care.dose_occurrence: a change makes two events, the dose's and the day's summary.
    case doses
    /// care.reminder_rule: a change makes one event.
    case reminders

    var topic: String { self == .doses ? "adherence" : "reminders" }
    fileprivate var table: String { self == .doses ? "care.dose_occurrence" : "care.reminder_rule" }
}

/// The users and rows of a run: created before it, removed after it.
struct Population {
    let names: Names
    let kind: RowKind
    let users: Int
    let rowsPerUser: Int
    var manner = Manner.update
    /// Days before today on which each user took `rowsPerUser` doses, so that statistics have data.
    var historyDays = 0

    var rows: Int { users * rowsPerUser }

    func owner(of row: Int) -> Int { row / rowsPerUser }

    /// Inserts the rows at revision 1 and updates planner statistics. Call before anybody subscribes.
    func insert(_ connection: BlockingConnection) throws(StatementError) {
        guard rows > 0 else { return }
        try insertRows(connection)
        try connection.execute("analyze \(kind.table), care.day_summary, sync.event, sync.stream")
    }

    private func insertRows(_ connection: BlockingConnection) throws(StatementError) {
        let rowID = "'\(names.prefix)' || n"
        let userID = "'\(names.prefix)' || n / \(rowsPerUser)"
        let series = "from generate_series(0, \(rows - 1)) as n"
        switch kind {
        case .doses:
            try connection.execute(
                """
                insert into care.dose_occurrence (id, user_id, scheduled_at, window_end)
                select \(rowID), \(userID), date_trunc('day', now()) + interval '12 hours', now() + interval '1 day'
                \(series)
                """)
            guard historyDays > 0 else { return }
            try connection.execute(
                """
                insert into care.dose_occurrence (id, user_id, scheduled_at, status, taken_at)
                select '\(names.prefix)history-' || n || '-' || day, \(userID), at, 'taken', at \(series),
                    generate_series(1, \(historyDays)) as day,
                    lateral (select date_trunc('day', now()) + interval '12 hours' - make_interval(days => day) as at) as day_at
                """)
        case .reminders:
            try connection.execute(
                """
                insert into care.reminder_rule (id, user_id, label, time, snooze_minutes)
                select \(rowID), \(userID), 'Load', '08:00', 1 \(series)
                """)
        }
    }

    /// Prepares a writer's connection for `beginChange`.
    func prepare(_ connection: BlockingConnection) throws(StatementError) {
        switch manner {
        case .update: break
        case .notifyingUpdate: try connection.execute("set sync.notify = 'off'")
        case .action:
            try connection.execute(
                """
                prepare act(text, text, text, bigint, text, text) as
                select status from sync.apply($1, $2, $3, $4, $5, $6, null, null, null)
                """)
        }
    }

    /// Begins a transaction and changes each row once; the caller commits.
    ///
    /// - Parameter rows: with the current revision of each.
    func beginChange(of rows: [(row: Int, revision: Int64)], _ connection: BlockingConnection) throws {
        if manner == .action {
            try connection.execute("begin")
            for row in rows { try act(row.row, Int(row.revision), connection) }
            return
        }
        let ids = rows.map { "'\(names.id($0.row))'" }.joined(separator: ",")
        let change =
            switch kind {
            case .doses:
                """
                status = case status when 'taken' then 'scheduled' else 'taken' end,
                taken_at = case status when 'taken' then null else now() end
                """
            case .reminders: "snooze_minutes = snooze_minutes % 240 + 1"
            }
        let notify =
            manner == .notifyingUpdate
            ? rows.map { "select pg_notify('\(Manner.channel)', '\($0.row)');" }.joined() : ""
        try connection.execute("begin; \(notify) update \(kind.table) set \(change) where id in (\(ids))")
    }

    /// The action that makes the row's next revision. Each row is its own device, with its revision as the action number.
    private func act(_ row: Int, _ revision: Int, _ connection: BlockingConnection) throws {
        let step = MannerStep(revision, rows: 1)
        let type = step.isUndo ? "undo" : "markTaken"
        let payload =
            step.isUndo
            ? #"{"targetKey":"\#(names.key(row, revision - 1))"}"# : #"{"occurrenceId":"\#(names.id(row))"}"#
        let answer = try connection.query(
            """
            execute act('\(names.id(owner(of: row)))', '\(names.key(row, revision))', '\(names.id(row))', \(revision),
            '\(type)', '\(payload)')
            """)
        let status = answer.first?.first ?? nil
        guard status == "applied" else { throw LoadFailure("\(type) was answered \(status ?? "with nothing")") }
    }

    /// Changes every row once, in one transaction.
    func changeAll(_ connection: BlockingConnection) throws {
        try beginChange(of: (0..<rows).map { ($0, 1) }, connection)
        try connection.execute("commit")
    }

    /// Removes the run's rows, events, streams and actions. Call when nobody is subscribed.
    func remove(_ connection: BlockingConnection) throws(StatementError) {
        try connection.execute(
            """
            set sync.notify = 'off';
            delete from \(kind.table) where starts_with(id, '\(names.prefix)')
            """)
        try connection.execute(
            """
            delete from sync.event where starts_with(user_id, '\(names.prefix)');
            delete from sync.stream where starts_with(user_id, '\(names.prefix)');
            delete from sync.action where starts_with(user_id, '\(names.prefix)');
            delete from sync.device where starts_with(user_id, '\(names.prefix)');
            delete from sync.account where starts_with(user_id, '\(names.prefix)')
            """)
    }

    /// The last event's number in each stream that has any.
    func positions(_ connection: BlockingConnection) throws(StatementError) -> [(user: Int, topic: Int, top: Int64)] {
        let rows = try connection.query(
            """
            select substr(user_id, \(names.prefix.count + 1)), topic, top from sync.stream
            where starts_with(user_id, '\(names.prefix)')
            """)
        return rows.compactMap { row in
            guard row.count == 3, let user = row[0].flatMap({ Int($0) }), let top = row[2].flatMap({ Int64($0) }),
                let topic = names.topics.firstIndex(where: { $0 == row[1] })
            else { return nil }
            return (user, topic, top)
        }
    }

    /// The epoch of all channels, and the last event's number in each, by user and topic.
    func tops(_ connection: BlockingConnection) throws -> (epoch: String, offsets: [[Int64]]) {
        var offsets = [[Int64]](repeating: Array(repeating: 0, count: names.topics.count), count: users)
        for position in try positions(connection) where position.user < users {
            offsets[position.user][position.topic] = position.top
        }
        let rows = try connection.query(
            "select epoch from sync.positions(array['\(names.id(0))'], array['\(names.topics[0])'])")
        guard let epoch = rows.first?.first ?? nil else { throw LoadFailure("the database tells no epoch") }
        return (epoch, offsets)
    }

    /// Whether the database has that many actions of this run, all of them applied.
    func checkActions(_ count: Int, _ connection: BlockingConnection) throws {
        let rows = try connection.query(
            "select status, count(*) from sync.action where starts_with(user_id, '\(names.prefix)') group by status")
        guard rows == (count == 0 ? [] : [["applied", "\(count)"]]) else {
            throw LoadFailure("\(count) actions were sent, and stored are \(rows.map { $0.map { $0 ?? "" } })")
        }
    }

    func revisions(_ connection: BlockingConnection) throws(StatementError) -> [Int: Int64] {
        let rows = try connection.query(
            """
            select substr(id, \(names.prefix.count + 1)), rev from \(kind.table)
            where starts_with(id, '\(names.prefix)')
            """)
        var revisions: [Int: Int64] = [:]
        for row in rows where row.count == 2 {
            if let number = row[0].flatMap({ Int($0) }) { revisions[number] = row[1].flatMap { Int64($0) } }
        }
        return revisions
    }
}
