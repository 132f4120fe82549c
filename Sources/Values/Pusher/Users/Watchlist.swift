import Bytes
import JSON

/// The users whom a signed-in user watches: `watchlist` in `user_data` (Pusher's "Watchlist events").
package struct Watchlist: Equatable, Sendable {
    /// Their ids, each once, in the order given.
    package private(set) var ids: [String] = []
    /// Whether there were more than are allowed; those behind were left out.
    package private(set) var isCut = false
    /// Whether there were any that no user can have, and were left out: an id is a string of 1 to 128 bytes.
    package private(set) var hasOthers = false

    /// Reads at most `countMax` users.
    init(_ value: JSONValue, countMax: Int, _ limits: PusherLimits) {
        guard var reader = try? value.array() else {
            hasOthers = value.kind != .null
            return
        }
        var known: Set<TextKey> = []
        while let element = try? reader.next() {
            guard let id = element.string, !id.isEmpty, id.utf8.count <= limits.userIDBytes else {
                hasOthers = true
                continue
            }
            guard known.insert(TextKey(id)).inserted else { continue }
            guard ids.count < countMax else {
                isCut = true
                return
            }
            ids.append(id)
        }
    }
}
