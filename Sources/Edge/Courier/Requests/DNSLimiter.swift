import Bytes
import Clock
import Reactor

/// Names whose resolving was given up. The system's resolver cannot be interrupted: it goes on, on a thread of libcurl's
/// with descriptors of its own, until its own time is over, which nobody is told of.
///
/// So each is taken to last for `lingeringResolve`, and an app that has its even share of them, one at least, makes no
/// request meanwhile.
struct DNSLimiter {
    private let limits: CourierLimits
    private var ends = Fifo<(end: Instant, appID: String)>()
    /// By the app's id.
    private var shares = Shares<String, Void>()

    init(_ limits: CourierLimits) {
        self.limits = limits
    }

    /// One of the app's was given up.
    mutating func add(_ appID: String, at now: Instant) {
        ends.append((now.advanced(by: limits.lingeringResolve), appID))
        shares.add(1, to: appID)
    }

    /// Whether the app may have another name resolved.
    ///
    /// - Parameter apps: how many share the bound.
    mutating func mayBegin(_ appID: String, of apps: Int, at now: Instant) -> Bool {
        while let first = ends.first, first.end <= now {
            ends.popFirst()
            shares.add(-1, to: first.appID)
        }
        return shares[appID] < max(1, limits.lingeringResolvesMax / max(1, apps))
    }
}
