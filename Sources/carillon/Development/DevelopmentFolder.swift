import FoundationEssentials
import Glibc

/// DIR of `carillon dev`: the lock, the token secret, and the data that other commands need to find this hub.
///
/// Files with secrets have mode 0600. The user `postgres` can pass through the folder itself.
struct DevelopmentFolder {
    /// Absolute, without symbolic links.
    let path: String

    var lockFile: String { path + "/lock" }
    /// Connection string of the database's owner, for `psql "$(cat …)"`.
    var databaseURLFile: String { path + "/database-url" }
    /// The URL of the Redis that several hubs share.
    var redisURLFile: String { path + "/redis-url" }
    private var hubFile: String { path + "/hub.json" }
    private var secretFile: String { path + "/jwt-secret" }

    static func make(_ path: String) throws(Failure) -> DevelopmentFolder {
        do {
            // Parent folders get the usual permissions; others cannot read this one.
            let parent = URL(fileURLWithPath: path).deletingLastPathComponent().path
            try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
            if !FileManager.default.fileExists(atPath: path) {
                try FileManager.default.createDirectory(
                    atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o711])
            }
        } catch {
            throw Failure("\(path): the folder cannot be made: \(Self.reason(error))")
        }
        return try find(path)
    }

    private static func reason(_ error: any Error) -> String {
        guard let cause = (error as? CocoaError)?.underlying as? POSIXError else { return "\(error)" }
        return String(cString: strerror(cause.code.rawValue))
    }

    static func find(_ path: String) throws(Failure) -> DevelopmentFolder {
        guard let resolved = realpath(path, nil) else {
            throw Failure("\(path): no such folder; `carillon dev --dir \(path)` makes it")
        }
        defer { free(resolved) }
        return DevelopmentFolder(path: String(cString: resolved))
    }

    /// The secret that signs development tokens, made at the first start. One that somebody else may know is refused: with
    /// it, tokens of all users can be made.
    func secret() throws(Failure) -> String {
        if let secret = try Descriptor.own(secretFile), secret.utf8.count >= 32 { return secret.trimmed }
        var random = SystemRandomNumberGenerator()
        let secret = (0..<4).map { _ in
            let digits = String(random.next(), radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
        try Descriptor.replace(secretFile, with: secret + "\n")
        return secret
    }

    func writeDatabaseURL(_ url: String) throws(Failure) {
        try Descriptor.replace(databaseURLFile, with: url + "\n")
    }

    func writeRedisURL(_ url: String) throws(Failure) {
        try Descriptor.replace(redisURLFile, with: url + "\n")
    }

    /// Writes what `token` and `tail` need.
    func writeHub(_ hub: HubRecord) throws(Failure) {
        do {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
            try Descriptor.replace(hubFile, with: String(decoding: encoder.encode(hub), as: UTF8.self) + "\n")
        } catch let failure as Failure {
            throw failure
        } catch {
            throw Failure("\(hubFile): \(error)")
        }
    }

    func hub() throws(Failure) -> HubRecord {
        guard let data = FileManager.default.contents(atPath: hubFile) else {
            throw Failure("\(hubFile) cannot be read: was `carillon dev --dir \(path)` started, by this user?")
        }
        guard let hub = try? JSONDecoder().decode(HubRecord.self, from: data) else {
            throw Failure("\(hubFile) is not as `carillon dev` writes it: start it again")
        }
        return hub
    }
}

/// A development hub, as recorded for other commands.
struct HubRecord: Codable, Equatable {
    /// `ws://host:port`, without a path.
    var url: String
    /// `wss://host:port` of the first TLS listener; nil when there is none.
    var secureURL: String?
    /// `http://host:port` of `/livez`, `/readyz` and `/metrics`; nil when that listener is off.
    var operationsURL: String?
    /// The application that the database's users belong to.
    var appID: String
    var appKey: String
    var appSecret: String
    /// The secret, issuer and audience of tokens.
    var jwtSecret: String
    var jwtIssuer: String?
    var jwtAudience: String?
}
