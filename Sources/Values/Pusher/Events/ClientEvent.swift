import Bytes
import JSON

/// Why a client's message is refused. The connection stays open and gets `pusher:error`.
package enum ClientEventError: Error, Equatable, Sendable {
    case malformed(JSONError)
    /// `event` is missing, or not a string within the limit.
    case invalidEvent
    /// `data` is neither an object nor a string that holds one, or lacks what the event needs.
    case invalidData
    /// The channel's name is missing or invalid.
    case invalidChannel
    case tooLong
    // These three are answered on the subscribe's channel: otherwise the client would wait for ever.
    /// The channel of a subscribe is a string but no valid name: the inside of its JSON string, no longer than the message.
    case noChannelName([UInt8])
    /// The `auth` of a subscribe to this channel exceeds its limit.
    case signatureTooLong(ChannelName)
    /// The `channel_data` of a subscribe to this channel exceeds its limit.
    case memberTooLong(ChannelName)

    /// A line for `pusher:error`. It contains no byte from the client.
    package var message: StaticString {
        switch self {
        case .malformed: "Invalid JSON"
        case .invalidEvent: "Invalid event name"
        case .invalidData: "Invalid event data"
        case .invalidChannel, .noChannelName: "Invalid channel name"
        case .tooLong, .signatureTooLong, .memberTooLong: "Event data too long"
        }
    }
}

/// A parsed text message from a client. It owns all it holds.
package enum ClientEvent: Equatable, Sendable {
    /// `pusher:ping`, whatever its data.
    case ping
    /// `pusher:pong`, whatever its data.
    case pong
    /// `pusher:subscribe`; an empty `auth` is nil.
    case subscribe(ChannelName, auth: String?, channelData: String?)
    case unsubscribe(ChannelName)
    /// `pusher:signin`; the user's data exactly as it was signed.
    case signin(auth: String, userData: String)
    /// `sync:<name>`: the name without its prefix, and the text of the data's JSON object (`{}` when there is none).
    case sync(name: String, data: [UInt8])
    /// `client-…` on a channel: the full name, and the text of the data's JSON value (`null` when there is none).
    case client(name: String, channel: ChannelName, data: [UInt8])
    /// Anything else: answered with `pusher:error`.
    case unknown(name: String)

    /// Reads one text message. A known member must not come twice; unknown ones are ignored.
    package static func decode(
        _ text: UnsafeRawBufferPointer, limits: PusherLimits = PusherLimits()
    ) throws(ClientEventError) -> ClientEvent {
        var message = Message()
        do throws(JSONError) {
            try message.read(text, limits: limits)
        } catch {
            throw .malformed(error)
        }
        return try message.event(limits: limits)
    }
}

/// The members of a message, pointing into its text.
private struct Message {
    var event: JSONValue?
    var channel: JSONValue?
    var data: JSONValue?
    var members = DataValues()

    mutating func read(_ text: UnsafeRawBufferPointer, limits: PusherLimits) throws(JSONError) {
        var reader = try JSONObjectReader(text, maxDepth: limits.depth)
        while let key = try reader.nextKey() {
            if key.equals("event") {
                try event.takeOnce(try reader.takeValue())
            } else if key.equals("data") {
                try data.takeOnce(try reader.takeObject { members.take($0) })
            } else if key.equals("channel") {
                try channel.takeOnce(try reader.takeValue())
            } else {
                _ = try reader.takeValue()
            }
        }
    }

    func event(limits: PusherLimits) throws(ClientEventError) -> ClientEvent {
        guard let event, event.kind == .string else { throw .invalidEvent }
        if event.equals("pusher:ping") { return .ping }
        if event.equals("pusher:pong") { return .pong }
        if event.equals("pusher:subscribe") {
            let members = try dataMembers(limits)
            if let other = members.otherChannel { throw .noChannelName(other) }
            let channel = try members.requiredChannel()
            guard !members.isAuthTooLong else { throw .signatureTooLong(channel) }
            guard !members.isMemberTooLong else { throw .memberTooLong(channel) }
            return .subscribe(channel, auth: members.auth, channelData: members.channelData)
        }
        if event.equals("pusher:unsubscribe") { return .unsubscribe(try dataMembers(limits).requiredChannel()) }
        if event.equals("pusher:signin") {
            let members = try dataMembers(limits)
            guard !members.isAuthTooLong else { throw .tooLong }
            guard let auth = members.auth, let userData = members.userData else { throw .invalidData }
            return .signin(auth: auth, userData: userData)
        }
        guard let name = event.string, !name.isEmpty, name.utf8.count <= limits.eventNameBytes else {
            throw .invalidEvent
        }
        if name.utf8.starts(with: "sync:".utf8) {
            return .sync(name: String(name.utf8.dropFirst(5)) ?? "", data: try objectText(limits))
        }
        if name.utf8.starts(with: "client-".utf8) {
            guard let channel = channel?.withCharacters({ ChannelName($0) }) ?? nil else { throw .invalidChannel }
            return .client(name: name, channel: channel, data: data.map { [UInt8]($0.bytes) } ?? [UInt8]("null".utf8))
        }
        return .unknown(name: name)
    }

