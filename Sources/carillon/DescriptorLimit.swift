import Courier
import Glibc

/// The limit of file descriptors, and so of connections.
enum DescriptorLimit {
    /// Descriptors that are not clients: the database, listeners, metrics requests, logs, loops, webhooks and pushes.
    ///
    /// - Parameter pushes: requests that may be in flight to the webhook of pushes.
    static func others(pushes: Int) -> Int {
        270 + CourierLimits().descriptorsMax + PushLimits.descriptorsMax(webhook: pushes)
    }

    /// Raises the soft limit to the hard limit. The usual 1024 is for programs that use select(2); this one does not.
    ///
    /// - Returns: the number of connections that fit.
    @discardableResult static func raise(besidePushes pushes: Int) -> Int {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return 0 }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(resource, &limit)
        guard getrlimit(resource, &limit) == 0 else { return 0 }
        return max(0, Int(clamping: limit.rlim_cur) - others(pushes: pushes))
    }
}
