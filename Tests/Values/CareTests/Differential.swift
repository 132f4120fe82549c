import Bytes
import Care
import TestSupport

/// A history on which model and database differ, made as short as possible.
struct Difference: CustomStringConvertible, Sendable {
    let seed: UInt64
    let steps: [Step]
    /// The first lines that differ.
    let expected: String
    let found: String

    var description: String {
        let list = steps.enumerated().map { "  \($0.offset): \($0.element.tree.canonicalText)" }
        return """
            history \(seed): model and database differ after these \(steps.count) steps (synthetic data)
            \(list.joined(separator: "\n"))
            expected: \(expected)
            found:    \(found)
            """
    }
}

/// Plays histories on both sides and compares.
struct Differential {
    let subject: Subject

    /// The steps of the seed's history if both sides differ; nil when they agree.
    func disagreement(seed: UInt64) throws -> [Step]? {
        var generator = HistoryGenerator(seed: seed, model: subject.model())
        let (steps, expected) = generator.run()
        let wanted = expected + rows(generator.model, at: steps.last?.at)
        let found = try subject.play(steps, users: HistoryGenerator.users)
        return firstDifference(wanted, found) == nil ? nil : steps
    }

    /// The seed's difference on a shortened history; nil when both sides agree.
    func difference(seed: UInt64) throws -> Difference? {
        try disagreement(seed: seed).map { try shortened(seed, $0) }
    }

    /// The difference on a handmade history.
    func difference(_ steps: [Step]) throws -> Difference? {
        let (wanted, found) = try play(steps)
        return firstDifference(wanted, found) == nil ? nil : try shortened(0, steps)
    }

    private func rows(_ model: CareModel, at now: Timestamp?) -> [String] {
        guard let now else { return [] }
        return HistoryGenerator.users.map { model.rows($0, at: now) }
    }

    private func firstDifference(_ wanted: [String], _ found: [String]) -> Int? {
        (0..<max(wanted.count, found.count)).first { index in
            guard index < wanted.count, index < found.count else { return true }
            return !wanted[index].hasSameBytes(as: found[index])
        }
    }

    /// Both sides' answers to `steps`.
    private func play(_ steps: [Step]) throws -> (wanted: [String], found: [String]) {
        var model = subject.model()
        let wanted = steps.map { model.play($0) } + rows(model, at: steps.last?.at)
        return (wanted, try subject.play(steps, users: HistoryGenerator.users))
    }

    private func shortened(_ seed: UInt64, _ whole: [Step]) throws -> Difference {
        let shrinker = Shrinker { steps in
            let (wanted, found) = try play(steps)
            return firstDifference(wanted, found) != nil
        }
        let steps = try shrinker.shrunk(whole)
        let (last, lastFound) = try play(steps)
        return Self.difference(seed, steps, last, lastFound, at: firstDifference(last, lastFound) ?? 0)
    }

    private static func difference(
        _ seed: UInt64, _ steps: [Step], _ wanted: [String], _ found: [String], at index: Int
    ) -> Difference {
        let lines = differingLines(
            index < wanted.count ? wanted[index] : "(nothing)", index < found.count ? found[index] : "(nothing)")
        return Difference(seed: seed, steps: steps, expected: lines.0, found: lines.1)
    }

    private static func differingLines(_ wanted: String, _ found: String) -> (String, String) {
        let left = wanted.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        let right = found.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        for index in 0..<max(left.count, right.count) {
            let pair = (
                index < left.count ? left[index] : "(nothing)", index < right.count ? right[index] : "(nothing)"
            )
            if !pair.0.hasSameBytes(as: pair.1) { return pair }
        }
        return (wanted, found)
    }
}
