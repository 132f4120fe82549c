import Bytes
import Digests

/// An app's key and secret, and the signatures made with them (HMAC-SHA-256 in hexadecimal, as `KEY:hex`).
///
/// The secret is kept as prepared hash states only; nothing here can print it.
package struct AppCredentials: Sendable {
    /// The public key.
    package let key: String
    private let secret: HMACSHA256

    /// Prepares `secret`.
    package init(key: String, secret: String) {
        self.key = key
        self.secret = HMACSHA256(key: secret)
    }

    /// True when `other` is this app's key.
    package func isKey(_ other: UnsafeRawBufferPointer) -> Bool {
        var key = key
        return key.withUTF8 { UnsafeRawBufferPointer($0).equals(other) }
    }

    /// What is signed (pusher.md §1.5; Pusher's "Authentication signatures").
    package enum Subject {
        /// A channel, and the raw `channel_data` where the subscribe carries any: then it is covered on every kind.
        case channel(ChannelName, channelData: String?)
        /// A user, by the raw `user_data`.
        case user(userData: String)
    }

    /// True when `auth` is this app's signature of `subject` for the connection `socketID`.
    package func verify(_ auth: String, of subject: Subject, socketID: SocketID) -> Bool {
        var auth = auth
        return auth.withUTF8 { characters in
            let bytes = UnsafeRawBufferPointer(characters)
            // A key holds no colon, and 64 digits follow it.
            let keyCount = bytes.count - 65
            guard keyCount > 0, bytes[keyCount] == UInt8(ascii: ":"), isKey(bytes.part(0..<keyCount)) else {
                return false
            }
            return code(of: subject, socketID: socketID).matches(hex: bytes.part(keyCount + 1..<bytes.count))
        }
    }

    /// Appends `KEY:hex` for `subject` on the connection `socketID`.
    package func append(signing subject: Subject, socketID: SocketID, to writer: inout ByteWriter) {
        writer.append(key)
        writer.append(UInt8(ascii: ":"))
        code(of: subject, socketID: socketID).withUnsafeBytes { writer.append(hex: $0) }
    }

    /// `KEY:hex` for `subject` on the connection `socketID`.
    package func sign(_ subject: Subject, socketID: SocketID) -> String {
        var writer = ByteWriter(capacity: 96)
        append(signing: subject, socketID: socketID, to: &writer)
        return writer.string
    }

    private func code(of subject: Subject, socketID: SocketID) -> SHA256Digest {
        var message = ByteWriter(capacity: 256)
        socketID.append(to: &message)
        switch subject {
        case .channel(let channel, let channelData):
            message.append(UInt8(ascii: ":"))
            message.append(channel.string)
            if let channelData {
                message.append(UInt8(ascii: ":"))
                message.append(channelData)
            }
        case .user(let userData):
            message.append("::user::")
            message.append(userData)
        }
        return message.withUnsafeBytes { secret.authenticationCode(for: $0) }
    }
}
