import Care
import JSON

/// Makes a failing history short and simple: removes ever smaller groups of steps, then pairs, then parts of steps, as long
/// as it still fails, and repeats until nothing can be removed. Each try is smaller than the last, so this ends.
struct Shrinker {
    let fails: ([Step]) throws -> Bool

    func shrunk(_ whole: [Step]) throws -> [Step] {
        var steps = whole
        var last = Int.max
        while Self.size(steps) < last {
            last = Self.size(steps)
            let unnumbered = steps.map(\.unnumbered)
            if try fails(unnumbered) { steps = unnumbered }
            steps = try withoutParts(steps)
            steps = try withoutPairs(steps)
            steps = try withoutStates(steps)
            steps = try withPlainSteps(steps)
        }
        return steps
    }

    private static func size(_ steps: [Step]) -> Int { steps.reduce(0) { $0 + $1.size } }

    // MARK: Fewer steps

    /// Delta debugging from the end: steps after the fault are removed at once.
    private func withoutParts(_ whole: [Step]) throws -> [Step] {
        var steps = whole
        var part = max(1, steps.count / 2)
        while true {
            var hasShrunk = false
            var end = steps.count
            while end > 0 {
                let start = max(0, end - part)
                if let fewer = try without({ $0 >= start && $0 < end }, steps) {
                    steps = fewer
                    hasShrunk = true
                }
                end = start
            }
            if part == 1, !hasShrunk { return steps }
            part = max(1, part / 2)
        }
    }

    /// Some steps can only be removed together, such as an action and its undo.
    private func withoutPairs(_ whole: [Step]) throws -> [Step] {
        var steps = whole
        var first = 0
        while first < steps.count {
            var hasShrunk = false
            for second in steps.indices.dropFirst(first + 1) where !hasShrunk {
                guard let fewer = try without({ $0 == first || $0 == second }, steps) else { continue }
                steps = fewer
                hasShrunk = true
            }
            if !hasShrunk { first += 1 }
        }
        return steps
    }

    /// A backend's update of the status may be merged into the dose's insertion.
    private func withoutStates(_ whole: [Step]) throws -> [Step] {
        var steps = whole
        for index in whole.indices.reversed() {
            guard case .update(let ids, let state?, note: nil, day: nil) = steps[index].change, ids.count == 1 else {
                continue
            }
            for first in 0..<index {
                guard case .insert(let dose) = steps[first].change, dose.id == ids[0] else { continue }
                var tried = steps
                tried[first] = Step(
                    at: steps[first].at, user: steps[first].user, change: .insert(dose.with(state: state)))
                tried.remove(at: index)
                guard Self.size(tried) < Self.size(steps), try fails(tried) else { continue }
                steps = tried
                break
            }
        }
        return steps
    }

    /// The history without some steps if it still fails, with the devices' other actions renumbered or unchanged.
    private func without(_ isGone: (Int) -> Bool, _ steps: [Step]) throws -> [Step]? {
        let kept = steps.indices.filter { !isGone($0) }.map { steps[$0] }
        let renumbered = Self.renumbered(steps, without: isGone)
        if try fails(renumbered) { return renumbered }
        return try renumbered.map(\.number) != kept.map(\.number) && fails(kept) ? kept : nil
    }

    private static func renumbered(_ steps: [Step], without isGone: (Int) -> Bool) -> [Step] {
        struct Line {
            var highest: Int64 = 0
            var gone: Int64 = 0
        }
        var lines: [[Identifier]: Line] = [:]
        return steps.enumerated().compactMap { index, step in
            guard case .action(var envelope) = step.change, let number = envelope.number else {
                return isGone(index) ? nil : step
            }
            let device = [step.user, envelope.device ?? ""]
            var line = lines[device] ?? Line()
            defer { lines[device] = line }
            // A repeated action has not used a number of its own.
            let isNew = number > line.highest
            line.highest = max(line.highest, number)
            if isGone(index) {
                if isNew { line.gone += 1 }
                return nil
            }
            envelope.number = max(1, number - line.gone)
            return Step(at: step.at, user: step.user, change: .action(envelope))
        }
    }

