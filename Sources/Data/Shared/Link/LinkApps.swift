import HubEngine

/// The apps that this hub serves, as a link knows them. Confined to the link's loop.
final class LinkApps {
    /// Those that were served at any time.
    let known = KnownApps()
    private var version = -1
    /// The indices of those that are served now.
    private var served: Set<Int> = []

    /// The apps that are served from now on; nil where they are as they were.
    func refresh(_ shared: SharedRedis) -> [App]? {
        guard let served = shared.apps(unless: &version) else { return nil }
        for app in served { known.replace(app) }
        self.served = Set(served.map(\.index))
        return served
    }

    /// Whether this hub may tell a backend of that: one `ChannelNews.webhook`. What cannot be read it may, for it is
    /// dropped.
    func tells(_ bytes: [UInt8]) -> Bool {
        do throws(SharedProblem) {
            guard case .webhook(let index, _) = try ChannelNews(bytes, known) else { return true }
            return served.contains(index)
        } catch {
            return error != .unknownApp
        }
    }
}
