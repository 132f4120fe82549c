import Bytes
import Sync

/// The user that a connection has shown itself to be. Never another user on one connection; its times may move on.
package struct Identity: Sendable {
    /// The user's id: one word, which the tables of users share.
    let user: SharedBytes
    // Numbers, for two optional ones take half as much again, in each session. What nobody said is a time that no clock
    // shows.
    private let issue: Int64
    private let end: Int64
    private static let unsaid = Int64.min

    package init(userID: String, issuedAt: Int64? = nil, expiresAt: Int64? = nil) {
        self.init(of: .copy(userID), issuedAt: issuedAt, expiresAt: expiresAt)
    }

    /// The identity of the user whose id has this UTF-8, without times.
    package init(userID: UnsafeRawBufferPointer) {
        self.init(of: .copy(userID), issuedAt: nil, expiresAt: nil)
    }

    private init(of user: SharedBytes, issuedAt: Int64?, expiresAt: Int64?) {
        self.user = user
        issue = issuedAt ?? Self.unsaid
        end = expiresAt ?? Self.unsaid
    }

    package var userID: String { user.string }

    /// Seconds since 1970; nil where whoever vouched for the user did not say.
    package var issuedAt: Int64? { issue == Self.unsaid ? nil : issue }
    /// Seconds since 1970; nil where whoever vouched for the user set no end.
    package var expiresAt: Int64? { end == Self.unsaid ? nil : end }

    /// Whether `userID` is this user, byte for byte, as PostgreSQL compares; Swift's own comparison would take two
    /// spellings of "é" for one user.
    package func owns(_ userID: String) -> Bool {
        var userID = userID
        return userID.withUTF8 { other in user.withUnsafeBytes { $0.equals(UnsafeRawBufferPointer(other)) } }
    }

    /// Whether the stream is this user's, likewise.
    package func owns(_ stream: StreamID) -> Bool {
        stream.withUser { owner in user.withUnsafeBytes { $0.equals(owner) } }
    }

    /// Whether the stream of that name is this user's, likewise.
    package func owns(_ name: StreamName.Text) -> Bool {
        user.withUnsafeBytes { name.belongs(to: $0) }
    }

    /// What the two amount to, of the same user both: the later of their issues, and the later of their ends, for
    /// showing a second credential takes nothing away.
    func renewed(by other: Identity) -> Identity {
        let issue = [issuedAt, other.issuedAt].compactMap { $0 }.max()
        guard let expiresAt, let otherEnd = other.expiresAt else {
            return Identity(of: user, issuedAt: issue, expiresAt: nil)
        }
        return Identity(of: user, issuedAt: issue, expiresAt: max(expiresAt, otherEnd))
    }
}

/// What goes before and after the moment at which an identity expires.
package struct IdentityTimes: Sendable {
    /// From `sync:auth_expiring` to the expiry.
    package var notice: Duration
    /// From the expiry to the connection's end, for clients whose new token is under way.
    package var grace: Duration

    package init(notice: Duration = .seconds(60), grace: Duration = .seconds(25)) {
        self.notice = notice
        self.grace = grace
    }
}
