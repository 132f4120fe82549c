import Bytes
import Digests

/// An app's key and secret, and the signatures made with them: HMAC-SHA-256 in hexadecimal, as `KEY:hex`.
///
/// While a secret is being replaced there are two, and signatures by either are valid. The hub signs with the new secret
/// what it verifies itself, and webhooks with the old one. Secrets are kept only as prepared hash states (half a kilobyte),
/// and nothing here can print them. A class, so that users copy a reference.
package final class AppCredentials: Sendable {
    /// The public key.
    package let key: String
    private let secret: HMACSHA256
    /// The secret that `secret` replaces, while it is still valid.
    private let previous: HMACSHA256?

    /// Prepares the secrets.
    package init(key: String, secret: String, previousSecret: String? = nil) {
        self.key = key
        self.secret = HMACSHA256(key: secret)
        previous = previousSecret.map { HMACSHA256(key: $0) }
    }

    /// True when `other` is this app's key.
    package func isKey(_ other: UnsafeRawBufferPointer) -> Bool {
        var key = key
        return key.withUTF8 { UnsafeRawBufferPointer($0).equals(other) }
    }

    /// What is signed (pusher.md §1.5; Pusher's "Authentication signatures").
    package enum Subject {
        /// A channel. When the subscribe has `channel_data`, its raw text is signed too, for every kind of channel.
        case channel(ChannelName, channelData: String?)
        case user(userData: String)
    }

    /// Everything that is signed. The text of one kind can never be that of another.
    enum Message {
        case subject(Subject)
        /// A channel, granted by a token. The colons come before the name, which contains none. After the name,
        /// `channel_data` could imitate the text, and the signature could pass for a backend's, which never expires.
        case grant(ChannelName, GrantTimes)
    }

    /// True when `auth` is this app's signature of `subject` for the connection `socketID`.
    package func verify(_ auth: String, of subject: Subject, socketID: SocketID) -> Bool {
        var auth = auth
        return auth.withUTF8 { auth in
            verify(UnsafeRawBufferPointer(auth)) { code(of: .subject(subject), socketID: socketID, by: $0) }
        }
    }

    /// True when `auth` is this app's signature of the raw `user_data` for the connection `socketID`.
    package func verify(
        _ auth: UnsafeRawBufferPointer, ofUser userData: UnsafeRawBufferPointer, socketID: SocketID
    ) -> Bool {
        verify(auth) { secret in
            socketID.withText { id in
                let separator = ("::user::" as StaticString).bytes
                return secret.authenticationCode(of: id.count + separator.count + userData.count) { room in
                    room.copyMemory(from: id)
                    UnsafeMutableRawBufferPointer(rebasing: room[id.count...]).copyMemory(from: separator)
                    UnsafeMutableRawBufferPointer(rebasing: room[(id.count + separator.count)...])
                        .copyMemory(from: userData)
                }
            }
        }
    }

    @inline(__always)
    private func verify(_ auth: UnsafeRawBufferPointer, _ code: (HMACSHA256) -> SHA256Digest) -> Bool {
        // 64 digits and a colon follow the key.
        let keyCount = auth.count - 65
        guard keyCount > 0, auth[keyCount] == UInt8(ascii: ":"), isKey(auth.part(0..<keyCount)) else { return false }
        return verify(digits: auth.part(keyCount + 1..<auth.count), code)
    }

    /// True when `digits` are the code by either secret. The time may reveal which one, but not how wrong a code is.
    @inline(__always)
    func verify(digits: UnsafeRawBufferPointer, _ code: (HMACSHA256) -> SHA256Digest) -> Bool {
        if code(secret).matches(hex: digits) { return true }
        guard let previous else { return false }
        return code(previous).matches(hex: digits)
    }

    // MARK: Texts of the HTTP API and of webhooks

    /// The hexadecimal code of `text` by the current secret.
    package func code(ofText text: UnsafeRawBufferPointer) -> String {
        secret.authenticationCode(for: text).hex
    }

    /// The hexadecimal code of a webhook's body: its `X-Pusher-Signature`. Uses the previous secret while there is one, as
    /// hosted Pusher signs by an app's oldest: receivers know it, and may switch at any time until then.
    package func code(ofWebhook body: UnsafeRawBufferPointer) -> String {
        (previous ?? secret).authenticationCode(for: body).hex
    }

    // MARK: Signing

    /// Appends `KEY:hex` for `subject` on the connection `socketID`.
    package func append(signing subject: Subject, socketID: SocketID, to writer: inout ByteWriter) {
        writer.append(utf8: key)
        writer.append(UInt8(ascii: ":"))
        code(of: .subject(subject), socketID: socketID).withUnsafeBytes { writer.append(hex: $0) }
    }

    /// `KEY:hex` for `subject` on the connection `socketID`.
    package func sign(_ subject: Subject, socketID: SocketID) -> String {
        var writer = ByteWriter(capacity: 96)
        append(signing: subject, socketID: socketID, to: &writer)
        return writer.string
    }

    func code(of signed: Message, socketID: SocketID) -> SHA256Digest {
        code(of: signed, socketID: socketID, by: secret)
    }

    func code(of signed: Message, socketID: SocketID, by secret: HMACSHA256) -> SHA256Digest {
        var message = ByteWriter(capacity: 256)
        socketID.append(to: &message)
        switch signed {
        case .subject(.channel(let channel, let channelData)):
            message.append(UInt8(ascii: ":"))
            message.append(utf8: channel.string)
            if let channelData {
                message.append(UInt8(ascii: ":"))
                message.append(utf8: channelData)
            }
        case .subject(.user(let userData)):
            message.append("::user::")
            message.append(utf8: userData)
        case .grant(let channel, let times):
            message.append("::token::")
            message.append(utf8: channel.string)
            message.append(UInt8(ascii: ":"))
            times.append(to: &message)
        }
        return message.withUnsafeBytes { secret.authenticationCode(for: $0) }
    }
}
