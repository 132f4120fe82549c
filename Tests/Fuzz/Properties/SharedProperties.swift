import HubEngine
import Pusher

/// What hubs tell each other: what is read is written again, and read as the same; the rest is refused with its kind.
package enum SharedProperties {
    /// The apps that the examples name.
    package static func apps() -> KnownApps {
        let apps = KnownApps()
        for index in 0..<2 {
            apps.replace(
                App(
                    id: "app\(index)", credentials: AppCredentials(key: "key", secret: "secret"), index: index,
                    ownsDatabase: false))
        }
        return apps
    }

    static func check(_ bytes: [UInt8]) throws(Violation) {
        let apps = apps()
        try check(bytes, { (bytes) throws(SharedProblem) in try SentChannelCall(bytes, apps).encoded(apps) })
        try check(bytes, { (bytes) throws(SharedProblem) in try ChannelNews(bytes, apps).encoded(apps) })
        try check(bytes, { (bytes) throws(SharedProblem) in try SentUserCall(bytes, apps).encoded(apps) })
        try check(bytes, { (bytes) throws(SharedProblem) in try SharedUserNews(bytes, apps).encoded(apps) })
        try check(bytes, { (bytes) throws(SharedProblem) in try HubCommand(bytes, apps).encoded(apps) })
    }

    private static func check(
        _ bytes: [UInt8], _ again: ([UInt8]) throws(SharedProblem) -> [UInt8]
    ) throws(Violation) {
        let written: [UInt8]
        do throws(SharedProblem) {
            written = try again(bytes)
        } catch {
            return
        }
        let rewritten = try succeed("bytes of ours") { () throws(SharedProblem) in try again(written) }
        try hold(rewritten == written, "a message that changes on its way")
        try hold(written.count <= bytes.count, "a message that grows on its way")
    }
}
