import JSON

/// The reference model of actions: what the server must answer, write and send for each of them.
///
/// One value holds a whole database. It has no transactions, locks or clock: each call is one transaction at a time that the
/// caller gives. Equal calls in equal order give equal answers.
package struct CareModel {
    /// Seconds by which a zone is ahead of UTC at an instant; nil for an unknown zone.
    package typealias ZoneOffset = @Sendable (_ zone: String, _ instant: Timestamp) -> Int?

    /// What is known of each user.
    package private(set) var accounts: [Identifier: CareAccount] = [:]
    /// The epoch of all streams, as clients see it. A change invalidates stored positions.
    package var epoch: String
    /// Renders doses for clients.
    package let json: DoseJSON
    let utcOffset: ZoneOffset

    /// An empty database.
    ///
    /// - Parameter productNames: products that every user may see.
    package init(epoch: String, productNames: [String: String] = [:], utcOffset: @escaping ZoneOffset) {
        self.epoch = epoch
        json = DoseJSON(productNames: productNames)
        self.utcOffset = utcOffset
    }

    /// Sets the user's time zone, which is UTC at first.
    package mutating func move(_ user: Identifier, to zone: String) {
        accounts[user, default: CareAccount(user: user, zone: zone)].zone = zone
    }

    // MARK: Actions

    /// Performs an action or refuses it. A repeated key gets its first answer again.
    package mutating func apply(_ envelope: CareEnvelope, user: Identifier, at now: Timestamp) -> CareAnswer {
        var account = accounts[user] ?? CareAccount(user: user, zone: "UTC")
        // Removed meanwhile, so that changing it does not copy it.
        accounts[user] = nil
        defer { accounts[user] = account }
        if let stored = account.actions[envelope.key] {
            guard stored.content == envelope.content else {
                var answer = CareAnswer(
                    envelope.key, .rejected, code: "key_reused", message: "this key belongs to another action")
                answer.isNumberUsed = envelope.number.map { _ in false }
                return answer
            }
            var answer = stored.answer
            answer.isReplayed = true
            answer.isNumberUsed = envelope.number.map {
                $0 == stored.number && sameText(envelope.device?.text, stored.device?.text)
            }
            if answer.positions.contains(where: { $0.epoch != epoch }) {
                answer.positions = positions(of: account)
            }
            return answer
        }
        if let device = envelope.device, let number = envelope.number {
            let expected = (account.devices[device]?.number ?? 0) + 1
            guard number == expected else {
                var answer = CareAnswer(
                    envelope.key, .retry, code: "out_of_order", message: "another number is expected from this device")
                answer.expected = expected
                return answer
            }
            account.count(number, of: device, at: now)
        }
        return decide(envelope, account: &account, at: now)
    }

    private func decide(
        _ envelope: CareEnvelope, account: inout CareAccount, at now: Timestamp
    ) -> CareAnswer {
        // Lent: a change of an account that two hold would copy it.
        var decision = ActionDecision(envelope, model: self, account: account.lent(), at: now)
        decision.run()
        account = decision.takenAccount()
        var answer = decision.answer
        if answer.status != .rejected, !account.isDevices { answer.positions = positions(of: account) }
        answer.isNumberUsed = account.isDevices ? nil : envelope.number.map { _ in true }
        // A device performs each of its actions once: it is never asked whether a repeated key means the same.
        let isDevices = account.isDevices
        account.actions[envelope.key] = StoredAction(
            type: envelope.type, content: isDevices ? Identifier("") : envelope.content,
            answer: isDevices ? CareAnswer(envelope.key, answer.status) : answer, isSingle: decision.isSingle,
            undo: decision.undo, pending: decision.pending, createdAt: now, device: envelope.device,
            number: envelope.number)
        return answer
    }

    /// Actions on doses write one stream.
    private func positions(of account: CareAccount) -> [(channel: String, epoch: String, offset: Int64)] {
        [(channel: account.channel, epoch: epoch, offset: account.top)]
    }

    // MARK: Devices

    /// A device's view of one user takes the place of what is known: doses as the hub told them, and no events.
    package mutating func adopt(_ doses: [Dose], user: Identifier, zone: String) {
        var account = CareAccount(user: user, zone: zone)
        account.isDevices = true
        account.doses = Dictionary(doses.map { ($0.id, $0) }) { _, last in last }
        accounts[user] = account
    }

    /// Writes a dose on a device as it is, in place of another one.
    package mutating func put(_ dose: Dose, user: Identifier) { accounts[user]?.doses[dose.id] = dose }

    /// A decided action that later ones may name.
    package mutating func remember(_ memory: ActionMemory, key: Identifier, user: Identifier) {
        accounts[user]?.actions[key] = StoredAction(
            type: memory.type, content: Identifier(""), answer: CareAnswer(key, .noop), isSingle: memory.isSingle,
            undo: memory.undo, pending: memory.pending, createdAt: memory.createdAt, isUndone: memory.isUndone)
        for entry in memory.undo where entry.hasNote && !memory.isUndone {
            accounts[user]?.notes[NoteID(dose: entry.dose, key: key)] = ""
        }
    }

    /// What a decided action left behind.
    package func memory(of key: Identifier, user: Identifier) -> ActionMemory? {
        accounts[user]?.actions[key].map { stored in
            ActionMemory(
                type: stored.type, isSingle: stored.isSingle, undo: stored.undo, pending: stored.pending,
                createdAt: stored.createdAt, isUndone: stored.isUndone)
        }
    }

    // MARK: Other writers

    /// A writer other than the hub changes rows of one user in one transaction: `change` gets each dose (nil when there is
    /// none) and returns its new value (nil deletes it).
    package mutating func foreignWrite(
        _ doses: [Identifier], user: Identifier, at now: Timestamp, change: (Identifier, Dose?) -> Dose?
    ) {
        var account = accounts[user] ?? CareAccount(user: user, zone: "UTC")
        accounts[user] = nil
        var writes = DoseWrites(model: self, key: nil, device: nil, now: now)
        for id in doses {
            let before = account.doses[id]
            switch (before, change(id, before)) {
            case (nil, let new?): writes.insert(new, in: &account)
            case (let old?, nil): writes.delete(old.id, in: &account)
            case (.some, let new?): writes.update(new, in: &account)
            case (nil, nil): break
            }
        }
        writes.flush(&account)
        accounts[user] = account
    }

    /// A writer other than the hub gives a dose to another user, who gets it as a new dose.
    package mutating func foreignMove(
        _ dose: Identifier, from giver: Identifier, to taker: Identifier, at now: Timestamp
    ) {
        guard giver != taker, var moved = accounts[giver]?.doses[dose] else { return }
        foreignWrite([dose], user: giver, at: now) { _, _ in nil }
        moved = moved.moved(to: taker, at: now)
        foreignWrite([dose], user: taker, at: now) { _, _ in moved }
    }

    // MARK: Reading

    /// A user's day, as a snapshot shows it at `now`.
    package func summary(_ account: CareAccount, of day: LocalDate, at now: Timestamp) -> JSONTree {
        DoseJSON.summary(day, DayCounts(account.doses(of: day), at: now))
    }

    /// A user's statistics at `now`.
    package func statistics(_ account: CareAccount, at now: Timestamp) -> AdherenceStatistics {
        let today = now.date(utcOffset: utcOffset(account.zone, now) ?? 0)
        let first = today.adding(-AdherenceStatistics.days)
        var recent: [LocalDate: [Dose]] = [:]
        for dose in account.doses.values where (first...today).contains(dose.day) {
            recent[dose.day, default: []].append(dose)
        }
        let before = account.days.filter { $0.key < first }.max { $0.key < $1.key }
        return AdherenceStatistics(
            today: today, before: before?.value.streak ?? .none, counts: recent.mapValues { DayCounts($0, at: now) })
    }

    /// The doses of today's list in a zone, else in the user's: those of today there, and those that are due now.
    package func today(of account: CareAccount, in zone: String? = nil, at now: Timestamp) -> [Dose] {
        let zone = zone ?? account.zone
        let today = now.date(utcOffset: utcOffset(zone, now) ?? 0)
        return account.doses.values.filter { isOfToday($0, in: zone, at: now, today) }
    }

    /// Whether a dose is in today's list in a zone. `today`: that day, where the caller knows it.
    package func isOfToday(_ dose: Dose, in zone: String, at now: Timestamp, _ today: LocalDate? = nil) -> Bool {
        DoseRules.isOfToday(
            dose, today ?? now.date(utcOffset: utcOffset(zone, now) ?? 0),
            utcOffset: utcOffset(dose.zone, dose.scheduledAt) ?? dose.utcOffset,
            here: utcOffset(zone, dose.scheduledAt) ?? 0, at: now)
    }
}
