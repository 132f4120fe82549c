import Care
import JSON

// The queue, as the process that drains it changes it: first in, first out, numbered at first send, answered once.

extension ActionQueue {
    /// Unanswered actions at once. The hub allows 256 of a connection.
    static let window = 128
    /// How long an action can be undone, in microseconds: a day.
    static let keptFor: Int64 = 86_400_000_000

    /// The first actions that wait, one of an entity at a time: if it conflicts, those after it wait for the person.
    func next() -> [QueuedAction] {
        var next: [QueuedAction] = []
        var touched: Set<String> = []
        for row in rows(index.waiting) {
            if next.count >= Self.window || row.entities.contains(where: touched.contains) { break }
            next.append(row)
            touched.formUnion(row.entities)
        }
        return next
    }

    // MARK: Answers

    /// What becomes of a row that is answered.
    mutating func settle(_ row: QueuedAction, _ answer: JSONTree, at now: Timestamp) {
        switch answer["status"]?.string {
        case "conflict": park(row, answer)
        case "rejected": fail(row, answer)
        default: finish(row, answer, at: now)
        }
    }

    /// Kept until its events are here, and for a day so that it can be undone.
    private mutating func finish(_ row: QueuedAction, _ answer: JSONTree, at now: Timestamp) {
        var row = row
        let of = row.type == "resolve" ? row.payload["of"]?.string : nil
        // What waited behind a decision that is a conflict again acted before it.
        let since = of.flatMap { self.row(key: $0)?.id } ?? row.id
        if let of { decided(of, at: now) }
        if row.type == "undo", let target = row.payload["targetKey"]?.string, var undone = self.row(key: target),
            var memory = undone.more.memory.flatMap(ActionMemory.init)
        {
            memory.isUndone = true
            undone.more.memory = memory.tree
            put(undone)
        }
        row.state = .done
        row.more.answer = nil
        let items = answer["status"]?.string == "partial" ? answer["result"]?["items"]?.elements ?? [] : []
        let rest = items.filter { ["conflict", "rejected"].contains($0["status"]?.string) }
        if !rest.isEmpty {
            // Of several doses, some are done. What is in conflict waits for the person; else what the hub refuses is shown.
            row.state = rest.contains { $0["status"]?.string == "conflict" } ? .parked : .failed
            row.more.answer = Self.brief(answer).setting([.init("items", .array(rest))])
        }
        row.more.until = Dictionary(
            (answer["positions"]?.members ?? []).compactMap { member in
                StoredPosition(member.value).map { (member.name, $0) }
            }
        ) { _, last in last }
        row.more.answeredAt = now.microseconds
        put(row)
        if row.state == .parked { hold(behind: row, since: since) }
    }

    /// A conflict is decided. Until the decision's events are here, what it decides is still folded: the conflict stays for
    /// it, and as long as it can be undone.
    private mutating func decided(_ key: String, at now: Timestamp) {
        if var target = row(key: key), target.state == .parked {
            target.more.answeredAt = now.microseconds
            settle(target)
        }
        release(key)
    }

    /// A person must decide. Later actions on the same entity wait with it; all others go on.
    private mutating func park(_ row: QueuedAction, _ answer: JSONTree) {
        var row = row
        let followed = row.type == "resolve" ? row.payload["of"]?.string : nil
        if let followed, let target = self.row(key: followed) {
            // Of several doses, some are done, which can be undone as before, or refused, which is shown.
            let isWhole = target.more.until == nil && target.answered("rejected").isEmpty
            if isWhole { remove(target) } else { settle(target) }
        }
        row.state = .parked
        row.more.answer = Self.brief(answer)
        put(row)
        hold(behind: row, since: row.id, followed: followed)
    }

    /// What is behind a conflict waits for the person. What waits makes wait in turn what touches the same: it acted first.
    private mutating func hold(behind row: QueuedAction, since: Int64, followed: String? = nil) {
        var waiting = [row]
        for var other in rows {
            let isLater = other.state == .queued && other.id > since && other.n == nil && other.type != "resolve"
            let isFollower = followed != nil && other.more.behind == followed
            guard isFollower || (isLater && waiting.contains { [other] in $0.holds(other) }) else { continue }
            other.state = .parked
            other.more.behind = row.key
            put(other)
            waiting.append(other)
        }
    }

    /// The hub refuses it for good: it is shown until the person has seen it.
    private mutating func fail(_ row: QueuedAction, _ answer: JSONTree) {
        var row = row
        reopen(row)
        row.state = .failed
        row.more.answer = Self.brief(answer)
        put(row)
    }

