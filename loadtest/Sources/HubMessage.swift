import Bytes
import JSON
import Pusher

/// A hub's message, as far as a device of the load tester needs it.
enum HubMessage {
    case established(SocketID)
    case signedIn
    /// The channel's events follow this offset.
    case subscribed(topic: Int, user: Int, offset: Int64)
    case event(Arrival)
    /// The answer to a position that the device named: the channel stands at `offset`. What it missed follows; with a `loss`
    /// it does not, for that reason.
    case resumed(topic: Int, user: Int, offset: Int64, loss: String?)
    case result(ActionResult)
    case ping
    /// The name of a refusal or error.
    case refusal(String)
    /// A message that needs no action.
    case other

    /// Reads one message. An unreadable message fails the run.
    init(_ text: UnsafeRawBufferPointer, names: Names) throws(JSONError) {
        var name = ""
        var channel: JSONValue?
        var data: JSONValue?
        var members = try JSONObjectReader(text)
        while let member = try members.next() {
            if member.isNamed("event") {
                name = member.value.string ?? ""
            } else if member.isNamed("channel") {
                channel = member.value
            } else if member.isNamed("data") {
                data = member.value
            }
        }
        guard let characters = data?.characters ?? data.map({ [UInt8]($0.bytes) }) else {
            self = .other
            return
        }
        let stream = channel?.withCharacters { names.stream(of: $0) } ?? nil
        let result: Result<HubMessage, JSONError> = characters.withUnsafeBytes { bytes in
            do throws(JSONError) {
                return .success(try HubMessage(name, stream, bytes, names, Checksum.of(text)))
            } catch {
                return .failure(error)
            }
        }
        self = try result.get()
    }

    private init(
        _ name: String, _ stream: Names.Stream?, _ data: UnsafeRawBufferPointer, _ names: Names, _ checksum: UInt64
    ) throws(JSONError) {
        switch name {
        case "pusher:connection_established":
            let id = try data.member("socket_id")?.withCharacters { SocketID($0) } ?? nil
            self = id.map { .established($0) } ?? .refusal("a connection without an id")
        case "pusher:signin_success": self = .signedIn
        case "pusher_internal:subscription_succeeded":
            let offset = try data.member("sync")?.bytes.member("offset")?.integer
            guard let stream, let offset else {
                self = .refusal("a subscription without a position")
                return
            }
            self = .subscribed(topic: stream.topic, user: stream.user, offset: offset)
        case "pusher:ping": self = .ping
        case "sync:resumed": self = try HubMessage(resumed: data, names)
        case "sync:result": self = .result(try ActionResult(data, names))
        case "pusher:error", "pusher:subscription_error": self = .refusal("\(name) \(data.string)")
        case _ where name.hasPrefix("pusher"): self = .other
        default:
            guard let stream else {
                self = .refusal("an event on a channel that nobody asked for")
                return
            }
            self = .event(try Arrival(stream, data, names, checksum))
        }
    }
}

extension HubMessage {
    /// The hub answers for one channel at a time.
    private init(resumed data: UnsafeRawBufferPointer, _ names: Names) throws(JSONError) {
        guard let channels = try data.member("channels") else {
            self = .refusal("an answer about no channel")
            return
        }
        var members = try JSONObjectReader(channels.bytes)
        guard let member = try members.next(), let stream = member.key.withCharacters({ names.stream(of: $0) }) ?? nil,
            let offset = try member.value.bytes.member("offset")?.integer
        else {
            self = .refusal("an answer about a channel that nobody asked for")
            return
        }
        let isRecovered = try member.value.bytes.member("recovered")?.bytes.equals("true") == true
        let reason = try member.value.bytes.member("reason")?.string
        self = .resumed(
            topic: stream.topic, user: stream.user, offset: offset, loss: isRecovered ? nil : reason ?? "no reason")
    }
}

struct ActionResult {
    /// The device and its action number; nil if the key belongs to no action of this run.
    var action: (device: Int, number: Int)?
    var status = ""
    var code: String?
}

extension ActionResult {
    fileprivate init(_ data: UnsafeRawBufferPointer, _ names: Names) throws(JSONError) {
        var members = try JSONObjectReader(data)
        while let member = try members.next() {
            if member.isNamed("key") {
                action = (member.value.withCharacters { names.action(of: $0) } ?? nil).map { ($0.owner, $0.number) }
            } else if member.isNamed("status") {
                status = member.value.string ?? ""
            } else if member.isNamed("code") {
                code = member.value.string
            }
        }
    }
}

struct Arrival {
    let user: Int
    let topic: Int
    /// Its number in the stream.
    let offset: Int64
    /// The event's row; -1 if it is not a row of this run, such as a day's summary.
    let row: Int
    let revision: Int64
    /// Of the whole message: devices that received the same bytes agree.
    let checksum: UInt64
}

extension Arrival {
    fileprivate init(
        _ stream: Names.Stream, _ data: UnsafeRawBufferPointer, _ names: Names, _ checksum: UInt64
    ) throws(JSONError) {
        var offset: Int64 = -1
        var row = -1
        var revision: Int64 = -1
        var members = try JSONObjectReader(data)
        while let member = try members.next() {
            if member.isNamed("_sync") {
                offset = try member.value.bytes.member("o")?.integer ?? -1
            } else if member.isNamed("occurrenceId") || member.isNamed("id") {
                row = (member.value.withCharacters { names.number(in: $0) } ?? nil) ?? -1
            } else if member.isNamed("updates"), member.value.kind == .object {
                revision = try member.value.bytes.member("rev")?.integer ?? -1
            } else if member.isNamed("rev") {
                revision = member.value.integer ?? -1
            }
        }
        self.init(
            user: stream.user, topic: stream.topic, offset: offset, row: row, revision: revision, checksum: checksum)
    }
}

extension UnsafeRawBufferPointer {
    /// The value called `name` of the object whose text this is.
    func member(_ name: StaticString) throws(JSONError) -> JSONValue? {
        var found: JSONValue?
        var members = try JSONObjectReader(self)
        while let member = try members.next() {
            if member.isNamed(name) { found = member.value }
        }
        return found
    }
}

/// A fast checksum, eight bytes a step, to compare deliveries. Not secure.
enum Checksum {
    static func of(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        var sum = UInt64(truncatingIfNeeded: bytes.count)
        guard let base = bytes.baseAddress else { return sum }
        var at = 0
        while at &+ 8 <= bytes.count {
            sum = (sum ^ base.loadUnaligned(fromByteOffset: at, as: UInt64.self)) &* 0x9E37_79B9_7F4A_7C15
            sum ^= sum >> 32
            at &+= 8
        }
        while at < bytes.count {
            sum = (sum ^ UInt64(bytes[at])) &* 0x100_0000_01B3
            at &+= 1
        }
        return sum
    }
}
