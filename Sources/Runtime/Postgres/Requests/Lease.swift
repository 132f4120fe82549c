/// One connection for one holder, for long work such as a cursor that is read page by page. The pool gives it when a
/// connection is idle, and sends nothing else on it until `end`. Belongs to the pool's loop.
package final class Lease {
    /// What the holder is told. The closures must not keep the lease's owner alive.
    package struct Handlers {
        let given: (Connection) -> Void
        let lost: () -> Void

        /// - Parameters:
        ///   - given: the connection, outside a transaction. Settings must be made for one transaction only.
        ///   - lost: there is no connection, or it was lost. The last call.
        package init(given: @escaping (Connection) -> Void, lost: @escaping () -> Void) {
            self.given = given
            self.lost = lost
        }
    }

    private let handlers: Handlers
    private weak var holder: PooledConnection?
    private(set) var isOver = false

    init(_ handlers: Handlers) {
        self.handlers = handlers
    }

    func isGiven(_ connection: Connection, by holder: PooledConnection) {
        self.holder = holder
        handlers.given(connection)
    }

    func wasLost() {
        guard !isOver else { return }
        isOver = true
        handlers.lost()
    }

    /// Ends the lease, any number of times; an open transaction is rolled back after the statements in flight.
    package func end() {
        guard !isOver else { return }
        isOver = true
        holder?.takeBack()
    }

    /// Drops a broken connection; the pool makes another. Calls `lost`.
    package func drop(_ error: PostgresError) {
        if !isOver { holder?.drop(error) }
    }
}
