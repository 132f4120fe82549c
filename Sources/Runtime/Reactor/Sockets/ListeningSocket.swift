import CLinux
import Clock
import Glibc
import Synchronization

/// A listening socket, closed when released; a unix-domain socket's file is removed then, unless the socket is shared.
public final class ListeningSocket: Sendable {
    /// The socket, for the loop to watch.
    public let descriptor: Int32
    /// Where it listens, with the port that the kernel chose where 0 was asked for.
    public let endpoint: ListenEndpoint
    private let file: SocketFile?
    private let shared = Atomic<Bool>(false)

    /// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    public static let backlog: Int32 = 4096
    /// Bytes of one TCP connection that the kernel takes beyond what is sent and unacknowledged. By default it takes some
    /// megabytes for a peer that does not read, out of sight of all bounds on queues.
    public static let unsentBytes: Int32 = 128 << 10

    /// The result of an `accept`.
    public enum Accepted: Equatable {
        case connection(Int32, PeerAddress)
        case none
        /// Out of descriptors or memory (EMFILE, ENFILE, ENOBUFS, ENOMEM), or an unknown error: pause, to avoid spinning.
        case exhausted(Int32)
    }

    /// Binds and listens.
    ///
    /// - Parameter unacked: how long a TCP peer may leave data unacknowledged, or its window shut, before the connection
    ///   fails with ETIMEDOUT (tcp(7), TCP_USER_TIMEOUT). Zero leaves it to the kernel, a quarter of an hour.
    /// - Throws: `ListenError`, a sentence for the operator.
    public init(_ endpoint: ListenEndpoint, unacked: Duration = .zero) throws(ListenError) {
        switch endpoint {
        case .tcp(let host, let port, let isIPv6Only):
            (descriptor, self.endpoint) = try Self.listen(endpoint, host, port, isIPv6Only: isIPv6Only)
            file = nil
            setOptions(unacked: unacked)
        case .unix(let path, let mode):
            let made = try SocketFile.listen(endpoint, path, mode)
            descriptor = made.descriptor
            file = made.file
            self.endpoint = endpoint
        }
    }

    /// Takes a socket that already listens: systemd's, or that of the hub before this one. It belongs to this object then,
    /// and is shared. It gets the options and the queue of a socket that is made here.
    ///
    /// - Throws: `ListenError`; the descriptor stays the caller's then.
    public init(
        adopting descriptor: Int32, at endpoint: ListenEndpoint, unacked: Duration = .zero
    ) throws(ListenError) {
        let flags = fcntl(descriptor, F_GETFL)
        guard flags >= 0, fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0,
            fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0, Glibc.listen(descriptor, Self.backlog) == 0
        else { throw ListenError(endpoint, errno) }
        self.descriptor = descriptor
        switch endpoint {
        case .tcp(let host, _, let isIPv6Only):
            let port = ListenEndpoint.bound(descriptor).map { PeerAddress.port(of: $0) } ?? 0
            self.endpoint = .tcp(host: host, port: port, isIPv6Only: isIPv6Only)
            file = nil
            _ = cl_set_option(descriptor, Int32(IPPROTO_TCP), TCP_NOTSENT_LOWAT, Self.unsentBytes)
            setOptions(unacked: unacked)
        case .unix(let path, _):
            self.endpoint = endpoint
            file = SocketFile(of: path)
        }
        shared.store(true, ordering: .relaxed)
    }

    /// Connections inherit these, without a call for each.
    private func setOptions(unacked: Duration) {
        _ = cl_set_option(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
        let milliseconds = Int32(clamping: unacked.wholeMilliseconds)
        _ = cl_set_option(descriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, milliseconds)
    }

    /// Listens at an address of TCP.
    public convenience init(host: String, port: UInt16) throws(ListenError) {
        try self.init(.tcp(host: host, port: port))
    }

    deinit {
        // The file first: while it exists, somebody must be listening.
        if !isShared { file?.remove() }
        Glibc.close(descriptor)
    }

    /// Whether another process has this socket, too. Its file outlives this object then.
    public var isShared: Bool {
        get { shared.load(ordering: .relaxed) }
        set { shared.store(newValue, ordering: .relaxed) }
    }

    /// Connections that the kernel lets wait here; nil for a unix-domain socket, where it does not say.
    public var backlogInEffect: Int? {
        let count = cl_backlog(descriptor)
        return count < 0 ? nil : Int(count)
    }

    /// The port bound; 0 for a unix-domain socket.
    public var port: UInt16 {
        guard case .tcp(_, let port, _) = endpoint else { return 0 }
        return port
    }

    private static func listen(
        _ endpoint: ListenEndpoint, _ host: String, _ port: UInt16, isIPv6Only: Bool
    ) throws(ListenError) -> (Int32, ListenEndpoint) {
        var hints = addrinfo()
        hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, String(port), &hints, &found)
        guard code == 0, let address = found else { throw ListenError(endpoint, String(cString: gai_strerror(code))) }
        defer { freeaddrinfo(address) }
        let descriptor = cl_stream_socket(address.pointee.ai_family)
        guard descriptor >= 0 else { throw ListenError(endpoint, errno) }
        _ = cl_set_option(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
        // Connections inherit it, without a call for each.
        _ = cl_set_option(descriptor, Int32(IPPROTO_TCP), TCP_NOTSENT_LOWAT, Self.unsentBytes)
        if address.pointee.ai_family == AF_INET6 {
            _ = cl_set_option(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, isIPv6Only ? 1 : 0)
        }
        guard bind(descriptor, address.pointee.ai_addr, address.pointee.ai_addrlen) == 0,
            Glibc.listen(descriptor, Self.backlog) == 0
        else {
            let code = errno
            Glibc.close(descriptor)
            throw ListenError(endpoint, code)
        }
        let bound = ListenEndpoint.bound(descriptor).map { PeerAddress.port(of: $0) } ?? port
        return (descriptor, .tcp(host: host, port: bound, isIPv6Only: isIPv6Only))
    }

    /// Accepts the next waiting connection: non-blocking, without Nagle's delay.
    public func accept() -> Accepted {
        for _ in 0..<Self.failuresInARowMax {
            var address = sockaddr_storage()
            let connection = cl_accept(descriptor, &address)
            if connection >= 0 {
                return .connection(connection, PeerAddress(address))
            }
            if let outcome = Self.outcome(of: errno) { return outcome }
        }
        return .exhausted(EAGAIN)
    }

    /// Connections that may fail in a row in one call.
    private static let failuresInARowMax = 64

    /// What a failed `accept` means; nil: try the next.
    static func outcome(of code: Int32) -> Accepted? {
        switch code {
        case EAGAIN: Accepted.none
        // accept(2): errors of the new connection itself are reported here. They are the peer's.
        case EINTR, ECONNABORTED, EPERM, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP,
            ENETUNREACH:
            nil
        // An unknown error may persist, and the socket would be reported readable again and again.
        default: .exhausted(code)
        }
    }
}

/// The file of a unix-domain socket.
///
/// A file left by a dead hub is replaced. One with a listener is not, and a file that is no socket never is. A lock
/// (flock(2)) on the folder, held during the check, keeps apart two hubs that start at once.
struct SocketFile: Sendable {
    private let path: String
    private let device: dev_t
    private let inode: ino_t

