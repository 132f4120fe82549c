import Bytes
import Digests

/// How long a token is to be believed, as the hub's own signature of a channel carries it.
package struct GrantTimes: Equatable, Sendable {
    /// Whole seconds since 1970, as the token said them; 0 where it did not, which counts as old.
    package let issuedAt: Int64
    package let expiresAt: Int64

    /// Decimal digits of a time on the wire.
    package static let digitsMax = 15
    private static let secondsMax: Int64 = 999_999_999_999_999

    /// The times, brought within what the wire can say: from 0 to 15 digits.
    package init(issuedAt: Int64?, expiresAt: Int64) {
        self.issuedAt = min(max(issuedAt ?? 0, 0), Self.secondsMax)
        self.expiresAt = min(max(expiresAt, 0), Self.secondsMax)
    }

    /// Reads `issuedAt:expiresAt`; nil for signs, leading zeros and whatever else `append` never writes.
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

/// The hub's own signatures of channels, `KEY:hex:issuedAt:expiresAt`: they end with the token that they were given
/// for. No part of Pusher's protocol, where a signature is good for as long as the socket; clients pass on what they
/// were given.
extension AppCredentials {
    /// The signature that admits the connection `socketID` to `channel`, on the strength of a token with these times.
    package func sign(_ channel: ChannelName, grant times: GrantTimes, socketID: SocketID) -> String {
        var writer = ByteWriter(capacity: 160)
        writer.append(utf8: key)
        writer.append(UInt8(ascii: ":"))
        code(of: .grant(channel, times), socketID: socketID).withUnsafeBytes { writer.append(hex: $0) }
        writer.append(UInt8(ascii: ":"))
        times.append(to: &writer)
        return writer.string
    }

    /// The times in `auth`, when that is this app's signature of them and of `channel` for the connection `socketID`.
    package func verifyGrant(_ auth: String, of channel: ChannelName, socketID: SocketID) -> GrantTimes? {
        var auth = auth
        return auth.withUTF8 { characters in
            let bytes = UnsafeRawBufferPointer(characters)
            // Neither a key nor 64 digits hold a colon.
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
