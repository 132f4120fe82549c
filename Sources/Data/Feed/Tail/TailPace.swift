import Clock

/// When the tail may be read again.
///
/// A read that took its time was made beside writers who keep the server busy. It is followed by a rest twice as long: the next read
/// then tells of many commits, and the writers have what more reads would take from them. Quick ones follow one another at once.
struct TailPace {
    private var begunAt = Instant(nanoseconds: 0)
    /// Nil where it does not rest.
    private var restsUntil: Instant?

    mutating func begins(at now: Instant) { begunAt = now }

    mutating func ended(at now: Instant) {
        let took = now.duration(since: begunAt)
        restsUntil = took < FeedLimits.tailQuick ? nil : now.advanced(by: min(took * 2, FeedLimits.tailRestMax))
    }

    /// For how long it still rests; nil where it does not.
    mutating func rest(at now: Instant) -> Duration? {
        guard let restsUntil else { return nil }
        if restsUntil > now { return restsUntil.duration(since: now) }
        self.restsUntil = nil
        return nil
    }
}
