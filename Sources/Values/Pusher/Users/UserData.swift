import Bytes
import JSON

/// Why the `user_data` of a signin is refused.
package enum UserDataError: Error, Equatable, Sendable {
    case malformed(JSONError)
    /// `id` is missing, or not a non-empty string within the limit and without NUL. pusher-js discards numbers.
    case invalidID
    /// `expiresAt` or `issuedAt` is a number but not a whole one.
    case invalidTime

    /// A line for `pusher:error`. It contains no byte from the client.
    package var message: StaticString {
        switch self {
        case .malformed, .invalidID:
            "user_data of pusher:signin needs an id: a string of 1 to 128 bytes, none of them NUL"
        case .invalidTime: "expiresAt and issuedAt in user_data of pusher:signin are whole seconds since 1970"
        }
    }
}

/// What an app's backend says about a user: id, info for others, watchlist and validity. Other members are only echoed.
package struct UserData: Equatable, Sendable {
    /// The user's id.
    package let id: String
    /// The JSON text of `user_info` as received, for presence channels; nil when there is none.
    package let info: [UInt8]?
    /// Nil when there is none, or it was not asked for.
    package let watchlist: Watchlist?
    /// Our additions to Pusher's protocol: when the identity was issued and expires, in seconds since 1970. Nil when
    /// missing, not a number (a backend's own `"2026-01-01T00:00:00Z"`), or not counted.
    package let issuedAt: Int64?
    /// When the identity ends.
    package let expiresAt: Int64?

    /// When `issuedAt` and `expiresAt` count.
    package enum Times: CaseIterable, Sendable {
        /// Each by itself. A number that is not whole is refused.
        case each
        /// Only when both are whole numbers: to a backend that does not know this hub, the names may mean anything.
        case both
    }

    /// Reads the text of `user_data`.
    ///
    /// - Parameters:
    ///   - times: which times count.
    ///   - watchlistMax: most users read from `watchlist`; nil ignores it.
    package init(
        _ text: UnsafeRawBufferPointer, times: Times, watchlistMax: Int? = nil, limits: PusherLimits = PusherLimits()
    ) throws(UserDataError) {
        if let id = Self.idAlone(in: text, limits) {
            self.id = id.string
            info = nil
            watchlist = nil
            issuedAt = nil
            expiresAt = nil
            return
        }
        var id: JSONValue?
        var info: JSONValue?
        var watchlist: JSONValue?
        var issuedAt: JSONValue?
        var expiresAt: JSONValue?
        do throws(JSONError) {
            var reader = try JSONObjectReader(text, maxDepth: limits.depth)
            while let member = try reader.next() {
                if member.isNamed("id") {
                    try Self.take(member, as: &id)
                } else if member.isNamed("user_info") {
                    try Self.take(member, as: &info)
                } else if watchlistMax != nil, member.isNamed("watchlist") {
                    try Self.take(member, as: &watchlist)
                } else if member.isNamed("issuedAt") {
                    try Self.take(member, as: &issuedAt)
                } else if member.isNamed("expiresAt") {
                    try Self.take(member, as: &expiresAt)
                }
            }
        } catch {
            throw .malformed(error)
        }
        // A text of PostgreSQL ends at a NUL: it would be another user's id.
        guard let text = id?.string, 1...limits.userIDBytes ~= text.utf8.count, !text.utf8.contains(0) else {
            throw .invalidID
        }
        self.id = text
        self.info = info.flatMap { $0.kind == .null ? nil : Array($0.bytes) }
        self.watchlist = watchlist.map { Watchlist($0, countMax: watchlistMax ?? 0, limits) }
        switch times {
        case .each:
            self.issuedAt = try Self.seconds(issuedAt)
            self.expiresAt = try Self.seconds(expiresAt)
        case .both:
            let (issue, end) = (issuedAt?.integer, expiresAt?.integer)
            self.issuedAt = end == nil ? nil : issue
            self.expiresAt = issue == nil ? nil : end
        }
    }

    /// Reads the text of `user_data`.
    package init(
        _ text: String, times: Times, watchlistMax: Int? = nil, limits: PusherLimits = PusherLimits()
    ) throws(UserDataError) {
        var text = text
        let result = text.withUTF8 { bytes in
            Result { () throws(UserDataError) in
                try UserData(
                    UnsafeRawBufferPointer(bytes), times: times, watchlistMax: watchlistMax, limits: limits)
            }
        }
        self = try result.get()
    }

    /// Appends a `user_data` text with the id and the given times only.
    package static func append(
        id: String, issuedAt: Int64? = nil, expiresAt: Int64? = nil, to writer: inout ByteWriter
    ) {
        writer.append(#"{"id":"#)
        writer.append(jsonString: id)
        if let issuedAt {
            writer.append(#","issuedAt":"#)
            writer.append(decimal: issuedAt)
        }
        if let expiresAt {
            writer.append(#","expiresAt":"#)
            writer.append(decimal: expiresAt)
        }
        writer.append("}")
    }

    /// The id in a `user_data` that holds nothing else, written as by `append` and without escapes, as most backends send
    /// it. Only a shortcut: nil for any other text.
    package static func idAlone(
        in text: UnsafeRawBufferPointer, _ limits: PusherLimits = PusherLimits()
    ) -> UnsafeRawBufferPointer? {
        let (prefix, ending): (StaticString, StaticString) = (#"{"id":""#, #""}"#)
        let (start, end) = (prefix.utf8CodeUnitCount, text.count &- ending.utf8CodeUnitCount)
        guard end > start, end &- start <= limits.userIDBytes, limits.depth > 0, text.hasPrefix(prefix),
            text.part(end..<text.count).equals(ending), JSONEscape.endOfPlain(text, from: start) == end
        else { return nil }
        return text.part(start..<end)
    }

    /// Takes a member that may come once: with two, two readers could see different users.
    private static func take(_ member: JSONMember, as value: inout JSONValue?) throws(JSONError) {
        guard case .none = value else { throw JSONError(.duplicateKey, at: member.value.offset) }
        value = member.value
    }

    private static func seconds(_ value: JSONValue?) throws(UserDataError) -> Int64? {
        guard let value, value.kind == .number else { return nil }
        guard let seconds = value.integer else { throw .invalidTime }
        return seconds
    }
}
