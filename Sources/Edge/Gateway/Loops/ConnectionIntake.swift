import HubEngine
import Metrics
import Reactor

/// Where connections come in: the listening sockets, on the loop that accepts, and this loop's latest connections.
final class ConnectionIntake {
    private(set) var acceptors: [Acceptor] = []
    /// Connections added since more was ready than one turn takes, the oldest first; at most `overtakersMax`.
    var newcomers: ContiguousArray<SessionID> = []
    private let loop: EventLoop

    /// The most newcomers that are handled early: the latest, because older ones have been handled.
    static let overtakersMax = 128

    init(on loop: EventLoop) {
        self.loop = loop
    }

    /// Whether this loop accepts the hub's connections.
    var isOpen: Bool { !acceptors.isEmpty }

    func add(_ acceptor: Acceptor) {
        acceptors.append(acceptor)
    }

    /// Pauses accepting for a while.
    func rest() {
        for acceptor in acceptors { acceptor.exhausted() }
    }

    /// Accepting rests until it is asked for again.
    func accepts(_ accepts: Bool) {
        for acceptor in acceptors { acceptor.accepts(accepts) }
    }

    func close() {
        for acceptor in acceptors { acceptor.end() }
        acceptors = []
    }

    func came(_ id: SessionID) {
        guard loop.isCrowded else {
            if !newcomers.isEmpty { newcomers.removeAll() }
            return
        }
        if newcomers.count == Self.overtakersMax { newcomers.removeFirst() }
        newcomers.append(id)
    }

    /// More is ready than one turn takes: perhaps thousands of peers have gone, and a newcomer stands behind them in the
    /// kernel's list. So once in each such turn connections are accepted, and newcomers handled.
    func overtake() {
        for acceptor in acceptors where acceptor.interest.contains(.readable) { acceptor.ready(.readable) }
        for id in newcomers {
            guard let connection = loop.connection(id), connection.interest.contains(.readable) else { continue }
            connection.ready(.readable)
        }
    }
}
