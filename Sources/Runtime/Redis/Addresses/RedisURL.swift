import Bytes
import Reactor

/// Where Redis or Valkey is, as the operator writes it:
///
/// - `redis://[USER:PASSWORD@]HOST[:PORT]`, port 6379 unless given; `rediss://` with TLS
/// - `redis+sentinel://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]/SERVICE`, port 26379 unless given; `rediss+sentinel://`
///   with TLS, at the sentinels too. `?sentinel_user=…&sentinel_password=…` are the sentinels' own.
///
/// Parts are percent-encoded (RFC 3986 §2.1), IPv6 addresses stand in brackets. `:PASSWORD@` alone is the default user's.
/// The only database is 0: others have no shard channels.
package struct RedisURL: Equatable, Sendable {
    /// A host and a port.
    package struct Place: Hashable, Sendable, CustomStringConvertible {
        /// A name, or an address without brackets.
        package let host: String
        /// Of TCP.
        package let port: UInt16

        /// A host and a port.
        package init(host: String, port: UInt16) { (self.host, self.port) = (host, port) }

        /// As an operator writes it.
        package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
    }

    /// A user and the password, as bytes.
    package struct Credentials: Equatable, Sendable {
        /// `default` unless given.
        package let user: [UInt8]
        /// May be empty.
        package let password: [UInt8]
    }

    /// How the server is found.
    package enum Way: Equatable, Sendable {
        /// It is there.
        case server(Place)
        /// One of these sentinels tells where the master of the service is: one to `RedisLimits.sentinelsMax`.
        case sentinels([Place], service: [UInt8])
    }

    /// How the server is found.
    package let way: Way
    /// Whether connections have TLS.
    package let isSecure: Bool
    /// Those of the server; nil: it asks for none.
    package let credentials: Credentials?
    /// Those of the sentinels; nil: they ask for none.
    package let sentinelCredentials: Credentials?

    /// For logs: without users and passwords.
    package var summary: String {
        let scheme = isSecure ? "rediss" : "redis"
        switch way {
        case .server(let place): return "\(scheme)://\(place)"
        case .sentinels(let places, let service):
            let list = places.map(\.description).joined(separator: ",")
            return "\(scheme)+sentinel://\(list)/\(String(decoding: service, as: UTF8.self))"
        }
    }

    /// Reads a URL.
    ///
    /// - Throws: which part is wrong, and what to write. It quotes nothing: a misplaced part may be the password.
    package init(_ text: String) throws(RedisURLError) {
        guard let mark = text.firstRange(of: "://") else { throw RedisURLError(.scheme) }
        let isSentinel: Bool
        switch text[..<mark.lowerBound] {
        case "redis": (isSecure, isSentinel) = (false, false)
        case "rediss": (isSecure, isSentinel) = (true, false)
        case "redis+sentinel": (isSecure, isSentinel) = (false, true)
        case "rediss+sentinel": (isSecure, isSentinel) = (true, true)
        default: throw RedisURLError(.scheme)
        }
        var rest = text[mark.upperBound...]
        credentials = try Self.takeCredentials(&rest)
        guard !rest.contains("#") else { throw RedisURLError(.fragment) }
        let query = Self.takeTail(&rest, after: "?")
        let path = Self.takeTail(&rest, after: "/")
        if isSentinel {
            var places: [Place] = []
            for part in rest.split(separator: ",", omittingEmptySubsequences: false) {
                places.append(try Self.place(part, port: 26_379))
            }
            guard places.count <= RedisLimits.sentinelsMax else { throw RedisURLError(.sentinels) }
            guard let path, !path.isEmpty, !path.contains("/") else { throw RedisURLError(.service) }
            way = .sentinels(places, service: try Self.decoded(path))
            sentinelCredentials = try Self.sentinelCredentials(query ?? "")
        } else {
            guard query == nil else { throw RedisURLError(.query) }
            guard path == nil || path == "" || path == "0" else { throw RedisURLError(.database) }
            guard !rest.contains(",") else { throw RedisURLError(.hosts) }
            way = .server(try Self.place(rest, port: 6_379))
            sentinelCredentials = nil
        }
    }

    // MARK: Parts

    /// What stands after the first `mark`; nil without one. `text` keeps what stands before it.
    private static func takeTail(_ text: inout Substring, after mark: Character) -> Substring? {
        guard let index = text.firstIndex(of: mark) else { return nil }
        defer { text = text[..<index] }
        return text[text.index(after: index)...]
    }

    private static func takeCredentials(_ rest: inout Substring) throws(RedisURLError) -> Credentials? {
        guard let end = rest.lastIndex(of: "@") else { return nil }
        let part = rest[..<end]
        rest = rest[rest.index(after: end)...]
        // An @ further on may be meant as part of a password that holds any of these, too.
        guard !part.contains(where: { "@/?#[]".contains($0) }) else { throw RedisURLError(.encoding) }
        guard let colon = part.firstIndex(of: ":") else { throw RedisURLError(.password) }
        let user = colon == part.startIndex ? Array("default".utf8) : try decoded(part[..<colon])
        return Credentials(user: user, password: try decoded(part[part.index(after: colon)...]))
    }

    private static func sentinelCredentials(_ query: Substring) throws(RedisURLError) -> Credentials? {
        var user: [UInt8]?
        var password: [UInt8]?
        for part in query.split(separator: "&", omittingEmptySubsequences: true) {
            var name = part
            guard let value = takeTail(&name, after: "=") else { throw RedisURLError(.sentinelQuery) }
            switch name {
            case "sentinel_user" where user == nil && !value.isEmpty: user = try decoded(value)
            case "sentinel_password" where password == nil: password = try decoded(value)
            default: throw RedisURLError(.sentinelQuery)
            }
        }
        guard let password else {
            if user != nil { throw RedisURLError(.sentinelQuery) }
            return nil
        }
        return Credentials(user: user ?? Array("default".utf8), password: password)
    }

    private static func place(_ text: Substring, port standard: UInt16) throws(RedisURLError) -> Place {
        var host = text
        var port = standard
        if text.first == "[" {
            guard let end = text.firstIndex(of: "]") else { throw RedisURLError(.address) }
            host = text[text.index(after: text.startIndex)..<end]
            let tail = text[text.index(after: end)...]
            if !tail.isEmpty {
                guard tail.first == ":" else { throw RedisURLError(.address) }
                port = try number(tail.dropFirst())
            }
            guard host.contains(":"), PeerAddress(String(host)) != nil else { throw RedisURLError(.address) }
            return Place(host: String(host), port: port)
        }
        if let tail = takeTail(&host, after: ":") {
            guard !tail.contains(":") else { throw RedisURLError(.address) }
            port = try number(tail)
        }
        let isName = host.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard !host.isEmpty, isName, host.utf8.count <= RedisLimits.hostBytesMax else { throw RedisURLError(.host) }
        return Place(host: String(host), port: port)
    }

    private static func number(_ text: Substring) throws(RedisURLError) -> UInt16 {
        let isDigits = text.utf8.allSatisfy { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
        guard isDigits, let port = UInt16(text), port > 0 else { throw RedisURLError(.port) }
        return port
    }

    /// Replaces `%XX` by the byte.
    private static func decoded(_ text: Substring) throws(RedisURLError) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(hexadecimal), let low = rest.popFirst().flatMap(hexadecimal)
            else { throw RedisURLError(.percent) }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    private static func hexadecimal(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}

/// Why a text is not a URL of Redis: which part is wrong, and what to write. Quotes nothing of the text.
package struct RedisURLError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The part that is wrong.
    package enum Part: CaseIterable, Sendable {
        case scheme, encoding, password, percent, host, address, hosts, port, database, query, fragment, sentinels,
            service, sentinelQuery
    }

    /// The part that is wrong.
    package let part: Part

    init(_ part: Part) { self.part = part }

    /// One sentence for the operator.
    package var description: String {
        switch part {
        case .scheme:
            "the scheme is not known: write redis://, rediss:// (TLS), redis+sentinel:// or rediss+sentinel://"
        case .encoding:
            "the user or the password holds a reserved character: write %40 for @, %2F for /, %3A for :, %3F for ?, "
                + "%23 for #, %5B and %5D for brackets"
        case .password: "there is a user without a password: write USER:PASSWORD@, or :PASSWORD@ for the default user"
        case .percent: "a percent sign is not followed by two hexadecimal digits: write %25 for the sign itself"
        case .host: "the host is missing or is not a name: write HOST or HOST:PORT"
        case .address: "the address is not IPv6 in brackets: write [ADDRESS] or [ADDRESS]:PORT"
        case .hosts: "there are several hosts: write one, or sentinels as redis+sentinel://HOST,HOST/SERVICE"
        case .port: "the port is not a number from 1 to 65535: write HOST:PORT, or leave :PORT out"
        case .database: "the path is not /0: there is no other database with shard channels, so leave the path out"
        case .query: "a query means nothing here: leave out what begins with the question mark"
        case .fragment: "a fragment means nothing here: write %23 for the number sign in a password, or leave it out"
        case .sentinels: "there are more than \(RedisLimits.sentinelsMax) sentinels: write fewer"
        case .service: "the service is missing or is not one name: write /SERVICE behind the sentinels"
        case .sentinelQuery:
            "the query is not the sentinels' own user and password: write "
                + "?sentinel_user=USER&sentinel_password=PASSWORD, or the password alone"
        }
    }
}