    static func listen(
        _ endpoint: ListenEndpoint, _ path: String, _ mode: UInt32
    ) throws(ListenError) -> (descriptor: Int32, file: SocketFile) {
        guard var address = address(of: path) else {
            throw ListenError(
                endpoint, "the path is longer than \(pathBytesMax) bytes; choose another", asksForAnother: true)
        }
        let descriptor = cl_stream_socket(AF_UNIX)
        guard descriptor >= 0 else { throw ListenError(endpoint, errno) }
        do throws(ListenError) {
            let lock = try lockFolder(of: path, endpoint)
            defer { Glibc.close(lock) }
            try removeStale(path, &address, endpoint)
            // Linux gives the file these permissions less the umask, so nobody gets in before `chmod` and `listen`.
            guard fchmod(descriptor, mode) == 0, withSocketAddress(&address, { bind(descriptor, $0, $1) }) == 0,
                chmod(path, mode) == 0, Glibc.listen(descriptor, ListeningSocket.backlog) == 0
            else { throw ListenError(endpoint, errno) }
            var status = stat()
            guard lstat(path, &status) == 0 else { throw ListenError(endpoint, errno) }
            return (descriptor, SocketFile(path: path, device: status.st_dev, inode: status.st_ino))
        } catch {
            Glibc.close(descriptor)
            throw error
        }
    }

    private init(path: String, device: dev_t, inode: ino_t) {
        (self.path, self.device, self.inode) = (path, device, inode)
    }

    /// The file that is there; nil when it is no socket.
    init?(of path: String) {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else { return nil }
        self.init(path: path, device: status.st_dev, inode: status.st_ino)
    }

    /// Removes the file, if it is still the one made here.
    func remove() {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_dev == device, status.st_ino == inode else { return }
        unlink(path)
    }

    /// How long another hub's check may take.
    static let lockPatience = Duration.seconds(5)

    static func lockFolder(
        of path: String, _ endpoint: ListenEndpoint, patience: Duration = lockPatience
    ) throws(ListenError) -> Int32 {
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        let lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard lock >= 0 else { throw ListenError(endpoint, errno) }
        let end = Instant.read().advanced(by: patience)
        // Not one blocking call: another program may hold the lock for ever.
        while flock(lock, LOCK_EX | LOCK_NB) != 0 {
            guard errno == EWOULDBLOCK || errno == EINTR, Instant.read() < end else {
                Glibc.close(lock)
                throw ListenError(endpoint, "another program holds the lock of its folder; start again")
            }
            usleep(10_000)
        }
        return lock
    }

    private static func removeStale(
        _ path: String, _ address: inout sockaddr_un, _ endpoint: ListenEndpoint
    ) throws(ListenError) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw ListenError(
                endpoint, "the file there is no socket; remove it, or choose another", asksForAnother: true)
        }
        let probe = cl_stream_socket(AF_UNIX)
        guard probe >= 0 else { throw ListenError(endpoint, errno) }
        defer { Glibc.close(probe) }
        let code = withSocketAddress(&address) { connect(probe, $0, $1) } == 0 ? 0 : errno
        // EAGAIN: a listener with a full backlog.
        guard code == ECONNREFUSED else { throw ListenError(endpoint, code == 0 || code == EAGAIN ? EADDRINUSE : code) }
        guard unlink(path) == 0 || errno == ENOENT else { throw ListenError(endpoint, errno) }
    }

    /// What fits into `sun_path` without its final zero (unix(7)).
    static let pathBytesMax = 107

    static func address(of path: String) -> sockaddr_un? {
        let bytes = Array(path.utf8)
        guard (1...pathBytesMax).contains(bytes.count), !bytes.contains(0) else { return nil }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        return address
    }

    static func withSocketAddress(
        _ address: inout sockaddr_un, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
    }
}
