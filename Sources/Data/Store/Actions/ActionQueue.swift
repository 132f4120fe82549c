import Bytes
import Clock
import Postgres
import Reactor

/// The bounds of what waits.
struct QueueBounds {
    /// Actions of all users.
    var actions = StoreLimits.waitingMax
    /// Actions of one user.
    var actionsPerUser = StoreLimits.waitingPerUserMax
    /// Bytes of all users' actions.
    var bytes = StoreLimits.waitingBytesMax
    /// Users who are held, or suspected since.
    var suspects = StoreLimits.suspectsMax
}

/// The actions that wait for a connection: a queue for each user, users served in turn.
///
/// Invariants:
/// - At most one action of a user is under way, so they are carried out in their order whatever connection each is
///   sent on, and a user who is locked costs one lock timeout at a time.
/// - A user stands in a ring exactly where something of theirs waits and nothing of theirs is under way: suspects in
///   one of their own, of which one action is under way at a time, so that all locked users together cost that much.
/// - An action that was lost with its connection is the next of its user's.
struct ActionQueue {
    /// Why an action is not taken.
    enum Refusal: Equatable {
        /// Too much waits, of all users or of this one.
        case full
        /// This user is held until then.
        case held(Instant, HoldReason)
    }

    private let bounds: QueueBounds
    private var lines: [TextKey: UserLine] = [:]
    private var ring = Fifo<UserLine>()
    private var suspects = Fifo<UserLine>()
    private var suspectUnderWay: Action?
    private var suspectCount = 0
    /// Actions waiting, of all users.
    private(set) var waitingCount = 0
    /// Their bytes.
    private(set) var waitingBytes = 0

    init(_ bounds: QueueBounds = QueueBounds()) {
        self.bounds = bounds
    }

    /// Users with something waiting or under way, held or suspected.
    var userCount: Int { lines.count }
    /// Whether nothing waits and nothing is under way.
    var isIdle: Bool { waitingCount == 0 && lines.values.allSatisfy { $0.current == nil } }
    /// Whether something of a suspect's waits or is under way.
    var hasSuspect: Bool { suspectUnderWay != nil || !suspects.isEmpty }
    /// Whether one of a suspect's is under way: no other is sent until it is done.
    var isSuspectUnderWay: Bool { suspectUnderWay != nil }

    /// The user's line, new where there was none; for making an action that `append` then takes.
    func line(_ user: String) -> UserLine {
        let key = TextKey(user)
        return lines[key] ?? UserLine(key)
    }

    /// Takes an action, or says why not.
    mutating func append(_ action: Action, now: Instant) -> Refusal? {
        let line = action.line
        if let suspicion = line.suspicion, now < suspicion.heldUntil {
            return .held(suspicion.heldUntil, suspicion.reason)
        }
        guard hasRoom(action) else { return .full }
        lines[line.user] = line
        line.waiting.append(action)
        count(action)
        if line.waiting.count == 1, line.current == nil { enterRing(line) }
        return nil
    }

    /// Whoever has nothing waiting is let in still where the others have filled the queue, up to a second bound.
    private func hasRoom(_ action: Action) -> Bool {
        let line = action.line
        guard line.waiting.count < bounds.actionsPerUser else { return false }
        let share = line.waiting.isEmpty ? StoreLimits.newcomersShare : 0
        let actionsMax = bounds.actions + (share > 0 ? max(1, bounds.actions / share) : 0)
        let bytesMax = bounds.bytes + (share > 0 ? bounds.bytes / share : 0)
        return waitingCount < actionsMax && waitingBytes + action.parameters.byteCount <= bytesMax
    }

    /// The next action to send, of users who are no suspects: under way from now on.
    mutating func next() -> Action? {
        ring.popFirst().flatMap { take($0) }
    }

    /// The next action of a suspect, where none is under way: under way from now on.
    mutating func nextSuspect() -> Action? {
        guard suspectUnderWay == nil, let line = suspects.popFirst() else { return nil }
        suspectUnderWay = take(line)
        return suspectUnderWay
    }

