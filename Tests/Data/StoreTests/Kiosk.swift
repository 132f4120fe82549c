import Foundation
import Logging
import Postgres
import Store
import Synchronization
import TestDatabase
import Testing

/// The snapshots of the hub's routes.
enum SnapshotSubject: Equatable {
    case day(String?), month(firstDay: String), occurrence(String), reminders

    private static let dayRead = SnapshotFunction("day", "sync.adherence_day", ["date"])
    private static let monthRead = SnapshotFunction("month", "sync.adherence_month", ["date"])
    private static let occurrenceRead = SnapshotFunction("occurrence", "sync.adherence_occurrence", ["text"])
    private static let remindersRead = SnapshotFunction("reminders", "sync.reminders")

    /// The user's request for it.
    func asked(by user: String, _ answer: @escaping @Sendable (SnapshotAnswer) -> Void) -> SnapshotRequest {
        switch self {
        case .day(let day): SnapshotRequest(user: user, Self.dayRead, [day], answer: answer)
        case .month(let day): SnapshotRequest(user: user, Self.monthRead, [day], answer: answer)
        case .occurrence(let id): SnapshotRequest(user: user, Self.occurrenceRead, [id], answer: answer)
        case .reminders: SnapshotRequest(user: user, Self.remindersRead, [], answer: answer)
        }
    }
}

/// A running store that tests ask for snapshots.
final class Kiosk: Sendable {
    private struct Failure: Error {
        let description: String
    }

    private let store: Store

    init(_ database: Database, _ change: (inout StoreConfiguration) -> Void = { _ in }) throws {
        var configuration = StoreConfiguration(connectionString: database.hub)
        configuration.connections = 1
        change(&configuration)
        store = try Store.start(configuration, logger: .quiet) {}
    }

    func stop() {
        store.stop()
    }

    /// Asks, and returns the pending answer.
    func ask(_ user: String, _ subject: SnapshotSubject) -> Pending {
        let pending = Pending()
        store.ask(subject.asked(by: user) { pending.put($0) })
        return pending
    }

    /// Asks and waits; repeats while the store is not up.
    func found(_ user: String, _ subject: SnapshotSubject) throws -> Snapshot {
        let end = Date(timeIntervalSinceNow: 60)
        while Date() < end {
            switch try ask(user, subject).take() {
            case .found(let snapshot): return snapshot
            case .unavailable: continue
            case .missing, .refused, .tooLarge: throw Failure(description: "nothing found of \(subject)")
            }
        }
        throw Failure(description: "the store is not up in 60 s")
    }

    /// An answer that comes once.
    final class Pending: Sendable {
        private let arrived = DispatchSemaphore(value: 0)
        private let answers = Mutex<[SnapshotAnswer]>([])

        func put(_ answer: SnapshotAnswer) {
            answers.withLock { $0.append(answer) }
            arrived.signal()
        }

        func take(_ location: SourceLocation = #_sourceLocation) throws -> SnapshotAnswer {
            try #require(
                arrived.wait(timeout: .now() + 60) == .success, "no answer in 60 s", sourceLocation: location)
            let all = answers.withLock { $0 }
            #expect(all.count == 1, "answered more than once", sourceLocation: location)
            return try #require(all.first, sourceLocation: location)
        }
    }
}

extension SnapshotAnswer {
    var isUnavailable: Bool { if case .unavailable = self { true } else { false } }
}
