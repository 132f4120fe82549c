import CLinux
import Glibc

/// The result of a read or write on a non-blocking socket.
public enum TransferResult: Equatable, Sendable {
    /// Bytes moved; never zero.
    case bytes(Int)
    /// Nothing now: wait for readiness.
    case wouldBlock
    /// On reading: the peer has ended its stream.
    case endOfStream
    /// The connection is broken (`errno`).
    case failed(Int32)
}

/// System calls on stream sockets. All retry EINTR, and none raises SIGPIPE.
public enum Socket {
    /// The most buffers that one `write` gathers (the kernel's own limit is 1,024).
    public static let gatheredBuffersMax = 64

    /// Reads what has come, at most as much as `buffer` holds.
    public static func receive(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> TransferResult {
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if count > 0 { return .bytes(count) }
            if count == 0 { return .endOfStream }
            if errno != EINTR { return failure() }
        }
    }

    /// Sends as much of `bytes` as there is room for.
    @inlinable @inline(__always)
    public static func send(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> TransferResult {
        let count = cl_send(descriptor, bytes.baseAddress, bytes.count, noSignal)
        return count >= 0 ? .bytes(count) : sendAgain(descriptor, bytes)
    }

    @usableFromInline static func sendAgain(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> TransferResult {
        while errno == EINTR {
            let count = cl_send(descriptor, bytes.baseAddress, bytes.count, noSignal)
            if count >= 0 { return .bytes(count) }
        }
        return failure()
    }

    /// Sends several buffers in order, with one call.
    public static func send(_ descriptor: Int32, gathering buffers: UnsafeMutableBufferPointer<iovec>) -> TransferResult
    {
        var message = msghdr()
        message.msg_iov = buffers.baseAddress
        message.msg_iovlen = buffers.count
        while true {
            let count = cl_sendmsg(descriptor, &message, noSignal)
            if count >= 0 { return .bytes(count) }
            if errno != EINTR { return failure() }
        }
    }

    /// The error that broke the connection; 0 for none. Reported once.
    public static func takeError(_ descriptor: Int32) -> Int32 {
        var code: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length) == 0 ? code : 0
    }

    /// What a read would give, without reading.
    public static func peek(_ descriptor: Int32) -> TransferResult {
        var byte: UInt8 = 0
        while true {
            let count = recv(descriptor, &byte, 1, Int32(MSG_PEEK))
            if count > 0 { return .bytes(count) }
            if count == 0 { return .endOfStream }
            if errno != EINTR { return failure() }
        }
    }

    /// Bytes that the kernel has taken from us, and the peer not from the kernel; 0 where it does not say.
    public static func unacknowledged(_ descriptor: Int32) -> UInt32 {
        UInt32(clamping: cl_unacknowledged(descriptor))
    }

    /// Nothing more will be sent: the peer reads to the end, while we may still read.
    public static func finishSending(_ descriptor: Int32) {
        shutdown(descriptor, Int32(SHUT_WR))
    }

    /// Closes the descriptor. Its number may be another's at once.
    public static func close(_ descriptor: Int32) {
        _ = Glibc.close(descriptor)
    }

    @inlinable static var noSignal: Int32 { Int32(MSG_NOSIGNAL) }

    private static func failure() -> TransferResult {
        let code = errno
        return code == EAGAIN || code == EWOULDBLOCK ? .wouldBlock : .failed(code)
    }
}
