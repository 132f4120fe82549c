import Clock
import Gateway

/// A drain's course in time, as a value: a pause, then connections are closed, until none is left or the deadline passes.
///
/// After the deadline of a restart, those who have connected and have no answer yet get a while more. The kernel gave them
/// to this hub, and no other can answer them. One that has said nothing gets less: everybody else waits for it.
struct DrainProgress: Equatable {
    enum Step: Equatable {
        /// The pause is over: close connections.
        case close
        /// The deadline has passed: ask who still awaits an answer.
        case count
        /// The deadline has passed: close all that are left at once.
        case closeRest
        case finished
    }

    private enum Phase: Equatable {
        case pausing, closing, over
    }

    private var phase = Phase.pausing
    private var next: Instant
    private var begunAt: Instant
    private var toldAt: Instant
    private let deadline: Duration
    /// After the deadline, for those who await an answer; half of it for those who have said nothing.
    private let grace: Duration

    /// The time between two lines of the log.
    static let interval = Duration.seconds(5)

    /// - Parameters:
    ///   - pause: before the first connection is closed.
    ///   - deadline: from then on.
    ///   - grace: after it, for those who await an answer.
    init(at now: Instant, pause: Duration, deadline: Duration, grace: Duration = .zero) {
        next = now.advanced(by: pause)
        (begunAt, toldAt) = (now, now)
        self.deadline = deadline
        self.grace = grace
    }

    var isOver: Bool { phase == .over }

    /// What to do now, with so many connections.
    ///
    /// - Parameter visitors: those who still await an answer, as counted after the deadline; nil: not counted yet.
    mutating func steps(at now: Instant, connections: Int, visitors: UnansweredConnections? = nil) -> [Step] {
        var steps: [Step] = []
        if phase == .pausing, now >= next {
            phase = .closing
            next = now.advanced(by: deadline)
            steps.append(.close)
        }
        guard phase == .closing else { return steps }
        if connections == 0 {
            phase = .over
            steps.append(.finished)
        } else if now >= next {
            if grace > .zero, now < next.advanced(by: grace) {
                guard let visitors else { return steps + [.count] }
                let isGrace = visitors.begun > 0 || visitors.silent > 0 && now < next.advanced(by: grace / 2)
                if isGrace { return steps + [.count] }
            }
            phase = .over
            steps += [.closeRest, .finished]
        }
        return steps
    }

    /// Whether the log should tell how far it is.
    mutating func tells(at now: Instant) -> Bool {
        guard phase == .closing, now.duration(since: toldAt) >= Self.interval else { return false }
        toldAt = now
        return true
    }

    /// How long it has taken.
    func time(at now: Instant) -> Duration { now.duration(since: begunAt) }
}
