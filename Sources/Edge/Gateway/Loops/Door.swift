import Channels
import Metrics
import Reactor

/// Where connections come in: the listening sockets of the loop that takes them all in, and who has come to this loop of
/// late.
final class Door {
    private(set) var acceptors: [Acceptor] = []
    /// Connections taken in since more was ready than one turn takes, the oldest first; at most `overtakersMax`.
    var newcomers: ContiguousArray<SessionID> = []
    private let loop: EventLoop

    /// The most newcomers that are looked at before their time: the latest, for the others have been.
    static let overtakersMax = 128

    init(on loop: EventLoop) {
        self.loop = loop
    }

    /// Whether this is the loop that takes in all connections.
    var isOpen: Bool { !acceptors.isEmpty }

    func add(_ acceptor: Acceptor) {
        acceptors.append(acceptor)
    }

    /// Has no more taken in for a while.
    func rest() {
        for acceptor in acceptors { acceptor.exhausted() }
    }

    func close() {
        for acceptor in acceptors { acceptor.end() }
        acceptors = []
    }

    /// A connection was taken in.
    func came(_ id: SessionID) {
        guard loop.isCrowded else {
            if !newcomers.isEmpty { newcomers.removeAll() }
            return
        }
        if newcomers.count == Self.overtakersMax { newcomers.removeFirst() }
        newcomers.append(id)
    }

    /// More is ready than one turn takes: it may be thousands whose peers have gone, and one that comes now stands behind them in
    /// the kernel's list. So newcomers are looked at, and taken in, once in each such turn.
    func overtake() {
        for acceptor in acceptors where acceptor.interest.contains(.readable) { acceptor.ready(.readable) }
        for id in newcomers {
            guard let connection = loop.connection(id), connection.interest.contains(.readable) else { continue }
            connection.ready(.readable)
        }
    }
}
