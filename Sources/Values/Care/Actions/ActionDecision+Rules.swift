// What each kind of item does to a dose: the transition table, undo, and the three ways to resolve a conflict.

extension ActionDecision {
    /// The verdict, the dose's new value, and the note to add.
    func rule(_ item: ActionItem, _ dose: Dose?) -> (verdict: DoseVerdict, dose: Dose?, note: String?) {
        if case .acceptServer = item.kind { return (.noop, dose, nil) }
        guard let dose else { return (.conflict(.gone), nil, nil) }
        switch item.kind {
        case .act(let reach): return act(item, dose, reach)
        case .undo(let entry, let target, let isLate): return undo(entry, of: target, dose, isLate: isLate)
        case .acceptServer: return (.noop, dose, nil)
        case .keepLocal:
            if item.intent.state != nil, hasMovedOn(dose, item) { return (.conflict(.state), nil, nil) }
            if let path = untimely(item.intent.state?.takenAt, item, dose) { return (.untimely(path: path), nil, nil) }
            return force(item.intent.state, note: item.intent.note, dose)
        case .merge(let fields):
            let note = fields?.note ?? item.intent.note
            guard let fields, fields.namesState else { return force(nil, note: note, dose) }
            if hasMovedOn(dose, item) { return (.conflict(.state), nil, nil) }
            let state = merged(fields, item.intent, dose)
            if let path = untimely(state, fields, item, dose) { return (.untimely(path: path), nil, nil) }
            return force(state, note: note, dose)
        }
    }

    /// Whether the dose's day has come at an instant: in the dose's zone, or in the user's.
    private func dayHasCome(_ dose: Dose, at instant: Timestamp) -> Bool {
        dose.day <= instant.date(utcOffset: model.utcOffset(dose.zone, instant) ?? dose.utcOffset)
            || dose.day <= instant.date(utcOffset: model.utcOffset(account.zone, instant) ?? 0)
    }

    private func untimely(_ takenAt: Timestamp?, _ item: ActionItem, _ dose: Dose) -> String? {
        guard let takenAt, let path = item.timePath,
            DoseRules.isUntimely(takenAt, of: dose, isDirect: item.isTimeDirect, actedAt: actedAt),
            !dayHasCome(dose, at: takenAt)
        else { return nil }
        return path
    }

    /// A time that the dose already has is not checked.
    private func untimely(_ state: DoseState, _ fields: MergedFields, _ item: ActionItem, _ dose: Dose) -> String? {
        guard let takenAt = state.takenAt else { return nil }
        if fields.takenAt != nil {
            let isUntimely = DoseRules.isUntimely(takenAt, of: dose, actedAt: actedAt) && !dayHasCome(dose, at: takenAt)
            return isUntimely ? "payload.merged.takenAt" : nil
        }
        return dose.state.takenAt == nil ? untimely(item.intent.state?.takenAt, item, dose) : nil
    }

    private func act(
        _ item: ActionItem, _ dose: Dose, _ reach: ActionItem.Reach
    ) -> (verdict: DoseVerdict, dose: Dose?, note: String?) {
        let intent = item.intent
        let isOpen = [.scheduled, .missed].contains(dose.state.status)
        if intent.state?.status == .taken, reach != .any, isOpen, !dayHasCome(dose, at: actedAt),
            !model.isOfToday(dose, in: account.zone, at: actedAt)
        {
            return (.notDue, nil, nil)
        }
        if let path = untimely(intent.state?.takenAt, item, dose) { return (.untimely(path: path), nil, nil) }
        if reach == .due, DoseRules.isToCome(dose, actedAt: actedAt, at: now) { return (.notDue, nil, nil) }
        let isOfItsDay = intent.state?.takenAt.map { dayHasCome(dose, at: $0) } ?? false
        let verdict = DoseRules.decide(
            intent, on: dose, seenRev: item.seenRev, isOfItsDay: isOfItsDay, actedAt: actedAt, at: now)
        guard verdict == .applied else { return (verdict, nil, nil) }
        var after = dose
        if let state = intent.state,
            DoseRules.decide(
                state, on: dose, seenRev: item.seenRev, isOfItsDay: isOfItsDay, actedAt: actedAt, at: now) == .applied
        {
            after.state = state
        }
        after.note = intent.note ?? dose.note
        return (.applied, after, intent.note)
    }

    /// Restores state and note if nothing has changed either since; otherwise restores neither. The note stays when another
    /// action added an equal one, since or before, with none between: undoing the last of these removes it.
    private func undo(
        _ entry: UndoEntry, of target: Identifier, _ dose: Dose, isLate: Bool
    ) -> (verdict: DoseVerdict, dose: Dose?, note: String?) {
        if dose.state.status == .cancelled { return (.conflict(.gone), nil, nil) }
        if isLate { return (.conflict(.late), nil, nil) }
        guard entry.createdAt == dose.createdAt, entry.statusRev == nil || entry.statusRev == dose.statusRev,
            entry.noteRev == nil || entry.noteRev == dose.noteRev
        else { return (.conflict(.superseded), nil, nil) }
        var after = dose
        if let state = entry.state { after.state = state }
        let isOthersToo = entry.noteRev.map { sameNotes(dose, $0).contains { $0.key != target } } ?? false
        if entry.hasNote, !isOthersToo { after.note = entry.noteBefore }
        return (.applied, after, nil)
    }

    /// Whether the dose has as many notes as a dose may have. A device does not know all of them: the server decides.
    func hasAllNotes(_ dose: Identifier) -> Bool {
        !account.isDevices && account.notes.keys.count { $0.dose == dose } >= DoseRules.notesMax
    }

    /// The actions that added the note which the dose has since revision `rev`, with the note before each: the first, and
    /// those that added the same text again. Undone actions are excluded.
    func sameNotes(_ dose: Dose, _ rev: Int64) -> [(key: Identifier, before: String?)] {
        account.notes.keys.filter { $0.dose == dose.id }.compactMap { id in
            let entry = account.actions[id.key]?.undo.first {
                $0.dose == dose.id && $0.noteRev == rev && $0.createdAt == dose.createdAt
            }
            return entry.map { (id.key, $0.noteBefore) }
        }
    }

    /// Whether the state has changed since the user saw it, or the dose's id now belongs to another dose.
    private func hasMovedOn(_ dose: Dose, _ item: ActionItem) -> Bool {
        dose.statusRev > item.seenRev ?? 0 || item.createdAt.map { $0 != dose.createdAt } == true
    }

    private func force(
        _ state: DoseState?, note: String?, _ dose: Dose
    ) -> (verdict: DoseVerdict, dose: Dose?, note: String?) {
        var after = dose
        after.state = state ?? dose.state
        after.note = note ?? dose.note
        return (note != nil || !(after.state == dose.state) ? .applied : .noop, after, note)
    }

    private func merged(_ fields: MergedFields, _ intent: DoseIntent, _ dose: Dose) -> DoseState {
        let status = fields.status ?? dose.state.status
        let isTaken = status == .taken || status == .madeUp
        let keepsReason = status == .madeUp || status == .skipped
        let kept = dose.state.takenAt == nil ? intent.state : dose.state
        let takenAt = fields.takenAt ?? SentTime(kept?.takenAt ?? actedAt, utcOffset: kept?.takenOffset)
        return DoseState(
            status, takenAt: isTaken ? takenAt.instant : nil, takenOffset: isTaken ? takenAt.utcOffset : nil,
            reason: fields.reason ?? (keepsReason ? dose.state.reason : nil))
    }
}
