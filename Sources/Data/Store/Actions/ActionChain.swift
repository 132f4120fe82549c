import Reactor
import Sync

/// Actions of one user that are sent together and may follow from each other: after one that must be sent again, none is
/// begun. They wait in the user's queue, in their order, so they share transactions (`ActionTransaction`).
///
/// Worst interleavings, each with its test in `ActionChainTests`:
/// - The connection of one is lost, or it fails: those behind it wait for its end, and are not begun if that is `retry`.
/// - The time of all is over while some are in flight: these and the rest are `retry`.
package final class ActionChain: Sendable {
    /// The answer to the first one that is to be sent again.
    private let broken = Locked<ActionAnswer?>(nil)

    init() {}

    /// The answer to an action behind one that is to be sent again; nil as long as there is none.
    func answer(to key: String) -> ActionAnswer? {
        broken.withLock { $0 }.map { $0.behind(key) }
    }

    func answered(_ answer: ActionAnswer) {
        guard answer.status == .retry else { return }
        broken.withLock { broken in
            if broken == nil { broken = answer }
        }
    }
}

extension ActionAnswer {
    /// After this answer, `retry`, the answer to an action that follows.
    package func behind(_ key: String) -> ActionAnswer {
        .retry(
            key: key, retry == .unavailable ? .unavailable : .busy, after: retryAfter ?? .zero,
            message: "an action before it is to be sent again")
    }
}

/// The answers to the actions of a chain, as they come.
private struct ChainAnswers: Sendable {
    var answers: [ActionAnswer?]
    var missing: Int

    /// Takes the answer to the action at that index. Returns all answers with the last one.
    mutating func take(_ answer: ActionAnswer, at index: Int) -> [ActionAnswer]? {
        guard answers[index] == nil else { return nil }
        answers[index] = answer
        missing -= 1
        return missing == 0 ? answers.compactMap(\.self) : nil
    }
}

extension Store {
    /// Takes the actions of a user as a chain; `answer` is called once with their answers, in their order. They are decided
    /// or told `retry` within `StoreConfiguration.chainTimeout`. Any thread; never blocks.
    package func submit(
        _ envelopes: [ActionEnvelope], of user: String, isByApp: Bool,
        _ answer: @escaping @Sendable ([ActionAnswer]) -> Void
    ) {
        guard !envelopes.isEmpty else { return answer([]) }
        let chain = ActionChain()
        let answers = Locked(
            ChainAnswers(answers: Array(repeating: nil, count: envelopes.count), missing: envelopes.count))
        for (index, envelope) in envelopes.enumerated() {
            submit(
                ActionRequest(user: user, isByApp: isByApp, envelope: envelope, chain: chain) { told in
                    if let all = answers.withLock({ $0.take(told, at: index) }) { answer(all) }
                })
        }
    }
}
