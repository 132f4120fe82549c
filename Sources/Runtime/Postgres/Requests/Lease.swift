/// A connection for one taker: for what takes long, such as a cursor that is read a page at a time. It is given when one is idle,
/// and nothing else is sent on it until `end`. Belongs to the pool's loop.
package final class Lease {
    /// What the taker is told. The closures must not keep the lease's owner alive.
    package struct Handlers {
        let given: (Connection) -> Void
        let lost: () -> Void

        /// - Parameters:
        ///   - given: the connection, in no transaction. What is set on it has to be set for a transaction.
        ///   - lost: there is none, or no longer. The last call.
        package init(given: @escaping (Connection) -> Void, lost: @escaping () -> Void) {
            self.given = given
            self.lost = lost
        }
    }

    private let handlers: Handlers
    private weak var holder: PooledConnection?
    /// Whether it has ended.
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

    /// The taker has done, or does not want it any more: a transaction that is open ends, behind what is under way. Any number
    /// of times.
    package func end() {
        guard !isOver else { return }
        isOver = true
        holder?.takeBack()
    }

    /// The connection is of no use any more: another is made. `lost` is called.
    package func drop(_ error: PostgresError) {
        if !isOver { holder?.drop(error) }
    }
}
