import Channels
import Pusher

/// The tokens of one loop's connections that are being verified, and the users terminated meanwhile: a token begun before
/// must not make a connection its user's after.
struct Verifications {
    /// Users terminated while tokens are under way that are told apart; with more, every such token is refused.
    static let terminatedMax = 1_000

    /// When the verification of whose token began. One connection has one under way.
    private var begun: [SessionID: UInt64] = [:]
    private var last: UInt64 = 0
    /// The last verification begun before the user was terminated.
    private var terminated: [UserKey: UInt64] = [:]
    /// Of no verification up to this one is it known whether its user was terminated.
    private var unknown: UInt64 = 0

    /// Users kept in mind.
    var terminatedCount: Int { terminated.count }

    mutating func begin(_ session: SessionID) {
        last += 1
        begun[session] = last
    }

    /// All connections of the user have been closed, but those of which that is not known yet.
    mutating func terminate(_ user: UserKey) {
        guard !begun.isEmpty else { return }
        if terminated.count >= Self.terminatedMax, terminated[user] == nil { forget() }
        if terminated.count < Self.terminatedMax || terminated[user] != nil {
            terminated[user] = last
        } else {
            unknown = last
            terminated = [:]
        }
    }

    /// The verification is over; `user`: whose the token was found to be. Returns what the connection is closed with, if it
    /// is: who comes too late for that to be known comes again.
    mutating func end(_ session: SessionID, as user: UserKey?) -> ErrorCode? {
        guard let number = begun.removeValue(forKey: session) else { return nil }
        defer { if begun.isEmpty { terminated = [:] } }
        guard let user else { return nil }
        if let terminated = terminated[user], number <= terminated { return .terminated }
        return number <= unknown ? .overCapacity : nil
    }

    /// Forgets those terminated before all that is under way began.
    private mutating func forget() {
        guard let oldest = begun.values.min() else { return }
        terminated = terminated.filter { $0.value >= oldest }
    }
}