    private static func brief(_ answer: JSONTree) -> JSONTree {
        var kept = answer.members.filter { ["status", "code", "message", "path", "conflict"].contains($0.name) }
        if let items = answer["result"]?["items"] { kept.append(.init("items", items)) }
        return .object(kept)
    }

    /// The hub asks to wait.
    mutating func countRetry(_ key: String) {
        guard var row = row(key: key) else { return }
        row.retries += 1
        put(row)
    }

    /// The first action gets the number that the hub expects, and those after it the next ones. Keys stay. Returns the last
    /// number; nil: nothing has changed.
    mutating func renumber(_ key: String, expected: Int64) -> Int64? {
        let sent = rows.filter { $0.state.isWaiting && $0.n != nil }
        guard let first = sent.first, first.key == key, first.n != expected else { return nil }
        for (index, var row) in sent.enumerated() {
            row.n = expected + Int64(index)
            put(row)
        }
        return expected + Int64(sent.count) - 1
    }

    /// The store is another device's now: numbers begin anew, keys stay.
    mutating func becomeAnother() {
        for var row in rows where row.state.isWaiting {
            row.n = nil
            row.state = .queued
            // The other device has perhaps sent it: an undo has to be told.
            row.retries += 1
            put(row)
        }
    }

    /// Forgets what cannot be undone any more.
    mutating func tidy(at now: Timestamp, _ isConfirmed: ([String: StoredPosition]) -> Bool) {
        for row in rows where row.state == .done && row.more.until.map(isConfirmed) ?? true {
            if now.microseconds - (row.more.answeredAt ?? 0) > Self.keptFor { remove(row) }
        }
    }
}

extension Mirror {
    /// Gives the next actions their numbers; returns them all.
    mutating func number() -> [QueuedAction] {
        var last = meta[MirrorKey.number].flatMap { Int64($0) } ?? 0
        let rows = queue.next().map { row -> QueuedAction in
            guard row.n == nil else { return row }
            var row = row
            last += 1
            row.n = last
            row.state = .sent
            row.base = entities.base(of: row)
            put(row)
            return row
        }
        set(MirrorKey.number, String(last))
        return rows
    }

    /// Works off answers in their order. Those of `retry` are not among them.
    mutating func settle(_ answers: [JSONTree], at now: Timestamp) {
        for answer in answers {
            guard let key = answer["key"]?.string, var row = row(key: key), row.state.isWaiting else { continue }
            let revisions = Self.revisions(row, answer)
            for (entity, rev) in revisions { put(Entity(.own, entity, offset: rev, value: nil)) }
            if var memory = row.more.memory.flatMap(ActionMemory.init) {
                var told: [Identifier: Int64] = [:]
                for (entity, rev) in revisions where entity.hasPrefix("dose:") {
                    told[Identifier(String(entity.dropFirst(5)))] = rev
                }
                memory.tell(told)
                row.more.memory = memory.tree
            }
            queue.settle(row, answer, at: now)
        }
    }

    /// The revisions that an action of this device has made, by entities.
    private static func revisions(_ row: QueuedAction, _ answer: JSONTree) -> [String: Int64] {
        guard ["applied", "partial"].contains(answer["status"]?.string ?? "") else { return [:] }
        var found: [String: Int64] = [:]
        for item in answer["result"]?["items"]?.elements ?? [] {
            guard let id = item["occurrenceId"]?.string, let rev = item["occurrence"]?["rev"]?.integer else { continue }
            found["dose:\(id)"] = rev
        }
        if let rev = answer["result"]?["rev"]?.integer, let entity = row.entities.first { found[entity] = rev }
        return found
    }

    /// The hub asks to wait.
    mutating func countRetry(_ key: String) { queue.countRetry(key) }

    /// The first action gets the number that the hub expects, and those after it the next ones.
    mutating func renumber(_ key: String, expected: Int64) {
        guard let last = queue.renumber(key, expected: expected) else { return }
        set(MirrorKey.number, String(last))
    }

    /// The store is another device's now: numbers begin anew.
    mutating func becomeDevice(_ id: String) {
        set(MirrorKey.device, id)
        set(MirrorKey.number, nil)
        queue.becomeAnother()
    }

    /// Forgets what cannot be undone any more, and deletions that are older than all positions.
    mutating func tidy(channels: [Topic: String], at now: Timestamp) {
        let kept = self
        queue.tidy(at: now) { kept.isConfirmed($0) }
        entities.tidyOwn()
        for (topic, channel) in channels {
            guard let position = positions[channel] else { continue }
            entities.tidy(topic, before: position)
        }
    }
}