    private mutating func take(_ line: UserLine) -> Action? {
        guard let action = pop(line) else { return nil }
        line.current = action
        return action
    }

    /// An action under way must be sent again, before anything else of its user's and of all others'.
    mutating func again(_ action: Action) {
        let line = action.line
        guard release(action) else { return }
        line.waiting.prepend(action)
        count(action)
        if line.suspicion == nil { ring.prepend(line) } else { suspects.prepend(line) }
    }

    /// An action under way is done.
    ///
    /// - Parameter isDecided: the database has answered it, so its user is no suspect any more.
    mutating func done(_ action: Action, isDecided: Bool = false) {
        let line = action.line
        guard release(action) else { return }
        if isDecided { acquit(line) }
        if line.waiting.isEmpty { forgetUnused(line) } else { enterRing(line) }
    }

    /// An action under way met a lock, or failed: it is done, nothing of its user's is taken for some time, and what
    /// waited is handed back, to be answered.
    ///
    /// - Parameter pause: how long, the first time; twice that the next time, and so on until the database answers.
    mutating func hold(
        _ action: Action, now: Instant, pause: Duration, _ reason: HoldReason
    ) -> (pause: Duration, rest: [Action]) {
        let line = action.line
        guard line.suspicion != nil || suspectCount < bounds.suspects else {
            done(action)
            return (pause, [])
        }
        guard release(action) else { return (pause, []) }
        if line.suspicion == nil { suspectCount += 1 }
        let count = line.suspicion?.count ?? 0
        let pause = min(pause * (1 << min(count, 10)), StoreLimits.holdMax)
        line.suspicion = Suspicion(count: count + 1, heldUntil: now.advanced(by: pause), reason: reason)
        var rest: [Action] = []
        while let next = pop(line) { rest.append(next) }
        return (pause, rest)
    }

    /// Takes out what waited in vain, and tells what is under way beyond its time (`UserLine.current`).
    mutating func expire(now: Instant) -> [Action] {
        var expired: [Action] = []
        var emptied = false
        for line in lines.values {
            if let current = line.current, current.deadline <= now, !current.isAnswered { expired.append(current) }
            // A user's actions come in the order of their deadlines, and so does the one put back in front.
            while let first = line.waiting.first, first.deadline <= now {
                _ = pop(line)
                expired.append(first)
                emptied = true
            }
            if let suspicion = line.suspicion, line.current == nil, line.waiting.isEmpty,
                suspicion.heldUntil.advanced(by: StoreLimits.suspicionLasts) <= now
            {
                acquit(line)
            }
            forgetUnused(line)
        }
        if emptied { rebuildRings() }
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
            while let action = pop(line) {
                if keepingLost, action.losses > 0 { kept = action } else { removed.append(action) }
            }
            // At most one: what is under way, and so can be lost, is one of a user's.
            if let kept {
                line.waiting.append(kept)
                count(kept)
            }
            forgetUnused(line)
        }
        rebuildRings()
        return removed
    }

    // MARK: Parts

    private mutating func count(_ action: Action) {
        waitingCount += 1
        waitingBytes += action.parameters.byteCount
    }

    private mutating func pop(_ line: UserLine) -> Action? {
        guard let action = line.waiting.popFirst() else { return nil }
        waitingCount -= 1
        waitingBytes -= action.parameters.byteCount
        return action
    }

    /// False where it is not under way.
    private mutating func release(_ action: Action) -> Bool {
        guard action.line.current === action else { return false }
        action.line.current = nil
        if suspectUnderWay === action { suspectUnderWay = nil }
        return true
    }

    private mutating func enterRing(_ line: UserLine) {
        if line.suspicion == nil { ring.append(line) } else { suspects.append(line) }
    }

    private mutating func acquit(_ line: UserLine) {
        guard line.suspicion != nil else { return }
        line.suspicion = nil
        suspectCount -= 1
    }

    private mutating func rebuildRings() {
        Self.rebuild(&ring)
        Self.rebuild(&suspects)
    }

    private static func rebuild(_ ring: inout Fifo<UserLine>) {
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
