import Clock

/// Counts of values by size, in fixed buckets. Any thread may use it; it neither waits nor allocates.
///
/// Values are whole numbers of a small unit. Times are shown in seconds, counts as they are.
public final class Histogram: Sendable {
    /// The unit of the values.
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
    /// The largest value of each bucket, ascending. One more bucket counts larger values.
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

    /// Counts from 0 to 100,000.
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

    /// Records a time, if the unit is a time. A negative time counts as zero.
    public func record(_ time: Duration) {
        record(unit == .nanoseconds ? time.wholeNanoseconds : time.wholeNanoseconds / 1_000)
    }

    /// The count of each bucket (the last for larger values), and the sum of all values. Read while others record: each
    /// number is correct, but they may be from slightly different moments.
    var snapshot: (counts: [UInt64], sum: UInt64) {
        (buckets.map(\.count), total.count)
    }
}
