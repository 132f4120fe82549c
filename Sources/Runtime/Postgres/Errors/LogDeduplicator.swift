import Reactor

/// Remembers which outages the log has reported, so that a hub's nine connections report one outage once. Any thread.
final class LogDeduplicator: Sendable {
    /// Texts remembered; one more clears them all.
    static let textsMax = 16

    private let told = Locked<Set<String>>([])

    /// Whether the log has not reported this text since a connection was last made; the caller then logs it.
    func isNew(_ text: String) -> Bool {
        told.withLock { told in
            if told.contains(text) { return false }
            if told.count >= Self.textsMax { told.removeAll() }
            told.insert(text)
            return true
        }
    }

    /// A connection is up: the next failure is news.
    func forget() {
        told.withLock { $0.removeAll() }
    }
}
