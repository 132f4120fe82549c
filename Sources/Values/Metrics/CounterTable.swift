/// Counters by one label or two. The label values are fixed, so a peer cannot add any: unknown values count as `other`.
package final class CounterTable: Sendable {
    /// The value for everything unknown.
    package static let other = "other"

    /// A label: its name and values, `other` last.
    struct Label: Sendable {
        let name: StaticString
        let values: [String]
        private let indices: [String: Int]

        init(_ name: StaticString, _ values: [String]) {
            self.name = name
            self.values = values + [CounterTable.other]
            indices = Dictionary(values.enumerated().map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
        }

        func index(_ value: String) -> Int { indices[value] ?? values.count - 1 }
    }

    let first: Label
    let second: Label?
    private let counters: [Counter]

    /// Counters by one label.
    package init(_ name: StaticString, _ values: [String]) {
        first = Label(name, values)
        second = nil
        counters = first.values.map { _ in Counter() }
    }

    /// Counters by two labels.
    package init(_ name: StaticString, _ values: [String], by second: StaticString, _ others: [String]) {
        first = Label(name, values)
        let label = Label(second, others)
        self.second = label
        counters = (0..<first.values.count * label.values.count).map { _ in Counter() }
    }

    /// The counter of a value. Frequent users should keep it.
    package subscript(value: String) -> Counter {
        counters[first.index(value) * (second?.values.count ?? 1)]
    }

    /// The counter of a pair of values.
    package subscript(value: String, other: String) -> Counter {
        guard let second else { return self[value] }
        return counters[first.index(value) * second.values.count + second.index(other)]
    }

    /// Whether the first label's value has counters of its own.
    package func knows(_ value: String) -> Bool { first.index(value) < first.values.count - 1 }

    /// Every counter, including zeros: Prometheus sees no increase in a series that begins with its first count. `other`
    /// appears only when it has counted.
    package var series: [(value: String, other: String?, count: UInt64)] {
        var series: [(value: String, other: String?, count: UInt64)] = []
        for (row, value) in first.values.enumerated() {
            guard let second else {
                let count = counters[row].count
                if count > 0 || value != Self.other { series.append((value, nil, count)) }
                continue
            }
            for (column, other) in second.values.enumerated() {
                let count = counters[row * second.values.count + column].count
                if count > 0 || (value != Self.other && other != Self.other) { series.append((value, other, count)) }
            }
        }
        return series
    }
}
