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

    /// Begins to connect to a server. The socket becomes writable when that is decided; `takeError` says how.
    ///
    /// It gives up a peer that is silent by itself: after half a minute, or 15 s with bytes unacknowledged (tcp(7)).
    ///
    /// - Parameter address: IPv4 or IPv6 as text, as `HostResolver` answers.
    /// - Throws: the call that refused it at once.
    package static func connect(to address: String, port: UInt16) throws(ReactorError) -> Int32 {
        var hints = addrinfo()
        hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(address, String(port), &hints, &found) == 0, let found else {
            throw ReactorError("getaddrinfo", EADDRNOTAVAIL)
        }
        defer { freeaddrinfo(found) }
        let descriptor = cl_stream_socket(found.pointee.ai_family)
        guard descriptor >= 0 else { throw ReactorError("socket", errno) }
        let tcp = Int32(IPPROTO_TCP)
        for (level, option, value) in [
            (tcp, TCP_NODELAY, 1), (SOL_SOCKET, SO_KEEPALIVE, 1), (tcp, TCP_KEEPIDLE, 10), (tcp, TCP_KEEPINTVL, 5),
            (tcp, TCP_KEEPCNT, 3), (tcp, TCP_USER_TIMEOUT, 15_000),
        ] as [(Int32, Int32, Int32)] { _ = cl_set_option(descriptor, level, option, value) }
        guard Glibc.connect(descriptor, found.pointee.ai_addr, found.pointee.ai_addrlen) != 0, errno != EINPROGRESS
        else { return descriptor }
        let code = errno
        Glibc.close(descriptor)
        throw ReactorError("connect", code)
    }

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
