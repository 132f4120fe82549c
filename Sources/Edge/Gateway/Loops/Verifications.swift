import HubEngine
import Pusher

/// One loop's tokens in verification, and users terminated meanwhile: an earlier token must not sign in after a termination.
struct Verifications {
    /// Terminated users remembered while tokens are in verification. Beyond it, every such token is refused.
    static let terminatedMax = 1_000

    /// The number of each connection's verification; a connection has one at a time.
    private var begun: [SessionID: UInt64] = [:]
    private var last: UInt64 = 0
    /// The last verification begun before the user was terminated.
    private var terminated: [UserKey: UInt64] = [:]
    /// Up to this verification it is not known whether its user was terminated.
    private var unknown: UInt64 = 0

    var terminatedCount: Int { terminated.count }

    mutating func begin(_ session: SessionID) {
        last += 1
        begun[session] = last
    }

    /// All connections of the user were closed, except those with a token in verification.
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

    /// The verification is over; `user`: whose token it was found to be. Returns the code to close the connection with, if
    /// any. If its user's termination may have been forgotten, the client must come again.
    mutating func end(_ session: SessionID, as user: UserKey?) -> ErrorCode? {
        guard let number = begun.removeValue(forKey: session) else { return nil }
        defer { if begun.isEmpty { terminated = [:] } }
        guard let user else { return nil }
        if let terminated = terminated[user], number <= terminated { return .terminated }
        return number <= unknown ? .overCapacity : nil
    }

    /// Forgets users terminated before all current verifications began.
    private mutating func forget() {
        guard let oldest = begun.values.min() else { return }
        terminated = terminated.filter { $0.value >= oldest }
    }
}
