/// A value that can be read, and watched: `for await today in client.today()`.
///
/// A loop gets the value of now, and then each newer one, as wholes. Values that come while the loop is busy are skipped but
/// for the last.
public struct CarillonValues<Value: Sendable & Equatable>: AsyncSequence, Sendable {
    private let state = Guarded(State())

    private struct State {
        var value: Value?
        var watchers: [Int: AsyncStream<Value>.Continuation] = [:]
        var serial = 0
        var isFinished = false
    }

    init(_ value: Value? = nil) {
        if let value { state.with { $0.value = value } }
    }

    /// The value of now; nil before there is one.
    public var current: Value? { state.with { $0.value } }

    /// A loop of its own for each.
    public func makeAsyncIterator() -> AsyncStream<Value>.Iterator {
        let (stream, continuation) = AsyncStream<Value>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let state = state
        let serial = state.with { state in
            state.serial += 1
            if let value = state.value { continuation.yield(value) }
            if state.isFinished { continuation.finish() } else { state.watchers[state.serial] = continuation }
            return state.serial
        }
        continuation.onTermination = { _ in state.with { $0.watchers[serial] = nil } }
        return stream.makeAsyncIterator()
    }

    /// The first value that fits, now or later.
    public func first(_ fits: (Value) -> Bool) async -> Value? {
        for await value in self where fits(value) { return value }
        return nil
    }

    /// Without a value nothing is told: `CarillonOptionalValues` tells that too.
    func set(_ value: Value?) {
        state.with { state in
            guard state.value != value else { return }
            state.value = value
            guard let value else { return }
            for watcher in state.watchers.values { watcher.yield(value) }
        }
    }

    func finish() {
        let watchers = state.with { state in
            state.isFinished = true
            return Array(state.watchers.values)
        }
        for watcher in watchers { watcher.finish() }
    }
}

/// A value that may go again: a loop gets nil too, at first and whenever there is none any more.
public struct CarillonOptionalValues<Value: Sendable & Equatable>: AsyncSequence, Sendable {
    private let values = CarillonValues<Value?>(.some(nil))

    /// The value of now.
    public var current: Value? { values.current ?? nil }

    /// A loop of its own for each.
    public func makeAsyncIterator() -> AsyncStream<Value?>.Iterator { values.makeAsyncIterator() }

    /// The first value that fits, now or later.
    public func first(_ fits: (Value?) -> Bool) async -> Value? { await values.first(fits) ?? nil }

    func set(_ value: Value?) { values.set(.some(value)) }

    func finish() { values.finish() }
}
