import Reactor

/// A value that is there when somebody looks, or is told later.
final class Outcome<Value: Sendable>: Sendable {
    private enum State {
        case open, missed
        case known(Value)
    }

    private let state = Locked(State.open)
    private let answer: @Sendable (Value) -> Void

    /// - Parameter answer: called at most once: with a value that comes after `now`.
    init(_ answer: @escaping @Sendable (Value) -> Void) {
        self.answer = answer
    }

    func complete(_ value: Value) {
        let isMissed = state.withLock { state in
            if case .missed = state { return true }
            state = .known(value)
            return false
        }
        if isMissed { answer(value) }
    }

    /// The value, if it is known. Called once.
    func now() -> Value? {
        state.withLock { state in
            if case .known(let value) = state { return value }
            state = .missed
            return nil
        }
    }
}

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
