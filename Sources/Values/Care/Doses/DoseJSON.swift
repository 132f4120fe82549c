import JSON

/// Renders doses, days and statistics for clients. Nulls are included.
package struct DoseJSON: Sendable {
    /// The names of the products that the user may see. Products have no strength and form here, doses no amount, and none
    /// is as needed.
    package let productNames: [String: String]

    static func members(of state: DoseState) -> [JSONTree.Member] {
        [
            .init("status", .string(state.status.rawValue)), .init("takenAt", time(state.takenAt)),
            .init("reason", .text(state.reason)),
        ]
    }

    private static func time(_ instant: Timestamp?) -> JSONTree { .text(instant.map { TimeText.text($0) }) }

    private static func local(_ state: DoseState) -> String? {
        guard let takenAt = state.takenAt, let offset = state.takenOffset else { return nil }
        return TimeText.text(takenAt, utcOffset: offset)
    }

    /// The `updates` of an event: all fields except the texts, which are never sent in events.
    package func updates(_ dose: Dose) -> JSONTree {
        .object([
            .init("scheduleId", .text(dose.scheduleID)), .init("productId", .text(dose.productID)),
            .init("productName", .text(dose.productID.flatMap { productNames[$0] })),
            .init("strength", .null), .init("form", .null), .init("dose", .null), .init("asNeeded", .bool(false)),
            .init("status", .string(dose.state.status.rawValue)), .init("takenAt", Self.time(dose.state.takenAt)),
            .init("takenAtLocal", .text(Self.local(dose.state))),
            .init(
                "changedBy",
                .object([
                    .init("actor", .string(dose.changed.actor.rawValue)),
                    .init("deviceId", .text(dose.changed.device?.text)),
                ])),
            .init("hasNote", .bool(!(dose.note ?? "").isEmpty)), .init("rev", .integer(dose.rev)),
            .init("scheduledAt", Self.time(dose.scheduledAt)),
            .init("timeLocal", .string(TimeText.local(dose.scheduledAt, utcOffset: dose.utcOffset))),
            .init("timezone", .string(dose.zone)), .init("localDate", .string(TimeText.text(dose.day))),
            .init("windowStart", Self.time(dose.windowStart)), .init("windowEnd", Self.time(dose.windowEnd)),
            .init("createdAt", Self.time(dose.createdAt)), .init("updatedAt", Self.time(dose.updatedAt)),
        ])
    }

    /// A dose in an answer to its user.
    package func answer(_ dose: Dose) -> JSONTree {
        updates(dose).with(
            .init("id", .string(dose.id.text)), .init("userId", .string(dose.user.text)),
            .init("reason", .text(dose.state.reason)), .init("note", .text(dose.note)))
    }

    /// A day's summary.
    package static func summary(_ day: LocalDate, _ counts: DayCounts) -> JSONTree {
        .object([
            .init("date", .string(TimeText.text(day))), .init("scheduledCount", .integer(Int64(counts.scheduled))),
            .init("takenCount", .integer(Int64(counts.taken))), .init("missedCount", .integer(Int64(counts.missed))),
            .init("madeUpCount", .integer(Int64(counts.madeUp))),
            .init("skippedCount", .integer(Int64(counts.skipped))),
            .init("pendingCount", .integer(Int64(counts.pending))), .init("adherencePct", share(counts.adherence)),
            .init("onTimePct", share(counts.onTime)),
        ])
    }

    /// A user's statistics.
    package static func statistics(_ statistics: AdherenceStatistics) -> JSONTree {
        .object([
            .init("currentStreakDays", .integer(Int64(statistics.currentStreakDays))),
            .init("bestStreakDays", .integer(Int64(statistics.bestStreakDays))),
            .init("avg30DaysPct", share(statistics.average30Days)), .init("doses30Pct", share(statistics.doses30)),
        ])
    }

    private static func share(_ share: Percentage?) -> JSONTree { share.map { .number($0.text) } ?? .null }
}
