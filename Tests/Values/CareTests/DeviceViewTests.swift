import JSON
import TestSupport
import Testing

@testable import Care

/// A device has doses, and what its actions left behind as JSON; of these it decides as the hub does.
@Suite(.ownThread, .timeLimit(.minutes(10)))
struct DeviceViewTests {
    private static let histories = 60

    @Test func devicesDecideAsTheHub() {
        var actions = 0
        for seed in UInt64(1)...UInt64(Self.histories) {
            var generator = HistoryGenerator(seed: seed, model: Subject.model(epoch: "e"))
            var model = Subject.model(epoch: "e")
            for step in generator.run().steps {
                guard case .action(let envelope) = step.change, let account = model.accounts[step.user],
                    account.actions[envelope.key] == nil
                else {
                    _ = model.play(step)
                    continue
                }
                var device = Self.view(of: account, model)
                let guess = device.apply(envelope.withoutNumber, user: step.user, at: step.at)
                let answer = model.apply(envelope, user: step.user, at: step.at)
                guard answer.status != .retry else { continue }
                actions += 1
                let (told, seen) = (Self.text(answer), Self.text(guess))
                #expect(told == seen, "seed \(seed), \(envelope.type)")
                let (after, own) = (model.accounts[step.user], device.accounts[step.user])
                #expect(own?.events.isEmpty == true)
                #expect(Self.text(after) == Self.text(own), "seed \(seed), \(envelope.type)")
            }
        }
        #expect(actions > 1000)
    }

    private static func view(of account: CareAccount, _ model: CareModel) -> CareModel {
        var device = Subject.model(epoch: "e")
        device.adopt(Array(account.doses.values), user: account.user, zone: account.zone)
        for key in account.actions.keys {
            guard let memory = model.memory(of: key, user: account.user), var kept = ActionMemory(memory.tree) else {
                Issue.record("an action leaves nothing behind")
                continue
            }
            // Conflicts are told by the hub's answers.
            kept.pending = memory.pending
            device.remember(kept, key: key, user: account.user)
        }
        return device
    }

    private static func text(_ answer: CareAnswer) -> String {
        let items = answer.tree["result"]?["items"].map { items -> [String] in
            guard case .array(let all) = items else { return [] }
            return all.map { "\($0["occurrenceId"]?.string ?? "") \($0["status"]?.string ?? "")" }
        }
        return "\(answer.status) \(answer.code ?? "-") \(answer.path ?? "-") \(items ?? [])"
    }

    private static func text(_ account: CareAccount?) -> [String] {
        (account?.doses.values.sorted { $0.id < $1.id } ?? []).map { dose in
            "\(dose.id.text) \(dose.state) \(dose.note ?? "-") \(dose.rev) \(dose.statusRev) \(dose.noteRev)"
        }
    }
}

extension CareEnvelope {
    fileprivate var withoutNumber: CareEnvelope {
        var envelope = self
        (envelope.device, envelope.number) = (nil, nil)
        return envelope
    }
}
