import Bytes
import Digests

/// The validity times of a token, carried in the hub's own signature of a channel.
package struct GrantTimes: Equatable, Sendable {
    /// Whole seconds since 1970. `issuedAt` is 0 when the token has none, and then counts as old.
    package let issuedAt: Int64
    /// From then on, the grant is refused.
    package let expiresAt: Int64

    /// Decimal digits of a time on the wire.
    package static let digitsMax = 15
    private static let secondsMax: Int64 = 999_999_999_999_999

    /// Clamps the times to what the wire allows: 0 to 15 digits.
    package init(issuedAt: Int64?, expiresAt: Int64) {
        self.issuedAt = min(max(issuedAt ?? 0, 0), Self.secondsMax)
        self.expiresAt = min(max(expiresAt, 0), Self.secondsMax)
    }

    /// Reads `issuedAt:expiresAt`; nil for anything that `append` never writes, such as signs and leading zeros.
    package init?(_ text: UnsafeRawBufferPointer) {
        guard let colon = text.firstIndex(of: UInt8(ascii: ":"), from: 0),
            let issuedAt = Self.seconds(text.part(0..<colon)),
            let expiresAt = Self.seconds(text.part(colon + 1..<text.count))
        else { return nil }
        self.issuedAt = issuedAt
        self.expiresAt = expiresAt
    }

    /// Appends `issuedAt:expiresAt`.
    package func append(to writer: inout ByteWriter) {
        writer.append(decimal: issuedAt)
        writer.append(UInt8(ascii: ":"))
        writer.append(decimal: expiresAt)
    }

    private static func seconds(_ digits: UnsafeRawBufferPointer) -> Int64? {
        guard digits.count <= digitsMax, let value = digits.decimalValue else { return nil }
        guard digits.count == 1 || digits[0] != UInt8(ascii: "0") else { return nil }
        return Int64(value)
    }
}

/// The hub's own channel signatures, `KEY:hex:issuedAt:expiresAt`. They expire with the token that they were made for. They
/// are not part of Pusher's protocol, where a signature is valid as long as the socket. Clients pass them on unchanged.
extension AppCredentials {
    /// Signs `channel` for the connection `socketID`, valid for a token with these times.
    package func sign(_ channel: ChannelName, grant times: GrantTimes, socketID: SocketID) -> String {
        var writer = ByteWriter(capacity: 160)
        writer.append(utf8: key)
        writer.append(UInt8(ascii: ":"))
        code(of: .grant(channel, times), socketID: socketID).withUnsafeBytes { writer.append(hex: $0) }
        writer.append(UInt8(ascii: ":"))
        times.append(to: &writer)
        return writer.string
    }

    /// The times in `auth` when it is this app's signature of them and `channel` for `socketID`; otherwise nil.
    package func verifyGrant(_ auth: String, of channel: ChannelName, socketID: SocketID) -> GrantTimes? {
        var auth = auth
        return auth.withUTF8 { characters in
            let bytes = UnsafeRawBufferPointer(characters)
            // Neither the key nor the 64 digits contain a colon.
            guard let keyEnd = bytes.firstIndex(of: UInt8(ascii: ":"), from: 0), isKey(bytes.part(0..<keyEnd)),
                let codeEnd = bytes.firstIndex(of: UInt8(ascii: ":"), from: keyEnd + 1),
                let times = GrantTimes(bytes.part(codeEnd + 1..<bytes.count))
            else { return nil }
            let isSigned = verify(digits: bytes.part(keyEnd + 1..<codeEnd)) {
                code(of: .grant(channel, times), socketID: socketID, by: $0)
            }
            return isSigned ? times : nil
        }
    }
}
