import Bytes
import Sync

/// A stream that an owning loop wants, and how far it was delivered.
struct Watch: TableEntry {
    /// Valid transitions: positioning → live; live ⇄ healing; healing → lapsed → live; live → live at another epoch; live,
    /// healing → checking, then live or healing: at a reconnect, at a new epoch, after a bulk that failed, and if a gap is
    /// suspected.
    enum Phase {
        /// Newly watched; the position to come covers its rows.
        case positioning
        /// To be compared with the database; the position to come, and the replay up to it, cover its rows.
        case checking
        /// Its rows of the tail are delivered.
        case live
        /// Being replayed; the replay covers its rows.
        case healing
        /// Its next event is no longer in the log: restarts at its position, with a reset.
        case lapsed
    }

    // 24 bytes, in an order without gaps (tested): a hub has one for each stream of each user.
    let stream: StreamID
    let serial: UInt32
    var phase = Phase.positioning
    /// Whether its user already had `FeedLimits.streamsInFront` streams when it was watched.
    var isBehind = false
    /// Whether a client was back with a position when it was watched.
    var isBack = false
    /// The epoch of `delivered`; unknown before the position is known.
    fileprivate var epoch = EpochNumber.unknown
    var delivered: Int64 = 0

    var key: StreamID { stream }

    init(_ stream: StreamID, serial: UInt32) { (self.stream, self.serial) = (stream, serial) }

    /// Whether `delivered` is an offset of that epoch.
    func isIn(_ epoch: EpochNumber) -> Bool { epoch != .unknown && self.epoch == epoch }

    /// Continues from that position.
    mutating func restart(at offset: Int64, in epoch: EpochNumber) {
        self.epoch = epoch
        delivered = offset
        phase = .live
    }

    /// The ticket's position was read. Returns the new phase if the ticket is this watch's and its position was awaited.
    ///
    /// - Parameter epoch: that of the position.
    mutating func settle(
        _ ticket: Ticket, _ position: StreamPosition, in epoch: EpochNumber, _ outputs: inout [FeedOutput]
    ) -> Phase? {
        guard serial == ticket.serial else { return nil }
        switch phase {
        case .positioning:
            outputs.append(.positioned(ticket.stream, serial: serial, position))
        case .checking where isIn(epoch) && position.offset >= delivered:
            phase = position.offset == delivered ? .live : .healing
            return phase
        case .checking, .lapsed:
            outputs.append(.reset(ticket.stream, position))
        case .live, .healing:
            return nil
        }
        restart(at: position.offset, in: epoch)
        return phase
    }
}

/// An epoch in one byte, for watches: nearly always all of them are in one. Valid in its `Watches`.
struct EpochNumber: Equatable {
    fileprivate let rawValue: UInt8

    /// No epoch, or one without a number.
    static let unknown = EpochNumber(rawValue: 0)
}

/// All watches, one per stream, within the bounds of the hub and of each user.
struct Watches {
    private let streamsMax: Int
    private let streamsPerUserMax: Int
    private var table = KeyedTable<Watch>()
    /// That of number 1 first.
    private var epochs: [Epoch] = []
    /// Streams of each user. Two users with the same code share the bound.
    private var ofUsers: [UserHash: Int32] = [:]

    init(streamsMax: Int, streamsPerUserMax: Int) {
        self.streamsMax = streamsMax
        self.streamsPerUserMax = streamsPerUserMax
    }

    var count: Int { table.count }
    func index(of stream: StreamID) -> Int? { table.index(of: stream) }
    subscript(stream: StreamID) -> Watch? { table[stream] }

    /// The watch at an index below `count`, valid until a watch ends.
    subscript(index: Int) -> Watch {
        get { table[index] }
        _modify { yield &table[index] }
    }

    /// The number of the epoch.
    ///
    /// A number that no watch has is used again. While all 255 are in use, further epochs are unknown: they differ from
    /// all, so a stream in one is reset where it could have gone on.
    mutating func number(of epoch: Epoch) -> EpochNumber {
        if let known = epochs.firstIndex(of: epoch) { return EpochNumber(rawValue: UInt8(known + 1)) }
        if epochs.count < Int(UInt8.max) {
            epochs.append(epoch)
            return EpochNumber(rawValue: UInt8(epochs.count))
        }
        let used = Set(table.entries.map(\.epoch.rawValue))
        guard let free = (1...UInt8.max).first(where: { !used.contains($0) }) else { return .unknown }
        epochs[Int(free) - 1] = epoch
        return EpochNumber(rawValue: free)
    }

    /// The index of the ticket's watch; nil if that has ended.
    func index(of ticket: Ticket) -> Int? {
        index(of: ticket.stream).flatMap { self[$0].serial == ticket.serial ? $0 : nil }
    }

    /// Starts a watch, or restarts it. Returns why it is refused, or nil.
    mutating func begin(_ stream: StreamID, serial: UInt32, isBack: Bool) -> StreamRefusal? {
        // PostgreSQL's text cannot hold a NUL byte, so such a stream has no events, and cannot be queried.
        let isNameable =
            stream.withUser { $0.firstIndex(of: 0, from: 0) == nil }
            && stream.withTopic { $0.firstIndex(of: 0, from: 0) == nil }
        guard isNameable else { return .notNameable }
        var watch = Watch(stream, serial: serial)
        watch.isBack = isBack
        if let index = index(of: stream) {
            watch.isBehind = table[index].isBehind
            table[index] = watch
            return nil
        }
        let user = UserHash(of: stream)
        guard count < streamsMax else { return (ofUsers[user] ?? 0) < streamsPerUserMax ? .hubFull : .userFull }
        let others = takePlace(user)
        guard others < streamsPerUserMax else { return .userFull }
        watch.isBehind = others >= FeedLimits.streamsInFront
        _ = table.insert(watch)
        return nil
    }

    mutating func end(_ stream: StreamID) {
        guard table.remove(stream) != nil else { return }
        let user = UserHash(of: stream)
        let left = (ofUsers[user] ?? 1) - 1
        ofUsers[user] = left > 0 ? left : nil
    }

    /// Counts one more stream of the user, unless that is one too many. Returns how many others there are.
    private mutating func takePlace(_ user: UserHash) -> Int {
        let most = streamsPerUserMax
        func take(_ streams: inout Int32) -> Int {
            let others = Int(streams)
            if others < most { streams += 1 }
            return others
        }
        return take(&ofUsers[user, default: 0])
    }
}

/// A keyed hash of a user's id, as a table key: it is not hashed again.
private struct UserHash: Hashable {
    private let code: UInt32

    init(of stream: StreamID) { code = stream.withUser { UInt32(truncatingIfNeeded: KeyedHash.hash($0)) } }

    func hash(into hasher: inout Hasher) { hasher.combine(code) }

    /// Called by the standard library's tables, as in `StreamID`.
    func _rawHashValue(seed: Int) -> Int {
        Int(truncatingIfNeeded: KeyedHash.mix(UInt64(code), UInt64(truncatingIfNeeded: seed)))
    }
}
