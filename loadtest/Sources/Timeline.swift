import Clock

/// What the time was in a run of deploys, so that each event counts where its commit lies.
struct Timeline {
    enum Kind: String, CaseIterable, Codable {
        /// Nothing is deployed, and all clients are current.
        case quiet
        /// From the beginning of a deploy until the old hub has ended and all clients are current again, for a connection
        /// that was there before.
        case deploying
        /// During such a deploy, for a connection to the new hub.
        case returned
    }

    /// In order; each lasts until the next.
    private var marks: [(from: Instant, kind: Kind?)] = []

    /// From now on it is that kind of time; nil: one that does not count.
    mutating func begins(_ kind: Kind?, at now: Instant) {
        marks.append((now, kind))
    }

    /// What that time is for a connection which is there since `since`.
    func kind(at time: Instant, since: Instant) -> Kind? {
        guard let mark = marks.last(where: { $0.from <= time }) else { return nil }
        return mark.kind == .deploying && since >= mark.from ? .returned : mark.kind
    }
}
