/// Where the hub listens: a numeric IPv4 or IPv6 address, or `localhost`, and a port.
struct ListenAddress: Sendable, Hashable, CustomStringConvertible {
    /// Without brackets.
    let host: String
    /// 0 asks the kernel for a free one.
    let port: UInt16

    init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// Reads `127.0.0.1:6001`, `[::1]:6001`, `localhost:6001` or `*:6001` (all IPv4 addresses).
    init(_ text: String) throws(BadValue) {
        let mustBe = BadValue("HOST:PORT, such as 127.0.0.1:6001, 0.0.0.0:6001 or [::1]:6001")
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            throw mustBe
        }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
            guard host.contains(":") else { throw mustBe }
        } else if host.contains(":") {
            throw mustBe
        }
        if host == "*" { host = "0.0.0.0" }
        guard !host.isEmpty, host.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || ".:-%".contains($0)) })
        else { throw mustBe }
        self.init(host: host, port: port)
    }

    var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// Where a client on this machine finds a hub that listens here: a wildcard address is no place to connect to.
    var reachable: ListenAddress {
        switch host {
        case "0.0.0.0": ListenAddress(host: "127.0.0.1", port: port)
        case "::": ListenAddress(host: "::1", port: port)
        default: self
        }
    }

    /// Whether one program cannot listen at both.
    func collides(with other: ListenAddress) -> Bool {
        guard port != 0, port == other.port else { return false }
        return host == other.host || [host, other.host].contains { $0 == "0.0.0.0" || $0 == "::" }
    }
}

/// Where the operations listener is, if anywhere.
enum OperationsAddress: Sendable, Hashable {
    case off
    case at(ListenAddress)

    /// Reads `off` or an address.
    init(_ text: String) throws(BadValue) {
        guard text != "off" else {
            self = .off
            return
        }
        do throws(BadValue) {
            self = .at(try ListenAddress(text))
        } catch {
            throw BadValue("off, or \(error.mustBe)")
        }
    }

    var address: ListenAddress? {
        guard case .at(let address) = self else { return nil }
        return address
    }
}
