import Bytes

/// Where the payload of a message is.
package enum MessagePayload {
    /// In the buffer just read, at these offsets. Valid until the buffer changes.
    case inPlace(Range<Int>)
    case assembled([UInt8])
    /// In the inflater's room. Valid until the inflater is used again. `cost` is `Inflater.cost`.
    case inflated(UnsafeRawBufferPointer, cost: Int)

    /// Cost in bytes: the length, or the cost of decompression.
    package var cost: Int {
        switch self {
        case .inPlace(let range): range.count
        case .assembled(let bytes): bytes.count
        case .inflated(_, let cost): cost
        }
    }

    /// Calls `body` with the payload. `buffer` is the buffer that was read.
    package func withUnsafeBytes<Result>(
        in buffer: UnsafeMutableRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result {
        switch self {
        case .inPlace(let range): body(UnsafeRawBufferPointer(buffer).part(range))
        case .assembled(let bytes): bytes.withUnsafeBytes { body($0) }
        case .inflated(let bytes, _): body(bytes)
        }
    }
}

/// What a reader found.
package enum MessageEvent {
    /// A whole text message, valid UTF-8.
    case text(MessagePayload)
    case binary(MessagePayload)
    /// A ping. Answer it with a pong of the same payload (RFC 6455 §5.5.2).
    case ping(MessagePayload)
    case pong(MessagePayload)
    /// The peer closes; nil when it gave no code. Nothing after it is read.
    case close(CloseCode?)

    /// The payload's cost in bytes.
    package var cost: Int {
        switch self {
        case .text(let payload), .binary(let payload), .ping(let payload), .pong(let payload): payload.cost
        case .close: 0
        }
    }
}

/// Reads the frames of one direction of a connection (RFC 6455 §5), one whole message at a time.
///
/// A frame that lies whole in the buffer is returned in place. Other frames are unmasked and taken as they arrive, so the
/// caller keeps only an incomplete header (at most 13 bytes). Text is validated as it arrives. A compressed message (RFC
/// 7692) is decompressed and validated when it is complete. Valid transitions: header → payload → header; header → closed.
/// After an error the reader must not be used again. Kept small (tests check the size): an unfinished message has one.
public struct MessageReader: Sendable {
    /// Which side reads: a server requires masked frames, a client bare ones (RFC 6455 §5.1).
    package enum Role: Sendable {
        case server, client
    }

    @usableFromInline enum Phase: Sendable {
        case header, payload, closed
    }

    private struct Header {
        var opcode: UInt8
        var isFinal: Bool
        var mask: UInt32
        var headerCount: Int
        var payloadCount: Int
        var isCompressed: Bool
        var isControl: Bool { opcode & 8 != 0 }
        /// True when it can be returned in place: a control frame, or a message in one fragment.
        var isWhole: Bool { isControl || (isFinal && opcode != Opcode.continuation) }
    }

    /// The message so far; empty, without memory, between messages.
    @usableFromInline var message: [UInt8] = []
    /// The control frame so far; empty between control frames.
    @usableFromInline var control: [UInt8] = []
    private var remaining = 0
    private var mask: UInt32 = 0
    private var fragments: UInt32 = 0
    /// Opcode of the unfinished message, 0 when there is none.
    @usableFromInline var messageOpcode: UInt8 = 0
    private var messageIsCompressed = false
    private var frameOpcode: UInt8 = 0
    private var frameIsFinal = false
    @usableFromInline var phase = Phase.header
    private let role: Role
    private var validator = UTF8Validator()

    /// A reader at the beginning of the frames.
    package init(role: Role) { self.role = role }

    // Public and inlinable: a reader in a class would otherwise be copied for the call.

    /// True while a message is unfinished, or a frame has come in part.
    @inlinable public var holdsMessage: Bool { messageOpcode != 0 || phase == .payload }

    /// Bytes held for an unfinished message.
    @inlinable public var heldBytes: Int { message.count + control.count }

    /// Reads `bytes` from `consumed`, which it advances. Call it until it returns nil, keep the bytes not consumed, and call
    /// again with more. Unmasks in place.
    ///
    /// - Parameter inflater: required for permessage-deflate; without it, RSV1 is an error.
    package mutating func read(
        _ bytes: UnsafeMutableRawBufferPointer, consumed: inout Int, limits: MessageLimits, inflater: Inflater? = nil
    ) throws(WebSocketError) -> MessageEvent? {
        precondition(consumed >= 0 && consumed <= bytes.count, "consumed more than there is")
        while true {
            switch phase {
            case .closed:
                // Bytes after a close frame are ignored (RFC 6455 §5.5.1).
                consumed = bytes.count
                return nil
            case .header:
                let view = UnsafeRawBufferPointer(bytes)
                guard
                    let header = try Self.parseHeader(
                        view.part(consumed..<view.count), by: role, mayBeCompressed: inflater != nil)
                else {
                    return nil
                }
                try accept(header, limits: limits)
                consumed += header.headerCount
                if header.payloadCount <= bytes.count - consumed, header.isWhole {
                    let range = consumed..<consumed + header.payloadCount
                    consumed = range.upperBound
                    if let event = try takeWhole(header, bytes, range, limits, inflater) { return event }
                    continue
                }
                remaining = header.payloadCount
                mask = header.mask
                frameOpcode = header.opcode
                frameIsFinal = header.isFinal
                phase = .payload
            case .payload:
                let count = min(remaining, bytes.count - consumed)
                try takePayload(UnsafeMutableRawBufferPointer(rebasing: bytes[consumed..<consumed + count]))
                consumed += count
                remaining -= count
                guard remaining == 0 else { return nil }
                phase = .header
                if let event = try finishFrame(limits, inflater) { return event }
            }
        }
    }

    /// Takes an uncompressed text message in one frame that lies whole in `bytes` at `consumed`, and returns its range.
    /// Returns nil and takes nothing for anything else: call `read`.
    ///
    /// This is the common case between messages. It avoids creating a reader.
    package static func takeText(
        _ bytes: UnsafeMutableRawBufferPointer, consumed: inout Int, limits: MessageLimits
    ) throws(WebSocketError) -> Range<Int>? {
        precondition(consumed >= 0 && consumed <= bytes.count, "consumed more than there is")
        let view = UnsafeRawBufferPointer(bytes).part(consumed..<bytes.count)
        guard view.count > 0, view[0] == 0x80 | Opcode.text,
            let header = try parseHeader(view, by: .server, mayBeCompressed: false),
            header.payloadCount <= view.count - header.headerCount, header.payloadCount <= limits.messageBytes,
            limits.fragments > 0
        else { return nil }
        let start = consumed + header.headerCount
        let range = start..<start + header.payloadCount
        let payload = UnsafeMutableRawBufferPointer(rebasing: bytes[range])
        let isASCII = Masking.makesASCII(applying: header.mask, to: payload)
        consumed = range.upperBound
        guard isASCII || UTF8Validator.isValid(UnsafeRawBufferPointer(payload)) else { throw .invalidUTF8 }
        return range
    }

    // MARK: Headers

    /// Parses the header at the start of `bytes`; nil when it is incomplete. Throws as soon as the faulty byte is there.
    // Static: a mutating caller would first copy the whole reader. This holds for other static functions below.
    private static func parseHeader(
        _ bytes: UnsafeRawBufferPointer, by role: Role, mayBeCompressed: Bool
    ) throws(WebSocketError) -> Header? {
        guard bytes.count > 0 else { return nil }
        let first = bytes[0]
        let opcode = first & 0xF
        let isCompressed = first & 0x70 == FrameWriter.compressedBit
        if first & 0x70 != 0 {
            // Allowed only on the first frame of a message (RFC 7692 §6.1).
            guard isCompressed, mayBeCompressed, opcode == Opcode.text || opcode == Opcode.binary else {
                throw .reservedBits
            }
        }
        guard opcode <= Opcode.binary || (Opcode.close...Opcode.pong).contains(opcode) else { throw .unknownOpcode }
        let isFinal = first & 0x80 != 0
        let isControl = opcode & 8 != 0
        if isControl, !isFinal { throw .controlFragmented }
        guard bytes.count > 1 else { return nil }
        let isMasked = bytes[1] & 0x80 != 0
        if role == .server, !isMasked { throw .notMasked }
        if role == .client, isMasked { throw .masked }
        var length = UInt64(bytes[1] & 0x7F)
        if isControl, length > 125 { throw .controlTooLong }
        var at = 2
        if length >= 126 {
            let size = length == 126 ? 2 : 8
            guard bytes.count >= at + size else { return nil }
            let least: UInt64 = size == 2 ? 126 : 65_536
            length = 0
            for index in at..<at + size { length = length << 8 | UInt64(bytes[index]) }
            guard length >> 63 == 0 else { throw .lengthNegative }
            guard length >= least else { throw .lengthNotMinimal }
            at += size
        }
        var mask: UInt32 = 0
        if isMasked {
            guard bytes.count >= at + 4 else { return nil }
            mask = UnsafeRawBufferPointer(rebasing: bytes[at..<at + 4]).loadUnaligned(as: UInt32.self)
            at += 4
        }
        return Header(
            opcode: opcode, isFinal: isFinal, mask: mask, headerCount: at, payloadCount: Int(length),
            isCompressed: isCompressed)
    }

    /// Checks a header against the state before any byte of its payload is kept.
    private mutating func accept(_ header: Header, limits: MessageLimits) throws(WebSocketError) {
        guard !header.isControl else { return }
        if header.opcode == Opcode.continuation {
            guard messageOpcode != 0 else { throw .unexpectedContinuation }
        } else {
            guard messageOpcode == 0 else { throw .expectedContinuation }
            fragments = 0
            messageIsCompressed = header.isCompressed
        }
        let bytesMax = messageIsCompressed ? limits.compressedBytes : limits.messageBytes
        guard header.payloadCount <= bytesMax - message.count else { throw .messageTooBig }
        fragments += 1
        guard fragments <= limits.fragments else { throw .tooManyFragments }
        if header.opcode != Opcode.continuation { messageOpcode = header.opcode }
    }

    // MARK: Payloads

    private mutating func takeWhole(
        _ header: Header, _ bytes: UnsafeMutableRawBufferPointer, _ range: Range<Int>, _ limits: MessageLimits,
        _ inflater: Inflater?
    ) throws(WebSocketError) -> MessageEvent? {
        let payload = UnsafeMutableRawBufferPointer(rebasing: bytes[range])
        if role == .server { _ = Masking.apply(header.mask, to: payload) }
        if header.isControl {
            let closing = MessageReader.closeCode(header.opcode, UnsafeRawBufferPointer(payload))
            return try controlEvent(header.opcode, closing, .inPlace(range))
        }
        messageOpcode = 0
        if header.isCompressed {
            return try Self.inflated(UnsafeRawBufferPointer(payload), header.opcode, limits, inflater)
        }
        guard header.opcode == Opcode.text else { return .binary(.inPlace(range)) }
        guard UTF8Validator.isValid(UnsafeRawBufferPointer(payload)) else { throw .invalidUTF8 }
        return .text(.inPlace(range))
    }

    private mutating func takePayload(_ payload: UnsafeMutableRawBufferPointer) throws(WebSocketError) {
        if role == .server { mask = Masking.apply(mask, to: payload) }
        let plain = UnsafeRawBufferPointer(payload)
        guard frameOpcode & 8 == 0 else {
            control.append(contentsOf: plain)
            return
        }
        if messageOpcode == Opcode.text, !messageIsCompressed {
            guard validator.accept(plain) else { throw .invalidUTF8 }
        }
        message.append(contentsOf: plain)
    }

    /// Ends a frame that came in pieces, or a fragment.
    private mutating func finishFrame(
        _ limits: MessageLimits, _ inflater: Inflater?
    ) throws(WebSocketError) -> MessageEvent? {
        if frameOpcode & 8 != 0 {
            let payload = control
            control = []
            let opcode = frameOpcode
            let closing = payload.withUnsafeBytes { MessageReader.closeCode(opcode, $0) }
            return try controlEvent(opcode, closing, .assembled(payload))
        }
        guard frameIsFinal else { return nil }
        guard validator.isComplete else { throw .invalidUTF8 }
        let payload = message
        let opcode = messageOpcode
        message = []
        messageOpcode = 0
        if messageIsCompressed {
            let result = payload.withUnsafeBytes { bytes in
                Result { () throws(WebSocketError) in
                    try Self.inflated(bytes, opcode, limits, inflater)
                }
            }
            return try result.get()
        }
        return opcode == Opcode.text ? .text(.assembled(payload)) : .binary(.assembled(payload))
    }

    private static func inflated(
        _ payload: UnsafeRawBufferPointer, _ opcode: UInt8, _ limits: MessageLimits, _ inflater: Inflater?
    ) throws(WebSocketError) -> MessageEvent {
        guard let inflater else { throw .reservedBits }
        let message = try inflater.inflate(payload, limit: limits.messageBytes)
        guard opcode == Opcode.text else { return .binary(.inflated(message, cost: inflater.cost)) }
        guard UTF8Validator.isValid(message) else { throw .invalidUTF8 }
        return .text(.inflated(message, cost: inflater.cost))
    }

    private mutating func controlEvent(
        _ opcode: UInt8, _ closing: Result<CloseCode?, WebSocketError>, _ payload: MessagePayload
    ) throws(WebSocketError) -> MessageEvent {
        switch opcode {
        case Opcode.ping: return .ping(payload)
        case Opcode.pong: return .pong(payload)
        default:
            phase = .closed
            return .close(try closing.get())
        }
    }

    /// The code in a close frame's payload; nil for an empty payload and for other frames (RFC 6455 §5.5.1).
    private static func closeCode(
        _ opcode: UInt8, _ payload: UnsafeRawBufferPointer
    ) -> Result<CloseCode?, WebSocketError> {
        guard opcode == Opcode.close, payload.count > 0 else { return .success(nil) }
        guard payload.count > 1 else { return .failure(.closePayload) }
        let code = CloseCode(rawValue: UInt16(payload[0]) << 8 | UInt16(payload[1]))
        guard code.isValidOnWire else { return .failure(.closeCode) }
        guard UTF8Validator.isValid(payload.part(2..<payload.count)) else { return .failure(.invalidUTF8) }
        return .success(code)
    }
}
