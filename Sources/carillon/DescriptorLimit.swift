import Courier
import Glibc

/// How many descriptors, and so connections, this process may have.
enum DescriptorLimit {
    /// Descriptors that are no clients: the database, the listeners, who asks for metrics, logs, loops; and webhooks.
    static let others = 270 + CourierLimits().descriptorsMax

    /// Raises the soft limit to the hard one: the usual 1024 is for programs that use select(2), which this is not.
    ///
    /// - Returns: how many connections there is room for.
    @discardableResult static func raise() -> Int {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return 0 }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(resource, &limit)
        guard getrlimit(resource, &limit) == 0 else { return 0 }
        return max(0, Int(clamping: limit.rlim_cur) - others)
    }
}
