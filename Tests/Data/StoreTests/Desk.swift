import Bytes
import Foundation
import Logging
import Postgres
import Reactor
import Store
import Sync
import TestDatabase
import TestSupport
import Testing

/// A running store of a database with the toy functions, and all of its answers; records second answers as violations.
///
/// The mutable state belongs to the holder of the condition.
final class Desk: @unchecked Sendable {
    let database: Database
    private let condition = NSCondition()
    private var answers: [String: ActionAnswer] = [:]
    private var order: [String] = []
    private var violations: [String] = []
    private var commits = 0
    private var store: Store?

    init(_ database: Database, _ change: (inout StoreConfiguration) -> Void = { _ in }) throws {
        self.database = database
        var configuration = StoreConfiguration(connectionString: database.hub)
        change(&configuration)
        let logger = Logger(label: "store") { _ in SwiftLogNoOpLogHandler() }
        store = try Store.start(configuration, logger: logger) { self.committed() }
    }

    /// Stops the store, which breaks the cycle that keeps this alive: the store's thread must not release it last.
    func stop() {
        store?.stop()
        store = nil
    }

    // MARK: In

    func submit(_ user: String, _ key: String, n: Int64? = nil, _ type: String = "mark", _ payload: String = "{}") {
        let envelope = ActionEnvelope(
            key: key, deviceID: n.map { _ in "phone" }, number: n, type: type, payload: Array(payload.utf8))
        guard let store else { return }
        store.submit(ActionRequest(user: user, envelope: envelope) { self.answered("\(user)/\(key)", $0) })
    }

    /// Submits the actions as a chain, and waits for their answers.
    func answers(_ user: String, _ envelopes: [ActionEnvelope]) throws -> [ActionAnswer] {
        let told = Locked<[ActionAnswer]?>(nil)
        store?.submit(envelopes, of: user, isByApp: false) { answers in
            told.withLock { told in
                if told != nil { self.locked { self.violations.append("a chain was answered twice") } }
                told = answers
            }
            self.locked { self.condition.broadcast() }
        }
        try wait("answers to a chain") { told.withLock { $0 != nil } }
        return try #require(told.withLock { $0 })
    }

    /// Submits an action until it is decided, and returns that answer. It retries sooner than told.
    func decide(
        _ user: String, _ key: String, n: Int64? = nil, _ type: String = "mark", _ payload: String = "{}"
    ) throws -> ActionAnswer {
        var decision: ActionAnswer?
        _ = try eventually {
            submit(user, key, n: n, type, payload)
            let answer = try take(user, key)
            if answer.status != .retry { decision = answer }
            return decision != nil
        }
        return try #require(decision, "\(key) was never decided")
    }

    // MARK: Out

    /// Waits for the answer and forgets it, so that the action may be submitted again.
    func take(
        _ user: String, _ key: String, sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> ActionAnswer {
        try wait("answer to \(key)", sourceLocation) { answers["\(user)/\(key)"] != nil }
        return try #require(locked { answers.removeValue(forKey: "\(user)/\(key)") }, sourceLocation: sourceLocation)
    }

    func wait(
        _ what: String, _ sourceLocation: SourceLocation = #_sourceLocation, until isMet: () -> Bool
    ) throws {
        condition.lock()
        defer { condition.unlock() }
        let end = Date(timeIntervalSinceNow: 60)
        while !isMet() {
            try #require(
                condition.wait(until: end), "\(what): not in 60 s; \(violations)", sourceLocation: sourceLocation)
        }
    }

    /// Answers in the order of arrival, as `user/key`.
    var answered: [String] { locked { order } }
    /// Violations of what every store must guarantee.
    var complaints: [String] { locked { violations } }
    /// Calls of `committed`.
    var commitCount: Int { locked { commits } }
    /// For conditions of `wait`, which holds the lock.
    var unlockedAnswers: [String: ActionAnswer] { answers }
    /// Calls of `committed`, for conditions of `wait`, which holds the lock.
    var unlockedCommits: Int { commits }

    // MARK: The store's thread

    private func answered(_ key: String, _ answer: ActionAnswer) {
        locked {
            if answers.updateValue(answer, forKey: key) != nil { violations.append("\(key) answered twice") }
            order.append(key)
            condition.broadcast()
        }
    }

    private func committed() {
        locked {
            commits += 1
            condition.broadcast()
        }
    }

    private func locked<Value>(_ body: () -> Value) -> Value {
        condition.lock()
        defer { condition.unlock() }
        return body()
    }
}

extension ActionAnswer {
    /// Whether this is a stored answer.
    var isReplayed: Bool { json.string.contains("\"replayed\": true") || json.string.contains("\"replayed\":true") }
}
