import CPostgres

/// A connection string of the user's with our additions, which never replace a word of the user's own.
package struct ConnectionParameters: Sendable {
    /// One `keyword=value` of libpq's.
    package struct Keyword: Sendable, Equatable {
        package let name: String
        package let value: String

        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    package let keywords: [Keyword]

    /// Found within half a minute instead of the two hours of the kernel: a peer that went away without a word.
    package static let keepalive = [
        Keyword("keepalives_idle", "10"), Keyword("keepalives_interval", "5"), Keyword("keepalives_count", "3"),
        Keyword("tcp_user_timeout", "15000"), Keyword("fallback_application_name", "carillon"),
    ]
    /// Only where rows may be written: notifications do not reach standbys.
    package static let primaryOnly = [Keyword("target_session_attrs", "read-write")]

    /// Reads a URI or a keyword string.
    ///
    /// - Parameter defaults: used where the string does not say otherwise.
    /// - Throws: `connectionString`. The message quotes nothing, since what cannot be read may be a password.
    package init(_ string: String, defaults: [Keyword] = keepalive) throws(PostgresError) {
        var complaint: UnsafeMutablePointer<CChar>?
        let options = string.withCString { PQconninfoParse($0, &complaint) }
        if let complaint { PQfreemem(complaint) }
        guard let options, !string.utf8.contains(0) else {
            throw PostgresError(.connectionString, "the connection string is neither a PostgreSQL URI nor keywords")
        }
        defer { PQconninfoFree(options) }
        var given: [Keyword] = []
        var option = options
        while let name = option.pointee.keyword {
            if let value = option.pointee.val {
                given.append(Keyword(String(cString: name), String(cString: value)))
            }
            option += 1
        }
        // All strings here are UTF-8; this one is not the user's to choose.
        given.removeAll { $0.name == "client_encoding" }
        given.append(Keyword("client_encoding", "UTF8"))
        let names = Set(given.map(\.name))
        keywords = given + defaults.filter { !names.contains($0.name) }
    }

    /// Where it leads, for logs: database, host and role as far as the string names them; no password.
    package var summary: String {
        ["dbname", "host", "port", "user"].compactMap { name in
            keywords.first { $0.name == name }.map { "\(name)=\($0.value)" }
        }.joined(separator: " ")
    }

    /// Calls `body` with libpq's two NULL-ended lists.
    func withLists<Value>(
        _ body: (UnsafePointer<UnsafePointer<CChar>?>, UnsafePointer<UnsafePointer<CChar>?>) -> Value
    ) -> Value {
        let names = CStringList(unchecked: keywords.map(\.name))
        let values = CStringList(unchecked: keywords.map(\.value))
        return names.withPointers { names in values.withPointers { values in body(names, values) } }
    }
}
