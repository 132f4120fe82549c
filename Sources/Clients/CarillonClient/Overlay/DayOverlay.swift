import Care
import JSON

// What screens show of doses.

/// Doses as they were shown last: of sixty, an action changes one. What the hub says of doses empties it.
struct DoseCache: Sendable {
    /// Counts what the hub has said.
    var turn: Int?
    var doses: [Identifier: (dose: Dose, shown: CarillonDose)] = [:]
}

extension Dose {
    /// Whether two doses of one id look alike, as long as the hub says nothing new. Each action that changes one has a key
    /// of its own; time alone changes only the state.
    fileprivate func isShown(as other: Dose) -> Bool {
        rev == other.rev && changed.key == other.changed.key && state == other.state && note == other.note
            && createdAt == other.createdAt
    }
}

extension DoseOverlay {
    /// The doses of today's list in the order of their times, with the date's summary and the statistics. Nil: the day is
    /// not here.
    mutating func day(_ mirror: Mirror, _ date: String, user: String, at now: Timestamp) -> CarillonToday? {
        guard mirror.entity(.loaded, "day:\(date)") != nil, let day = TimeText.day(date) else { return nil }
        let account = model.accounts[Self.user]
        let found = (account.map { model.today(of: $0, at: now) } ?? []).filter { $0.state.status != .cancelled }
            .sorted { ($0.scheduledAt, $0.id) < ($1.scheduledAt, $1.id) }
        let conflicted = mirror.conflicted
        let stats = mirror.value(.stats, "stats")
        if cache.turn != turn { cache = DoseCache(turn: turn) }
        return CarillonToday(
            date: date,
            doses: found.map { dose in
                let isPending = touched.contains(dose.id)
                let hasConflict = conflicted.contains("dose:\(dose.id.text)")
                if let known = cache.doses[dose.id], known.dose.isShown(as: dose),
                    known.shown.isPending == isPending, known.shown.hasConflict == hasConflict
                {
                    return known.shown
                }
                let made = CarillonDose(
                    shown(dose, mirror, user: user), isPending: isPending, hasConflict: hasConflict)
                cache.doses[dose.id] = (dose, made)
                return made
            },
            summary: CarillonDay(Self.summary(day, counts(doses.values.filter { $0.day == day }, at: now))),
            statistics: stats.map { CarillonStatistics($0) })
    }

    /// Those that no schedule asked for do not count.
    private func counts(_ doses: [Dose], at now: Timestamp) -> DayCounts {
        DayCounts(doses.filter { !$0.isAsNeeded }, at: now)
    }

    private static func summary(_ day: LocalDate, _ counts: DayCounts) -> JSONTree { DoseJSON.summary(day, counts) }

    /// A dose as the hub writes it, with what was folded over it.
    private func shown(_ dose: Dose, _ mirror: Mirror, user: String) -> JSONTree {
        let value = mirror.value(.dose, dose.id.text)
        let isLate = value?["status"]?.string != dose.state.status.rawValue
        if let value, !touched.contains(dose.id), !isLate { return value }
        let members: [JSONTree.Member] = [
            .init("id", .string(dose.id.text)), .init("status", .string(dose.state.status.rawValue)),
            .init("takenAt", .text(dose.state.takenAt.map { TimeText.text($0) })),
            .init(
                "takenAtLocal",
                .text(
                    dose.state.takenAt.flatMap { at in
                        dose.state.takenOffset.map { TimeText.text(at, utcOffset: $0) }
                    })),
            .init("reason", .text(dose.state.reason)), .init("note", .text(dose.note)),
            .init(
                "hasNote",
                .bool(dose.note != nil || (value?["hasNote"]?.flag == true && value?["note"] == nil))),
            .init(
                "changedBy",
                touched.contains(dose.id)
                    ? .object([.init("actor", .string("user")), .init("deviceId", .null)])
                    : value?["changedBy"] ?? .null),
        ]
        if let value { return value.setting(members) }
        return .object(
            [
                .init("userId", .string(user)), .init("scheduleId", .null), .init("productId", .text(dose.productID)),
                .init("timezone", .string(dose.zone)), .init("asNeeded", .bool(true)), .init("rev", .integer(0)),
                .init("scheduledAt", .string(TimeText.text(dose.scheduledAt))),
                .init("timeLocal", .string(TimeText.local(dose.scheduledAt, utcOffset: dose.utcOffset))),
                .init("localDate", .string(TimeText.text(dose.day))),
                .init("windowEnd", .string(TimeText.text(dose.windowEnd))),
            ] + members)
    }

    /// Each day's summary of a month, with what time and actions make of its doses. Nil: the month is not here.
    func month(_ mirror: Mirror, _ month: String, at now: Timestamp) -> [CarillonDay]? {
        guard mirror.entity(.loaded, "month:\(month)") != nil else { return nil }
        var known: [String: [Dose]] = [:]
        for dose in doses.values { known[TimeText.text(dose.day), default: []].append(dose) }
        let days = mirror.all(.day).values.filter { $0.id.hasPrefix(month) }.sorted { $0.id < $1.id }
        return days.compactMap { row in
            guard let value = row.value, let day = TimeText.day(row.id) else { return nil }
            let own = known[row.id] ?? []
            let counted = counts(own, at: now)
            let isWhole =
                mirror.entity(.loaded, "day:\(row.id)") != nil
                || Int64(counted.scheduled) == value["scheduledCount"]?.integer
            if isWhole { return CarillonDay(Self.summary(day, counted)) }
            let changed = own.filter { touched.contains($0.id) }
            if changed.isEmpty { return CarillonDay(value) }
            return CarillonDay(Self.summary(day, moved(value, day, by: changed, mirror, at: now)))
        }
    }

    /// A day of which only some doses are known: what the hub counted, moved by what has changed.
    private func moved(
        _ value: JSONTree, _ day: LocalDate, by changed: [Dose], _ mirror: Mirror, at now: Timestamp
    ) -> DayCounts {
        func count(_ name: String) -> Int { Int(value[name]?.integer ?? 0) }
        var sum = DayCounts()
        (sum.taken, sum.missed, sum.madeUp) = (count("takenCount"), count("missedCount"), count("madeUpCount"))
        (sum.skipped, sum.pending) = (count("skippedCount"), count("pendingCount"))
        sum.overdue = day < now.date(utcOffset: 0).adding(-1) ? sum.pending : 0
        let was = counts(changed.compactMap { mirror.entity(.dose, $0.id.text)?.dose }, at: now)
        let now = counts(changed, at: now)
        for path in [\DayCounts.taken, \.missed, \.madeUp, \.skipped, \.pending, \.overdue] {
            sum[keyPath: path] = max(0, sum[keyPath: path] + now[keyPath: path] - was[keyPath: path])
        }
        return sum
    }
}
