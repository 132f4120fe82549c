import Glibc

/// Where to listen.
public enum ListenEndpoint: Hashable, Sendable, CustomStringConvertible {
    /// TCP. `host` is an address, without brackets, or a name that the machine resolves by itself; port 0 lets the kernel
    /// choose. `::` accepts IPv4 clients too unless `isIPv6Only`, whatever `net.ipv6.bindv6only` says.
    case tcp(host: String, port: UInt16, isIPv6Only: Bool = false)
    /// A unix-domain socket at a path, made with these permissions.
    case unix(path: String, mode: UInt32)

    /// As an operator writes it: `127.0.0.1:6001`, `[::1]:6001`, `unix:/run/hub.sock`.
    public var description: String {
        switch self {
        case .tcp(let host, let port, _): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unix(let path, _): "unix:\(path)"
        }
    }
}

/// Why the hub cannot listen, for the operator.
public struct ListenError: Error, CustomStringConvertible {
    /// Where.
    public let endpoint: ListenEndpoint
    /// One sentence: which endpoint, what is wrong with it, what to do.
    public let description: String
    /// Whether the sentence ends with the advice to choose another port or path. The caller may add how.
    public let asksForAnother: Bool
    /// Whether this user may not take the port. The caller may add who may.
    public let isForbiddenPort: Bool

    init(
        _ endpoint: ListenEndpoint, _ problem: String, asksForAnother: Bool = false, isForbiddenPort: Bool = false
    ) {
        self.endpoint = endpoint
        self.isForbiddenPort = isForbiddenPort
        description = "cannot listen on \(endpoint): \(problem)"
        self.asksForAnother = asksForAnother
    }

    /// The `errno` of binding or listening.
    init(_ endpoint: ListenEndpoint, _ code: Int32) {
        switch (endpoint, code) {
        case (.tcp, EADDRINUSE):
            self.init(endpoint, "another program has this port; stop it, or choose another", asksForAnother: true)
        case (.unix, EADDRINUSE):
            self.init(endpoint, "another program listens there; stop it, or choose another", asksForAnother: true)
        case (.tcp(let host, _, _), EADDRNOTAVAIL): self.init(endpoint, "\(host) is no address of this machine")
        case (.tcp, EACCES):
            self.init(endpoint, "this user may not take a port below 1024", isForbiddenPort: true)
        case (.unix, ENOENT), (.unix, ENOTDIR): self.init(endpoint, "its folder does not exist; make it")
        case (.unix, EACCES), (.unix, EROFS), (.unix, EPERM):
            self.init(
                endpoint, "this user may not write into its folder; let it, or choose another", asksForAnother: true)
        default: self.init(endpoint, String(cString: strerror(code)))
        }
    }
}
