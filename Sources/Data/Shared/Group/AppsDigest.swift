import Digests
import HubEngine
import Pusher

/// By which hubs see whether others serve the same apps. It has 24 bits: too few to try secrets by.
enum AppsDigest {
    private static let mark = "  apps "

    /// Of their ids, keys, secrets, limits and switches.
    static func of(_ apps: [App]) -> String {
        var hash = SHA256()
        for app in apps.sorted(by: { $0.id < $1.id }) {
            let text = Array("what hubs compare".utf8)
            let secret = text.withUnsafeBytes { app.credentials.code(ofText: $0) }
            let parts = [
                app.id, app.credentials.key, secret, "\(app.ownsDatabase)", "\(app.features)", "\(app.limits)",
            ]
            for part in parts { hash.update(counted: Array(part.utf8)) }
        }
        return String(hash.finish().hex.prefix(6))
    }

    /// What a hub says of itself, with its digest.
    static func add(_ digest: String, to about: String) -> String { about.isEmpty ? "" : about + mark + digest }

    /// The digest in what a hub says of itself.
    static func read(_ about: String) -> String? {
        about.ranges(of: mark).last.map { String(about[$0.upperBound...]) }
    }
}
