import CLinux
import Glibc

/// A descriptor that this process was given, from systemd or from the hub before it. Whether it is of use is still open.
public struct InheritedSocket: Sendable, Equatable, CustomStringConvertible {
    /// The descriptor; the receiver closes it.
    public let descriptor: Int32
    /// What its giver calls it.
    public let name: String

    /// A descriptor by that name.
    public init(_ descriptor: Int32, name: String) {
        (self.descriptor, self.name) = (descriptor, name)
    }

    /// Whether it is a stream socket that listens.
    public var listens: Bool {
        func option(_ name: Int32) -> Int32? {
            var value: Int32 = 0
            var length = socklen_t(MemoryLayout<Int32>.size)
            return getsockopt(descriptor, SOL_SOCKET, name, &value, &length) == 0 ? value : nil
        }
        return option(SO_ACCEPTCONN) == 1 && option(SO_TYPE) == Int32(SOCK_STREAM.rawValue)
    }

    /// Where it listens, as an operator writes it, and its name.
    public var description: String {
        let address = ListenEndpoint.bound(descriptor).flatMap { ListenEndpoint($0) }?.description ?? "no address"
        return "\(address) (\(name))"
    }

    /// Whether it listens where `endpoint` says. Port 0 stands for any port.
    public func listens(at endpoint: ListenEndpoint) -> Bool {
        guard listens, let bound = ListenEndpoint.bound(descriptor), let own = ListenEndpoint(bound) else {
            return false
        }
        switch (own, endpoint) {
        case (.unix(let path, _), .unix(let wanted, _)): return path == wanted
        case (.tcp(let host, let port, _), .tcp(_, let wanted, _)):
            return (wanted == 0 || wanted == port) && endpoint.numericHosts.contains(host)
        default: return false
        }
    }
}

extension ListenEndpoint {
    /// The address that a socket is bound to.
    static func bound(_ descriptor: Int32) -> sockaddr_storage? {
        var bound = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let code = withUnsafeMutablePointer(to: &bound) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        return code == 0 ? bound : nil
    }

    /// From a bound address, with a numeric host; nil for another family, and for a socket without a path.
    init?(_ bound: sockaddr_storage) {
        switch Int32(bound.ss_family) {
        case AF_UNIX:
            let path = withUnsafeBytes(of: bound) { bytes in
                // The path follows the family, two bytes.
                String(decoding: bytes[2..<(2 + SocketFile.pathBytesMax)].prefix { $0 != 0 }, as: UTF8.self)
            }
            guard !path.isEmpty else { return nil }
            self = .unix(path: path, mode: 0)
        case AF_INET, AF_INET6:
            guard let host = Self.numericHost(bound) else { return nil }
            self = .tcp(host: host, port: PeerAddress.port(of: bound))
        default: return nil
        }
    }

    private static func numericHost(_ address: sockaddr_storage) -> String? {
        var address = address
        let isIPv6 = Int32(address.ss_family) == AF_INET6
        let length = isIPv6 ? MemoryLayout<sockaddr_in6>.size : MemoryLayout<sockaddr_in>.size
        var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                getnameinfo($0, socklen_t(length), &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
            }
        }
        return code == 0 ? String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self) : nil
    }

    /// The addresses that the host stands for; one, unless it is a name.
    fileprivate var numericHosts: [String] {
        guard case .tcp(let host, let port, _) = self else { return [] }
        var hints = addrinfo()
        hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, String(port), &hints, &found) == 0, let first = found else { return [] }
        defer { freeaddrinfo(first) }
        var hosts: [String] = []
        var next: UnsafeMutablePointer<addrinfo>? = first
        while let address = next?.pointee {
            var storage = sockaddr_storage()
            withUnsafeMutableBytes(of: &storage) {
                $0.copyMemory(from: UnsafeRawBufferPointer(start: address.ai_addr, count: Int(address.ai_addrlen)))
            }
            if let host = Self.numericHost(storage) { hosts.append(host) }
            next = address.ai_next
        }
        return hosts
    }
}
