import Bytes
import Clock
import HTTP
import HubEngine
import Identity
import JSON
import Metrics
import Pusher
import Reactor
import Sync
import WebSocket

/// One client's event stream: its session, and what it has been told. Nothing comes from the client.
final class EventStream {
    let session: Session
    private var writer: EventStreamWriter
    /// The last observation of a reader that leaves something unread.
    var reading = PullProgress.none

    init(_ session: Session, _ writer: EventStreamWriter) {
        self.session = session
        self.writer = writer
    }

    /// Whether its lines are those of any other such stream.
    var isPlain: Bool { writer.isPlain }

    /// Whether nothing more may be told.
    var isOver: Bool { writer.isOver }

    /// The messages in a block of frames, as an event stream.
    func text(of frames: SharedBytes) -> SharedBytes {
        let messages = FrameWriter.messages(of: frames)
        var text = ByteWriter(capacity: messages.byteCount + 256)
        messages.each { writer.append($0, to: &text) }
        return text.finish()
    }
}

/// The event streams of a loop: HTTP answers that do not end, with a session's messages.
///
/// To the engine they are sessions like those of WebSockets: the same admission, window, log and pages, and the same bounds
/// for slow readers. The messages come as the frames that WebSockets get, made once for all receivers. They become lines
/// where a connection queues them (`ClientConnection.queue`): a user's client gets lines of its own, for an id names all of
/// its positions. Those of ordinary channels are made once for all that get the same frames one after the other.
///
/// Worst interleavings, with their tests in `EventStreamConnectionTests`:
/// - The token expires, or the user is revoked or terminated, while the token is verified or later: nothing is opened, or
///   the stream ends. What is unsent after a revocation is dropped, even within a message, which the client then drops too.
/// - The client names a position, and an event comes before the answer: the id stays at what the client was sent.
/// - The log cannot be read when the client has named a position: it is told, and the stream ends (`EventStreamWriter`).
/// - The client reads slowly: it gets pages from the log when it has room. If it takes nothing at all, it is cut off.
/// - The client's token was verified after its time: the answer of the deadline counts, and the stream does not open.
/// - The client sends something. There is nothing that it could say: it is cut off.
final class EventStreams {
    private let loop: EventLoop
    private let delivery: LoopDelivery
    private let identities: IdentityWatch
    private let metrics: GatewayMetrics
    /// The last frames that went to a stream of ordinary channels, and their lines.
    private var last: (frames: SharedBytes, lines: SharedBytes)?
    /// How often lines for ordinary channels were made.
    private(set) var linesMade = 0

    /// The time between two lines that show that the connection is there. Proxies take a minute of silence for an end.
    static let heartbeat = Duration.seconds(15)

    init(on loop: EventLoop, _ delivery: LoopDelivery, _ identities: IdentityWatch, _ metrics: GatewayMetrics) {
        self.loop = loop
        self.delivery = delivery
        self.identities = identities
        self.metrics = metrics
    }

    // MARK: Beginning

    /// A route has found the request good. A user's waits until the token is verified.
    func begin(_ order: EventStreamRequest, _ head: HTTPResponse, _ connection: ClientConnection) {
        let owner = connection.owner
        guard case .user(_, _, _, let token) = order.subject, let app = owner.apps.table.app(index: order.app) else {
            return admit(order, head, as: nil, connection)
        }
        let pending = PendingEventStream(order, head, app, origin: connection.conversation?.origin)
        connection.conversation?.awaits(.events(pending), with: token, connection)
    }

    /// The token is verified.
    ///
    /// - Parameter code: the user's connections were closed meanwhile.
    func verified(
        _ result: Result<VerifiedToken, TokenRejection>, _ pending: PendingEventStream, endedBy code: ErrorCode?,
        _ connection: ClientConnection
    ) {
        switch result {
        case .failure(let rejection): refuse(.unauthorized, rejection.message, connection)
        case .success(let token):
            let identity = Identity(token)
            guard !connection.owner.engine.identities.refuses(identity, of: pending.app) else {
                return refuse(.unauthorized, TokenRejection.revoked.message, connection)
            }
            guard case .user(let user, _, _, _) = pending.order.subject, user.hasSameBytes(as: token.userID) else {
                return refuse(.forbidden, "The path names another user than the token.", connection)
            }
            if let code { return refuse(.forbidden, code.message, connection) }
            guard connection.owner.hubContext.admission.mayBeginStream(identity, at: loop.now) else {
                if let conversation = connection.conversation { RequestTurn(of: conversation, connection).holdBack() }
                return
            }
            admit(pending.order, pending.head, as: identity, connection)
        }
    }

