import CPostgres
import Glibc

/// The user's connection string with our defaults, which never replace the user's own settings.
package struct ConnectionParameters: Sendable {
    /// One `keyword=value` of libpq.
    package struct Keyword: Sendable, Equatable {
        /// libpq's keyword.
        package let name: String
        /// Its value, unquoted.
        package let value: String

        /// A keyword and its value.
        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// Those of the connection string, then the defaults that it does not set.
    package let keywords: [Keyword]

    /// Finds a peer that disappeared silently within half a minute, instead of the kernel's two hours.
    package static let keepalive = [
        Keyword("keepalives_idle", "10"), Keyword("keepalives_interval", "5"), Keyword("keepalives_count", "3"),
        Keyword("tcp_user_timeout", "15000"), Keyword("fallback_application_name", "carillon"),
    ]
    /// Only servers that accept writes: notifications do not reach standbys.
    package static let primaryOnly = [Keyword("target_session_attrs", "read-write")]

    /// Reads a URI or a keyword string.
    ///
    /// - Parameter defaults: used for keywords that the string does not set.
    /// - Throws: `connectionString`. The message quotes nothing, since the unreadable part may be a password.
    package init(_ string: String, defaults: [Keyword] = keepalive) throws(PostgresError) {
        var complaint: UnsafeMutablePointer<CChar>?
        let options = string.withCString { PQconninfoParse($0, &complaint) }
        if let complaint { PQfreemem(complaint) }
        guard let options, !string.utf8.contains(0) else {
            throw PostgresError(.connectionString, "the connection string is neither a PostgreSQL URI nor keywords")
        }
        defer { PQconninfoFree(options) }
        guard !Self.cutsPassword(string) else { throw PostgresError(.connectionString, Self.encodeAdvice) }
        var given: [Keyword] = []
        var option = options
        while let name = option.pointee.keyword {
            if let value = option.pointee.val {
                given.append(Keyword(String(cString: name), String(cString: value)))
            }
            option += 1
        }
        // All strings here are UTF-8, so the user cannot choose the encoding.
        given.removeAll { $0.name == "client_encoding" }
        given.append(Keyword("client_encoding", "UTF8"))
        let names = Set(given.map(\.name))
        keywords = given + defaults.filter { !names.contains($0.name) }
    }

    /// What to do where `cutsPassword`.
    package static let encodeAdvice = """
        the password in the connection string is not encoded: in a URI, write %40 for @, %2F for /, %3A for :, %3F for ?, \
        %23 for # and %25 for %
        """

    /// Whether a URI shows a piece of its password as a host, port or database, because a character in it is not encoded: an
    /// @ or a slash. libpq would print that piece when it cannot connect.
    ///
    /// libpq ends the user and password at the first @, unless a slash comes before it; then there are none. A host, a port
    /// and a database have no @, and a port has only digits.
    package static func cutsPassword(_ string: String) -> Bool {
        guard string.hasPrefix("postgresql://") || string.hasPrefix("postgres://"),
            let scheme = string.utf8.firstIndex(of: UInt8(ascii: "/"))
        else { return false }
        var rest = string.utf8[scheme...].dropFirst(2)
        if let end = rest.firstIndex(where: { "@/".utf8.contains($0) }), rest[end] == UInt8(ascii: "@") {
            rest = rest[end...].dropFirst()
        }
        let target = rest.prefix { $0 != UInt8(ascii: "?") }
        if target.contains(UInt8(ascii: "@")) { return true }
        let hosts = target.prefix { $0 != UInt8(ascii: "/") }.split(separator: UInt8(ascii: ","))
        return hosts.contains { host in
            // An address of IPv6 stands in brackets.
            let last = host.lastIndex(of: UInt8(ascii: "]")).map { host[$0...].dropFirst() } ?? host
            guard let colon = last.firstIndex(of: UInt8(ascii: ":")) else { return false }
            return !last[colon...].dropFirst().allSatisfy { (0x30...0x39).contains($0) }
        }
    }

    /// The target for logs: database, host, port and role as far as the string names them; no password.
    package var summary: String {
        ["dbname", "host", "port", "user"].compactMap { name in
            keywords.first { $0.name == name }.map { "\(name)=\($0.value)" }
        }.joined(separator: " ")
    }

    // MARK: Names of hosts

    /// The hosts to try, in order: from the string, or else from the environment. Nil if libpq finds them in another way or
    /// will complain. A service's host is in a file, which is read when connecting.
    private var hosts: [Host]? {
        func keyword(_ name: String) -> String? { keywords.first { $0.name == name }?.value }
        let isOfService = keyword("service") != nil || getenv("PGSERVICE") != nil
        let isAddressed = keyword("hostaddr") != nil || getenv("PGHOSTADDR") != nil
        var text = keyword("host")
        if text == nil, !isOfService, !isAddressed { text = getenv("PGHOST").map { String(cString: $0) } }
        guard let text, keyword("hostaddr") != nil || getenv("PGHOSTADDR") == nil else { return nil }
        let names = Self.items(text)
        let addresses = keyword("hostaddr").map(Self.items) ?? names.map { _ in "" }
        let ports = keyword("port").map(Self.items) ?? [""]
        guard addresses.count == names.count, ports.count == 1 || ports.count == names.count else { return nil }
        return names.indices.map {
            Host(name: names[$0], address: addresses[$0], port: ports[ports.count == 1 ? 0 : $0])
        }
    }

    private struct Host {
        let name: String
        var address: String
        let port: String

        var isUnresolved: Bool {
            guard address.isEmpty, let first = name.utf8.first else { return false }
            // A folder of Unix sockets, or an abstract socket.
            guard first != UInt8(ascii: "/"), first != UInt8(ascii: "@") else { return false }
            var room = in6_addr()
            return inet_pton(AF_INET, name, &room) != 1 && inet_pton(AF_INET6, name, &room) != 1
        }
    }

    private static func items(_ list: String) -> [String] {
        list.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    }

    var namesOneHost: Bool { hosts?.count == 1 }

    /// The names that must be resolved so that libpq connects without blocking.
    var unresolvedNames: Set<String> { Set((hosts ?? []).filter(\.isUnresolved).map(\.name)) }

    /// The parameters with the addresses of those names, in the order of the names. The names stay: certificates are
    /// compared with them and passwords are looked up by them. Nil if no host is left.
    func resolved(_ addresses: [String: [String]]) -> ConnectionParameters? {
        let found = (hosts ?? []).flatMap { host -> [Host] in
            guard host.isUnresolved else { return [host] }
            return (addresses[host.name] ?? []).map { Host(name: host.name, address: $0, port: host.port) }
        }
        guard !found.isEmpty else { return nil }
        var changed = keywords.filter { $0.name != "host" && $0.name != "hostaddr" }
        changed.append(Keyword("host", found.map(\.name).joined(separator: ",")))
        changed.append(Keyword("hostaddr", found.map(\.address).joined(separator: ",")))
        if let port = keywords.first(where: { $0.name == "port" }), Self.items(port.value).count > 1 {
            changed.removeAll { $0.name == "port" }
            changed.append(Keyword("port", found.map(\.port).joined(separator: ",")))
        }
        return ConnectionParameters(keywords: changed)
    }

    private init(keywords: [Keyword]) {
        self.keywords = keywords
    }

    /// Calls `body` with libpq's two NULL-terminated lists.
    func withLists<Value>(
        _ body: (UnsafePointer<UnsafePointer<CChar>?>, UnsafePointer<UnsafePointer<CChar>?>) -> Value
    ) -> Value {
        let names = CStringList(unchecked: keywords.map(\.name))
        let values = CStringList(unchecked: keywords.map(\.value))
        return names.withPointers { names in values.withPointers { values in body(names, values) } }
    }
}
