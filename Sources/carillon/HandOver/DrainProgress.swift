import Clock
import Gateway

/// A drain's course in time, as a value: a pause, then connections are closed, until none is left or the deadline passes.
struct DrainProgress: Equatable {
    enum Step: Equatable {
        /// The pause is over: close connections.
        case close
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

    /// The time between two lines of the log.
    static let interval = Duration.seconds(5)

    /// - Parameters:
    ///   - pause: before the first connection is closed.
    ///   - deadline: from then on.
    init(at now: Instant, pause: Duration, deadline: Duration) {
        next = now.advanced(by: pause)
        (begunAt, toldAt) = (now, now)
        self.deadline = deadline
    }

    var isOver: Bool { phase == .over }

    /// What to do now, with so many connections.
    mutating func steps(at now: Instant, connections: Int) -> [Step] {
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
