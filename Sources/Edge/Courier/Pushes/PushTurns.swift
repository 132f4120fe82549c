import Bytes
import Clock
import Outbox

/// Pushes of one platform that wait for room in flight. Users take turns, so however many pushes of one wait, another's
/// waits for at most one of each user before it.
///
/// Requests may hang until they time out, and a request that is under way cannot be taken back. So a user has at most half
/// of the room, and the last quarter of it is left to users who have none in flight.
///
/// Worst interleaving: hundreds of one user's requests hang when another's push comes: it goes at once
/// (`PushTurnsTests.oneUserWhoseRequestsHangHoldsUpNoOther`).
struct PushTurns {
    /// The pushes of one user.
    private final class Line {
        let userID: String
        var waiting = Fifo<PushWork>()
        var underWay = 0
        /// Since when it has had none in flight.
        var idleSince: Instant

        init(_ userID: String, at now: Instant) { (self.userID, idleSince) = (userID, now) }
    }

    private var lines: [String: Line] = [:]
    /// The lines in which a push waits, each once.
    private var turns = Fifo<Line>()
    /// Requests in flight.
    private(set) var underWay = 0

    /// Whether none waits.
    var isEmpty: Bool { turns.isEmpty }

    mutating func append(_ work: PushWork) {
        let line = line(of: work, at: work.addedAt)
        line.waiting.append(work)
        if line.waiting.count == 1 { turns.append(line) }
    }

    /// It goes before all others, but those that came so before.
    mutating func prepend(_ work: PushWork, at now: Instant) {
        let line = line(of: work, at: now)
        line.waiting.prepend(work)
        if line.waiting.count > 1 { turns.sweep { $0 !== line } }
        turns.prepend(line)
    }

    private mutating func line(of work: PushWork, at now: Instant) -> Line {
        let userID = work.push.userID
        if let line = lines[userID] { return line }
        let line = Line(userID, at: now)
        lines[userID] = line
        return line
    }

    /// The place of the push that is next, where so many may be in flight; nil if none may go now.
    func next(of most: Int) -> Int? {
        guard underWay < most else { return nil }
        var place: Int?
        for index in 0..<turns.count {
            let held = turns[index].underWay
            if held == 0 { return index }
            if place == nil, held < max(1, most / 2), underWay < most - most / 4 { place = index }
        }
        return place
    }

    func work(at place: Int) -> PushWork? { turns[place].waiting.first }

    /// Takes the push out. Returns for how long it waited though its user had none in flight.
    mutating func take(at place: Int, now: Instant) -> Duration {
        let line = turns.remove(at: place)
        guard let work = line.waiting.popFirst() else { return .zero }
        if line.waiting.isEmpty {
            if line.underWay == 0 { lines[line.userID] = nil }
        } else {
            turns.append(line)
        }
        return line.underWay == 0 ? now.duration(since: max(line.idleSince, work.addedAt)) : .zero
    }

    /// A push that was taken out is in flight.
    mutating func began(_ work: PushWork, at now: Instant) {
        line(of: work, at: now).underWay += 1
        underWay += 1
    }

    mutating func ended(_ work: PushWork, at now: Instant) {
        underWay -= 1
        guard let line = lines[work.push.userID] else { return }
        line.underWay -= 1
        guard line.underWay == 0 else { return }
        line.idleSince = now
        if line.waiting.isEmpty { lines[line.userID] = nil }
    }

    /// Takes out one that waits, whosever it is.
    mutating func pop() -> PushWork? {
        guard let line = turns.first, let work = line.waiting.popFirst() else { return nil }
        if line.waiting.isEmpty {
            turns.popFirst()
            if line.underWay == 0 { lines[line.userID] = nil }
        }
        return work
    }
}
