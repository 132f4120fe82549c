import Care
import JSON

/// The whole client without I/O: inputs are what the network, the app and the clock say; outputs are effects.
///
/// One input is worked off with all that follows from it. What it stores goes to the storage, in one transaction for
/// each kind: answers first, then the events of each channel with its position.
struct ClientMachine: Sendable {
    private(set) var line: ConnectionMachine
    private(set) var session: SessionMachine
    private(set) var queue = QueueMachine()
    private(set) var streams: [StreamMachine]
    /// Channels of the app's own.
    private var plain: Set<String> = []
    private var isCompleting = false
    /// Counts completions. What they fetch has the negative number, and so is no stream's own snapshot.
    private var completion = 0
    private var completions = JitteredWait()
    /// What the hub had not on this connection: it is not asked for again.
    private var absent: Set<ClientSnapshot.Part> = []
    /// When the hub last confirmed what is here: microseconds since 1970.
    private var syncedAt: Int64?
    /// Months that somebody watches.
    var months: Set<String> = []

    /// Days ahead whose doses are kept for times without a network, besides today.
    static let daysAhead = 2

    init(user: String, backoff: JitteredWait = JitteredWait(), isAuthorizing: Bool = false) {
        line = ConnectionMachine(backoff, isAuthorizing: isAuthorizing)
        session = SessionMachine(user: user)
        streams = Topic.allCases.map { StreamMachine(user: user, topic: $0) }
    }

    init(_ options: CarillonOptions) {
        let (base, cap) = (options.backoffMs.lowerBound, options.backoffMs.upperBound)
        self.init(
            user: options.user, backoff: JitteredWait(baseMs: base, capMs: cap),
            isAuthorizing: options.authorize != nil)
    }

    var channels: [Topic: String] { Dictionary(uniqueKeysWithValues: streams.map { ($0.topic, $0.name) }) }

    func channel(_ topic: Topic) -> String { channels[topic] ?? "" }

    // MARK: The line

    mutating func start(_ out: inout [ClientEffect]) {
        line.start(&out)
        out.append(.connection(.connecting))
    }

    mutating func stop(_ out: inout [ClientEffect]) {
        gone(&out)
        line.stop(&out)
        out.append(.connection(.offline))
    }

    mutating func wake(_ out: inout [ClientEffect]) {
        line.wake(&out)
        if line.state == .connecting { out.append(.connection(.connecting)) }
    }

    private mutating func gone(_ out: inout [ClientEffect]) {
        session.line(isOpen: false, &out)
        queue.reset(&out)
        isCompleting = false
        absent = []
        for index in streams.indices { streams[index].left(&out) }
    }

    mutating func lost(code: Int, reason: String, random: Double, _ out: inout [ClientEffect]) {
        guard line.state == .open || line.state == .connecting else { return }
        line.lost(code: code, random: random, &out)
        gone(&out)
        if line.state == .refused { out.append(.problem(.refused(code: code, reason: reason))) }
        out.append(.connection(line.state == .refused ? .refused : .offline))
    }

    // MARK: Messages

    /// Messages that have come together.
    mutating func hear(
        _ texts: [String], _ storage: any MirrorStorage, at now: Timestamp, random: Double, _ out: inout [ClientEffect]
    ) {
        var answers: [JSONTree] = []
        for text in texts {
            guard let frame = try? JSONTree(text), let event = frame["event"]?.string else { continue }
            var data = frame["data"] ?? .null
            let raw = data.string ?? data.canonicalText
            if let text = data.string { data = (try? JSONTree(text)) ?? .null }
            if line.hear(event, data, &out) { opened(storage.mirror, &out) }
            if event == "sync:result" { answers.append(data) }
            switch session.hear(event, data, random: random, &out) {
            case .none: break
            case .ready: ready(storage, random: random, &out)
            case .stranger: return lost(code: 1006, reason: "", random: random, &out)
            }
            if event == "sync:resumed" {
                for index in streams.indices {
                    guard let told = data["channels"]?[streams[index].name] else { continue }
                    streams[index].resumed(told, storage.mirror, random: random, &line, &out)
                }
            }
            if let channel = frame["channel"]?.string {
                hear(channel, event, data, raw: raw, storage.mirror, &out)
            }
        }
        if !answers.isEmpty {
            report(queue.settle(answers, storage, at: now, random: random, &out), &out)
        }
        flush(storage, random: random, &out)
        pump(storage, random: random, &out)
    }

