/// One of a medication's schedules, or of those that a frequency and times ask for: what `pairs` goes by.
package struct MedicationTime: Sendable {
    /// Minutes after midnight; nil: as needed.
    package let minute: Int?
    /// How it repeats, in words that are equal where that is the same.
    package let repeats: String
    /// Whether it is paused.
    package let isPaused: Bool
    /// Whether its last day has passed.
    package let isOver: Bool

    /// A time.
    package init(_ minute: Int?, repeats: String = "daily", isPaused: Bool = false, isOver: Bool = false) {
        (self.minute, self.repeats, self.isPaused, self.isOver) = (minute, repeats, isPaused, isOver)
    }

    /// For each wanted time, which of the present ones goes on as it; nil for one that begins. By the rules of care.paired:
    /// equal times first, then the nearest; a time moves past no time that stays.
    package static func pairs(_ present: [MedicationTime], _ wanted: [MedicationTime]) -> [Int?] {
        var found = [Int?](repeating: nil, count: wanted.count)
        while true {
            var best: (rank: [Int], old: Int, new: Int)?
            for (old, was) in present.enumerated() where !was.isOver && !found.contains(old) {
                for (new, will) in wanted.enumerated() where found[new] == nil {
                    guard !crosses(was, will, present, wanted, found) else { continue }
                    let rank = [
                        was.isPaused ? 1 : 0, distance(was.minute, will.minute), was.repeats == will.repeats ? 0 : 1,
                        old, new,
                    ]
                    if best.map({ rank.lexicographicallyPrecedes($0.rank) }) ?? true { best = (rank, old, new) }
                }
            }
            guard let best else { return found }
            found[best.new] = best.old
        }
    }

    private static func distance(_ was: Int?, _ will: Int?) -> Int {
        guard let was, let will else { return was == will ? 0 : 1_440 }
        return abs(was - will)
    }

    private static func crosses(
        _ was: MedicationTime, _ will: MedicationTime, _ present: [MedicationTime], _ wanted: [MedicationTime],
        _ found: [Int?]
    ) -> Bool {
        guard let from = was.minute, let to = will.minute else { return false }
        return zip(found, wanted).contains { old, other in
            guard let old, let before = present[old].minute, let after = other.minute else { return false }
            return from < before && to > after || from > before && to < after
        }
    }
}
