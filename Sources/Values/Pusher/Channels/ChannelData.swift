import Bytes
import JSON

/// Why the `channel_data` of a subscribe is refused.
package enum ChannelDataError: Error, Equatable, Sendable {
    case malformed(JSONError)
    /// `user_id` is missing, or neither a string of 1 to `PusherLimits.userIDBytes` bytes nor a whole number.
    case invalidUserID
}

/// What an app's backend says about a member of a presence channel (pusher.md §1.6; Pusher's "Presence channels").
package struct ChannelData: Equatable, Sendable {
    /// The user's id. A number is kept as its digits.
    package let userID: String
    /// The JSON text of `user_info`; empty when there is none.
    package let userInfo: [UInt8]

    /// Reads the text of `channel_data`.
    package init(
        _ text: UnsafeRawBufferPointer, limits: PusherLimits = PusherLimits()
    ) throws(ChannelDataError) {
        var id: JSONValue?
        var info: JSONValue?
        do throws(JSONError) {
            var reader = try JSONObjectReader(text, maxDepth: limits.depth)
            while let member = try reader.next() {
                if member.isNamed("user_id") {
                    try Self.take(member, as: &id)
                } else if member.isNamed("user_info") {
                    try Self.take(member, as: &info)
                }
            }
        } catch {
            throw .malformed(error)
        }
        guard let id, let userID = id.string ?? Self.digits(of: id), 1...limits.userIDBytes ~= userID.utf8.count else {
            throw .invalidUserID
        }
        self.userID = userID
        userInfo = info.flatMap { $0.kind == .null ? nil : [UInt8]($0.bytes) } ?? []
    }

    /// Reads the text of `channel_data`.
    package init(_ text: String, limits: PusherLimits = PusherLimits()) throws(ChannelDataError) {
        var text = text
        let result = text.withUTF8 { bytes in
            Result { () throws(ChannelDataError) in try ChannelData(UnsafeRawBufferPointer(bytes), limits: limits) }
        }
        self = try result.get()
    }

    private static func digits(of value: JSONValue) -> String? {
        value.integer == nil ? nil : value.bytes.string
    }

    /// Takes a member that may come once: with two, two readers could see different users.
    private static func take(_ member: JSONMember, as value: inout JSONValue?) throws(JSONError) {
        guard case .none = value else { throw JSONError(.duplicateKey, at: member.value.offset) }
        value = member.value
    }
}
