import Reactor

/// What the log has told of a hub's connections being down, so that nine of them tell it once. Any thread.
final class LogDeduplicator: Sendable {
    /// Texts kept; with one more, all are forgotten.
    static let textsMax = 16

    private let told = Locked<Set<String>>([])

    /// Whether the log has not told this since a connection was last made: then it is to.
    func isNew(_ text: String) -> Bool {
        told.withLock { told in
            if told.contains(text) { return false }
            if told.count >= Self.textsMax { told.removeAll() }
            told.insert(text)
            return true
        }
    }

    /// A connection is there: what goes wrong from now on is news.
    func forget() {
        told.withLock { $0.removeAll() }
    }
}
