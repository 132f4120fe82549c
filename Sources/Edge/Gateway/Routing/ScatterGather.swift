import Reactor

/// Collects the parts of an answer from several loops; the last part to come completes it.
final class ScatterGather<Part: Sendable>: Sendable {
    private struct State {
        var parts: [Part?]
        var missing: Int
    }

    private let state: Locked<State>
    private let answer: @Sendable ([Part]) -> Void

    /// - Parameter answer: called once, with the parts in order, on the thread that brings the last.
    init(_ count: Int, _ answer: @escaping @Sendable ([Part]) -> Void) {
        state = Locked(State(parts: Array(repeating: nil, count: count), missing: count))
        self.answer = answer
    }

    func take(_ part: Part, at index: Int) {
        state.withLock { $0.parts[index] = part }
        waited()
    }

    /// The answer waits for one thing more that is not a part. Call it before taking the part that led to it.
    func wait() {
        state.withLock { $0.missing += 1 }
    }

    func waited() {
        let parts: [Part]? = state.withLock { state in
            state.missing -= 1
            return state.missing == 0 ? state.parts.compactMap(\.self) : nil
        }
        if let parts { answer(parts) }
    }
}
