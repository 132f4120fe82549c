import Gateway
import Glibc
import Logging
import Reactor

/// The listening sockets of a hub: bound by itself, or given to it. They outlive it where another hub or systemd has them.
final class HubListeners: Sendable {
    /// What a hub calls its sockets when it gives them to its successor.
    enum Role: String {
        case listen, operations, control
    }

    private struct Sockets {
        var clients: [ListeningSocket] = []
        var operations: ListeningSocket?
        var control: ListeningSocket?
        /// Whether another hub has them, too.
        var isShared = false

        var all: [(role: Role, socket: ListeningSocket)] {
            var all: [(role: Role, socket: ListeningSocket)] = []
            if let control { all.append((.control, control)) }
            if let operations { all.append((.operations, operations)) }
            return all + clients.map { (.listen, $0) }
        }
    }

    private let sockets: Locked<Sockets>
    /// Whether systemd holds the clients' sockets.
    let isOfSystemd: Bool
    /// The descriptors that systemd holds.
    private let held: Set<Int32>

    /// Takes the given sockets, and binds the others.
    ///
    /// Systemd must give all sockets of `listen`, or none: one that was forgotten would end with the process. The hub before
    /// this one may have other settings: a new listener is bound, and one that is no longer wanted ends with that hub.
    ///
    /// - Throws: a `Failure` of one clear line.
    init(_ settings: Settings, _ given: GivenSockets, _ logger: Logger) throws(Failure) {
        var pool = try SocketPool(given, unacked: settings.gateway.timeouts.unacked)
        var sockets = Sockets()
        for endpoint in settings.listenEndpoints {
            sockets.clients.append(try pool.take(.listen, at: endpoint, SettingsTable[\.listen]))
        }
        if let address = settings.operations {
            sockets.operations = try pool.take(
                .operations, at: .tcp(host: address.host, port: address.port), SettingsTable[\.operations])
        }
        if let path = settings.unixSockets.control {
            sockets.control = try pool.take(
                .control, at: .unix(path: path, mode: 0o600), SettingsTable[\.unixSockets.control])
        }
        try pool.close(logger)
        isOfSystemd = !given.systemd.isEmpty
        held = Set(given.systemd.map(\.descriptor))
        sockets.isShared = given.predecessor != nil
        for (_, socket) in sockets.all { socket.isShared = sockets.isShared || held.contains(socket.descriptor) }
        self.sockets = Locked(sockets)
        if let full = sockets.clients.compactMap(\.backlogInEffect).min(), full < ListeningSocket.backlog {
            logger.notice(
                "fewer clients than \(ListeningSocket.backlog) may wait to be accepted: raise net.core.somaxconn (sysctl)",
                metadata: ["somaxconn": "\(full)"])
        }
    }

    var clients: [ListeningSocket] { sockets.withLock(\.clients) }
    var operations: ListeningSocket? { sockets.withLock(\.operations) }
    var control: ListeningSocket? { sockets.withLock(\.control) }

    /// Whether clients that come when this hub ends are not refused.
    var outliveUs: Bool { isOfSystemd || sockets.withLock(\.isShared) }

    /// What a successor is given.
    var offer: (names: [String], descriptors: [Int32]) {
        let all = sockets.withLock(\.all)
        return (all.map(\.role.rawValue), all.map(\.socket.descriptor))
    }

    /// Another hub has them, too; or has gone.
    func share(_ isShared: Bool) {
        sockets.withLock { sockets in
            sockets.isShared = isShared
            for (_, socket) in sockets.all { socket.isShared = isShared || held.contains(socket.descriptor) }
        }
    }

    /// Gives them up here. Who accepts from them closes them.
    func release() {
        sockets.withLock { ($0.clients, $0.operations, $0.control) = ([], nil, nil) }
    }
}

/// The given sockets that nothing has taken yet.
private struct SocketPool {
    private var ofSystemd: [InheritedSocket]
    private var ofPredecessor: [InheritedSocket]
    private let isActivated: Bool
    private let unacked: Duration

    init(_ given: GivenSockets, unacked: Duration) throws(Failure) {
        for socket in given.systemd where !socket.listens {
            throw Failure(
                "systemd gives descriptor \(socket.descriptor), \(socket), which is no listening stream socket",
                status: .configuration)
        }
        ofSystemd = given.systemd
        ofPredecessor = given.predecessor?.sockets ?? []
        isActivated = !ofSystemd.isEmpty
        self.unacked = unacked
    }

    /// The given socket that listens there, or else one that is bound now.
    mutating func take(
        _ role: HubListeners.Role, at endpoint: ListenEndpoint, _ setting: Setting
    ) throws(Failure) -> ListeningSocket {
        let ours = ofSystemd.firstIndex { $0.listens(at: endpoint) }
        if ours == nil, isActivated, role == .listen {
            let rest = ofSystemd.isEmpty ? "no other" : ofSystemd.map(\.description).joined(separator: ", ")
            throw Failure(
                """
                \(setting.key) names \(endpoint), and systemd gives no such socket, but \(rest): \
                let ListenStream of carillon.socket and \(setting.key) name equal addresses
                """, status: .configuration)
        }
        let theirs = ofPredecessor.firstIndex { $0.name == role.rawValue && $0.listens(at: endpoint) }
        do throws(ListenError) {
            if let ours { return try adopt(ofSystemd.remove(at: ours), endpoint) }
            if let theirs { return try adopt(ofPredecessor.remove(at: theirs), endpoint) }
            return try ListeningSocket(endpoint, unacked: unacked)
        } catch {
            let failure = Failure(error, from: setting)
            throw role == .listen ? failure : Failure("\(setting.key): \(failure)", status: failure.status)
        }
    }

    private func adopt(_ socket: InheritedSocket, _ endpoint: ListenEndpoint) throws(ListenError) -> ListeningSocket {
        try ListeningSocket(adopting: socket.descriptor, at: endpoint, unacked: unacked)
    }

    /// All listeners are there. What is left of systemd's is a mistake, and what is left of the hub before is not wanted.
    mutating func close(_ logger: Logger) throws(Failure) {
        let problems = ofSystemd.map {
            "systemd gives \($0), which listen does not name: let ListenStream of carillon.socket and listen name equal addresses"
        }
        guard problems.isEmpty else { throw Failure(lines: problems, status: .configuration) }
        for socket in ofPredecessor {
            let isDouble = isActivated && HubListeners.Role(rawValue: socket.name) == .listen
            if !isDouble {
                logger.notice("a listener of the hub before this one ends with it", metadata: ["address": "\(socket)"])
            }
            Socket.close(socket.descriptor)
        }
        ofPredecessor = []
    }
}
