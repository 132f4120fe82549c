import Bytes
import JSON

/// The users that a signed-in user watches: `watchlist` in `user_data` (Pusher's "Watchlist events").
package struct Watchlist: Equatable, Sendable {
    /// Their ids, each once, in the given order.
    package private(set) var ids: [String] = []
    /// Whether there were too many; the rest was dropped.
    package private(set) var isCut = false
    /// Whether invalid ids were dropped: an id is a string of 1 to 128 bytes.
    package private(set) var hasOthers = false

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
