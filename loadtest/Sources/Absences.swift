import Histogram

/// How long clients were away, each time that one came back.
struct Absences {
    private var times = Histogram<UInt64>(numberOfSignificantValueDigits: .three)
    private var most: UInt64 = 0

    var count: Int { Int(times.totalCount) }

    mutating func add(_ absence: Duration) {
        let nanoseconds = max(1, absence.wholeNanoseconds)
        _ = times.record(nanoseconds)
        most = max(most, nanoseconds)
    }

    var figures: AbsenceFigures {
        AbsenceFigures(
            returns: count, p50: Double(times.valueAtPercentile(50)) / 1e9,
            p99: Double(times.valueAtPercentile(99)) / 1e9, most: Double(most) / 1e9)
    }
}

/// How often clients came back, and how long they were away, in seconds.
struct AbsenceFigures: Codable {
    var returns = 0
    var p50 = 0.0
    var p99 = 0.0
    var most = 0.0

    /// As three cells of a table.
    var text: String { "\(decimal(p50, 2)) | \(decimal(p99, 2)) | \(decimal(most, 2))" }
}
