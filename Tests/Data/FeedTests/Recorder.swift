import Bytes
import Foundation
import Logging
import Postgres
import Reactor
import Sync
import TestDatabase
import Testing

@testable import Feed

/// A running feed of a database, and all of its outputs; records violations of what every feed must guarantee.
///
/// The mutable state belongs to the holder of the condition: the feed's thread in `take`, the test's in `wait`.
final class Recorder: @unchecked Sendable {
    struct Stream {
        let serial: UInt32
        var start: StreamPosition?
        var position: StreamPosition?
        var events: [StreamEvent] = []
        var resets = 0
    }

    /// A read without an answer.
    struct ReadFailure: Error, Equatable {
        let reason: StreamReadFailure
    }

    let database: Database
    let metrics = FeedMetrics()
    private let condition = NSCondition()
    private var streams: [StreamID: Stream] = [:]
    private var statuses: [FeedStatus] = []
    private var degradations: [Bool] = []
    private var told: [PublishedTopics] = []
    private var answers: [StreamRead: Result<[StreamEvent], ReadFailure>] = [:]
    private var revocations: [String: Int64] = [:]
    private var isCurrent = false
    private var knownWhenCurrent: Int?
    private var violations: [String] = []
    private var backlog = 0
    private var serial: UInt32 = 0
    private var feed: Feed?

    /// - Parameter logger: the feed's log; discarded by default.
    init(
        _ database: Database, logger: Logger = Logger(label: "feed") { _ in SwiftLogNoOpLogHandler() },
        _ change: (inout FeedConfiguration) -> Void = { _ in }
    ) throws {
        self.database = database
        var configuration = FeedConfiguration(connectionString: database.hub)
        // Far away, so that the test sees the notifications work.
        configuration.pollInterval = .seconds(60)
        configuration.pollIntervalUnheard = .seconds(60)
        // A machine that stands still for some seconds is no outage: what a test sees as one, it has made.
        configuration.heartbeatTimeout = .seconds(60)
        configuration.statementTimeout = .seconds(60)
        change(&configuration)
        let sink = FeedSink(deliver: { self.take($0) }, backlog: { self.waiting })
        feed = try Feed.start(configuration, sink: sink, logger: logger, metrics: metrics)
    }

    /// Stops the feed, which breaks the cycle that keeps this alive: the feed's thread must not release it last.
    func stop() {
        feed?.stop()
        feed = nil
    }

    // MARK: Requests

    func watch(_ user: String, topic: String = "items") -> StreamID {
        let id = StreamID(user: user, topic: topic)
        let serial = locked {
            self.serial += 1
            streams[id] = Stream(serial: self.serial)
            return self.serial
        }
        feed?.requests.post(.watch(id, serial: serial))
        return id
    }

    func unwatch(_ id: StreamID) {
        locked { streams[id] = nil }
        feed?.requests.post(.unwatch(id))
    }

    /// Requests a page of a stream that has its position.
    func read(_ id: StreamID, after: Int64, upTo: Int64) -> StreamRead {
        let (serial, epoch) = locked { (streams[id]?.serial ?? 0, streams[id]?.start?.epochText ?? "") }
        return post(StreamRead(stream: id, watch: serial, epoch: Epoch(epoch), after: after, upTo: upTo))
    }

    /// Posts exactly that read.
    func post(_ read: StreamRead) -> StreamRead {
        feed?.requests.post(.read(read))
        return read
    }

    /// Requests that the feed has not taken yet.
    var unreadRequests: Int { feed?.requests.count ?? 0 }

    func isAnswered(_ read: StreamRead) -> Bool {
        locked { answers[read] != nil }
    }

    func setBacklog(_ count: Int) {
        locked { backlog = count }
    }

    // MARK: Outputs

    /// In the order of arrival. For conditions of `wait`, which holds the lock.
    var unlockedTopics: [PublishedTopics] { told }

    /// In the order of arrival.
    var topics: [PublishedTopics] { locked { told } }

    /// For conditions of `wait`, which holds the lock.
    var unlockedDegradations: [Bool] { degradations }

    /// Revocations received, in microseconds by user. For conditions of `wait`, which holds the lock.
    var unlockedRevocations: [String: Int64] { revocations }

    /// The number of revocations received when the feed last became current; nil before. For conditions of `wait`, which
    /// holds the lock.
    var unlockedKnownWhenCurrent: Int? { knownWhenCurrent }

    /// Whether all revocations are known, as last received. For conditions of `wait`, which holds the lock.
    var isUnlockedCurrent: Bool { isCurrent }

    var gapCount: Int { feed?.gapCount ?? 0 }

    /// The page's events; nil if it is unanswered.
    func events(_ read: StreamRead) throws -> [StreamEvent]? {
        try wait("an answer to a read") { answers[read] != nil }
        return try? locked { answers[read] }?.get()
    }

    func failure(_ read: StreamRead) throws -> StreamReadFailure? {
        try wait("an answer to a read") { answers[read] != nil }
        guard case .failure(let failure)? = locked({ answers[read] }) else { return nil }
        return failure.reason
    }

    var seenStatuses: [FeedStatus] { locked { statuses } }

    func stream(_ id: StreamID) -> Stream? {
        locked { streams[id] }
    }

