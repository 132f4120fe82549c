import FoundationEssentials

/// An address to listen on: a numeric IPv4 or IPv6 address, or `localhost`, and a port.
struct ListenAddress: Sendable, Hashable, CustomStringConvertible {
    /// Without brackets.
    let host: String
    /// 0 lets the kernel choose a free port.
    let port: UInt16

    var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// The address for local clients: one cannot connect to a wildcard address.
    var reachable: ListenAddress {
        switch host {
        case "0.0.0.0": ListenAddress(host: "127.0.0.1", port: port)
        case "::": ListenAddress(host: "::1", port: port)
        default: self
        }
    }

    /// Whether one program cannot listen on both.
    ///
    /// - Parameter inOneList: both are in `listen`, where `[::]` beside an IPv4 address means IPv6 only.
    func collides(with other: ListenAddress, inOneList: Bool = false) -> Bool {
        guard port != 0, port == other.port else { return false }
        if host == other.host { return true }
        if isIPv6 != other.isIPv6 { return !inOneList && [host, other.host].contains("::") }
        return [host, other.host].contains { $0 == "0.0.0.0" || $0 == "::" }
    }

    /// For numeric addresses; `localhost` counts as IPv4.
    var isIPv6: Bool { host.contains(":") }
}

extension ListenAddress {
    /// Parses `127.0.0.1:6001`, `[::1]:6001`, `localhost:6001` or `*:6001` (all IPv4 addresses).
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
}

/// One entry of `listen`.
enum ListenSetting: Sendable, Hashable, CustomStringConvertible {
    case address(ListenAddress)
    case secured(ListenAddress)
    /// A unix-domain socket at an absolute path.
    case socket(path: String)

    static let countMax = 16

    /// Parses `unix:/run/carillon/hub.sock`, `tls:0.0.0.0:443`, or an address.
    init(_ text: String) throws(BadValue) {
        guard text.hasPrefix("unix:") else {
            do throws(BadValue) {
                if text.hasPrefix("tls:") {
                    self = .secured(try ListenAddress(String(text.dropFirst(4))))
                } else {
                    self = .address(try ListenAddress(text))
                }
            } catch {
                throw BadValue(
                    "\(error.mustBe), tls: and such an address, or unix:/PATH; several are separated by commas")
            }
            return
        }
        let path = String(text.dropFirst(5))
        guard path.hasPrefix("/"), !path.hasSuffix("/"), path.utf8.count <= 107 else {
            throw BadValue("unix: with an absolute path of at most 107 bytes, such as unix:/run/carillon/hub.sock")
        }
        self = .socket(path: path)
    }

    var description: String {
        switch self {
        case .address(let address): address.description
        case .secured(let address): "tls:\(address)"
        case .socket(let path): "unix:\(path)"
        }
    }

    var address: ListenAddress? {
        switch self {
        case .address(let address), .secured(let address): address
        case .socket: nil
        }
    }

    var usesTLS: Bool {
        guard case .secured = self else { return false }
        return true
    }

    func collides(with other: ListenSetting) -> Bool {
        if let first = address, let second = other.address { return first.collides(with: second, inOneList: true) }
        return self == other
    }
}

extension Form<[ListenSetting]> {
    static var listeners: Form {
        Form("HOST:PORT,…") { text throws(BadValue) in
            var listeners: [ListenSetting] = []
            for word in text.split(separator: ",", omittingEmptySubsequences: false) {
                listeners.append(try ListenSetting(word.trimmed))
            }
            guard listeners.count <= ListenSetting.countMax else {
                throw BadValue("at most \(ListenSetting.countMax) addresses")
            }
            return listeners
        }.written { $0.map(\.description).joined(separator: ",") }
    }
}

extension Form<String> {
    static var socketPath: Form {
        Form("path") { text throws(BadValue) in
            guard text.hasPrefix("/"), !text.hasSuffix("/"), text.utf8.count <= 107 else {
                throw BadValue("an absolute path of at most 107 bytes, such as /run/carillon/control.sock")
            }
            return text
        }
    }
}

extension Form<ListenAddress?> {
    static var addressOrOff: Form {
        Form("HOST:PORT or off") { text throws(BadValue) in
            guard text != "off" else { return nil }
            do throws(BadValue) {
                return try ListenAddress(text)
            } catch {
                throw BadValue("off, or \(error.mustBe)")
            }
        }.written { $0?.description ?? "off" }
    }
}