    private mutating func hear(
        _ channel: String, _ event: String, _ data: JSONTree, raw: String, _ mirror: Mirror, _ out: inout [ClientEffect]
    ) {
        if let index = streams.firstIndex(where: { $0.name == channel }) {
            if event == "pusher_internal:subscription_succeeded" {
                streams[index].subscribed(data, mirror, line, &out)
            } else {
                streams[index].take(ChannelEvent(name: event, data: data))
            }
        }
        if plain.contains(channel) {
            let name = event.hasPrefix("pusher_internal:") ? "pusher:" + event.dropFirst(16) : event
            out.append(.message(channel: channel, event: name, data: raw))
        }
    }

    private mutating func flush(_ storage: any MirrorStorage, random: Double, _ out: inout [ClientEffect]) {
        for index in streams.indices { report(streams[index].flush(storage, random: random, line, &out), &out) }
    }

    private func report(_ error: CarillonError?, _ out: inout [ClientEffect]) {
        if let error { out.append(.problem(error)) }
    }

    /// The line has opened: the user signs in, and the channels are subscribed to.
    private mutating func opened(_ mirror: Mirror, _ out: inout [ClientEffect]) {
        out.append(.connection(.signingIn))
        session.line(isOpen: true, &out)
        for index in streams.indices { streams[index].joined(&line, &out) }
    }

    /// The line is the user's: what was there is asked for, all in one message, and the queue goes on.
    private mutating func ready(_ storage: any MirrorStorage, random: Double, _ out: inout [ClientEffect]) {
        line.worked()
        out.append(.connection(.connected))
        var wishes: [JSONTree.Member] = []
        for index in streams.indices { streams[index].wish(storage.mirror).map { wishes.append($0) } }
        if !wishes.isEmpty {
            line.send("sync:resume", .object([.init("v", .integer(1)), .init("channels", .object(wishes))]), &out)
        }
        line.send("sync:backoff", .object([]), &out)
    }

    // MARK: What the app says

    mutating func token(
        _ result: Result<String, CarillonError>, serial: Int, random: Double, _ out: inout [ClientEffect]
    ) {
        session.token(result, serial: serial, line: line, random: random, &out)
    }

    /// The queue may have something to send.
    mutating func pump(_ storage: any MirrorStorage, random: Double, _ out: inout [ClientEffect]) {
        guard session.isReady else { return }
        let device = storage.mirror.meta[MirrorKey.device]
        report(queue.pump(device: device, storage, random: random, line, &out), &out)
    }

    mutating func subscribe(_ channel: String, _ out: inout [ClientEffect]) {
        plain.insert(channel)
        line.subscribe(channel, &out)
    }

    mutating func unsubscribe(_ channel: String, _ out: inout [ClientEffect]) {
        plain.remove(channel)
        if !channels.values.contains(channel) { line.unsubscribe(channel, &out) }
    }

    /// The app has had a channel signed, or could not: who listens is told, as by pusher-js, and the next connection tries
    /// again.
    mutating func authorized(
        _ channel: String, serial: Int, _ result: Result<CarillonChannelAuth, any Error>,
        _ out: inout [ClientEffect]
    ) {
        let auth = try? result.get()
        guard line.authorized(channel, serial: serial, auth, &out), case .failure(let error) = result else {
            return
        }
        let data = JSONTree.object([.init("type", .string("AuthError")), .init("error", .string("\(error)"))])
        out.append(
            .message(channel: channel, event: "pusher:subscription_error", data: data.canonicalText))
    }

    // MARK: Snapshots

