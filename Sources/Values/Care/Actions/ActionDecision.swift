import JSON

/// Decides one new action on a copy of its user's account.
struct ActionDecision {
    private let envelope: CareEnvelope
    let model: CareModel
    let now: Timestamp
    private var writes: DoseWrites
    private(set) var account: CareAccount
    private(set) var answer: CareAnswer
    private(set) var isSingle = true
    private(set) var undo: [UndoEntry] = []
    private(set) var pending: [PendingIntent] = []
    /// When the person acted: what the act decides goes by it, however late it comes.
    private(set) var actedAt: Timestamp

    init(_ envelope: CareEnvelope, model: CareModel, account: CareAccount, at now: Timestamp) {
        self.envelope = envelope
        self.model = model
        self.account = account
        self.now = now
        actedAt = now
        writes = DoseWrites(model: model, key: envelope.key, device: envelope.device, now: now)
        answer = CareAnswer(envelope.key, .noop)
    }

    /// Checks the payload and performs the action. The results are in `answer` and `account`.
    mutating func run() {
        do throws(InvalidAction) {
            let action = try DoseAction.parse(
                type: envelope.type, payload: envelope.payload, zone: envelope.zone, now: now,
                isKnownZone: { model.utcOffset($0, now) != nil })
            let seen = try SeenRevisions(envelope.base)
            let sentAt = try envelope.clientTime.flatMap { (time) throws(InvalidAction) in
                try PayloadReader.believedTime(time, path: "clientTime", now: now)
            }
            if let instant = sentAt?.instant, instant < now { actedAt = instant }
            try perform(action, seen: seen, sentAt?.limited(to: now) ?? SentTime(now))
        } catch {
            answer = CareAnswer(envelope.key, .rejected, code: "invalid", message: error.reason)
            answer.path = error.path
        }
        writes.flush(&account)
    }

    /// The account afterwards. Nothing of it stays here.
    mutating func takenAccount() -> CareAccount { account.lent() }

    private mutating func perform(
        _ action: DoseAction, seen: SeenRevisions, _ acted: SentTime
    ) throws(InvalidAction) {
        func item(
            _ dose: Identifier, _ state: DoseState?, _ note: String?, timePath: String? = nil,
            _ reach: ActionItem.Reach = .today
        ) -> ActionItem {
            ActionItem(
                dose: dose, kind: .act(reach), intent: DoseIntent(state, note: note),
                seenRev: seen.rev(of: dose), timePath: timePath)
        }
        func state(_ status: DoseStatus, at time: SentTime?, reason: String? = nil) -> DoseState {
            let time = time ?? acted
            return DoseState(status, takenAt: time.instant, takenOffset: time.utcOffset, reason: reason)
        }
        switch action {
        case .markTaken(let dose, let takenAt, let note):
            let path = takenAt == nil ? nil : "payload.takenAt"
            carry(item(dose, state(.taken, at: takenAt), note, timePath: path))
        case .markMissed(let dose, let note):
            carry(item(dose, DoseState(.missed), note))
        case .makeUp(let dose, let at, let reason, let note):
            let path = at == nil ? nil : envelope.payload?["at"] == nil ? "payload.takenAt" : "payload.at"
            carry(item(dose, state(.madeUp, at: at, reason: reason), note, timePath: path))
        case .skip(let dose, let reason, let note):
            carry(item(dose, DoseState(.skipped, reason: reason), note))
        case .addNote(let dose, let text):
            carry(item(dose, nil, text))
        case .bulkMarkAll(let selection, let takenAt, let includesFuture):
            let taken = state(.taken, at: takenAt)
            let isNamed = if case .doses = selection { true } else { false }
            let reach: ActionItem.Reach = includesFuture ? .any : isNamed ? .today : .due
            let path = takenAt == nil ? nil : "payload.takenAt"
            carryAll(
                try doses(selection, includesFuture: includesFuture).map {
                    item($0, taken, nil, timePath: path, reach)
                })
        case .undo(let target):
            try takeBack(target, seen: seen)
        case .resolve(let target, let choice, let merged):
            try resolve(target, choice, merged, seen: seen)
        }
    }

    // MARK: Selecting doses

