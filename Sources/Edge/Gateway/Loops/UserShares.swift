import Clock
import HubEngine

/// How much input of each user one tick of a loop handles: a whole turn of one connection, and what is left of a quarter of
/// a turn for the user's others. What comes beyond it waits for a turn. So a user who comes back on hundreds of
/// connections, each with a hundred positions, holds up others by a short tick, and not by all of them.
///
/// Little input is not counted: it would cost more to count than to handle. Users share what they may have where their codes
/// are equal.
struct UserShares {
    /// Input of a connection in one tick that is not counted.
    static let littleBytes = 2_048

    private let most: Int
    private var tick = Instant.min
    private var spent: [UInt64: Int] = [:]

    /// - Parameter most: the room of one turn.
    init(most: Int) { self.most = most }

    /// The room for so many bytes of a user; nil where they are not counted.
    mutating func room(for bytes: Int, of identity: Identity?, at now: Instant) -> (user: UInt64, left: Int)? {
        guard bytes > Self.littleBytes, let code = identity?.code else { return nil }
        if tick != now {
            tick = now
            spent.removeAll(keepingCapacity: spent.count <= 1_024)
        }
        return (code, spent[code].map { max(0, most / 4 - $0) } ?? most)
    }

    /// So much of the room was used.
    mutating func spend(_ room: Int, of user: UInt64) { spent[user, default: 0] += room }
}
