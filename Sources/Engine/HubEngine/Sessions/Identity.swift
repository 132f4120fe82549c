import Bytes
import Sync

/// The user that a connection has shown itself to be. Never another user on one connection; its times may be extended.
package struct Identity: Sendable {
    /// The user's id: one word, shared with the tables of users.
    let user: SharedBytes
    // Half words, in each session: a time before 1970 counts as 1970, one behind 2106 as 2106. One not given is `unsaid`.
    private let issue: UInt32
    private let end: UInt32
    private static let unsaid = UInt32.max

    /// Times are seconds since 1970.
    package init(userID: String, issuedAt: Int64? = nil, expiresAt: Int64? = nil) {
        self.init(of: .copy(userID), issuedAt: issuedAt, expiresAt: expiresAt)
    }

    /// The identity of the user whose id is shared with it, without times.
    init(of user: SharedBytes) {
        self.init(of: user, issuedAt: nil, expiresAt: nil)
    }

    private init(of user: SharedBytes, issuedAt: Int64?, expiresAt: Int64?) {
        self.user = user
        issue = Self.kept(issuedAt)
        end = Self.kept(expiresAt)
    }

    private static func kept(_ time: Int64?) -> UInt32 {
        time.map { min(UInt32(clamping: $0), unsaid - 1) } ?? unsaid
    }

    /// A keyed hash of the user's id.
    package var code: UInt64 { user.withUnsafeBytes { KeyedHash.hash($0) } }

    /// The user's id, as a new string.
    package var userID: String { user.string }

    /// Seconds since 1970; nil where none was given.
    package var issuedAt: Int64? { issue == Self.unsaid ? nil : Int64(issue) }
    /// Seconds since 1970; nil where there is no end.
    package var expiresAt: Int64? { end == Self.unsaid ? nil : Int64(end) }

    /// Whether `userID` is this user, byte for byte as PostgreSQL compares. For Swift two spellings of "é" are equal.
    package func owns(_ userID: String) -> Bool {
        var userID = userID
        return userID.withUTF8 { other in user.withUnsafeBytes { $0.equals(UnsafeRawBufferPointer(other)) } }
    }

    /// Whether the stream is this user's, byte for byte.
    package func owns(_ stream: StreamID) -> Bool {
        stream.withUser { owner in user.withUnsafeBytes { $0.equals(owner) } }
    }

    /// Whether the stream of that name is this user's, byte for byte.
    package func owns(_ name: StreamName.Text) -> Bool {
        user.withUnsafeBytes { name.belongs(to: $0) }
    }

    /// Two identities of one user combined: the later issue and the later end. A second credential takes nothing away.
    func renewed(by other: Identity) -> Identity {
        let issue = [issuedAt, other.issuedAt].compactMap { $0 }.max()
        guard let expiresAt, let otherEnd = other.expiresAt else {
            return Identity(of: user, issuedAt: issue, expiresAt: nil)
        }
        return Identity(of: user, issuedAt: issue, expiresAt: max(expiresAt, otherEnd))
    }
}

/// The times around the moment at which an identity expires.
package struct IdentityTimes: Sendable {
    /// From `sync:auth_expiring` to the expiry.
    package var notice: Duration
    /// From the expiry to the connection's end, for clients whose new token is on its way.
    package var grace: Duration

    /// The defaults; tests use shorter times.
    package init(notice: Duration = .seconds(60), grace: Duration = .seconds(25)) {
        self.notice = notice
        self.grace = grace
    }
}
