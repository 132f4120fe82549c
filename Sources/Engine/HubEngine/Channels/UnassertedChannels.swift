import Clock

/// Channels of which the state elsewhere is to be told what this hub has in them.
struct UnassertedChannels {
    private var waiting: [ChannelKey] = []
    private var due = Instant.max
    /// Those without subscribers here, of which the state is being told so. They count against the bound of channels: while
    /// the state is away, its own does not hold.
    private(set) var vacating: Set<ChannelKey> = []

    /// When the next ones are to be asserted; nil if there are none.
    var nextDue: Instant? { waiting.isEmpty ? nil : due }

    /// All of these, from now on.
    mutating func add(_ keys: some Sequence<ChannelKey>, due: Instant) {
        waiting = Array(Set(waiting).union(keys))
        self.due = due
    }

    /// Up to that many that are due.
    mutating func popDue(now: Instant, most: Int) -> [ChannelKey] {
        guard due <= now else { return [] }
        defer { waiting.removeLast(min(most, waiting.count)) }
        return waiting.suffix(most)
    }

    /// The state is told that nobody here is in the channel; false: it is being told.
    mutating func vacates(_ key: ChannelKey) -> Bool { vacating.insert(key).inserted }

    /// It has been told, or is told again after a pause.
    mutating func vacated(_ key: ChannelKey, again due: Instant?) {
        vacating.remove(key)
        guard let due else { return }
        // It does not hold up others.
        if waiting.isEmpty { self.due = due }
        waiting.append(key)
    }
}
