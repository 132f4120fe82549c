import Channels
import Clock
import Pusher
import Reactor
import Sync

/// What the console asks of a loop, in the loop's turn. Each answer is bounded, and none walks all connections unless a
/// filter makes it look for matches.
struct LoopSurvey {
    let own: ClientLoop

    private var engine: SessionEngine { own.engine }
    private var here: Int { own.router.here }
    private var trace: EventTrace? { own.trace }

    /// Connections, of one user or of all; at most `max`.
    func connections(of user: UserKey?, max: Int) -> [SurveyedConnection] {
        if let user {
            return engine.sessions.ids(of: user).prefix(max).compactMap { own.connection($0).flatMap(surveyed) }
        }
        var found: [SurveyedConnection] = []
        for slot in 0..<engine.sessions.slotCount {
            guard found.count < max else { break }
            guard let session = engine.sessions[slot: slot], let connection = own.connection(session.id) else {
                continue
            }
            if let one = surveyed(connection) { found.append(one) }
        }
        return found
    }

    private func surveyed(_ connection: ClientConnection) -> SurveyedConnection? {
        guard let session = connection.session else { return nil }
        return SurveyedConnection(
            loop: here, socket: session.socketID.string,
            kind: connection.isEventStream ? .eventStream : .webSocket, app: session.app.index,
            user: session.identity?.userID, address: "\(connection.address)", channelCount: session.channelCount,
            channels: session.channelNames(max: 10), unsentBytes: connection.transport.unsentBytes,
            isBehind: session.isBehind)
    }

    /// The last events that came to owners on this loop, the newest first.
    func events(_ filter: SurveyedEventFilter, since: Instant) -> [SurveyedEvent] {
        guard let trace else { return [] }
        var found: [SurveyedEvent] = []
        for back in 0..<trace.homed.count {
            guard found.count < filter.max, let event = trace.homed[newest: back], event.homedAt >= since else { break }
            guard filter.takes(event.name, event.byteCount),
                let channel = StreamName(form: .user, stream: event.stream).format(), channel.hasPrefix(filter.channel)
            else { continue }
            found.append(
                SurveyedEvent(
                    source: .database, app: nil, channel: channel, name: event.name, offset: event.offset,
                    byteCount: event.byteCount, at: event.homedAt, committedAt: event.committedAt))
        }
        var published: [SurveyedEvent] = []
        for back in 0..<trace.published.count {
            guard published.count < filter.max, let event = trace.published[newest: back], event.at >= since else {
                break
            }
            guard filter.takes(event.name, event.byteCount), event.channel.string.hasPrefix(filter.channel) else {
                continue
            }
            published.append(
                SurveyedEvent(
                    source: event.isOfClient ? .client : .backend, app: event.app, channel: event.channel.string,
                    name: event.name, offset: nil, byteCount: event.byteCount, at: event.at, committedAt: .min))
        }
        return Array((found + published).sorted { $0.at > $1.at }.prefix(filter.max))
    }

    /// When the last events were committed and written, `timesMax` of each at most, and none older than `since`.
    func times(since: Instant) -> SurveyedTimes {
        var times = SurveyedTimes()
        guard let trace else { return times }
        for back in 0..<min(trace.homed.count, Self.timesMax) {
            guard let event = trace.homed[newest: back], event.homedAt >= since else { break }
            if event.committedAt == .min { continue }
            times.committed.append((SurveyedTimes.Event(stream: event.stream, offset: event.offset), event.committedAt))
        }
        for back in 0..<min(trace.told.count, Self.timesMax) {
            guard let told = trace.told[newest: back], told.at >= since else { break }
            for (receiver, _) in trace.receivers(newest: back) {
                guard case .written(let time) = receiver.state else { continue }
                times.written.append((SurveyedTimes.Event(stream: told.name.stream, offset: told.offset), time))
            }
        }
        return times
    }

    private static let timesMax = 256

