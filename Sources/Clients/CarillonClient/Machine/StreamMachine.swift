import JSON
import Sync

/// One of the user's channels: resumes from its stored position, fetches a snapshot where that does not reach, and stores
/// each event together with its position.
struct StreamMachine: Sendable {
    enum Phase: Sendable {
        case idle
        /// Subscribed, and not answered yet.
        case joining
        case resuming, live, fetching
        /// No right to the channel.
        case stopped
    }

    let topic: Topic
    let name: String
    private(set) var phase = Phase.idle
    /// Events that wait for a snapshot, or for the end of this input.
    private(set) var inbox: [ChannelEvent] = []
    /// Counts what makes answers old.
    private(set) var serial = 0
    /// The keys of actions that the hub had answered when the snapshot was asked for.
    private var answered: Set<String> = []
    private var replay: Int64 = 0
    private var backoff = JitteredWait()
    /// What the timer is for.
    private var isLate = false

    /// So many events wait for a snapshot at most; beyond that, another one is cheaper.
    private static let heldMax = 5000

    init(user: String, topic: Topic) {
        self.topic = topic
        name = StreamName(form: .user, stream: StreamID(user: user, topic: topic.rawValue)).format() ?? ""
    }

    // MARK: The line

    /// The line is open, and new.
    mutating func joined(_ line: inout ConnectionMachine, _ out: inout [ClientEffect]) {
        guard phase != .stopped else { return }
        phase = .joining
        inbox = []
        line.subscribe(name, &out)
    }

    mutating func left(_ out: inout [ClientEffect]) {
        if phase != .stopped { phase = .idle }
        serial += 1
        inbox = []
        out.append(.cancel(.stream(topic)))
    }

    /// Where this device stands, for a resume; nil where it needs a snapshot.
    mutating func wish(_ mirror: Mirror) -> JSONTree.Member? {
        guard let position = mirror.positions[name], phase != .fetching, phase != .stopped else { return nil }
        phase = .resuming
        return .init(name, position.tree)
    }

    private mutating func resume(_ mirror: Mirror, _ line: ConnectionMachine, _ out: inout [ClientEffect]) {
        guard let wish = wish(mirror) else { return }
        line.send("sync:resume", .object([.init("v", .integer(1)), .init("channels", .object([wish]))]), &out)
    }

    mutating func subscribed(_ data: JSONTree, _ mirror: Mirror, _ line: ConnectionMachine, _ out: inout [ClientEffect])
    {
        guard phase == .joining || phase == .live else { return }
        guard let position = mirror.positions[name] else {
            snapshot(mirror, &out)
            return
        }
        if let told = StoredPosition(data["sync"]), told != position {
            resume(mirror, line, &out)
        } else {
            phase = .live
            out.append(.changed)
        }
    }

    mutating func resumed(
        _ told: JSONTree, _ mirror: Mirror, random: Double, _ line: inout ConnectionMachine,
        _ out: inout [ClientEffect]
    ) {
        guard phase != .fetching, phase != .stopped else { return }
        if told["recovered"]?.flag == true {
            backoff.reset()
            replay = told["offset"]?.integer ?? 0
            phase = .live
            // What the store lacks can be fetched now.
            out.append(.changed)
            return
        }
        switch told["reason"]?.string {
        case "store_unavailable": later(random, &out)
        case "forbidden":
            phase = .stopped
            inbox = []
            line.unsubscribe(name, &out)
        default: snapshot(mirror, &out)
        }
    }

    private mutating func later(_ random: Double, _ out: inout [ClientEffect]) {
        isLate = true
        out.append(.timer(.stream(topic), milliseconds: 500 + backoff.next(random)))
    }

    /// The pause has ended.
    mutating func timer(_ mirror: Mirror, _ line: ConnectionMachine, _ out: inout [ClientEffect]) {
        guard isLate, line.state == .open else { return }
        isLate = false
        if mirror.positions[name] == nil || phase == .joining {
            snapshot(mirror, &out)
        } else {
            resume(mirror, line, &out)
        }
    }

    // MARK: Events

    mutating func take(_ event: ChannelEvent) {
        guard event.offset != nil, phase != .stopped, phase != .idle else { return }
        inbox.append(event)
        if phase == .fetching, inbox.count > Self.heldMax { inbox = [] }
    }

    /// Stores what has come. If that fails, neither the events nor their position are stored: the hub tells them again.
    mutating func flush(
        _ storage: any MirrorStorage, random: Double, _ line: ConnectionMachine, _ out: inout [ClientEffect]
    ) -> CarillonError? {
        guard !inbox.isEmpty, phase != .fetching else { return nil }
        let events = inbox
        inbox = []
        do {
            let name = name
            let end = try storage.write(isFenced: true) { $0.apply(events, of: name) }
            out.append(.changed)
            if end == .gap, phase == .live { resume(storage.mirror, line, &out) }
            return nil
        } catch {
            // Until it is told again, nothing is confirmed.
            phase = .resuming
            later(random, &out)
            return CarillonError(error)
        }
    }

    /// Whether all that the hub has told is here.
    func isCaughtUp(_ mirror: Mirror) -> Bool {
        guard phase == .live, inbox.isEmpty, let position = mirror.positions[name] else { return false }
        return position.offset >= replay
    }

    // MARK: Snapshots

    /// Fetches all that this topic keeps. Events that come meanwhile wait.
    private mutating func snapshot(_ mirror: Mirror, _ out: inout [ClientEffect]) {
        guard phase != .fetching, phase != .stopped else { return }
        phase = .fetching
        serial += 1
        answered = mirror.answered(on: name)
        out.append(.fetch(topic, topic == .adherence ? [.today] : [.list(topic)], serial: serial))
    }

    /// The snapshots are here, or could not be fetched.
    mutating func fetched(
        _ result: Result<[ClientSnapshot], CarillonError>, serial: Int, _ storage: any MirrorStorage, random: Double,
        _ out: inout [ClientEffect]
    ) -> CarillonError? {
        guard serial == self.serial, phase == .fetching else { return nil }
        do {
            let snapshots = try result.get()
            let (name, topic, answered) = (name, topic, answered)
            let isWhole = try storage.write(isFenced: true) {
                $0.replace(topic, of: name, with: snapshots, answered: answered)
            }
            guard isWhole else { throw CarillonError.network("the epoch has changed meanwhile") }
            replay = snapshots.first?.position.offset ?? 0
            backoff.reset()
            phase = .live
            out.append(.changed)
            return nil
        } catch {
            phase = .joining
            let error = CarillonError(error)
            if error == .http(403) { phase = .stopped } else { later(random, &out) }
            return error
        }
    }
}

extension CarillonError {
    /// Any error as one of the client's.
    init(_ error: any Error) {
        self = error as? CarillonError ?? .network("\(error)")
    }
}
