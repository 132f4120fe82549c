/// Remembers which outages the log has reported, so that all connections of a hub report one outage once. Any thread.
package final class LogDeduplicator: Sendable {
    /// Texts remembered; one more clears them all.
    static let textsMax = 16

    /// Each text with the connection that reported it.
    private let told = Locked<[String: String]>([:])

    /// Nothing is reported yet.
    package init() {}

    /// Whether the log has not reported this text since the connection that reported it was last made; the caller then logs
    /// it.
    package func isNew(_ text: String, of connection: String) -> Bool {
        told.withLock { told in
            if told[text] != nil { return false }
            if told.count >= Self.textsMax { told.removeAll() }
            told[text] = connection
            return true
        }
    }

    /// A connection is up: what it reported is over, and would be news. What others reported may go on. Returns whether it
    /// had reported anything.
    @discardableResult
    package func forget(_ connection: String) -> Bool {
        told.withLock { told in
            guard told.values.contains(connection) else { return false }
            told = told.filter { $0.value != connection }
            return true
        }
    }
}
