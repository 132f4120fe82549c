import Clock

/// What the time was in a run of deploys, so that each event counts where its commit lies.
struct Timeline {
    enum Kind: String, CaseIterable, Codable {
        /// Nothing is deployed, and all clients are current.
        case quiet
        /// From the beginning of a deploy until the old hub has ended and all clients are current again.
        case deploying
    }

    /// In order; each lasts until the next.
    private var marks: [(from: Instant, kind: Kind?)] = []

    /// From now on it is that kind of time; nil: one that does not count.
    mutating func begins(_ kind: Kind?, at now: Instant) {
        marks.append((now, kind))
    }

    func kind(at time: Instant) -> Kind? {
        marks.last { $0.from <= time }?.kind ?? nil
    }
}
