import Clock

/// Counts of values by size, in fixed buckets. Any thread; nothing waits and nothing is allocated.
///
/// Values are whole numbers of a small unit: nanoseconds are shown as seconds, all else as it is.
public final class Histogram: Sendable {
    /// What the values are.
    public enum Unit: Sendable {
        /// Values are nanoseconds.
        case nanoseconds
        /// Values count something.
        case count
        /// Values are microseconds.
        case microseconds

        var perShown: Double {
            switch self {
            case .nanoseconds: 1e9
            case .microseconds: 1e6
            case .count: 1
            }
        }
    }

    let unit: Unit
    /// The largest value of each bucket, ascending; one more bucket takes what is larger.
    let bounds: [UInt64]
    private let buckets: [Counter]
    private let total = Counter()

    /// - Parameter bounds: the largest value of each bucket, ascending.
    public init(_ unit: Unit, bounds: [UInt64]) {
        precondition(zip(bounds, bounds.dropFirst()).allSatisfy { $0 < $1 }, "buckets ascend")
        self.unit = unit
        self.bounds = bounds
        buckets = (0...bounds.count).map { _ in Counter() }
    }

    /// Times from half a millisecond to half a minute, given in nanoseconds.
    public static func times() -> Histogram {
        let milliseconds: [UInt64] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000]
        return Histogram(.nanoseconds, bounds: [500_000] + milliseconds.map { $0 * 1_000_000 })
    }

    /// Numbers from nothing to a hundred thousand.
    public static func sizes() -> Histogram {
        Histogram(.count, bounds: [0, 1, 2, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 100_000])
    }

    /// Counts one value.
    public func record(_ value: UInt64) {
        var bucket = 0
        while bucket < bounds.count, value > bounds[bucket] { bucket += 1 }
        buckets[bucket].add()
        total.add(Int(truncatingIfNeeded: value))
    }

    /// Counts one time, where the unit is one of time. A negative one counts as none.
    public func record(_ time: Duration) {
        record(unit == .nanoseconds ? time.wholeNanoseconds : time.wholeNanoseconds / 1_000)
    }

    /// How many values each bucket has, the last that of all beyond the bounds, and the sum of all values. Read while others
    /// count: each number is right, and they may be of moments a little apart.
    var snapshot: (counts: [UInt64], sum: UInt64) {
        (buckets.map(\.count), total.count)
    }
}