    private func doses(_ selection: DoseSelection, includesFuture: Bool) throws(InvalidAction) -> [Identifier] {
        switch selection {
        case .doses(let ids):
            var known: Set<Identifier> = []
            return ids.filter { known.insert($0).inserted }
        case .criteria(let day, let product, let schedule):
            let found = day.map(account.doses(of:)) ?? model.today(of: account, in: envelope.zone, at: actedAt)
            let doses = found.filter { dose in
                DoseRules.isOpen(dose, since: actedAt, at: now) && (includesFuture || dose.scheduledAt <= actedAt)
                    && (product == nil || sameText(product, dose.productID))
                    && (schedule == nil || sameText(schedule, dose.scheduleID))
            }
            guard doses.count <= DoseAction.bulkMax else {
                throw InvalidAction("payload.criteria", "mean more than \(DoseAction.bulkMax) doses")
            }
            return doses.sorted { ($0.scheduledAt, $0.id) < ($1.scheduledAt, $1.id) }.map(\.id)
        }
    }

    private mutating func takeBack(_ target: Identifier, seen: SeenRevisions) throws(InvalidAction) {
        guard let stored = account.actions[target] else {
            throw InvalidAction("payload.targetKey", "names no action")
        }
        guard stored.type != "undo" else {
            throw InvalidAction("payload.targetKey", "names an undo, which cannot be undone")
        }
        guard !stored.isUndone, !stored.undo.isEmpty else { return }
        let isLate = actedAt.microseconds - stored.createdAt.microseconds > 86_400_000_000
        carry(
            stored.undo.map { entry in
                ActionItem(
                    dose: entry.dose, kind: .undo(entry, of: target, isLate: isLate),
                    intent: DoseIntent(entry.state, note: entry.noteBefore), seenRev: seen.rev(of: entry.dose))
            }, isSingle: stored.isSingle)
        if [.applied, .partial].contains(answer.status) { account.actions[target]?.isUndone = true }
    }

    private mutating func resolve(
        _ target: Identifier, _ choice: ConflictChoice, _ merged: MergedFields?, seen: SeenRevisions
    ) throws(InvalidAction) {
        guard let stored = account.actions[target] else {
            throw InvalidAction("payload.of", "names no action")
        }
        guard !stored.pending.isEmpty else {
            throw InvalidAction("payload.of", "names an action without a conflict")
        }
        guard choice != .merge || merged == nil || stored.isSingle else {
            throw InvalidAction("payload.merged", "is for an action on one dose")
        }
        let kind: ActionItem.Kind =
            switch choice {
            case .acceptServer: .acceptServer
            case .keepLocal: .keepLocal
            case .merge: .merge(merged)
            }
        carry(
            stored.pending.map { entry in
                ActionItem(
                    dose: entry.dose, kind: kind, intent: entry.intent,
                    seenRev: seen.rev(of: entry.dose) ?? entry.rev, createdAt: entry.createdAt,
                    timePath: ActionItem.ofAnother)
            }, isSingle: stored.isSingle)
        if answer.status != .rejected { account.actions[target]?.isResolved = true }
    }

    // MARK: Performing

    private mutating func carry(_ items: [ActionItem], isSingle: Bool) {
        if isSingle, let item = items.first { carry(item) } else { carryAll(items) }
    }

    /// Acts on one dose: the dose or its conflict is at the top of the answer.
    private mutating func carry(_ item: ActionItem) {
        let outcome = carryOut(item)
        switch outcome.verdict {
        case .applied, .noop:
            answer = CareAnswer(envelope.key, outcome.verdict == .applied ? .applied : .noop)
            if !account.isDevices { answer.result = outcome.after.map { model.json.answer($0) } }
        case .conflict(let code):
            answer = CareAnswer(
                envelope.key, .conflict, code: code.rawValue, message: CareAnswer.message(code.rawValue))
            answer.conflict = outcome.conflict?.tree(model.json)
        case .notDue, .tooManyNotes:
            let code = outcome.verdict.spelled.1 ?? ""
            answer = CareAnswer(envelope.key, .rejected, code: code, message: CareAnswer.message(code))
        case .untimely(let path):
            answer = CareAnswer(envelope.key, .rejected, code: "invalid", message: CareAnswer.message("invalid"))
            answer.path = path
        }
    }

