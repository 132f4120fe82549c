import Reactor

/// The parts of an answer that several loops give, put together by the one that comes last.
final class Gather<Part: Sendable>: Sendable {
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

    /// Each place once.
    func take(_ part: Part, at place: Int) {
        let isWhole = state.withLock { state in
            state.parts[place] = part
            state.missing -= 1
            return state.missing == 0
        }
        if isWhole { answer(state.withLock { $0.parts.compactMap(\.self) }) }
    }
}
