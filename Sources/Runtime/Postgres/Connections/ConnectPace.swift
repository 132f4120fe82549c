import Clock
import Synchronization

/// How fast this process opens connections: the least time between two attempts, over all of its threads.
///
/// A server forks a process for each, which reads its catalogues anew. A hub that takes over opens all of its connections
/// while the hub before it serves on, often on the machine of both and of the server: a dozen at once held up the events
/// of that hub for 20 ms.
///
/// Worst interleaving, with its test in `ConnectPaceTests`: attempts of several threads at one moment. Each gets a time of
/// its own.
package final class ConnectPace: Sendable {
    /// That of this process. Without a pace, unless a hub takes over.
    package static let process = ConnectPace()

    private let step = Atomic<UInt64>(0)
    /// When the last attempt was, or will be.
    private let last = Atomic<UInt64>(0)

    /// Without a pace.
    package init() {}

    /// From now on, this is the least time between two attempts; zero for no pace.
    package func set(_ step: Duration) {
        self.step.store(step.wholeNanoseconds, ordering: .relaxed)
    }

    /// How long an attempt has to wait.
    package func wait(at now: Instant) -> Duration {
        let step = step.load(ordering: .relaxed)
        guard step > 0 else { return .zero }
        var last = last.load(ordering: .relaxed)
        while true {
            let mine = max(now.nanoseconds, last &+ step)
            let (isMine, found) = self.last.compareExchange(expected: last, desired: mine, ordering: .relaxed)
            if isMine { return .nanoseconds(Int64(clamping: mine &- now.nanoseconds)) }
            last = found
        }
    }
}
