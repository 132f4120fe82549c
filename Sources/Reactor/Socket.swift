import CLinux
import Glibc

/// What a read or write of a non-blocking socket came to.
public enum TransferResult: Equatable, Sendable {
    /// So many bytes moved; never zero.
    case bytes(Int)
    /// Nothing now: wait for readiness.
    case wouldBlock
    /// Reading: the peer has ended its stream.
    case endOfStream
    /// The connection is broken (`errno`).
    case failed(Int32)
}

/// System calls on stream sockets. Every one retries EINTR and none raises SIGPIPE.
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
    @inline(__always)
    public static func send(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> TransferResult {
        while true {
            let count = cl_send(descriptor, bytes.baseAddress, bytes.count, noSignal)
            if count >= 0 { return .bytes(count) }
            if errno != EINTR { return failure() }
        }
    }

    /// Sends several buffers, in order, by one call.
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

    /// No more will be sent: the peer reads to the end, while we may still read.
    public static func finishSending(_ descriptor: Int32) {
        shutdown(descriptor, Int32(SHUT_WR))
    }

    /// Closes the descriptor; its number may be another's at once.
    public static func close(_ descriptor: Int32) {
        _ = Glibc.close(descriptor)
    }

    private static let noSignal = Int32(MSG_NOSIGNAL)

    private static func failure() -> TransferResult {
        let code = errno
        return code == EAGAIN || code == EWOULDBLOCK ? .wouldBlock : .failed(code)
    }
}

/// A listening TCP socket. Closed when released.
public final class ListeningSocket: Sendable {
    /// The socket, for the loop to watch.
    public let descriptor: Int32
    /// The port bound, which the kernel has chosen where 0 was asked for.
    public let port: UInt16

    /// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    public static let backlog: Int32 = 4096
    /// Bytes of one connection that the kernel takes beyond what it has sent, and the peer has still to acknowledge. Left
    /// to itself it takes some megabytes for who does not read, out of sight of all bounds on queues.
    public static let unsentBytes: Int32 = 128 << 10

    /// What an `accept` came to.
    public enum Accepted {
        case connection(Int32, PeerAddress)
        case none
        /// Out of descriptors or memory (EMFILE, ENFILE, ENOBUFS, ENOMEM): pause, or the loop would spin.
        case exhausted(Int32)
    }

    /// Binds and listens. `host` is an address or a name that the machine resolves by itself.
    ///
    /// - Throws: `ListenError`, a sentence for the operator.
    public init(host: String, port: UInt16) throws(ListenError) {
        var hints = addrinfo()
        hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, String(port), &hints, &found)
        guard code == 0, let address = found else {
            throw ListenError("cannot listen on \(host):\(port): \(String(cString: gai_strerror(code)))")
        }
        defer { freeaddrinfo(address) }
        let descriptor = cl_stream_socket(address.pointee.ai_family)
        guard descriptor >= 0 else { throw ListenError(host, port, errno) }
        _ = cl_set_option(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
        // Connections get it from here, without a call for each.
        _ = cl_set_option(descriptor, Int32(IPPROTO_TCP), TCP_NOTSENT_LOWAT, Self.unsentBytes)
        guard bind(descriptor, address.pointee.ai_addr, address.pointee.ai_addrlen) == 0,
            listen(descriptor, Self.backlog) == 0
        else {
            let code = errno
            Glibc.close(descriptor)
            throw ListenError(host, port, code)
        }
        self.descriptor = descriptor
        var bound = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        withUnsafeMutablePointer(to: &bound) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = getsockname(descriptor, $0, &length) }
        }
        self.port = PeerAddress.port(of: bound)
    }

    deinit {
        Glibc.close(descriptor)
    }

    /// Takes the next waiting connection: non-blocking, without Nagle's delay.
    public func accept() -> Accepted {
        while true {
            var address = sockaddr_storage()
            let connection = cl_accept(descriptor, &address)
            if connection >= 0 {
                _ = cl_set_option(connection, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
                return .connection(connection, PeerAddress(address))
            }
            switch errno {
            case EAGAIN, EWOULDBLOCK: return .none
            case EMFILE, ENFILE, ENOBUFS, ENOMEM: return .exhausted(errno)
            // accept(2): errors of the new connection itself are reported here; they are the peer's, so go on.
            case EINTR, ECONNABORTED, EPERM, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP,
                ENETUNREACH:
                continue
            default: return .none
            }
        }
    }
}

/// Why the hub cannot listen, for the operator.
public struct ListenError: Error, CustomStringConvertible {
    /// One sentence: which place, what is wrong with it, what to do.
    public let description: String
    /// Whether the sentence ends with the advice to choose another port, to which the caller may add how.
    public let asksForAnotherPort: Bool

    init(_ description: String) {
        self.description = description
        asksForAnotherPort = false
    }

    init(_ host: String, _ port: UInt16, _ code: Int32) {
        let place = "\(host):\(port)"
        asksForAnotherPort = code == EADDRINUSE || code == EACCES
        switch code {
        case EADDRINUSE:
            description = "cannot listen on \(place): another program has this port; stop it, or choose another"
        case EADDRNOTAVAIL:
            description = "cannot listen on \(place): \(host) is no address of this machine"
        case EACCES:
            description = "cannot listen on \(place): this user may not; choose a port above 1023"
        default: description = "cannot listen on \(place): \(String(cString: strerror(code)))"
        }
    }
}

/// A peer's address, without its port: IPv6, or IPv4 mapped into it.
public struct PeerAddress: Hashable, Sendable {
    private let high: UInt64
    private let low: UInt64

    init(_ storage: sockaddr_storage) {
        let isIPv6 = Int32(storage.ss_family) == AF_INET6
        (high, low) = withUnsafeBytes(of: storage) { bytes in
            if isIPv6 {
                // sockaddr_in6: family 2, port 2, flow 4, address 16.
                return (
                    UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)),
                    UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self))
                )
            }
            // sockaddr_in: family 2, port 2, address 4. Mapped as ::ffff:a.b.c.d.
            let address = UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self))
            return (0, 0xffff_0000_0000 | UInt64(address))
        }
    }

    /// 127.0.0.0/8 or ::1.
    public var isLoopback: Bool {
        high == 0 && (low == 1 || low >> 24 == 0xffff_7f)
    }

    static func port(of storage: sockaddr_storage) -> UInt16 {
        withUnsafeBytes(of: storage) { UInt16(bigEndian: $0.loadUnaligned(fromByteOffset: 2, as: UInt16.self)) }
    }
}
