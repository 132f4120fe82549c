// Store: actions in, answers out. Each is one execution of `sync.apply` in a transaction of its own.
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
// The worst interleavings, each with its test (`StoreTests`, `ActionQueueTests`):
// - The connection ends after the commit and before its answer: executed again elsewhere, the stored answer comes back.
// - The same, and the first execution is still under way in a backend that does not know yet that we are gone: the
//   second waits for the account's lock; it gets the stored answer, or a lock timeout and so `retry`, and the key makes
//   the client's repeat safe. Should the second come first, the first one finds the key. At most one applies.
// - All connections end with actions of one user waiting: the lost one goes back to the front of its user's queue, so
//   numbers stay in order; what is submitted meanwhile is answered `retry`, and is sent again behind them.
// - An action passes its deadline while under way: answered `retry`, and its user's queue still waits for its end, so
//   the next one cannot overtake it on another connection.
// - A user is locked while others wait behind on the same connection: they wait one lock timeout at most, for nothing
//   more of that user is sent: the rest of their queue is answered, and new ones are until the same time has passed.
// - The hub dies between commit and answer, or between answer and wake-up: the client repeats, and the tail's poll
//   finds what nobody was told of.
//
// Depends on Postgres (pipelines on the loop) and on `sync.apply` and `sync.announce` of `sql/`.

import Logging
import Postgres
import Reactor
import Sync

/// A running store. One for each hub.
package final class Store: Sendable {
    private let messages: Mailbox<StoreMessage>
    private let thread: LoopThread
    private let waitingMax: Int
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
        _ configuration: StoreConfiguration, logger: Logger, committed: @escaping @Sendable () -> Void
    ) throws -> Store {
        let parameters = try ConnectionParameters(
            configuration.connectionString,
            defaults: ConnectionParameters.keepalive + ConnectionParameters.primaryOnly)
        let handle = try LoopHandle()
        let messages = Mailbox<StoreMessage>(handle)
        let thread = try LoopThread(name: "store", handle: handle) { loop in
            do {
                let store = try StoreLoop(loop, configuration, parameters, logger, committed: committed)
                loop.attach(messages) { [weak store] in store?.received($0) }
                return store
            } catch {
                logger.critical("store: \(error)")
                loop.attach(messages) { Self.refuse($0, loop.handle) }
                return nil
            }
        }
        return Store(messages, thread, waitingMax: configuration.waitingMax)
    }

    private init(_ messages: Mailbox<StoreMessage>, _ thread: LoopThread, waitingMax: Int) {
        self.messages = messages
        self.thread = thread
        self.waitingMax = waitingMax
    }

    /// Takes an action; its answer comes by `ActionRequest.answer`. Any thread; never waits.
    package func submit(_ request: ActionRequest) {
        guard messages.count <= waitingMax else {
            return request.answer(
                .retry(key: request.envelope.key, .busy, after: .seconds(1), message: "too many actions wait"))
        }
        let isTaken = isOpen.withLock { isOpen in
            if isOpen { messages.post(.submit(request)) }
            return isOpen
        }
        if !isTaken { request.answer(.stopping(key: request.envelope.key)) }
    }

    /// Ends the store: what waits is answered `retry`; what is under way gets its answer, or `retry` where that takes
    /// longer than a statement may; the last wake-up of other hubs is sent. Waits for all of that. Once.
    package func stop() {
        isOpen.withLock { isOpen in
            isOpen = false
            messages.post(.stop)
        }
        thread.join()
    }

    /// For a thread that could not be set up.
    private static func refuse(_ message: StoreMessage, _ handle: LoopHandle) {
        switch message {
        case .submit(let request):
            request.answer(
                .retry(
                    key: request.envelope.key, .unavailable, after: .seconds(5), message: "the hub is out of resources")
            )
        case .stop:
            handle.stop()
        }
    }
}