    /// What this loop knows of the way of an event. Memory older than `since` does not count.
    func way(of stream: StreamID, at offset: Int64, user: UserKey?, since: Instant) -> SurveyedWay {
        var way = SurveyedWay()
        way.position = own.streams.position(of: stream)?.offset
        if let trace { remember(trace, stream, offset, since, &way) }
        let noted = Set(way.devices.map(\.socket))
        var present: Set<String> = []
        for form in StreamForm.allCases {
            guard let channel = engine.channels[StreamName(form: form, stream: stream)] else { continue }
            for id in channel.subscribers.behind { meet(id, channel, isBehind: true, offset, noted, &present, &way) }
            for id in channel.subscribers.prefix(Self.devicesMax) {
                meet(id, channel, isBehind: false, offset, noted, &present, &way)
            }
        }
        if let user {
            way.elsewhere = engine.sessions.ids(of: user).prefix(Self.devicesMax)
                .compactMap { own.connection($0)?.session?.socketID.string }.filter { !present.contains($0) }
        }
        return way
    }

    /// The most connections that a way names on each loop.
    static let devicesMax = 64

    private func remember(
        _ trace: EventTrace, _ stream: StreamID, _ offset: Int64, _ since: Instant, _ way: inout SurveyedWay
    ) {
        for back in 0..<trace.homed.count {
            guard let event = trace.homed[newest: back], event.homedAt >= since else { break }
            guard event.offset == offset, event.stream == stream else { continue }
            way.homed = SurveyedWay.Homed(
                loop: here, name: event.name, byteCount: event.byteCount, committedAt: event.committedAt,
                readAt: event.readAt, homedAt: event.homedAt)
            break
        }
        for back in 0..<trace.told.count {
            guard let told = trace.told[newest: back], told.at >= since else { break }
            guard told.offset == offset, told.name.stream == stream else { continue }
            way.subscriberCount += told.subscriberCount
            for (receiver, isWritten) in trace.receivers(newest: back) {
                let connection = own.connection(receiver.id)
                let state: SurveyedWay.Device.State =
                    switch receiver.state {
                    case .written(let time): .written(time)
                    case .queued where isWritten: .written(nil)
                    case .queued: connection == nil ? .gone : .queued
                    case .behind: standing(receiver.id, in: told.name)
                    }
                way.devices.append(device(receiver.socket.string, state, told.at, connection))
            }
        }
    }

    /// What became of a subscriber that fell behind.
    private func standing(_ id: SessionID, in name: StreamName) -> SurveyedWay.Device.State {
        guard let subscribers = engine.channels[name]?.subscribers else { return .gone }
        if subscribers.behind.contains(id) { return .behind }
        return subscribers.contains(id) ? .caughtUp : .gone
    }

    /// A session that is in the stream now, and was not noted when the event was queued.
    private func meet(
        _ id: SessionID, _ channel: LocalChannel, isBehind: Bool, _ offset: Int64, _ noted: Set<String>,
        _ present: inout Set<String>, _ way: inout SurveyedWay
    ) {
        guard let connection = own.connection(id), let session = connection.session else { return }
        let socket = session.socketID.string
        present.insert(socket)
        guard !noted.contains(socket), let stream = channel.stream?.stream else { return }
        guard !isBehind else { return way.devices.append(device(socket, .behind, nil, connection)) }
        // Not yet at this loop.
        guard let position = channel.position, position.offset >= offset else { return }
        let entry = trace.flatMap { trace in
            (0..<trace.joined.count).lazy.compactMap { trace.joined[newest: $0] }
                .first { $0.id == id && $0.stream == stream }
        }
        let state: SurveyedWay.Device.State =
            switch entry {
            case .some(let joined) where joined.offset < offset: .handedOn
            case .some(let joined) where joined.isLost: .lost
            case .some(let joined) where offset > joined.offset - joined.replayedCount: .replayed
            case .some(let joined): .later(joined.offset)
            case .none: .present
            }
        way.devices.append(device(socket, state, entry?.at, connection))
    }

    private func device(
        _ socket: String, _ state: SurveyedWay.Device.State, _ at: Instant?, _ connection: ClientConnection?
    ) -> SurveyedWay.Device {
        SurveyedWay.Device(
            loop: here, socket: socket, state: state, at: at, isConnected: connection != nil,
            unsentBytes: connection?.transport.unsentBytes ?? 0)
    }
}
