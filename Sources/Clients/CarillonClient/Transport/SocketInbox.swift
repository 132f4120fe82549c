import Foundation

/// What a connection has told and nobody has read yet. Transports fill it from any thread.
public final class SocketInbox: Sendable {
    private let state = Guarded(State())

    private struct State {
        var events: [SocketEvent] = []
        var isClosed = false
        var waiting: CheckedContinuation<Void, Never>?
    }

    /// Empty.
    public init() {}

    /// Adds what the connection tells. After `closed` nothing is added.
    public func add(_ event: SocketEvent) {
        let waiting = state.with { state -> CheckedContinuation<Void, Never>? in
            guard !state.isClosed else { return nil }
            if case .closed = event { state.isClosed = true }
            state.events.append(event)
            defer { state.waiting = nil }
            return state.waiting
        }
        waiting?.resume()
    }

    /// Tells all that comes, until nobody wants more, or `closed` was told.
    func read(_ hear: ([SocketEvent]) async -> Bool) async {
        while true {
            let events = await next()
            guard !events.isEmpty, await hear(events) else { return }
        }
    }

    /// All that is here; waits where there is nothing. Empty after `closed` was read. For one reader.
    public func next() async -> [SocketEvent] {
        while true {
            let (events, isClosed) = state.with { state in
                defer { state.events = [] }
                return (state.events, state.isClosed)
            }
            if !events.isEmpty || isClosed { return events }
            await withCheckedContinuation { continuation in
                let isHere = state.with { state in
                    if state.events.isEmpty, !state.isClosed {
                        state.waiting = continuation
                        return false
                    }
                    return true
                }
                if isHere { continuation.resume() }
            }
        }
    }
}

/// A value under a lock. Not Swift's own mutex, which needs newer systems of Apple.
final class Guarded<Value>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value

    init(_ value: Value) {
        self.value = value
    }

    func with<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }
}
