import Foundation

/// Median, minimum and maximum of several rounds.
struct Spread: Codable {
    let median: Double
    let least: Double
    let most: Double
    let rounds: Int

    init(_ values: [Double]) {
        let sorted = values.sorted()
        rounds = sorted.count
        least = sorted.first ?? 0
        most = sorted.last ?? 0
        let middle = rounds / 2
        median = rounds == 0 ? 0 : rounds % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
    }

    /// `median (least–most)`, each divided by `unit`.
    func text(unit: Double = 1, digits: Int = 0) -> String {
        [median, least, most].map { decimal($0 / unit, digits) }.withParts { "\($0) (\($1)–\($2))" }
    }
}

extension [String] {
    fileprivate func withParts(_ body: (String, String, String) -> String) -> String {
        count == 3 ? body(self[0], self[1], self[2]) : joined(separator: " ")
    }
}

/// `value` with that many digits after the point.
func decimal(_ value: Double, _ digits: Int = 0) -> String {
    String(format: "%.\(digits)f", value)
}

/// Writes the figures as JSON to `file`, if given.
func write(_ figures: some Encodable, to file: String?) throws {
    guard let file else { return }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
    do {
        try encoder.encode(figures).write(to: URL(fileURLWithPath: file))
    } catch {
        throw LoadFailure("\(file): cannot be written")
    }
}
