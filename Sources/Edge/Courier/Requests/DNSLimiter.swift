import Bytes
import Clock
import Reactor

/// Bounds the name resolutions that were given up. The system's resolver cannot be interrupted: it continues on a thread of
/// libcurl's with its own descriptors until its own timeout, which is not reported.
///
/// Each is therefore assumed to last `lingeringResolve`. An app at its even share (at least one) makes no request
/// meanwhile.
struct DNSLimiter {
    private let limits: CourierLimits
    private var ends = Fifo<(end: Instant, appID: String)>()
    private var shares = Shares<String, Void>()

    init(_ limits: CourierLimits) {
        self.limits = limits
    }

    mutating func add(_ appID: String, at now: Instant) {
        ends.append((now.advanced(by: limits.lingeringResolve), appID))
        shares.add(1, to: appID)
    }

    /// Whether the app may resolve another name.
    ///
    /// - Parameter apps: how many apps share the bound.
    mutating func mayBegin(_ appID: String, of apps: Int, at now: Instant) -> Bool {
        while let first = ends.first, first.end <= now {
            ends.popFirst()
            shares.add(-1, to: first.appID)
        }
        return shares[appID] < max(1, limits.lingeringResolvesMax / max(1, apps))
    }
}
