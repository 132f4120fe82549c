import COpenSSL

/// Limits the length of ClientHellos: follows the records that a client sends in the clear at the beginning of a handshake,
/// up to the stated length of its first hello, and of the one after a HelloRetryRequest (RFC 8446 §4.1.4).
///
/// OpenSSL 3.0 allows 128 KiB, and allocates and clears that much once it has read the length. It finds all other faults.
struct ClientHelloLimit {
    /// The longest hello accepted: one record, ten times those of browsers with post-quantum keys.
    static let helloBytesMax = 16 << 10

    /// Bytes seen of a record's header, and its contents.
    private var headerSeen: UInt8 = 0
    private var recordType: UInt8 = 0
    private var recordLeft = 0
    /// Bytes seen of a handshake message's header, and its contents. A message, and its header, may span records.
    private var messageSeen: UInt8 = 0
    private var messageType: UInt8 = 0
    private var messageLeft = 0
    /// No hello can follow.
    private var isDone = false

    private static let recordHeaderBytes: UInt8 = 5
    private static let messageHeaderBytes: UInt8 = 4

    /// Looks at the next bytes of the stream. Returns whether a hello that begins in them is too long.
    ///
    /// - Parameter isOldVersion: TLS 1.2 was agreed, whose encrypted records after a ChangeCipherSpec have the same type.
    mutating func isTooLong(_ bytes: UnsafeRawBufferPointer, isOldVersion: Bool) -> Bool {
        var index = 0
        while index < bytes.count, !isDone {
            if headerSeen < Self.recordHeaderBytes {
                header(bytes[index])
                index += 1
                if headerSeen == Self.recordHeaderBytes, recordType == SSL3_RT_CHANGE_CIPHER_SPEC, isOldVersion {
                    isDone = true
                }
            } else if recordType == SSL3_RT_HANDSHAKE, messageSeen < Self.messageHeaderBytes, recordLeft > 0 {
                message(bytes[index])
                index += 1
                recordLeft -= 1
                if messageSeen == Self.messageHeaderBytes {
                    if messageType != SSL3_MT_CLIENT_HELLO { isDone = true }
                    if !isDone, messageLeft > Self.helloBytesMax { return true }
                }
            } else {
                index += skip(bytes.count - index)
            }
            if headerSeen == Self.recordHeaderBytes, recordLeft == 0 { headerSeen = 0 }
            if messageSeen == Self.messageHeaderBytes, messageLeft == 0 { messageSeen = 0 }
        }
        return false
    }

    /// The next byte of a record's header: one of type, two of version, two of length.
    private mutating func header(_ byte: UInt8) {
        switch headerSeen {
        case 0: (recordType, recordLeft) = (byte, 0)
        case 3, 4: recordLeft = recordLeft << 8 | Int(byte)
        default: break
        }
        headerSeen += 1
    }

    /// The next byte of a message's header: one of type, three of length.
    private mutating func message(_ byte: UInt8) {
        if messageSeen == 0 {
            (messageType, messageLeft) = (byte, 0)
        } else {
            messageLeft = messageLeft << 8 | Int(byte)
        }
        messageSeen += 1
    }

    /// Skips the available body of a record, and of a message in it. Returns how much that was.
    private mutating func skip(_ available: Int) -> Int {
        var count = min(available, recordLeft)
        if recordType == SSL3_RT_HANDSHAKE {
            count = min(count, messageLeft)
            messageLeft -= count
        }
        recordLeft -= count
        return count
    }
}