    /// The members of `data`, an object or a string that holds one.
    @inline(__always) private func dataMembers(_ limits: PusherLimits) throws(ClientEventError) -> DataMembers {
        guard let data else { throw .invalidData }
        if data.kind == .object { return try DataMembers(members, limits) }
        let inner = data.withCharacters { text in
            Result { () throws(ClientEventError) in try DataMembers(DataValues(text, limits), limits) }
        }
        guard let inner else { throw .invalidData }
        return try inner.get()
    }

    /// The text of `data`, an object or a string that holds one; `{}` when there is none.
    private func objectText(_ limits: PusherLimits) throws(ClientEventError) -> [UInt8] {
        guard let data else { return [UInt8]("{}".utf8) }
        if data.kind == .object { return [UInt8](data.bytes) }
        guard let text = data.characters else { throw .invalidData }
        if text.isEmpty { return [UInt8]("{}".utf8) }
        let isObject = text.withUnsafeBytes { (try? JSONValue.parse($0, maxDepth: limits.depth))?.kind == .object }
        guard isObject else { throw .invalidData }
        return text
    }
}

/// The members of `data` in Pusher's own events, pointing into its text.
private struct DataValues {
    var channel: JSONValue?
    var auth: JSONValue?
    var channelData: JSONValue?
    var userData: JSONValue?
    /// The first repeated member: an error only for events that read members.
    var duplicate: JSONError?

    init() {}

    /// Reads a text that must be an object.
    init(_ text: UnsafeRawBufferPointer, _ limits: PusherLimits) throws(ClientEventError) {
        do throws(JSONError) {
            var reader = try JSONObjectReader(text, maxDepth: limits.depth)
            while let member = try reader.next() { take(member) }
        } catch {
            throw error.kind == .wrongKind || error.kind == .unexpectedEnd ? .invalidData : .malformed(error)
        }
    }

    mutating func take(_ member: JSONMember) {
        do throws(JSONError) {
            if member.isNamed("channel") {
                try channel.takeOnce(member.value)
            } else if member.isNamed("auth") {
                try auth.takeOnce(member.value)
            } else if member.isNamed("channel_data") {
                try channelData.takeOnce(member.value)
            } else if member.isNamed("user_data") {
                try userData.takeOnce(member.value)
            }
        } catch {
            duplicate = duplicate ?? error
        }
    }
}

/// The members of `data` as final values within their limits.
private struct DataMembers {
    private let channel: ChannelName?
    /// The inside of the JSON string `channel` when it is not a valid name; otherwise nil.
    let otherChannel: [UInt8]?
    let auth: String?
    /// Whether `auth` exceeds its limit; `auth` is then nil.
    let isAuthTooLong: Bool
    let channelData: String?
    /// Whether `channel_data` exceeds its limit; `channelData` is then nil.
    let isMemberTooLong: Bool
    let userData: String?

    init(_ values: DataValues, _ limits: PusherLimits) throws(ClientEventError) {
        if let duplicate = values.duplicate { throw .malformed(duplicate) }
        channel = values.channel?.withCharacters { ChannelName($0) } ?? nil
        if channel == nil, let other = values.channel, other.kind == .string {
            otherChannel = [UInt8](other.bytes.part(1..<other.bytes.count - 1))
        } else {
            otherChannel = nil
        }
        let credentials = try DataMembers.text(values.auth, maximum: .max)
        isAuthTooLong = (credentials?.utf8.count ?? 0) > limits.authBytes
        auth = credentials?.isEmpty == true || isAuthTooLong ? nil : credentials
        let channelData = try DataMembers.text(values.channelData, maximum: .max)
        isMemberTooLong = (channelData?.utf8.count ?? 0) > limits.channelDataBytes
        self.channelData = isMemberTooLong ? nil : channelData
        userData = try DataMembers.text(values.userData, maximum: limits.userDataBytes)
    }

    func requiredChannel() throws(ClientEventError) -> ChannelName {
        guard let channel else { throw .invalidChannel }
        return channel
    }

    /// A string of at most `maximum` bytes; nil when it is missing or null.
    @inline(__always) private static func text(_ value: JSONValue?, maximum: Int) throws(ClientEventError) -> String? {
        guard let value, value.kind != .null else { return nil }
        guard let text = value.string else { throw .invalidData }
        guard text.utf8.count <= maximum else { throw .tooLong }
        return text
    }
}

extension JSONValue? {
    /// Takes the value of a member that may come once: with two, two readers could see different messages.
    mutating func takeOnce(_ value: JSONValue) throws(JSONError) {
        guard case .none = self else { throw JSONError(.duplicateKey, at: value.offset) }
        self = value
    }
}
