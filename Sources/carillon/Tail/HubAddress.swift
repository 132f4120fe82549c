/// A hub's address for clients: the parts of `ws://host:port/prefix` or `wss://…`.
struct HubAddress: Equatable, Sendable, CustomStringConvertible {
    /// A name or numeric address, without brackets.
    let host: String
    let port: UInt16
    /// The path before `/app/…`, for proxies that strip it; empty, or without a trailing slash.
    let prefix: String
    let usesTLS: Bool

    /// - Throws: a failure that says which part is wrong.
    init(_ url: String) throws(Failure) {
        let mustBe = Failure("--url \(url): ws://HOST:PORT or wss://HOST:PORT is needed, such as ws://127.0.0.1:6001")
        guard let scheme = ["ws://", "http://", "wss://", "https://"].first(where: url.hasPrefix) else { throw mustBe }
        usesTLS = ["wss://", "https://"].contains(scheme)
        let rest = url.dropFirst(scheme.count)
        let authority = rest.prefix { $0 != "/" }
        var path = rest[authority.endIndex...]
        while path.hasSuffix("/") { path = path.dropLast() }
        let hasPort = authority.last != "]" && authority.contains(":")
        guard let address = try? ListenAddress(hasPort ? String(authority) : "\(authority):\(usesTLS ? 443 : 80)"),
            path.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f })
        else { throw mustBe }
        guard path != "/app", !path.hasPrefix("/app/") else {
            let base = url.prefix(scheme.count + authority.utf8.count)
            throw Failure("--url \(url): leave off \(path), the command adds it by itself: \(base)")
        }
        host = address.host
        port = address.port
        prefix = String(path)
    }

    var description: String { "\(usesTLS ? "wss" : "ws")://\(authority)\(prefix)" }

    /// For the Host field.
    var authority: String { ListenAddress(host: host, port: port).description }
}
