import COpenSSL

/// Follows the records that a client sends in the clear at the beginning of a handshake, up to the length that each hello
/// says it has: its first one, and the one after the server has asked for another (RFC 8446 §4.1.4).
///
/// OpenSSL 3.0 allows 128 KiB, and takes and clears that much memory as soon as it has read the length. Whatever else is
/// wrong with what comes is OpenSSL's to say.
struct HelloWatch {
    /// The longest hello that is taken: ten times those of browsers with post-quantum keys, and one record.
    static let helloBytesMax = 16 << 10

    /// Bytes seen of a record's header, and what its header has told.
    private var headerSeen: UInt8 = 0
    private var recordType: UInt8 = 0
    private var recordLeft = 0
    /// Bytes seen of a handshake message's header, and what it has told. A message may span records, its header too.
    private var messageSeen: UInt8 = 0
    private var messageType: UInt8 = 0
    private var messageLeft = 0
    /// No hello can follow.
    private var isDone = false

    private static let recordHeaderBytes: UInt8 = 5
    private static let messageHeaderBytes: UInt8 = 4

    /// Looks at the next bytes of the stream, and says whether a hello is too long that begins in them.
    ///
    /// - Parameter isOldVersion: TLS 1.2 was agreed, whose records after a change of cipher are of the same type and
    ///   encrypted.
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

    /// The next byte of a record's header: its type, two of a version, two of its length.
    private mutating func header(_ byte: UInt8) {
        switch headerSeen {
        case 0: (recordType, recordLeft) = (byte, 0)
        case 3, 4: recordLeft = recordLeft << 8 | Int(byte)
        default: break
        }
        headerSeen += 1
    }

    /// The next byte of a message's header: its type, three of its length.
    private mutating func message(_ byte: UInt8) {
        if messageSeen == 0 {
            (messageType, messageLeft) = (byte, 0)
        } else {
            messageLeft = messageLeft << 8 | Int(byte)
        }
        messageSeen += 1
    }

    /// Passes over what is there of the body of a record, and of a message in it, and says how much that was.
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
