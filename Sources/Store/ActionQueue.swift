import Reactor

/// One user's actions: those that wait, and the one under way.
final class UserLine {
    fileprivate let user: TextKey
    fileprivate var waiting = Fifo<Action>()
    /// Taken out and not done: nothing else of this user's is sent.
    fileprivate(set) var current: Action?
    /// Since another writer has this user locked, nothing new is taken until then.
    fileprivate var heldUntil: Instant?

    fileprivate init(_ user: TextKey) {
        self.user = user
    }

    fileprivate var isUnused: Bool { waiting.isEmpty && current == nil && heldUntil == nil }
}

/// The actions that wait for a connection: a queue for each user, users served in turn.
///
/// Invariants:
/// - At most one action of a user is under way, so they are carried out in their order whatever connection each is
///   sent on, and a user who is locked costs one lock timeout at a time.
/// - A user stands in the ring exactly where something of theirs waits and nothing of theirs is under way.
/// - An action that was lost with its connection is the next of its user's.
struct ActionQueue {
    /// Why an action is not taken.
    enum Refusal: Equatable {
        /// Too many wait, of all users or of this one.
        case full
        /// This user is locked until then.
        case held(Instant)
    }

    private let waitingMax: Int
    private let waitingPerUserMax: Int
    private var lines: [TextKey: UserLine] = [:]
    private var ring = Fifo<UserLine>()
    /// Actions waiting, of all users.
    private(set) var waitingCount = 0

    init(waitingMax: Int, waitingPerUserMax: Int) {
        self.waitingMax = waitingMax
        self.waitingPerUserMax = waitingPerUserMax
    }

    /// Users with something waiting, under way or held.
    var userCount: Int { lines.count }
    /// Whether nothing waits and nothing is under way.
    var isIdle: Bool { waitingCount == 0 && lines.values.allSatisfy { $0.current == nil } }

    /// The user's line, new where there was none; for making an action that `append` then takes.
    func line(_ user: String) -> UserLine {
        let key = TextKey(user)
        return lines[key] ?? UserLine(key)
    }

    /// Takes an action, or says why not.
    mutating func append(_ action: Action, now: Instant) -> Refusal? {
        let line = action.line
        if let heldUntil = line.heldUntil {
            if now < heldUntil { return .held(heldUntil) }
            line.heldUntil = nil
        }
        guard waitingCount < waitingMax, line.waiting.count < waitingPerUserMax else {
            forgetUnused(line)
            return .full
        }
        lines[line.user] = line
        if line.waiting.isEmpty, line.current == nil { ring.append(line) }
        line.waiting.append(action)
        waitingCount += 1
        return nil
    }

    /// The next action to send: under way from now on.
    mutating func next() -> Action? {
        guard let line = ring.popFirst(), let action = line.waiting.popFirst() else { return nil }
        waitingCount -= 1
        line.current = action
        return action
    }

    /// An action under way must be sent again, before anything else of its user's and of all others'.
    mutating func again(_ action: Action) {
        let line = action.line
        guard line.current === action else { return }
        line.current = nil
        line.waiting.prepend(action)
        waitingCount += 1
        ring.prepend(line)
    }

    /// An action under way is done.
    mutating func done(_ action: Action) {
        let line = action.line
        guard line.current === action else { return }
        line.current = nil
        if line.waiting.isEmpty { forgetUnused(line) } else { ring.append(line) }
    }

    /// An action under way met a lock: it is done, nothing of its user's is taken until then, and what waited is
    /// handed back, to be answered.
    mutating func hold(_ action: Action, until end: Instant) -> [Action] {
        let line = action.line
        guard line.current === action else { return [] }
        line.heldUntil = end
        line.current = nil
        var rest: [Action] = []
        while let next = line.waiting.popFirst() { rest.append(next) }
        waitingCount -= rest.count
        return rest
    }

    /// Takes out what waited in vain, and tells what is under way beyond its time.
    mutating func expire(now: Instant) -> [Action] {
        var expired: [Action] = []
        var emptied = false
        for line in lines.values {
            if let current = line.current, current.deadline <= now, !current.isAnswered { expired.append(current) }
            // A user's actions come in the order of their deadlines, and so does the one put back in front.
            while let first = line.waiting.first, first.deadline <= now {
                _ = line.waiting.popFirst()
                waitingCount -= 1
                expired.append(first)
                emptied = true
            }
            if let heldUntil = line.heldUntil, heldUntil <= now { line.heldUntil = nil }
            forgetUnused(line)
        }
        if emptied { rebuildRing() }
        return expired
    }

    /// The actions under way.
    func underWay() -> [Action] {
        lines.values.compactMap(\.current)
    }

    /// Takes out all that waits; where told to, what was lost with a connection stays, for it may be committed.
    mutating func removeWaiting(keepingLost: Bool = false) -> [Action] {
        var removed: [Action] = []
        for line in lines.values {
            var kept: Action?
            while let action = line.waiting.popFirst() {
                if keepingLost, action.losses > 0 { kept = action } else { removed.append(action) }
            }
            // At most one: what is under way, and so can be lost, is one of a user's.
            if let kept { line.waiting.append(kept) }
            forgetUnused(line)
        }
        waitingCount -= removed.count
        rebuildRing()
        return removed
    }

    private mutating func rebuildRing() {
        var kept = Fifo<UserLine>()
        while let line = ring.popFirst() {
            if !line.waiting.isEmpty { kept.append(line) }
        }
        ring = kept
    }

    private mutating func forgetUnused(_ line: UserLine) {
        if line.isUnused { lines[line.user] = nil }
    }
}