    // MARK: Plainer steps

    private func withPlainSteps(_ whole: [Step]) throws -> [Step] {
        var steps = whole
        for index in steps.indices {
            var isPlain = false
            while !isPlain {
                isPlain = true
                for step in steps[index].plainer where step.size < steps[index].size {
                    var tried = steps
                    tried[index] = step
                    guard try fails(tried) else { continue }
                    steps = tried
                    isPlain = false
                    break
                }
            }
        }
        return steps
    }
}

extension Step {
    fileprivate var size: Int { tree.canonicalText.utf8.count }

    fileprivate var number: Int64? {
        guard case .action(let envelope) = change else { return nil }
        return envelope.number
    }

    /// The step without the device's number.
    fileprivate var unnumbered: Step {
        guard case .action(var envelope) = change else { return self }
        envelope.number = nil
        return Step(at: at, user: user, change: .action(envelope))
    }

    /// The step with one thing less.
    fileprivate var plainer: [Step] {
        let changes: [Change] =
            switch change {
            case .action(let envelope): envelope.plainer.map { .action($0) }
            case .insert(let dose): dose.plainer.map { .insert($0) }
            case .update(let ids, let state, let note, let day):
                ids.count > 1 ? ids.map { .update([$0], state: state, note: note, day: day) } : []
            case .delete(let ids): ids.count > 1 ? ids.map { .delete([$0]) } : []
            case .zone, .move, .epoch: []
            }
        return changes.map { Step(at: at, user: user, change: $0) }
    }
}

extension CareEnvelope {
    fileprivate var plainer: [CareEnvelope] {
        func with(_ change: (inout CareEnvelope) -> Void) -> CareEnvelope {
            var envelope = self
            change(&envelope)
            return envelope
        }
        return [
            with {
                $0.number = nil
                $0.device = nil
            },
            with { $0.number = nil }, with { $0.base = nil }, with { $0.clientTime = nil }, with { $0.zone = nil },
        ] + (payload?.plainer ?? []).map { tree in with { $0.payload = tree } }
    }
}

extension JSONTree {
    /// The tree without one member or element, at any depth.
    fileprivate var plainer: [JSONTree] {
        switch self {
        case .object(let members):
            return members.indices.flatMap { index in
                [.object(members.enumerated().filter { $0.offset != index }.map(\.element))]
                    + members[index].value.plainer.map { value in
                        var changed = members
                        changed[index] = Member(members[index].name, value)
                        return .object(changed)
                    }
            }
        case .array(let elements):
            // Single elements first: there may be hundreds.
            return elements.prefix(20).map { .array([$0]) }
                + elements.indices.prefix(20).map { index in
                    .array(elements.enumerated().filter { $0.offset != index }.map(\.element))
                }
        default: return []
        }
    }
}

extension Dose {
    /// The dose with one thing less, or with the state of a later step.
    fileprivate var plainer: [Dose] {
        let states = DoseStatus.allCases.map { status in
            let isTaken = status == .taken || status == .madeUp
            return DoseState(status, takenAt: isTaken ? state.takenAt ?? scheduledAt : nil)
        }
        return states.map { with(state: $0) } + [with(state: state, isBare: true)]
    }

    fileprivate func with(state: DoseState, isBare: Bool = false) -> Dose {
        Dose(
            id: id, user: user, scheduleID: isBare ? nil : scheduleID, productID: isBare ? nil : productID,
            state: state,
            note: isBare ? nil : note, scheduledAt: scheduledAt, zone: zone, utcOffset: utcOffset, day: day,
            windowStart: isBare ? nil : windowStart, windowEnd: windowEnd, createdAt: createdAt)
    }
}