    /// For conditions of `wait`, which holds the lock.
    func unlockedStream(_ id: StreamID) -> Stream? { streams[id] }

    /// All statuses received. For conditions of `wait`, which holds the lock.
    var unlockedStatuses: [FeedStatus] { statuses }

    func waitForStatus(_ status: FeedStatus) throws {
        try wait("status \(status)") { statuses.last == status }
    }

    func waitForPosition(_ ids: StreamID...) throws {
        try wait("positions") { ids.allSatisfy { streams[$0]?.start != nil } }
    }

    /// Waits until the stream is at the database's present position, with exactly the log's events since its start.
    func waitForLog(_ ids: StreamID..., sourceLocation: SourceLocation = #_sourceLocation) throws {
        let admin = try database.admin()
        for id in ids {
            let top = try admin.query(
                "SELECT coalesce(max(top), 0) FROM sync.stream WHERE user_id = $1 AND topic = $2", [id.user, id.topic])
            let offset = try #require(top[0][0].flatMap { Int64($0) })
            try wait("\(id.user) at \(offset)", sourceLocation) { streams[id]?.position?.offset == offset }
            let seen = try #require(stream(id))
            guard seen.resets == 0, let start = seen.start?.offset else { continue }
            let log = try admin.query(
                """
                SELECT o, name, data::text FROM sync.event
                WHERE user_id = $1 AND topic = $2 AND o > $3::bigint ORDER BY o
                """,
                [id.user, id.topic, String(start)])
            let events = seen.events.map { [String($0.offset), $0.name, $0.data.string] }
            #expect(events == log, sourceLocation: sourceLocation)
        }
        #expect(locked { violations } == [], sourceLocation: sourceLocation)
    }

    func wait(
        _ what: String, _ sourceLocation: SourceLocation = #_sourceLocation, until isMet: () -> Bool
    ) throws {
        condition.lock()
        defer { condition.unlock() }
        let end = Date(timeIntervalSinceNow: 30)
        while !isMet() {
            try #require(
                condition.wait(until: end), "\(what): not in 30 s; \(violations)", sourceLocation: sourceLocation)
        }
    }

    // MARK: The feed's thread

    private var waiting: Int { locked { backlog } }

    private func take(_ outputs: [FeedOutput]) {
        condition.lock()
        for output in outputs {
            switch output {
            case .positioned, .event, .reset:
                if !isCurrent { violations.append("something of a stream before revocations are known") }
            case .refused, .page, .unreadable, .revoked, .revocationsCurrent, .topics, .degraded, .status: break
            }
            switch output {
            case .status(let status): statuses.append(status)
            case .refused(let id, _, _): violations.append("\(id.user) refused")
            case .positioned(let id, let serial, let position): positioned(id, serial, position)
            case .event(let event): received(event)
            case .reset(let id, let position):
                streams[id]?.resets += 1
                streams[id]?.position = position
            case .page(let read, let events): answered(read, .success(events))
            case .unreadable(let read, let reason): answered(read, .failure(ReadFailure(reason: reason)))
            case .revoked(let found):
                for revocation in found { revocations[revocation.userID] = revocation.before }
            case .revocationsCurrent(let isCurrent):
                if isCurrent == self.isCurrent { violations.append("current told twice") }
                self.isCurrent = isCurrent
                if isCurrent { knownWhenCurrent = revocations.count }
            case .topics(let topics):
                if !isCurrent { violations.append("topics before revocations are known") }
                told.append(topics)
            case .degraded(let isDegraded):
                if isDegraded == (degradations.last ?? false) { violations.append("degraded told twice") }
                degradations.append(isDegraded)
            }
        }
        condition.broadcast()
        condition.unlock()
    }

    private func positioned(_ id: StreamID, _ serial: UInt32, _ position: StreamPosition) {
        // The answer to an earlier watch may still be in flight when a later one is posted.
        guard streams[id]?.serial == serial else { return }
        if streams[id]?.start != nil { violations.append("\(id.user) positioned twice") }
        streams[id]?.start = position
        streams[id]?.position = position
    }

    private func answered(_ read: StreamRead, _ answer: Result<[StreamEvent], ReadFailure>) {
        if answers[read] != nil { violations.append("a read answered twice") }
        answers[read] = answer
        guard case .success(let events) = answer else { return }
        if events.isEmpty { violations.append("an empty page") }
        for (index, event) in events.enumerated() where event.offset != read.after + Int64(index) + 1 {
            violations.append("a page with a gap")
        }
        if (events.last?.offset ?? 0) > read.upTo { violations.append("a page beyond its end") }
    }

    private func received(_ event: StreamEvent) {
        // Events before the position belong to the earlier watch.
        guard let position = streams[event.stream]?.position else { return }
        if event.offset != position.offset + 1 {
            violations.append("\(event.stream.user): \(event.offset) after \(position.offset)")
        }
        streams[event.stream]?.position = StreamPosition(epoch: position.epochText, offset: event.offset)
        streams[event.stream]?.events.append(event)
    }

    private func locked<Value>(_ body: () -> Value) -> Value {
        condition.lock()
        defer { condition.unlock() }
        return body()
    }
}
