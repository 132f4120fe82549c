// WebSocket: RFC 6455 and RFC 7692 (compression) as pure, bounded state machines.
//
// Purpose: the handshake of both sides, a reader of messages, a writer of frames. `WebSocketMachine` decides what to do
// next, and when. Invariants: the reader leaves at most an incomplete frame header unread and owns memory only while a
// message is unfinished. The first byte that breaks a rule ends the connection with the right close code. Messages are
// compressed one by one: connections hold no compression state. Depends on Bytes, Clock, Digests (accept key), HTTP, zlib.

/// A close code (RFC 6455 §7.4, and Pusher's 4000–4999).
package struct CloseCode: RawRepresentable, Hashable, Sendable {
    /// The number on the wire.
    package let rawValue: UInt16

    /// A code by its number.
    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// 1000: the connection has done its work.
    package static let normal = CloseCode(rawValue: 1000)
    /// 1001: the endpoint goes, as at a restart.
    package static let goingAway = CloseCode(rawValue: 1001)
    /// 1002: a breach of RFC 6455.
    package static let protocolError = CloseCode(rawValue: 1002)
    /// 1003: a binary message.
    package static let unsupportedData = CloseCode(rawValue: 1003)
    /// 1007: text that is not UTF-8, or a message that does not inflate.
    package static let invalidPayload = CloseCode(rawValue: 1007)
    /// 1008: a breach of the hub's own rules.
    package static let policyViolation = CloseCode(rawValue: 1008)
    /// 1009: a message over the limit.
    package static let messageTooBig = CloseCode(rawValue: 1009)

    /// True for codes that an endpoint may send (RFC 6455 §7.4.1, §7.4.2, and the IANA registry up to 1014).
    package var isValidOnWire: Bool {
        switch rawValue {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }
}

/// Why a connection is ended.
package enum WebSocketError: Error, Equatable, Sendable {
    case reservedBits, unknownOpcode, notMasked, masked, lengthNotMinimal, lengthNegative
    case controlTooLong, controlFragmented, unexpectedContinuation, expectedContinuation
    case closePayload, closeCode
    case invalidUTF8, malformedDeflate
    case messageTooBig, messagePadded, tooManyFragments

    /// The close code to send.
    package var closeCode: CloseCode {
        switch self {
        case .invalidUTF8, .malformedDeflate: .invalidPayload
        case .messageTooBig: .messageTooBig
        // A padded message is valid DEFLATE (not 1007) and within the limit (not 1009).
        case .tooManyFragments, .messagePadded: .policyViolation
        default: .protocolError
        }
    }

    /// A reason for the close frame. It contains no byte from the peer.
    package var reason: StaticString {
        switch self {
        case .reservedBits: "reserved bits set"
        case .unknownOpcode: "unknown opcode"
        case .notMasked: "frame not masked"
        case .masked: "frame masked"
        case .lengthNotMinimal: "length not minimal"
        case .lengthNegative: "length out of range"
        case .controlTooLong: "control frame too long"
        case .controlFragmented: "control frame fragmented"
        case .unexpectedContinuation: "nothing to continue"
        case .expectedContinuation: "expected a continuation"
        case .closePayload: "close payload malformed"
        case .closeCode: "close code invalid"
        case .invalidUTF8: "invalid UTF-8"
        case .malformedDeflate: "compressed data malformed"
        case .messageTooBig: "message too big"
        case .messagePadded: "compressed message padded with empty blocks"
        case .tooManyFragments: "too many fragments"
        }
    }
}

/// Limits of a message that is read.
package struct MessageLimits: Sendable, Equatable {
    /// Bytes of one message, all fragments together. More closes with 1009 before any excess byte is kept. A compressed
    /// message is counted as it is decompressed.
    package var messageBytes = 65_536
    /// Fragments of one message. More closes with 1008.
    package var fragments = 1024

    /// Bytes of one message as received in compressed form: incompressible data grows slightly.
    package var compressedBytes: Int { messageBytes + messageBytes / 8 + 64 }

    /// The defaults.
    package init() {}
}

/// The operation codes (RFC 6455 §5.2).
package enum Opcode {
    /// A further frame of a message.
    package static let continuation: UInt8 = 0
    /// The first frame of a text message.
    package static let text: UInt8 = 1
    /// The first frame of a binary message.
    package static let binary: UInt8 = 2
    /// A close, with a code.
    package static let close: UInt8 = 8
    /// A ping, answered by a pong.
    package static let ping: UInt8 = 9
    /// The answer to a ping.
    package static let pong: UInt8 = 10
}
