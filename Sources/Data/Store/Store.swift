// Store: actions in, answers out. Each action is one execution of `sync.apply` in its own transaction. Actions of one user
// that wait already share a transaction (`sync.apply_all`); if anything fails in it, it did nothing, and each of them is
// executed by itself. Snapshots, which devices fetch, are read on other connections (`SnapshotPool`).
//
// Lifecycle: `Store.start` makes a thread with a few connections and keeps them up until `stop`. Any thread submits; every
// action is answered exactly once, on the store's thread.
//
// Invariants:
// - An answer other than `retry` is given only after the commit (`Postgres.Connection` reports success no earlier).
// - An action in flight on a lost connection may or may not be committed. It is executed again before any later action of
//   its user, until its deadline; its key makes it apply at most once.
// - Only an action's verdict is known here, and nothing of it is logged.
//
// The worst interleavings, each with its test (`StoreTests`, `LossTests`, `RequestPoolTests`):
// - The connection ends after the commit and before its answer: the next execution returns the stored answer.
// - The connection ends while its backend still executes the action, unaware of the loss: the second execution waits for
//   the account's lock. It gets the stored answer, or a lock timeout and so `retry`; the key makes the client's repeat
//   safe. If the second execution comes first, the first one finds the key. At most one applies.
// - All connections end while actions of one user wait: the lost action goes back to the front of its user's queue, so
//   numbers stay in order. Actions submitted meanwhile are answered `retry`, and are sent again behind them.
// - An action passes its deadline in flight: it is answered `retry`, and its user's queue still waits for its end, so the
//   next action cannot overtake it on another connection.
// - Many locked users share connections with others: the rest of a locked user's queue is answered, and the user's actions
//   are refused for a time that doubles with each lock timeout. The user is a suspect until the database answers one of
//   their actions. One action of all suspects is in flight at a time, on a connection of its own. Users whose actions run
//   out of time, or fail without a decision, are treated alike.
// - A trigger of the application always fails for one action and blocks its device, not the user's other devices. That
//   action's failures are counted separately, and after some of them its rejection is stored under its number.
// - The hub dies after a commit, before the answer or wake-up: the client repeats, and the tail's poll finds the commit.
//
// Depends on Postgres (pipelines on the loop) and on `sync.apply`, `sync.apply_all`, `sync.refuse`, `sync.announce` and the
// snapshots (75 to 78) of `sql/`.

import Logging
import Postgres
import Reactor
import Sync
import Synchronization

/// A running store, one per hub.
package final class Store: Sendable {
    private let messages: Mailbox<StoreMessage>
    private let thread: LoopThread
    /// The loop's handle for other threads.
    package var handle: LoopHandle { thread.handle }
    private let metrics: StoreMetrics
    private let waitingMax: Int
    private let waitingBytesMax: Int
    private let postedBytes: PostedBytes
    /// Closed by `stop`. Messages posted while it is open precede the `stop` in the mailbox, so they are answered.
    private let isOpen = Locked(true)

    /// Starts the store's thread. The database need not be up: once it is known to be away, actions are answered `retry`.
    ///
    /// - Parameter committed: called on the store's thread, at most once a tick, after commits with events; must not block.
    /// - Throws: `PostgresError` for an unreadable connection string, `ReactorError` without threads or descriptors left.
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

    /// Takes an action; `ActionRequest.answer` gets its answer. Any thread; never blocks.
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

    /// Takes a snapshot request; `SnapshotRequest.answer` gets its answer. Any thread; never blocks.
    package func ask(_ request: SnapshotRequest) {
        let request = metrics.counted(request)
        if !takes(.ask(request)) { request.answer(.unavailable(after: .seconds(1))) }
    }

    /// Accepts or refuses documents; `AppendRequest.answer` is told which. Any thread; never blocks.
    package func append(_ request: AppendRequest) {
        if !takes(.append(request)) { request.answer(.noRoom) }
    }

    /// Takes an export request; `ExportRequest.answer` gets its answer. Any thread; never blocks.
    package func export(_ request: ExportRequest) {
        if !takes(.export(request)) { request.answer(.unavailable(after: .seconds(1))) }
    }

    /// Posts the message, unless the mailbox is full or the store has stopped.
    private func takes(_ message: StoreMessage) -> Bool {
        isOpen.withLock { isOpen in
            let isTaken = isOpen && messages.count <= waitingMax
            if isTaken { messages.post(message) }
            return isTaken
        }
    }

    /// Stops the store, once, and blocks until all is answered: waiting requests by `retry` or `unavailable`, those in
    /// flight by their answers, or `retry` after a statement's time. Sends the last wake-up of other hubs.
    package func stop() {
        isOpen.withLock { isOpen in
            isOpen = false
            messages.post(.stop)
        }
        thread.join()
    }
}

/// Counts the bytes of the actions in the store's mailbox, which its thread has not taken yet.
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

    /// The parts that can be long; the rest of an envelope is a few hundred bytes at most.
    private static func size(_ request: ActionRequest) -> Int {
        request.envelope.payload.count + (request.envelope.base?.count ?? 0)
    }
}
