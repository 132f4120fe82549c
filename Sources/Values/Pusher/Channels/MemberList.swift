import Bytes
import JSON

/// The members of a presence channel as `pusher_internal:subscription_succeeded` lists them. The JSON is built once, as
/// members are added, and serves all subscribers.
package struct MemberList: Sendable, Equatable {
    /// The texts of `ids` and `hash` without brackets, escaped for a JSON string.
    private(set) var ids: [UInt8] = []
    private(set) var infos: [UInt8] = []
    /// Members in the list.
    package private(set) var count = 0

    /// An empty list.
    package init() {}

    /// Bytes of both texts.
    package var byteCount: Int { ids.count + infos.count }

    /// Bytes that a member takes in a list.
    package static func size(_ id: String, info: [UInt8]) -> Int {
        var list = MemberList()
        list.append(id, info: info)
        return list.byteCount + 2
    }

    /// Adds a member that is not in the list. `info` is the JSON text of `user_info`, empty when there is none.
    package mutating func append(_ id: String, info: [UInt8]) {
        var writer = ByteWriter(capacity: id.utf8.count + info.count + info.count / 4 + 32)
        if count > 0 { writer.append(",") }
        ServerEvent.append(quoted: id, to: &writer)
        let end = writer.count
        writer.append(":")
        ServerEvent.append(info: info, to: &writer)
        writer.withUnsafeBytes { text in
            ids.append(contentsOf: text.part(0..<end))
            infos.append(contentsOf: text)
        }
        count += 1
    }
}
