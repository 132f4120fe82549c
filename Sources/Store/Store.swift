import Logging
import Postgres
import Reactor
import Sync

/// A running store. One for each hub.
package final class Store: Sendable {
    private let requests: Mailbox<ActionRequest>
    private let thread: LoopThread

    /// Starts the store's thread. The database need not be there: until it is, actions are answered `retry`.
    ///
    /// - Parameter committed: called on the store's thread, at most once a tick, after actions that made events were
    ///   committed; must not wait.
    /// - Throws: `PostgresError` for a connection string that cannot be read, `ReactorError` where the system has no
    ///   thread or descriptor left.
    package static func start(
        _ configuration: StoreConfiguration, logger: Logger, committed: @escaping @Sendable () -> Void
    ) throws -> Store {
        let handle = try LoopHandle()
        let requests = Mailbox<ActionRequest>(handle)
        let thread = try LoopThread(name: "store", handle: handle) { loop in
            loop.attach(requests) { request in
                request.answer(
                    .retry(
                        key: request.envelope.key, .unavailable, after: .seconds(1), message: "the database is away"))
            }
            return nil
        }
        return Store(requests, thread)
    }

    private init(_ requests: Mailbox<ActionRequest>, _ thread: LoopThread) {
        self.requests = requests
        self.thread = thread
    }

    /// Takes an action; its answer comes by `ActionRequest.answer`. Any thread; never waits.
    package func submit(_ request: ActionRequest) {
        requests.post(request)
    }

    /// Ends the store: no action is begun any more, those under way get their answer or `retry`.
    package func stop() {
        thread.stopAndJoin()
    }
}
