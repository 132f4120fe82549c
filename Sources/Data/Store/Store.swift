// Store: actions in, answers out. Each is one execution of `sync.apply` in a transaction of its own. Beside them,
// snapshots: what a device fetches, read on connections of their own (`SnapshotPool`).
//
// Lifecycle: `Store.start` makes a thread with a few connections and keeps them up until `stop`. Any thread submits;
// every action is answered exactly once, on the store's thread.
//
// Invariants:
// - An answer other than `retry` is given only after the commit (`Postgres.Connection` tells of success no earlier).
// - What was sent on a connection that was lost may or may not be committed: the same action is executed again, by its
//   key at most once, before any later action of its user, until its deadline.
// - Nothing of an action but its verdict is known here, and nothing of it is logged.
//
// The worst interleavings, each with its test (`StoreTests`, `LossTests`, `RequestPoolTests`):
// - The connection ends after the commit and before its answer: executed again elsewhere, the stored answer comes back.
// - The same, and the first execution is still under way in a backend that does not know yet that we are gone: the
//   second waits for the account's lock; it gets the stored answer, or a lock timeout and so `retry`, and the key makes
//   the client's repeat safe. Should the second come first, the first one finds the key. At most one applies.
// - All connections end with actions of one user waiting: the lost one goes back to the front of its user's queue, so
//   numbers stay in order; what is submitted meanwhile is answered `retry`, and is sent again behind them.
// - An action passes its deadline while under way: answered `retry`, and its user's queue still waits for its end, so
//   the next one cannot overtake it on another connection.
// - Many users are locked while others wait behind on the same connections: the rest of a locked user's queue is
//   answered, and nothing of theirs is taken for a time that doubles with each lock timeout. Until the database has
//   answered one of theirs they are suspects: one action of all suspects is under way at a time, on a connection that
//   has nothing else. The same goes for users whose actions run out of time or fail in ways that decide nothing.
// - A trigger of the application's fails at one action for ever, and its device's later ones wait behind it; another device
//   of the user's is served meanwhile. The failures of that action are counted for themselves, and after some of them its
//   rejection is stored under its number.
// - The hub dies between commit and answer, or between answer and wake-up: the client repeats, and the tail's poll
//   finds what nobody was told of.
//
// Depends on Postgres (pipelines on the loop) and on `sync.apply`, `sync.refuse`, `sync.announce`, `sync.retain` and the
// snapshots (75 to 78) of `sql/`.

import Logging
import Postgres
import Reactor
import Sync
import Synchronization

/// A running store. One for each hub.
package final class Store: Sendable {
    private let messages: Mailbox<StoreMessage>
    private let thread: LoopThread
    /// What other threads may hold of the store's loop.
    package var handle: LoopHandle { thread.handle }
    private let metrics: StoreMetrics
    private let waitingMax: Int
    private let waitingBytesMax: Int
    /// Bytes on their way to the store's thread.
    private let postedBytes: PostedBytes
    /// Closed by `stop`: what is posted while open is before the `stop` in the mailbox, and so is answered.
    private let isOpen = Locked(true)

    /// Starts the store's thread. The database need not be there: once it is known to be away, actions are answered
    /// `retry`.
    ///
    /// - Parameter committed: called on the store's thread, at most once a tick, after actions that made events were
    ///   committed; must not wait.
    /// - Throws: `PostgresError` for a connection string that cannot be read, `ReactorError` where the system has no
    ///   thread or descriptor left.
    package static func start(
        _ configuration: StoreConfiguration, logger: Logger, metrics: StoreMetrics = StoreMetrics(),
        postgres: PostgresMetrics = PostgresMetrics(), committed: @escaping @Sendable () -> Void
    ) throws -> Store {
        let parameters = try ConnectionParameters(
            configuration.connectionString,
            defaults: ConnectionParameters.keepalive + ConnectionParameters.primaryOnly)
        let handle = try LoopHandle()
        let messages = Mailbox<StoreMessage>(handle)
        let postedBytes = PostedBytes()
        let thread = try LoopThread(
            name: "store", handle: handle,
            filling: { loop throws(ReactorError) in
                let store = try StoreLoop(
                    loop, configuration, parameters, logger, metrics, postgres, messages, committed: committed)
                loop.attach(messages) { [weak store] in
                    postedBytes.took($0)
                    store?.received($0)
                }
                return store
            })
        return Store(messages, thread, configuration, postedBytes, metrics)
    }

    private init(
        _ messages: Mailbox<StoreMessage>, _ thread: LoopThread, _ configuration: StoreConfiguration,
        _ postedBytes: PostedBytes, _ metrics: StoreMetrics
    ) {
        self.metrics = metrics
        self.messages = messages
        self.thread = thread
        self.postedBytes = postedBytes
        waitingMax = configuration.waitingMax
        waitingBytesMax = configuration.waitingBytesMax
    }

    /// Takes an action; its answer comes by `ActionRequest.answer`. Any thread; never waits.
    package func submit(_ request: ActionRequest) {
        let request = metrics.counted(request)
        guard messages.count <= waitingMax, postedBytes.count <= waitingBytesMax else {
            return request.answer(
                .retry(key: request.envelope.key, .busy, after: .seconds(1), message: "too many actions wait"))
        }
        let isTaken = isOpen.withLock { isOpen in
            if isOpen {
                postedBytes.add(request)
                messages.post(.submit(request))
            }
            return isOpen
        }
        if !isTaken { request.answer(.stopping(key: request.envelope.key)) }
    }

    /// Takes a question for a snapshot; its answer comes by `SnapshotRequest.answer`. Any thread; never waits.
    package func ask(_ request: SnapshotRequest) {
        let request = metrics.counted(request)
        if !takes(.ask(request)) { request.answer(.unavailable(after: .seconds(1))) }
    }

    /// Takes what is to be appended, or not; `AppendRequest.answer` says. Any thread; never waits.
    package func append(_ request: AppendRequest) {
        if !takes(.append(request)) { request.answer(false) }
    }

    /// Takes a question for an export; its answer comes by `ExportRequest.answer`. Any thread; never waits.
    package func export(_ request: ExportRequest) {
        if !takes(.export(request)) { request.answer(.unavailable(after: .seconds(1))) }
    }

    /// Posts it, unless too much is in the mailbox or the store has stopped.
    private func takes(_ message: StoreMessage) -> Bool {
        isOpen.withLock { isOpen in
            let isTaken = isOpen && messages.count <= waitingMax
            if isTaken { messages.post(message) }
            return isTaken
        }
    }

    /// Ends the store: what waits is answered `retry` or `unavailable`; what is under way gets its answer, or `retry`
    /// where that takes longer than a statement may; the last wake-up of other hubs is sent. Waits for all of that. Once.
    package func stop() {
        isOpen.withLock { isOpen in
            isOpen = false
            messages.post(.stop)
        }
        thread.join()
    }
}

/// The bytes of the actions in the mailbox.
private final class PostedBytes: Sendable {
    private let bytes = Atomic<Int>(0)

    var count: Int { bytes.load(ordering: .relaxed) }

    func add(_ request: ActionRequest) {
        bytes.add(Self.size(request), ordering: .relaxed)
    }

    func took(_ message: StoreMessage) {
        guard case .submit(let request) = message else { return }
        bytes.subtract(Self.size(request), ordering: .relaxed)
    }

    /// What can be long; all else of an envelope is within some hundred bytes.
    private static func size(_ request: ActionRequest) -> Int {
        request.envelope.payload.count + (request.envelope.base?.count ?? 0)
    }
}
