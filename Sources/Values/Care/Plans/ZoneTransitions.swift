/// A time zone as values: nothing here reads a time zone database.
package struct ZoneTransitions: Hashable, Sendable {
    /// From `second` (since 1970, UTC) on, clocks are `offset` seconds ahead of UTC.
    package struct Transition: Hashable, Sendable {
        /// When it happens.
        package let second: Int
        /// The offset from then on.
        package let offset: Int

        /// A transition.
        package init(at second: Int, to offset: Int) {
            self.second = second
            self.offset = offset
        }
    }

    /// The zone's name.
    package let name: String
    private let first: Int
    private let transitions: [Transition]

    /// A zone that is `offset` seconds ahead of UTC until the first of `transitions`, which are in order.
    package init(_ name: String, offset: Int, transitions: [Transition] = []) {
        self.name = name
        first = offset
        self.transitions = transitions
    }

    /// Seconds ahead of UTC at a second.
    package func offset(at second: Int) -> Int {
        transitions.last { $0.second <= second }?.offset ?? first
    }

    /// The local day at a second.
    package func day(at second: Int) -> LocalDate {
        LocalDate(days: Int(Timestamp.split(Int64(second + offset(at: second)), by: 86_400).whole))
    }

    /// The second at which clocks show `wall` (local seconds since 1970), by RFC 5545: the first of two; in a gap, by the
    /// offset before it.
    package func second(of wall: Int) -> Int {
        var before = first
        for transition in transitions {
            if wall < transition.second + max(before, transition.offset) { return wall - before }
            before = transition.offset
        }
        return wall - before
    }

    /// Whether the zone has the day: one that it skips begins on another.
    package func has(_ day: LocalDate) -> Bool { self.day(at: second(of: day.days * 86_400)) == day }
}
