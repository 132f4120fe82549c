import Sync

/// What one hub tells all hubs that share a state with it.
package enum HubCommand: Sendable, Equatable {
    /// Close all connections that are signed in as that user of the app, and were so that many milliseconds ago: a hub may
    /// hear of it later.
    case terminate(app: Int, user: String, age: UInt64 = 0)
    /// Access of these users of the app that owns the database was revoked.
    case revoked([Revocation])

    /// It was told that many milliseconds ago.
    package func aged(by age: UInt64) -> HubCommand {
        guard case .terminate(let app, let user, _) = self else { return self }
        return .terminate(app: app, user: user, age: age)
    }

    /// As bytes, which name apps by their ids.
    package func encoded(_ apps: KnownApps) -> [UInt8] {
        var writer = SharedWriter(.command, apps)
        switch self {
        case .terminate(let app, let user, let age):
            writer.write(1)
            writer.write(app: app)
            writer.write(user)
            writer.write(age)
        case .revoked(let revocations):
            writer.write(2)
            writer.write(revocations) {
                $0.write($1.userID)
                $0.write(UInt64(bitPattern: $1.before))
            }
        }
        return writer.bytes
    }

    /// Reads the bytes. Any may come; of a wrong one the kind is told.
    package init(_ bytes: [UInt8], _ apps: KnownApps) throws(SharedProblem) {
        var reader = try SharedReader(bytes, .command, apps)
        switch try reader.byte() {
        case 1: self = .terminate(app: try reader.app(), user: try reader.text(), age: try reader.number())
        case 2:
            self = .revoked(
                try reader.list { (reader) throws(SharedProblem) in
                    Revocation(userID: try reader.text(), before: Int64(bitPattern: try reader.number()))
                })
        default: throw .malformed
        }
        try reader.end()
    }
}
