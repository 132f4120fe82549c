import Clock

/// Decides when the tail may be read again.
///
/// A slow read means that writers keep the server busy. It is followed by a rest twice as long: the next read then covers
/// many commits, and the writers keep what more reads would take from them. Quick reads follow one another at once.
struct TailPace {
    private var begunAt = Instant(nanoseconds: 0)
    /// Nil if it does not rest.
    private var restsUntil: Instant?

    mutating func begins(at now: Instant) { begunAt = now }

    mutating func ended(at now: Instant) {
        let took = now.duration(since: begunAt)
        // Doubled by a sum: a product of 128 bits costs five hundred instructions.
        restsUntil = took < FeedLimits.tailQuick ? nil : now.advanced(by: min(took + took, FeedLimits.tailRestMax))
    }

    /// How long it still rests; nil if it does not.
    mutating func rest(at now: Instant) -> Duration? {
        guard let restsUntil else { return nil }
        if restsUntil > now { return restsUntil.duration(since: now) }
        self.restsUntil = nil
        return nil
    }
}
