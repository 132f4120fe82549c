import Bytes
import JSON

/// The most common client messages, read in place. They are recognised by their first bytes as pusher-js and our own tools
/// write them; other clients use the same key order.
///
/// Only a shortcut. What is spelled otherwise gives nil, an invalid channel, or data that the caller refuses.
/// `ClientEvent.decode` then reads it. Tests compare both.
package enum CommonEvent {
    case ping
    case pong
    /// `pusher:subscribe` without a signature. The caller must check the name, which may contain quotes.
    case subscribe(channel: UnsafeRawBufferPointer)
    /// `pusher:signin`. `userData` is the inside of its JSON string, whose only escapes are `\"`.
    case signin(auth: UnsafeRawBufferPointer, userData: UnsafeRawBufferPointer)
    /// `sync:resume` (design: the wire extension). `data` runs from the first brace of the data to the last but one of the
    /// message: it may be no JSON, or hold more members of the message. The caller must accept the whole of it, or nothing.
    case resume(data: UnsafeRawBufferPointer)

    private static let pingText: StaticString = #"{"event":"pusher:ping","data":{}}"#
    private static let pongText: StaticString = #"{"event":"pusher:pong","data":{}}"#
    private static let subscribePrefix: StaticString = #"{"event":"pusher:subscribe","data":{"auth":"","channel":""#
    private static let signinPrefix: StaticString = #"{"event":"pusher:signin","data":{"auth":""#
    private static let userDataPrefix: StaticString = #"","user_data":""#
    private static let ending: StaticString = #""}}"#
    private static let resumePrefix: StaticString = #"{"event":"sync:resume","data":"#

    /// Reads one text message of valid UTF-8. The event points into it.
    ///
    /// - Parameter limits: looked at for a sign-in only.
    package init?(_ text: UnsafeRawBufferPointer, limits: @autoclosure () -> PusherLimits = PusherLimits()) {
        guard text.count >= Self.pingText.utf8CodeUnitCount else { return nil }
        // `{"event":"` and the letter that tells `sync:` from `pusher:`.
        if text[10] == UInt8(ascii: "s") {
            let data = text.part(Self.resumePrefix.utf8CodeUnitCount..<text.count &- 1)
            guard text.hasPrefix(Self.resumePrefix), text[text.count &- 1] == UInt8(ascii: "}"),
                data.first == UInt8(ascii: "{"), data.last == UInt8(ascii: "}")
            else { return nil }
            self = .resume(data: data)
            return
        }
        // `{"event":"pusher:` and the letter that tells ping and pong from the rest.
        switch text[17] {
        case UInt8(ascii: "p"):
            if text.equals(Self.pingText) {
                self = .ping
            } else if text.equals(Self.pongText) {
                self = .pong
            } else {
                return nil
            }
        case UInt8(ascii: "s"):
            let body = text.count &- Self.ending.utf8CodeUnitCount
            guard text.part(body..<text.count).equals(Self.ending) else { return nil }
            if text.hasPrefix(Self.subscribePrefix), body > Self.subscribePrefix.utf8CodeUnitCount {
                self = .subscribe(channel: text.part(Self.subscribePrefix.utf8CodeUnitCount..<body))
            } else if text.hasPrefix(Self.signinPrefix), body > Self.signinPrefix.utf8CodeUnitCount {
                let rest = text.part(Self.signinPrefix.utf8CodeUnitCount..<body)
                guard let event = Self.signin(rest, limits()) else { return nil }
                self = event
            } else {
                return nil
            }
        default: return nil
        }
    }

    /// Reads the text between the first quote of the signature and the last of the user's data.
    private static func signin(_ text: UnsafeRawBufferPointer, _ limits: PusherLimits) -> CommonEvent? {
        let at = JSONEscape.endOfPlain(text, from: 0)
        let data = at &+ userDataPrefix.utf8CodeUnitCount
        guard at > 0, at <= limits.authBytes, data < text.count, text.part(at..<data).equals(userDataPrefix),
            text.count &- data <= limits.userDataBytes
        else { return nil }
        var next = JSONEscape.endOfPlain(text, from: data)
        while next < text.count {
            guard text[next] == UInt8(ascii: "\\"), next &+ 1 < text.count, text[next &+ 1] == UInt8(ascii: "\"") else {
                return nil
            }
            next = JSONEscape.endOfPlain(text, from: next &+ 2)
        }
        return .signin(auth: text.part(0..<at), userData: text.part(data..<text.count))
    }

    /// Calls `body` with the unescaped inside of a JSON string whose only escapes are `\"`.
    package static func unescape(_ text: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void) {
        withUnsafeTemporaryAllocation(byteCount: text.count, alignment: 8) { room in
            var count = 0
            var at = 0
            while at < text.count {
                let end = text.firstIndex(of: UInt8(ascii: "\\"), from: at) ?? text.count
                UnsafeMutableRawBufferPointer(rebasing: room[count...]).copyMemory(from: text.part(at..<end))
                count &+= end &- at
                guard end &+ 1 < text.count else { break }
                room[count] = text[end &+ 1]
                count &+= 1
                at = end &+ 2
            }
            body(UnsafeRawBufferPointer(rebasing: room[..<count]))
        }
    }
}
