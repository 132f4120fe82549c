import Bytes

// Metrics: the hub's counts, and their text for Prometheus (exposition format 0.0.4).
//
// Purpose: counters, gauges and histograms that any thread may change without waiting, and their text. Each target has its
// own in one class (`FeedMetrics`, `GatewayMetrics`, …), a `MetricSource`; the operations listener reads all of them on
// request. Invariants: label values are fixed in the source or named by the operator, never by a peer; no user, channel or
// event content ever appears. Depends on Bytes.

/// A source of metrics. Called on the operations thread.
package protocol MetricSource: Sendable {
    /// Writes all of the source's families.
    func append(to exposition: inout Exposition)
}

/// The text of all metrics, family by family: `# HELP`, `# TYPE`, then the series.
package struct Exposition: ~Copyable {
    /// A label with a fixed value.
    package struct Label: Sendable {
        let name: StaticString
        let value: String

        /// A name, and a value that the writer escapes.
        package init(_ name: StaticString, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    private static let prefix: StaticString = "carillon_"
    /// The content type of the text.
    package static let contentType: StaticString = "text/plain; version=0.0.4; charset=utf-8"

    private var text = ByteWriter(capacity: 16_384)

    /// An empty text.
    package init() {}

    /// The text so far.
    package var bytes: [UInt8] { text.array }

    // MARK: Families

    /// A counter; its name ends with `_total`.
    package mutating func counter(_ name: StaticString, _ help: StaticString, _ count: UInt64) {
        family(name, help, "counter")
        series(name, [], Double(count))
    }

    /// Counters by their labels, which all tables share.
    package mutating func counter(
        _ name: StaticString, _ help: StaticString, _ table: CounterTable, _ more: [CounterTable] = []
    ) {
        family(name, help, "counter")
        for table in [table] + more {
            for (value, other, count) in table.series {
                var labels = [Label(table.first.name, value)]
                if let other, let second = table.second { labels.append(Label(second.name, other)) }
                series(name, labels, Double(count))
            }
        }
    }

    /// Counters by the source's own labels.
    package mutating func counter(_ name: StaticString, _ help: StaticString, _ counts: [([Label], UInt64)]) {
        family(name, help, "counter")
        for (labels, count) in counts { series(name, labels, Double(count)) }
    }

    /// A counter in another unit, such as seconds. `plain` leaves out our prefix.
    package mutating func counter(_ name: StaticString, _ help: StaticString, _ value: Double, plain: Bool = false) {
        family(name, help, "counter", plain: plain)
        series(name, [], value, plain: plain)
    }

    /// A gauge. `plain` leaves out our prefix, for names that every process has.
    package mutating func gauge(_ name: StaticString, _ help: StaticString, _ value: Double, plain: Bool = false) {
        family(name, help, "gauge", plain: plain)
        series(name, [], value, plain: plain)
    }

    /// Gauges by their labels.
    package mutating func gauge(_ name: StaticString, _ help: StaticString, _ values: [([Label], Double)]) {
        family(name, help, "gauge")
        for (labels, value) in values { series(name, labels, value) }
    }

    /// A histogram, cumulative as the format requires.
    package mutating func histogram(
        _ name: StaticString, _ help: StaticString, _ histogram: Histogram, label: Label? = nil
    ) {
        family(name, help, "histogram")
        let (counts, sum) = histogram.snapshot
        let labels = label.map { [$0] } ?? []
        var total: UInt64 = 0
        for (count, bound) in zip(counts, histogram.bounds) {
            total &+= count
            let edge = Label("le", Self.text(of: Double(bound) / histogram.unit.perShown))
            series(name, suffix: "_bucket", labels + [edge], Double(total))
        }
        total &+= counts.last ?? 0
        series(name, suffix: "_bucket", labels + [Label("le", "+Inf")], Double(total))
        series(name, suffix: "_sum", labels, Double(sum) / histogram.unit.perShown)
        series(name, suffix: "_count", labels, Double(total))
    }

    // MARK: Lines

    private mutating func family(
        _ name: StaticString, _ help: StaticString, _ type: StaticString, plain: Bool = false
    ) {
        text.append("# HELP ")
        append(name, plain)
        text.append(" ")
        text.append(help)
        text.append("\n# TYPE ")
        append(name, plain)
        text.append(" ")
        text.append(type)
        text.append("\n")
    }

    private mutating func series(
        _ name: StaticString, suffix: StaticString = "", _ labels: [Label], _ value: Double, plain: Bool = false
    ) {
        append(name, plain)
        text.append(suffix)
        for (index, label) in labels.enumerated() {
            text.append(index == 0 ? "{" : ",")
            text.append(label.name)
            text.append("=\"")
            append(escaping: label.value)
            text.append("\"")
        }
        if !labels.isEmpty { text.append("}") }
        text.append(" ")
        text.append(utf8: Self.text(of: value))
        text.append("\n")
    }

    private mutating func append(_ name: StaticString, _ plain: Bool) {
        if !plain { text.append(Self.prefix) }
        text.append(name)
    }

    private mutating func append(escaping value: String) {
        for byte in value.utf8 {
            switch byte {
            case UInt8(ascii: "\\"): text.append("\\\\")
            case UInt8(ascii: "\""): text.append("\\\"")
            case UInt8(ascii: "\n"): text.append("\\n")
            default: text.append(byte)
            }
        }
    }

    /// A number in the format's syntax; whole numbers without a fraction.
    private static func text(of value: Double) -> String {
        guard value.isFinite else { return value.isNaN ? "NaN" : value > 0 ? "+Inf" : "-Inf" }
        if let whole = Int64(exactly: value), whole.magnitude < 1 << 53 { return String(whole) }
        return value.description
    }
}