    /// Acts on any number of doses: the answer has an item for each, in order.
    private mutating func carryAll(_ items: [ActionItem]) {
        isSingle = false
        var counts: [CareStatus: Int64] = [:]
        var firsts: [CareStatus: (code: String?, path: String?)] = [:]
        var trees: [JSONTree] = []
        for item in items {
            let outcome = carryOut(item)
            let (status, code) = outcome.verdict.spelled
            counts[status, default: 0] += 1
            var path: String?
            if case .untimely(let member) = outcome.verdict { path = member }
            if firsts[status] == nil { firsts[status] = (code, path) }
            var members: [JSONTree.Member] = [
                .init("occurrenceId", .string(item.dose.text)), .init("status", .string(status.rawValue)),
            ]
            if let code { members.append(.init("code", .string(code))) }
            if let path { members.append(.init("path", .string(path))) }
            if let conflict = outcome.conflict { members.append(.init("conflict", conflict.tree(model.json))) }
            let told = code == nil && !account.isDevices ? outcome.after : nil
            if let told { members.append(.init("occurrence", model.json.answer(told))) }
            trees.append(.object(members))
        }
        let done = (counts[.applied] ?? 0) + (counts[.noop] ?? 0)
        let status: CareStatus =
            if done == Int64(items.count) {
                counts[.applied] == nil ? .noop : .applied
            } else if done > 0 {
                .partial
            } else {
                counts[.conflict] == nil ? .rejected : .conflict
            }
        let code = firsts[status]?.code
        answer = CareAnswer(envelope.key, status, code: code, message: code.map { CareAnswer.message($0) })
        answer.path = firsts[status]?.path
        let total = [CareStatus.applied, .noop, .conflict, .rejected].map {
            JSONTree.Member($0.rawValue, .integer(counts[$0] ?? 0))
        }
        answer.result = .object([.init("items", .array(trees)), .init("counts", .object(total))])
    }

    /// Decides and writes one dose, and records what undo and resolve need.
    private mutating func carryOut(_ item: ActionItem) -> ItemOutcome {
        let before = account.doses[item.dose]
        var (verdict, wanted, note) = rule(item, before)
        if verdict == .applied, note != nil, item.intent.state == nil, hasAllNotes(item.dose) {
            (verdict, wanted, note) = (.tooManyNotes, nil, nil)
        }
        if case .conflict(let code) = verdict {
            let base = item.seenRev.flatMap { account.told[item.dose]?[$0] }
            pending.append(
                PendingIntent(
                    dose: item.dose, intent: item.intent, rev: before?.rev ?? 0, createdAt: before?.createdAt))
            return ItemOutcome(
                dose: item.dose, verdict: verdict, after: before,
                conflict: DoseConflict(
                    code: code, dose: item.dose, server: before, base: base, local: item.intent))
        }
        guard verdict == .applied, let before, let wanted else {
            return ItemOutcome(dose: item.dose, verdict: verdict, after: before)
        }
        writes.update(wanted, in: &account)
        let after = account.doses[item.dose] ?? before
        if case .undo(let entry, let target, _) = item.kind {
            if entry.hasNote { account.notes[NoteID(dose: item.dose, key: target)] = nil }
        } else {
            if let note, !hasAllNotes(item.dose) {
                account.notes[NoteID(dose: item.dose, key: envelope.key)] = note
            }
            let changedState = before.state == after.state ? nil : before.state
            // When equal notes were added, any of them may be undone last: record the note before the first of them.
            let same = note != nil && sameText(note, before.note) ? sameNotes(before, before.noteRev).first : nil
            let noteBefore = same.map(\.before) ?? before.note
            undo.append(
                UndoEntry(
                    dose: item.dose, createdAt: before.createdAt, state: changedState,
                    statusRev: changedState.map { _ in after.statusRev },
                    hasNote: note != nil, noteBefore: note == nil ? nil : noteBefore,
                    noteRev: note.map { _ in after.noteRev }))
        }
        return ItemOutcome(dose: item.dose, verdict: verdict, after: after)
    }
}
