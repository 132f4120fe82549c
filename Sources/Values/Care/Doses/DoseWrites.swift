import JSON

/// The writes of one transaction to one user's doses, and the events at its end.
struct DoseWrites {
    /// The dose before the transaction, and the revision replaced last.
    private struct Touch {
        let wasInserted: Bool
        let dayBefore: LocalDate?
        var replacedRev: Int64?
    }

    private let model: CareModel
    private let key: Identifier?
    private let device: Identifier?
    private let now: Timestamp
    private var touched: [Identifier: Touch] = [:]

    init(model: CareModel, key: Identifier?, device: Identifier?, now: Timestamp) {
        self.model = model
        self.key = key
        self.device = device
        self.now = now
    }

    // MARK: Rows

    mutating func insert(_ dose: Dose, in account: inout CareAccount) {
        account.doses[dose.id] = dose
        touched[dose.id] = touched[dose.id] ?? Touch(wasInserted: true, dayBefore: nil, replacedRev: nil)
    }

    mutating func delete(_ id: Identifier, in account: inout CareAccount) {
        guard let dose = account.doses.removeValue(forKey: id) else { return }
        account.notes = account.notes.filter { $0.key.dose != id }
        touch(dose)
    }

    /// Writes a dose and fills in revisions, writer and time. An unchanged dose is not written.
    mutating func update(_ dose: Dose, in account: inout CareAccount) {
        guard let before = account.doses[dose.id], !before.hasSameContent(as: dose) else { return }
        var after = dose
        after.rev = before.rev + 1
        after.statusRev = before.state == dose.state ? before.statusRev : after.rev
        after.noteRev = sameText(before.note, dose.note) ? before.noteRev : after.rev
        after.changed = DoseChange(key: key, device: device, actor: key == nil ? .backend : .user)
        after.updatedAt = now
        account.doses[dose.id] = after
        touch(before)
    }

    private mutating func touch(_ before: Dose) {
        var touch = touched[before.id] ?? Touch(wasInserted: false, dayBefore: before.day, replacedRev: nil)
        touch.replacedRev = before.rev
        touched[before.id] = touch
    }

    // MARK: Events

    /// Ends the transaction: one event for each dose, by id, then one summary for each day, by date.
    mutating func flush(_ account: inout CareAccount) {
        guard !account.isDevices else { return }
        let doses = touched.filter { account.doses[$0.key] != nil || !$0.value.wasInserted }
        guard !doses.isEmpty else { return }
        var days: Set<LocalDate> = []
        for (id, touch) in doses {
            if let day = touch.dayBefore { days.insert(day) }
            if let day = account.doses[id]?.day { days.insert(day) }
        }
        var summaries: [LocalDate: JSONTree] = [:]
        for day in days { summaries[day] = count(day, in: &account) }
        carryStreaks(&account)
        for (id, touch) in doses.sorted(by: { $0.key < $1.key }) {
            append(id, touch, summaries: summaries, to: &account)
        }
        let statistics = DoseJSON.statistics(model.statistics(account, at: now))
        for day in days.sorted() {
            append(
                "adherence.summary_updated",
                [
                    .init("userId", .string(account.user.text)), .init("date", .string(TimeText.text(day))),
                    .init("summary", summaries[day] ?? .null), .init("stats", statistics),
                ], to: &account)
        }
    }

    /// Recounts a day. A day without doses has no record; cancelled doses count here.
    private func count(_ day: LocalDate, in account: inout CareAccount) -> JSONTree {
        let doses = account.doses(of: day)
        let counts = DayCounts(doses, at: now)
        account.days[day] = doses.isEmpty ? nil : DayRecord(counts: counts, streak: .none)
        return DoseJSON.summary(day, counts)
    }

    private func carryStreaks(_ account: inout CareAccount) {
        var streak = StreakRun.none
        for day in account.days.keys.sorted() {
            guard let counts = account.days[day]?.counts else { continue }
            streak = streak.after(counts.dayClass)
            account.days[day]?.streak = streak
        }
    }

    private func append(
        _ id: Identifier, _ touch: Touch, summaries: [LocalDate: JSONTree], to account: inout CareAccount
    ) {
        let dose = account.doses[id]
        let day = dose?.day ?? touch.dayBefore
        let updates =
            dose.map { model.json.updates($0) }
            ?? .object([
                .init("status", .string(DoseStatus.cancelled.rawValue)),
                .init("rev", touch.replacedRev.map { .integer($0) } ?? .null),
            ])
        let month = JSONTree.Member("month", .text(day.map { String(TimeText.text($0).prefix(7)) }))
        var members: [JSONTree.Member] = [
            .init("userId", .string(account.user.text)), .init("occurrenceId", .string(id.text)),
            .init("updates", updates), .init("daySummary", day.flatMap { summaries[$0] }?.with(month) ?? .null),
        ]
        var name = dose == nil || dose?.state.status == .cancelled ? "occurrence.cancelled" : "occurrence.updated"
        if touch.wasInserted {
            name = "occurrence.created"
            members.append(
                .init(
                    "occurrence",
                    updates.with(.init("id", .string(id.text)), .init("userId", .string(account.user.text)))))
        }
        append(name, members, to: &account)
        if let rev = updates["rev"]?.integer { account.told[id, default: [:]][rev] = updates }
    }

    private func append(_ name: String, _ members: [JSONTree.Member], to account: inout CareAccount) {
        let offset = account.top + 1
        let sync = JSONTree.object([.init("o", .integer(offset)), .init("k", .text(key?.text))])
        account.events.append(
            CareEvent(offset: offset, name: name, data: .object(members + [.init("_sync", sync)])))
    }
}
