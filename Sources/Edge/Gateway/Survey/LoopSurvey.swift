import Clock
import HubEngine
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
                    epoch: event.epoch?.string, byteCount: event.byteCount, at: event.homedAt,
                    committedAt: event.committedAt))
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
                    name: event.name, offset: nil, epoch: nil, byteCount: event.byteCount, at: event.at,
                    committedAt: .min))
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
            times.committed.append(
                (
                    SurveyedTimes.Event(stream: event.stream, epoch: event.epoch, offset: event.offset),
                    event.committedAt
                ))
        }
        for back in 0..<min(trace.told.count, Self.timesMax) {
            guard let told = trace.told[newest: back], told.at >= since else { break }
            for (receiver, _) in trace.receivers(newest: back) {
                guard case .written(let time) = receiver.state else { continue }
                let event = SurveyedTimes.Event(stream: told.name.stream, epoch: told.epoch, offset: told.offset)
                times.written.append((event, time))
            }
        }
        return times
    }

    private static let timesMax = 256

    /// What this loop knows of the way of an event. Memory older than `since` does not count, nor that of another epoch.
    func way(
        of stream: StreamID, at offset: Int64, in asked: Epoch?, user: UserKey?, since: Instant
    ) -> SurveyedWay {
        let position = own.streams.position(of: stream)
        var way = SurveyedWay(epoch: asked ?? position?.epoch ?? lastEpoch(of: stream))
        way.position = position
        let number = way.epoch.map { StreamPosition(in: $0, offset: offset) }
        if let trace, let number { remember(trace, stream, number, since, &way) }
        let noted = Set(way.devices.map(\.socket))
        var present: Set<String> = []
        for form in StreamForm.allCases {
            guard let channel = engine.channels[StreamName(form: form, stream: stream)] else { continue }
            for id in channel.subscribers.behind { meet(id, channel, isBehind: true, number, noted, &present, &way) }
            for id in channel.subscribers.prefix(Self.devicesMax) {
                meet(id, channel, isBehind: false, number, noted, &present, &way)
            }
        }
        if let user {
            way.elsewhere = engine.sessions.ids(of: user).prefix(Self.devicesMax)
                .compactMap { own.connection($0)?.session?.socketID.string }.filter { !present.contains($0) }
        }
        return way
    }

    private func lastEpoch(of stream: StreamID) -> Epoch? {
        for form in StreamForm.allCases {
            if let position = engine.channels[StreamName(form: form, stream: stream)]?.position {
                return position.epoch
            }
        }
        guard let trace else { return nil }
        return (0..<trace.told.count).lazy.compactMap { trace.told[newest: $0] }.first { $0.name.stream == stream }?
            .epoch
    }

    /// The most connections that a way names on each loop.
    static let devicesMax = 64

    private func remember(
        _ trace: EventTrace, _ stream: StreamID, _ number: StreamPosition, _ since: Instant, _ way: inout SurveyedWay
    ) {
        for back in 0..<trace.homed.count {
            guard let event = trace.homed[newest: back], event.homedAt >= since else { break }
            guard event.offset == number.offset, event.stream == stream, event.epoch == number.epoch else { continue }
            way.homed = SurveyedWay.Homed(
                loop: here, name: event.name, byteCount: event.byteCount, committedAt: event.committedAt,
                readAt: event.readAt, homedAt: event.homedAt)
            break
        }
        for back in 0..<trace.told.count {
            guard let told = trace.told[newest: back], told.at >= since else { break }
            guard told.offset == number.offset, told.name.stream == stream, told.epoch == number.epoch else { continue }
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
        _ id: SessionID, _ channel: LocalChannel, isBehind: Bool, _ number: StreamPosition?, _ noted: Set<String>,
        _ present: inout Set<String>, _ way: inout SurveyedWay
    ) {
        guard let connection = own.connection(id), let session = connection.session else { return }
        let socket = session.socketID.string
        present.insert(socket)
        guard !noted.contains(socket), let stream = channel.stream?.stream, let number else { return }
        // Numbers of two epochs cannot be compared.
        guard let position = channel.position, position.epoch == number.epoch else { return }
        guard !isBehind else { return way.devices.append(device(socket, .behind, nil, connection)) }
        // Not yet at this loop.
        guard position.offset >= number.offset else { return }
        let entry = trace.flatMap { trace in
            (0..<trace.joined.count).lazy.compactMap { trace.joined[newest: $0] }
                .first { $0.isOf(id) && $0.stream == stream }
        }
        let state: SurveyedWay.Device.State =
            switch entry {
            // What it was told since is gone.
            case .some(let joined) where joined.position.epoch != number.epoch: .present
            case .some(let joined) where joined.position.offset < number.offset: .handedOn
            case .some(let joined) where joined.isLost: .lost
            case .some(let joined) where number.offset > joined.position.offset - joined.replayedCount: .replayed
            case .some(let joined): .later(joined.position.offset)
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

    // MARK: By hand

    /// Closes this loop's connections of the user. Returns how many are signed in.
    func terminate(_ user: UserKey) -> Int {
        let count = engine.sessions.ids(of: user).count
        own.terminate(user)
        return count
    }
}
