/// Counters told apart by one label, or by two. The values that labels have are fixed from the start, so nothing that a
/// peer sends can make more of them: what is none of them counts as `other`.
package final class CounterTable: Sendable {
    /// What a value counts as that is none of those given.
    package static let other = "other"

    /// A label: its name and its values, `other` being the last.
    struct Label: Sendable {
        let name: StaticString
        let values: [String]
        private let places: [String: Int]

        init(_ name: StaticString, _ values: [String]) {
            self.name = name
            self.values = values + [CounterTable.other]
            places = Dictionary(values.enumerated().map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
        }

        func place(_ value: String) -> Int { places[value] ?? values.count - 1 }
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

    /// The counter of that value; to be kept by whoever counts often.
    package subscript(value: String) -> Counter {
        counters[first.place(value) * (second?.values.count ?? 1)]
    }

    /// The counter of that pair of values.
    package subscript(value: String, other: String) -> Counter {
        guard let second else { return self[value] }
        return counters[first.place(value) * second.values.count + second.place(other)]
    }

    /// Every counter, for a series that begins with its first count is no increase to Prometheus; of `other` those that
    /// have counted.
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
