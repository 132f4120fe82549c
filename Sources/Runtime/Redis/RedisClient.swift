// Redis: one loop's connection to Redis 7 or Valkey, kept up.
//
// Walk: `RedisClient` finds the server (by sentinels, if the URL says so) and makes a `RedisConnection`, which is a
// `RedisSocket`: that one resolves, connects, and moves bytes, with or without TLS. `RedisConnection` greets, lines up
// commands, and gives replies and pushes out. Commands go to a server's writable master only, and each ends once.

import Bytes
import Clock
import RESP
import Reactor

/// Keeps one connection to Redis up, and sends commands on it. Confined to one loop.
///
/// Lifecycle: `connect()` → `opened` → `send`, `push` → `lost` → a pause → `opened` with the next generation → … →
/// `close()`. It never gives up; pauses have jitter (`Backoff`).
///
/// Worst interleavings, each with its test in `RedisTroubleTests`, `RedisSentinelTests` or `RedisConnectionTests`:
/// - A command is sent in one generation, and its reply would come in the next. It has ended as lost before `lost` is
///   called, and so before the next `opened` (`eachEndsOnceWhenTheServerDies`).
/// - A sentinel that is behind names the former master, which is a replica by now. Its answer to `HELLO` says so, no command
///   reaches it, and the next sentinel is asked (`aReplicaIsNoMaster`, `theMasterIsFoundAfterAFailover`).
/// - The master is demoted while the connection is open. The first write that is refused ends the connection
///   (`aDemotedMasterIsLeft`).
/// - The owner closes the client in any of its calls, also while a greeting is answered: nothing is called afterwards but
///   the handlers of its commands (`aHandlerMayClose`, `anAttemptMayBeClosed`).
package final class RedisClient {
    /// What the client tells its owner. Called on the loop; the closures must not keep the owner alive.
    package struct Handlers {
        let opened: (UInt64) -> Void
        let lost: (RedisTrouble) -> Void
        let failed: (RedisTrouble) -> Void
        let push: ([RESPValue]) -> Void

        /// - Parameters:
        ///   - opened: a connection is up. Its number is one higher than that of the one before, from 1.
        ///   - lost: the connection that was up is lost. Its commands have ended before.
        ///   - failed: an attempt did not lead to a connection.
        ///   - push: nobody has asked for this: its elements, in the order of the connection.
        package init(
            opened: @escaping (UInt64) -> Void, lost: @escaping (RedisTrouble) -> Void,
            failed: @escaping (RedisTrouble) -> Void = { _ in }, push: @escaping ([RESPValue]) -> Void = { _ in }
        ) {
            (self.opened, self.lost, self.failed, self.push) = (opened, lost, failed, push)
        }
    }

    /// A command that comes before `opened`, on each connection.
    package struct Prelude {
        /// The command's name and its arguments.
        package let parts: [[UInt8]]
        /// What is wrong with the reply.
        package let judge: (RESPValue) -> String?
        /// Whether a push answers it.
        package let isSubscription: Bool

        /// - Parameters:
        ///   - parts: the command's name and its arguments.
        ///   - judge: gets the reply, perhaps an error; returns what is wrong with it, for the log, or nil.
        package init(_ parts: [[UInt8]], judge: @escaping (RESPValue) -> String?) {
            (self.parts, self.judge, isSubscription) = (parts, judge, false)
        }

        /// It subscribes to the shard channel.
        package init(subscribing channel: [UInt8], judge: @escaping (RESPValue) -> String?) {
            (parts, self.judge, isSubscription) = ([Array("SSUBSCRIBE".utf8), channel], judge, true)
        }
    }

    private let name: String
    private let loop: EventLoop
    private let settings: RedisSettings
    private let prelude: [Prelude]
    private let handlers: Handlers
    private let log: RedisLog
    private let tls: TLSClient?
    private let room: RedisRoom
    private let resolver: HostResolver
    private var round: SentinelRound?
    private var backoff: Backoff
    private var random = SystemRandomNumberGenerator()
    private var retry: Alarm?
    private var connection: RedisConnection?
    private var openedAt: Instant?
    private var isClosed = false
    /// The number of the connection that is up, or was last; 0 before the first.
    package private(set) var generation: UInt64 = 0

    /// - Parameters:
    ///   - name: its name in logs, another for each client of the process.
    ///   - prelude: sent at once on each connection, after `HELLO`.
    /// - Throws: `TLSError`, which names the file at fault; `ReactorError`.
    package convenience init(
        _ name: String, loop: EventLoop, settings: RedisSettings, prelude: [Prelude] = [], log: RedisLog,
        handlers: Handlers
    ) throws {
        try self.init(
            name, loop: loop, settings: settings, prelude: prelude, log: log, resolver: .system, handlers: handlers)
    }

    /// Resolves names with `resolver`.
    init(
        _ name: String, loop: EventLoop, settings: RedisSettings, prelude: [Prelude], log: RedisLog,
        resolver: HostResolver, handlers: Handlers
    ) throws {
        self.name = name
        self.loop = loop
        self.settings = settings
        self.prelude = prelude
        self.handlers = handlers
        self.log = log
        self.resolver = resolver
        backoff = Backoff(floor: settings.pauseMin, ceiling: settings.pauseMax)
        if case .sentinels(let places, _) = settings.url.way { round = SentinelRound(places) }
        tls = try settings.tls()
        room = try RedisRoom(secured: tls != nil)
        retry = try Alarm(loop) { [weak self] in self?.attempt() }
    }

    deinit {
        close()
    }

    // MARK: For the owner

    /// Whether commands may be sent.
    package var isUp: Bool { connection?.isOpen ?? false }
    /// Commands without an answer.
    package var unansweredCount: Int { connection?.unansweredCount ?? 0 }
    /// Bytes of commands that wait to be written.
    package var waitingBytes: Int { connection?.waitingBytes ?? 0 }

    /// Starts. From then on there is a connection, an attempt or a pause before one.
    package func connect() {
        guard connection == nil, !isClosed else { return }
        attempt()
    }

    /// Ends it; commands without an answer are lost, and the owner is called no more.
    package func close() {
        isClosed = true
        openedAt = nil
        if let retry { loop.remove(retry) }
        retry = nil
        let last = connection
        connection = nil
        last?.end()
    }

    /// Sends a command when this turn of the loop ends, together with all others of the turn.
    ///
    /// - Parameters:
    ///   - parts: its name and its arguments. Not for commands that pushes answer, such as `SUBSCRIBE`, nor for those that
    ///     change how replies come (`HELLO`, `RESET`, `CLIENT REPLY`, `MONITOR`).
    ///   - done: called once if it is taken, later, in the order of the commands.
    package func send(_ parts: [[UInt8]], _ done: @escaping (RedisReply) -> Void) -> RedisSending {
        // Not even encoded.
        var bytes = 0
        for part in parts { bytes &+= part.count }
        guard bytes <= settings.waitingBytesMax else { return isUp ? .full : .away }
        return send(encoding: { $0.append(command: parts) }, done)
    }

    /// Sends the one command that `encode` writes, as an array of bulk strings, straight into the bytes that wait.
    ///
    /// Otherwise as `send(_:_:)`. `encode` is not called without a connection.
    package func send(
        encoding encode: (inout ByteWriter) -> Void, _ done: @escaping (RedisReply) -> Void
    ) -> RedisSending {
        guard let connection else { return .away }
        return connection.send(done, encode)
    }

    /// Subscribes to shard channels, at least one (Redis docs, SSUBSCRIBE); all of one slot, if it is a cluster.
    ///
    /// - Parameter done: called once if it is taken, when the last has its confirmation. These are pushes, and come to the
    ///   owner too, each before.
    package func subscribe(_ channels: [[UInt8]], _ done: @escaping (RedisReply) -> Void) -> RedisSending {
        guard let connection else { return .away }
        return connection.change("SSUBSCRIBE", channels, ends: false, done)
    }

    /// Ends subscriptions of shard channels, at least one (Redis docs, SUNSUBSCRIBE). Otherwise as `subscribe`.
    package func unsubscribe(_ channels: [[UInt8]], _ done: @escaping (RedisReply) -> Void) -> RedisSending {
        guard let connection else { return .away }
        return connection.change("SUNSUBSCRIBE", channels, ends: true, done)
    }

    /// Leaves the connection that is up: the owner has found the server unfit, for a reason that may be logged.
    package func leave(_ reason: String, as kind: RedisTrouble.Kind = .prelude) {
        guard isUp else { return }
        connection?.lose(RedisTrouble(kind, reason))
    }

    // MARK: Finding the server

    private func attempt() {
        guard connection == nil, !isClosed else { return }
        switch settings.url.way {
        case .server(let place): reach(place)
        case .sentinels(_, let service):
            round?.begin()
            askNext(of: service)
        }
    }

    private func askNext(of service: [UInt8]) {
        guard let place = round?.take() else { return failed(round?.trouble ?? RedisTrouble(.noMaster)) }
        var master: RedisURL.Place?
        let greetings = [
            ServerGreeting.hello(
                settings.url.sentinelCredentials, name: settings.clientName, judge: ServerGreeting.ofSentinel),
            ServerGreeting.masterAddress(of: service) { master = $0 },
        ]
        begin(
            place, greetings, patience: min(settings.connectTimeout, RedisLimits.sentinelPatience),
            RedisConnection.Handlers(
                opened: { [weak self] in
                    guard let self, let found = master else { return }
                    let sentinel = connection
                    connection = nil
                    sentinel?.end()
                    reach(found)
                },
                push: { _ in },
                ended: { [weak self] trouble in
                    guard let self else { return }
                    connection = nil
                    round?.failed(trouble, at: place)
                    askNext(of: service)
                }))
    }

    private func reach(_ place: RedisURL.Place) {
        let hello = ServerGreeting.hello(
            settings.url.credentials, name: settings.clientName, judge: ServerGreeting.ofMaster)
        let rest = prelude.map { command in
            RedisConnection.Greeting(parts: command.parts, isSubscription: command.isSubscription) {
                command.judge($0).map { RedisTrouble(.prelude, $0) }
            }
        }
        begin(
            place, [hello] + rest, patience: settings.connectTimeout,
            RedisConnection.Handlers(
                opened: { [weak self] in self?.opened(at: place) }, push: handlers.push,
                ended: { [weak self] trouble in
                    guard let self else { return }
                    connection = nil
                    if openedAt != nil { lost(trouble) } else { failed(trouble) }
                }))
    }

    private func begin(
        _ place: RedisURL.Place, _ greetings: [RedisConnection.Greeting], patience: Duration,
        _ handlers: RedisConnection.Handlers
    ) {
        guard !isClosed else { return }
        let connection = RedisConnection(
            loop: loop, place: place, tls: tls, room: room, resolver: resolver, patience: patience,
            settings: settings, greetings: greetings, handlers: handlers)
        self.connection = connection
        connection.begin()
    }

    // MARK: Up and down

    private func opened(at place: RedisURL.Place) {
        round?.succeeded()
        openedAt = loop.now
        generation += 1
        log.isUp(name, at: place)
        handlers.opened(generation)
    }

    private func lost(_ trouble: RedisTrouble) {
        if let openedAt, loop.now.duration(since: openedAt) >= RedisLimits.provenAfter { backoff.reset() }
        openedAt = nil
        pause(trouble)
        handlers.lost(trouble)
    }

    private func failed(_ trouble: RedisTrouble) {
        guard !isClosed else { return }
        pause(trouble)
        handlers.failed(trouble)
    }

    private func pause(_ trouble: RedisTrouble) {
        log.isDown(name, trouble, at: settings.url.summary)
        retry?.set(after: backoff.next(using: &random))
    }
}
