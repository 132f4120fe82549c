import Bytes
import HTTP

/// permessage-deflate (RFC 7692): what a client offers and the server agrees to.
///
/// The answer always forbids both sides to keep a window between messages. So no connection holds a window, and one
/// compressed message serves all receivers. The client must obey even if its offer does not say so (§7.1.1.1, §7.1.1.2).
package struct DeflateAgreement: Sendable, Equatable {
    /// The window for messages to this client.
    package let window: DeflateWindow
    /// The largest window that the client offers to decompress with; nil when the offer does not say.
    private let serverWindowBits: UInt8?

    /// The first acceptable offer in the `Sec-WebSocket-Extensions` fields; nil when there is none.
    ///
    /// - Throws: `extensions` when a field is malformed (RFC 6455 §9.1). Such a handshake fails.
    init?(_ request: borrowing ParsedRequest) throws(HandshakeError) {
        var agreement: DeflateAgreement?
        var index = 0
        while let value = request.field("sec-websocket-extensions", from: &index) {
            var reader = ExtensionReader(value)
            while let name = try reader.nextName() {
                let offer = try DeflateAgreement(name, &reader)
                if agreement == nil { agreement = offer }
            }
        }
        guard let agreement else { return nil }
        self = agreement
    }

    /// Reads one offer. Nil declines it: another extension, or an unknown, repeated or invalid parameter (RFC 7692 §7.1).
    private init?(_ name: UnsafeRawBufferPointer, _ reader: inout ExtensionReader) throws(HandshakeError) {
        var isGood = name.equals("permessage-deflate")
        var seen: UInt8 = 0
        var serverWindowBits: UInt8?
        while let parameter = try reader.nextParameter() {
            guard let known = Self.parameters.firstIndex(where: { parameter.name.equals($0) }),
                seen & 1 << known == 0
            else {
                isGood = false
                continue
            }
            seen |= 1 << known
            switch known {
            case 0, 1: if parameter.value != nil { isGood = false }
            case 2:
                serverWindowBits = parameter.value?.windowBits
                if serverWindowBits == nil { isGood = false }
            default:
                // The client may choose its own window: the server always decompresses with the largest.
                if let value = parameter.value, value.windowBits == nil { isGood = false }
            }
        }
        guard isGood, let window = serverWindowBits.map({ DeflateWindow(atMost: $0) }) ?? .wide else { return nil }
        self.window = window
        self.serverWindowBits = serverWindowBits
    }

    private static let parameters: [StaticString] = [
        "server_no_context_takeover", "client_no_context_takeover", "server_max_window_bits", "client_max_window_bits",
    ]

    func append(to writer: inout ByteWriter) {
        writer.append("Sec-WebSocket-Extensions: permessage-deflate")
        writer.append("; server_no_context_takeover; client_no_context_takeover")
        if let serverWindowBits {
            writer.append("; server_max_window_bits=")
            writer.append(decimal: Int(serverWindowBits))
        }
        writer.append("\r\n")
    }
}

/// Reads the value of a `Sec-WebSocket-Extensions` field (RFC 6455 §9.1): each name, followed by its parameters.
struct ExtensionReader {
    /// A parameter's value. It may contain the backslashes of a quoted string.
    struct Value {
        let bytes: UnsafeRawBufferPointer

        /// 8 to 15, in decimal without leading zeros (RFC 7692 §7.1.2); otherwise nil.
        var windowBits: UInt8? {
            var number = 0
            var digits = 0
            for byte in bytes where byte != UInt8(ascii: "\\") {
                guard byte.isASCIIDigit, digits < 2, digits > 0 || byte != UInt8(ascii: "0") else { return nil }
                number = number * 10 + Int(byte - UInt8(ascii: "0"))
                digits += 1
            }
            return (8...15).contains(number) ? UInt8(number) : nil
        }
    }

    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    /// Reads `value`, which must outlive the reader.
    init(_ value: UnsafeRawBufferPointer) { bytes = value }

    /// The next extension's name, nil at the end; read its parameters next. Skips empty list members (RFC 9110 §5.6.1).
    mutating func nextName() throws(HandshakeError) -> UnsafeRawBufferPointer? {
        skipBlanks()
        while take(",") { skipBlanks() }
        return position < bytes.count ? try token() : nil
    }

    /// The extension's next parameter, nil after the last one.
    mutating func nextParameter() throws(HandshakeError) -> (name: UnsafeRawBufferPointer, value: Value?)? {
        skipBlanks()
        guard take(";") else {
            guard position == bytes.count || bytes[position] == UInt8(ascii: ",") else { throw .extensions }
            return nil
        }
        skipBlanks()
        let name = try token()
        skipBlanks()
        guard take("=") else { return (name, nil) }
        skipBlanks()
        return (name, Value(bytes: take("\"") ? try quoted() : try token()))
    }

    /// Reads a quoted string whose opening quote is read already. Without its backslashes it must be a token.
    private mutating func quoted() throws(HandshakeError) -> UnsafeRawBufferPointer {
        let start = position
        var isEmpty = true
        while !take("\"") {
            _ = take("\\")
            guard position < bytes.count, bytes[position].isTokenCharacter else { throw .extensions }
            position += 1
            isEmpty = false
        }
        guard !isEmpty else { throw .extensions }
        return bytes.part(start..<position - 1)
    }

    private mutating func token() throws(HandshakeError) -> UnsafeRawBufferPointer {
        let start = position
        while position < bytes.count, bytes[position].isTokenCharacter { position += 1 }
        guard position > start else { throw .extensions }
        return bytes.part(start..<position)
    }

    private mutating func skipBlanks() {
        while position < bytes.count, bytes[position] == 0x20 || bytes[position] == 0x09 { position += 1 }
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard position < bytes.count, bytes[position] == UInt8(ascii: character) else { return false }
        position += 1
        return true
    }
}
