import Clock
import Foundation
import Postgres
import Reactor
import Synchronization

/// Wakes hubs periodically from its own session, with or without news: the batched NOTIFY of a hub for all its commits,
/// without the hub.
final class LoadAnnouncer: Sendable {
    private let isStopping = Atomic<Bool>(false)
    private let complaint = Mutex<String?>(nil)

    /// Announces every `interval` from now on.
    init(_ url: String, interval: Duration) {
        Thread.detachNewThread { [self] in
            do {
                let connection = try BlockingConnection(url)
                try connection.execute("prepare announce as select sync.announce()")
                while !isStopping.load(ordering: .relaxed) {
                    try connection.execute("execute announce")
                    sleep(until: Instant.read().advanced(by: interval))
                }
            } catch {
                complaint.withLock { $0 = "the announcer: \(error)" }
            }
        }
    }

    /// Stops after the current announcement.
    /// - Throws: `LoadFailure` if it had already ended.
    func stop() throws {
        isStopping.store(true, ordering: .relaxed)
        if let failure = complaint.withLock({ $0 }) { throw LoadFailure(failure) }
    }
}
