import Postgres

/// The table whose rows a run changes.
enum RowKind: String, CaseIterable {
    /// care.dose_occurrence: a change makes two events, the dose's and the day's summary.
    case doses
    /// care.reminder_rule: a change makes one event.
    case reminders

    /// The topic of its events.
    var topic: String { self == .doses ? "adherence" : "reminders" }
    fileprivate var table: String { self == .doses ? "care.dose_occurrence" : "care.reminder_rule" }
}

/// The users and rows of a run: made before it, removed after it.
struct Population {
    let names: Names
    let kind: RowKind
    let users: Int
    let rowsPerUser: Int

    var rows: Int { users * rowsPerUser }

    /// The user who owns a row.
    func owner(of row: Int) -> Int { row / rowsPerUser }

    /// Inserts the rows, at revision 1. Nobody has subscribed yet.
    func insert(_ connection: BlockingConnection) throws(StatementError) {
        guard rows > 0 else { return }
        let rowID = "'\(names.prefix)' || n"
        let userID = "'\(names.prefix)' || n / \(rowsPerUser)"
        let series = "from generate_series(0, \(rows - 1)) as n"
        switch kind {
        case .doses:
            try connection.execute(
                """
                insert into care.dose_occurrence (id, user_id, scheduled_at)
                select \(rowID), \(userID), date_trunc('day', now()) + interval '12 hours' \(series)
                """)
        case .reminders:
            try connection.execute(
                """
                insert into care.reminder_rule (id, user_id, label, time, snooze_minutes)
                select \(rowID), \(userID), 'Load', '08:00', 1 \(series)
                """)
        }
    }

    /// Begins a transaction and changes the rows, once each; the commit is left to the caller.
    func beginChange(of rows: [Int], _ connection: BlockingConnection) throws(StatementError) {
        let ids = rows.map { "'\(names.id($0))'" }.joined(separator: ",")
        let change =
            switch kind {
            case .doses:
                """
                status = case status when 'taken' then 'scheduled' else 'taken' end,
                taken_at = case status when 'taken' then null else now() end
                """
            case .reminders: "snooze_minutes = snooze_minutes % 240 + 1"
            }
        try connection.execute("begin; update \(kind.table) set \(change) where id in (\(ids))")
    }

    /// Removes rows, events and streams of the run. Nobody is subscribed any more.
    func remove(_ connection: BlockingConnection) throws(StatementError) {
        try connection.execute(
            """
            set sync.notify = 'off';
            delete from \(kind.table) where starts_with(id, '\(names.prefix)')
            """)
        try connection.execute(
            """
            delete from sync.event where starts_with(user_id, '\(names.prefix)');
            delete from sync.stream where starts_with(user_id, '\(names.prefix)')
            """)
    }

    /// The number of the last event of each user's topic that has any.
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

    /// The revision of each row, by its number.
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