    mutating func fetched(
        _ topic: Topic, _ result: Result<[ClientSnapshot], CarillonError>, serial: Int, _ storage: any MirrorStorage,
        random: Double,
        _ out: inout [ClientEffect]
    ) {
        guard let index = streams.firstIndex(where: { $0.topic == topic }) else { return }
        if serial < 0 {
            complete(result, serial: serial, streams[index], storage, random: random, &out)
        } else {
            report(streams[index].fetched(result, serial: serial, storage, random: random, &out), &out)
        }
        flush(storage, random: random, &out)
    }

    /// What the store lacks: days ahead and months that somebody watches, and the texts of notes of other devices.
    ///
    /// - Parameter today: the day in the user's zone.
    mutating func complete(_ mirror: Mirror, today: LocalDate, _ out: inout [ClientEffect]) {
        guard !isCompleting, let stream = streams.first(where: { $0.topic == .adherence }), stream.isCaughtUp(mirror)
        else { return }
        var parts: [ClientSnapshot.Part] = []
        for day in 0...Self.daysAhead {
            let date = TimeText.text(today.adding(day))
            if mirror.entity(.loaded, "day:\(date)") == nil { parts.append(.day(date)) }
        }
        for month in months.sorted() where mirror.entity(.loaded, "month:\(month)") == nil {
            parts.append(.month(month))
        }
        for dose in mirror.all(.dose).values where dose.isNoteOld && dose.value != nil {
            parts.append(.note(dose: dose.id))
        }
        parts.removeAll(where: absent.contains)
        guard !parts.isEmpty else { return }
        isCompleting = true
        completion += 1
        out.append(.fetch(.adherence, parts, serial: -completion))
    }

    private mutating func complete(
        _ result: Result<[ClientSnapshot], CarillonError>, serial: Int, _ stream: StreamMachine,
        _ storage: any MirrorStorage, random: Double, _ out: inout [ClientEffect]
    ) {
        // Of an old line: the answer to the present question is still to come.
        guard isCompleting, serial == -completion else { return }
        isCompleting = false
        do {
            let snapshots = try result.get()
            try storage.write(isFenced: true) { mirror in
                for snapshot in snapshots where !snapshot.isAbsent { mirror.add(snapshot, of: stream.name) }
            }
            absent.formUnion(snapshots.filter(\.isAbsent).map(\.part))
            completions.reset()
            out.append(.changed)
        } catch {
            report(CarillonError(error), &out)
            // Until then nothing is asked for.
            isCompleting = true
            out.append(.timer(.complete, milliseconds: 500 + completions.next(random)))
        }
    }

    /// Whether all that the hub has told is here.
    func isCaughtUp(_ mirror: Mirror) -> Bool { streams.allSatisfy { $0.phase == .stopped || $0.isCaughtUp(mirror) } }

    /// Notes when the hub has confirmed what is here: once a second at most.
    mutating func noteSync(_ storage: any MirrorStorage, at now: Timestamp, _ out: inout [ClientEffect]) {
        let isDue = syncedAt.map { now.microseconds - $0 >= 1_000_000 } ?? true
        guard isDue, isCaughtUp(storage.mirror) else { return }
        syncedAt = now.microseconds
        do {
            try storage.write(isFenced: true) { $0.set(MirrorKey.lastSync, TimeText.text(now)) }
            out.append(.changed)
        } catch {
            report(CarillonError(error), &out)
        }
    }

    // MARK: Time

    mutating func timer(
        _ timer: MachineTimer, _ storage: any MirrorStorage, random: Double, _ out: inout [ClientEffect]
    ) {
        switch timer {
        case .reconnect:
            line.connect(&out)
            if line.state == .connecting { out.append(.connection(.connecting)) }
        case .quiet: if line.quiet(&out) { lost(code: 1006, reason: "", random: random, &out) }
        case .signIn: if session.timer(&out) { lost(code: 1006, reason: "", random: random, &out) }
        case .retry:
            queue.go()
            pump(storage, random: random, &out)
        case .patience: lost(code: 1006, reason: "", random: random, &out)
        case .stream(let topic):
            guard let index = streams.firstIndex(where: { $0.topic == topic }) else { return }
            streams[index].timer(storage.mirror, line, &out)
        case .complete:
            isCompleting = false
            out.append(.changed)
        }
    }
}