    /// The apps may have changed since the request was read.
    private func admit(
        _ order: EventStreamRequest, _ head: HTTPResponse, as identity: Identity?, _ connection: ClientConnection
    ) {
        let owner = connection.owner
        guard let app = owner.apps.table.app(index: order.app) else {
            return refuse(.notFound, "This hub does not serve the app.", connection)
        }
        if let code = owner.apps.refusal(of: app) {
            return refuse(code == .appDisabled ? .forbidden : .serviceUnavailable, code.message, connection)
        }
        connection.conversation?.endsHere()
        open(order, head, app, as: identity, connection)
    }

    private func refuse(_ status: Status, _ message: StaticString, _ connection: ClientConnection) {
        var response = HTTPResponse.problem(status, message)
        response.isForStrangers = true
        if status == .unauthorized { response.fields.append(("WWW-Authenticate", #"Bearer error="invalid_token""#)) }
        connection.conversation?.refuse(response, connection)
    }

    /// Answers with the stream.
    ///
    /// - Parameters:
    ///   - head: fields for the answer's head.
    ///   - identity: of the token's user; nil for ordinary channels.
    private func open(
        _ order: EventStreamRequest, _ head: HTTPResponse, _ app: App, as identity: Identity?,
        _ connection: ClientConnection
    ) {
        let session = Session(id: connection.sessionID, app: app, socketID: SocketID(random: .random(in: 0 ... .max)))
        metrics.answered(Status.ok.code)
        metrics.eventStreams.add(1)
        connection.queue(Self.head(head.fields))
        connection.streams(EventStream(session, order.writer))
        let owner = connection.owner
        owner.engine.opened(session)
        delivery.tellStatus(connection)
        if let wait = session.authorizationTime { identities.watch(connection, after: wait) }
        if let identity { owner.engage(connection) { $0.authenticated(session, as: identity, &$1) } }
        for event in order.events {
            // An input may have closed it.
            guard connection.isEventStream else { return }
            owner.engage(connection) { [now = loop.now] in $0.received(event, from: session, now: now, &$1) }
        }
        guard connection.isEventStream else { return }
        if session.isBehind { delivery.slowReaders.pull(connection) }
        // It may be over already: then it ends at once, and not with the next heartbeat.
        let isOver = connection.eventStream?.isOver == true
        loop.setDeadline(connection, isOver ? loop.now : loop.now.advanced(by: pause(connection)))
        // What the client sent behind its request is not read, and counts no more.
        owner.budget.unfinishedChanged(connection)
        connection.updateInterest()
    }

    /// It has no length: the end of the connection is its end. So a client of HTTP/1.0 can read it too.
    private static func head(_ fields: [(name: StaticString, value: String)]) -> SharedBytes {
        var head = ByteWriter(capacity: 512)
        head.append(statusLine: .ok)
        head.append(field: "Content-Type", "text/event-stream" as StaticString)
        head.append(field: "Cache-Control", "no-store" as StaticString)
        // nginx would hold back the lines.
        head.append(field: "X-Accel-Buffering", "no" as StaticString)
        head.append(field: "Connection", "close" as StaticString)
        for field in fields { head.append(field: field.name, field.value) }
        head.append("\r\n")
        return head.finish()
    }

    /// Queues the messages in a block of frames, as lines.
    @inline(never)
    func queue(_ frames: consuming SharedBytes, _ connection: ClientConnection) {
        guard let stream = connection.eventStream else { return }
        let text = stream.isPlain ? plainLines(of: frames, stream) : stream.text(of: frames)
        if text.count > 0 { queue(raw: text, connection) }
        // Not here: what caused this may have more to do with the session.
        if stream.isOver { loop.setDeadline(connection, loop.now) }
    }

    /// An event is queued to all its receivers before the next one, so one place is enough. The frames are kept, so that
    /// no others can have their address.
    private func plainLines(of frames: SharedBytes, _ stream: EventStream) -> SharedBytes {
        if let last, last.frames.baseAddress == frames.baseAddress, last.frames.count == frames.count {
            return last.lines
        }
        let lines = stream.text(of: frames)
        last = (frames, lines)
        linesMade += 1
        return lines
    }

    private func queue(raw bytes: consuming SharedBytes, _ connection: ClientConnection) {
        connection.transport.queue(bytes)
        loop.markDirty(connection)
    }

    // MARK: Liveness

    /// Shows that the connection is there, unless something is unsent: that is for the reader to take.
    func deadlineReached(_ connection: ClientConnection) {
        guard let stream = connection.eventStream else { return }
        if stream.isOver { return hubEnds(connection) }
        let now = loop.now
        if connection.transport.hasUnsent {
            let seen = PullProgress(connection.transport, at: now)
            if stream.reading.isNone || seen.isBeyond(stream.reading) { stream.reading = seen }
            guard now.duration(since: stream.reading.since) < connection.owner.settings.timeouts.stalled else {
                metrics.overloaded(.stalled, connection.address)
                return connection.drop()
            }
        } else {
            stream.reading = .none
            queue(raw: SharedBytes.copy(EventStreamWriter.heartbeat.description), connection)
        }
        loop.setDeadline(connection, now.advanced(by: pause(connection)))
    }

    private func pause(_ connection: ClientConnection) -> Duration {
        min(Self.heartbeat, connection.owner.settings.timeouts.stalled)
    }

    // MARK: Ending

    /// The last message says why.
    func close(_ connection: ClientConnection, _ code: ErrorCode) {
        connection.send(.error(code))
        connection.finish()
    }

    /// The hub ends, or its clients must go elsewhere: each stays away for a time of its own.
    func hubEnds(_ connection: ClientConnection) {
        let backoff = BackoffRange(for: connection)
        let time =
            connection.owner.drainage.hasSuccessor
            ? Int.random(in: 0...backoff.minMs) : Int.random(in: backoff.minMs...backoff.maxMs)
        var line = ByteWriter(capacity: 32)
        EventStreamWriter.append(retryAfterMs: time, to: &line)
        queue(raw: line.finish(), connection)
        connection.finish()
    }

    func ended() { metrics.eventStreams.add(-1) }
}

extension EventStreamRequest {
    fileprivate var writer: EventStreamWriter {
        guard case .user(let user, let topics, let positions, _) = subject else { return EventStreamWriter([]) }
        let channels = Self.channels(of: user, topics) ?? []
        return EventStreamWriter(
            zip(topics, channels).map { topic, channel in
                (topic, channel, positions.first { $0.topic == topic }?.position)
            })
    }

    /// What a client on a WebSocket would say: first the positions that it has, then the subscribes.
    fileprivate var events: [ClientEvent] {
        switch subject {
        case .channels(let names): return names.map { .subscribe($0, auth: nil, channelData: nil) }
        case .user(let user, let topics, let positions, _):
            let channels = Self.channels(of: user, topics) ?? []
            let named = zip(topics, channels).compactMap { topic, channel in
                positions.first { $0.topic == topic }.map { (channel, $0.position) }
            }
            return (named.isEmpty ? [] : [.sync(name: "resume", data: Self.resume(named))])
                + channels.compactMap { ChannelName($0) }.map { .subscribe($0, auth: nil, channelData: nil) }
        }
    }

    /// The data of `sync:resume`.
    private static func resume(_ positions: [(channel: String, position: StreamPosition)]) -> [UInt8] {
        var data = ByteWriter(capacity: 128 * positions.count + 32)
        data.append(#"{"v":1,"channels":{"#)
        for (index, (channel, position)) in positions.enumerated() {
            if index > 0 { data.append(UInt8(ascii: ",")) }
            data.append(jsonString: channel)
            data.append(#":{"epoch":"#)
            data.append(jsonString: position.epochText)
            data.append(#","offset":"#)
            data.append(decimal: position.offset)
            data.append("}")
        }
        data.append("}}")
        return data.array
    }
}
