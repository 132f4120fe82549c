import Care
import JSON

/// A history of one person's doses as other languages read it: steps, and what each must answer and leave.
struct DoseVector {
    /// The seed of its history.
    let seed: UInt64
    private let steps: [Step]

    /// The history of a seed; nil if it has several people or other epochs, which no device sees.
    init?(seed: UInt64) {
        var generator = HistoryGenerator(seed: seed, model: Subject.model(epoch: "e"))
        guard generator.swarm.users == 1 else { return nil }
        steps = generator.run().steps
        self.seed = seed
        let isOfOneDevice = steps.allSatisfy { step in
            switch step.change {
            case .move, .epoch: false
            default: true
            }
        }
        guard isOfOneDevice else { return nil }
    }

    /// The vector. Repeated keys and numbers of devices are the hub's matter: those steps are left out.
    var tree: JSONTree {
        var model = Subject.model(epoch: "e")
        var told: [JSONTree] = []
        for step in steps {
            let before = model.accounts[step.user]
            var members = [JSONTree.Member("step", step.tree)]
            if case .action(let envelope) = step.change {
                let answer = model.apply(envelope, user: step.user, at: step.at)
                guard !answer.isReplayed, answer.code != "key_reused", answer.status != .retry else { continue }
                members.append(.init("answer", Self.brief(answer)))
            } else {
                _ = model.play(step)
            }
            let after = model.accounts[step.user]
            let changed = (after?.doses ?? [:]).filter { id, dose in
                before?.doses[id].map { $0.rev != dose.rev } ?? true
            }
            members.append(.init("doses", .array(changed.values.sorted { $0.id < $1.id }.map(Self.row))))
            let gone = (before?.doses ?? [:]).keys.filter { after?.doses[$0] == nil }.sorted()
            members.append(.init("gone", .array(gone.map { .string($0.text) })))
            told.append(.object(members))
        }
        return .object([.init("seed", .string(String(seed))), .init("steps", .array(told))])
    }

    /// What a person is told of an answer: the server alone has conflicts in full.
    private static func brief(_ answer: CareAnswer) -> JSONTree {
        let tree = answer.tree
        var members: [JSONTree.Member] = ["status", "code", "path"].compactMap { name in
            tree[name].map { .init(name, $0) }
        }
        if case .array(let items) = tree["result"]?["items"] {
            let told = items.map { item in
                JSONTree.object(
                    ["occurrenceId", "status", "code", "path"].compactMap { name in item[name].map { .init(name, $0) } }
                )
            }
            members.append(.init("items", .array(told)))
        }
        return .object(members)
    }

    private static func row(_ dose: Dose) -> JSONTree {
        let state = dose.state
        let local = state.takenAt.flatMap { at in state.takenOffset.map { TimeText.text(at, utcOffset: $0) } }
        return .object([
            .init("id", .string(dose.id.text)), .init("status", .string(state.status.rawValue)),
            .init("takenAt", .text(state.takenAt.map { TimeText.text($0) })), .init("takenAtLocal", .text(local)),
            .init("reason", .text(state.reason)), .init("note", .text(dose.note)),
            .init("localDate", .string(TimeText.text(dose.day))), .init("rev", .integer(dose.rev)),
            .init("statusRev", .integer(dose.statusRev)), .init("noteRev", .integer(dose.noteRev)),
        ])
    }
}
