import Bytes
import Clock
import JSON
import Metrics
import Reactor
import Sync

// Only these two types: the module has actions of its own.
import enum Care.TimeText
import struct Care.Timestamp

/// Metrics of actions and snapshots.
package final class StoreMetrics: MetricSource {
    /// The types that every app has. Others are counted by name from their first accepted action on: then an operator has
    /// registered the type, so its name is no peer's invention.
    private static let types = [
        "markTaken", "makeUp", "markMissed", "skip", "addNote", "undo", "bulkMarkAll", "resolve", "createReminder",
        "updateReminder", "deleteReminder", "snoozeReminder", "setReminderOccurrence",
    ]

    /// Accepted and not answered.
    let waiting = Gauge()
    private let actions = CounterTable("type", types, by: "result", ActionStatus.allCases.map(\.rawValue))
    private let registered = Locked<[String: CounterTable]>([:])
    /// Such further types; one more counts as `other`.
    static let registeredMax = 50
    private let seconds = Histogram.times()
    /// From a second to a month, in microseconds: an action may have waited on an offline phone.
    private let deviceLag = Histogram(
        .microseconds, bounds: [1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800, 2_592_000].map { $0 * 1_000_000 })
    private let replays = Counter()
    private let retries = CounterTable("reason", RetryReason.allCases.map(\.label))
    private let conflicts = CounterTable("code", ["state", "field", "late", "gone", "superseded"])
    private let resolutions = CounterTable("choice", ["keep_local", "accept_server", "merge"])
    private let snapshots: CounterTable
    private let snapshotSeconds = Histogram.times()
    /// Commits covered by one wake-up of the other hubs.
    let announced = Histogram(.count, bounds: [1, 2, 5, 10, 20, 50, 100, 500])
    /// Missed doses that became taken ones.
    let corrections = Counter()
    let skippedAppends = Counter()

    /// - Parameter snapshots: the names of the snapshot functions that it will serve.
    package init(snapshots: [String] = []) {
        self.snapshots = CounterTable(
            "type", snapshots, by: "result", ["found", "missing", "refused", "too_large", "unavailable"])
    }

    /// A request whose answer is counted, on every path.
    func counted(_ request: ActionRequest) -> ActionRequest {
        let start = Instant.read()
        waiting.add(1)
        return ActionRequest(
            user: request.user, isByApp: request.isByApp, envelope: request.envelope, chain: request.chain
        ) { [self] answer in
            waiting.add(-1)
            count(answer, to: request.envelope, after: Instant.read().duration(since: start))
            request.answer(answer)
        }
    }

    private func count(_ answer: ActionAnswer, to envelope: ActionEnvelope, after time: Duration) {
        seconds.record(time)
        if let reason = answer.retry { retries[reason.label].add() }
        guard answer.status != .retry else { return counters(of: envelope.type)[envelope.type, "retry"].add() }
        let (code, isReplayed) = answer.json.withUnsafeBytes(Self.read)
        counters(of: envelope.type, isAccepted: answer.status != .rejected)[envelope.type, answer.status.rawValue].add()
        // A repeat is not a second conflict.
        guard !isReplayed else { return replays.add() }
        if let made = envelope.clientTime.flatMap(Self.time) {
            deviceLag.record(.microseconds(UnixTime.read().microseconds - made.microseconds))
        }
        if answer.status == .conflict { conflicts[code ?? ""].add() }
        if envelope.type == "resolve", answer.status == .applied || answer.status == .noop {
            resolutions[envelope.payload.withUnsafeBytes(Self.choice) ?? ""].add()
        }
    }

    /// The table that counts actions of the type.
    private func counters(of type: String, isAccepted: Bool = false) -> CounterTable {
        guard !actions.knows(type) else { return actions }
        return registered.withLock { registered in
            if let own = registered[type] { return own }
            // A type of that name would be a second series with the labels of the rest.
            guard isAccepted, type != CounterTable.other, registered.count < Self.registeredMax else { return actions }
            let own = CounterTable("type", [type], by: "result", ActionStatus.allCases.map(\.rawValue))
            registered[type] = own
            return own
        }
    }

    /// A request whose answer is counted.
    func counted(_ request: SnapshotRequest) -> SnapshotRequest {
        let start = Instant.read()
        return SnapshotRequest(user: request.user, request.function, request.arguments) { [self] answer in
            snapshotSeconds.record(Instant.read().duration(since: start))
            snapshots[request.function.name, answer.label].add()
            request.answer(answer)
        }
    }

    /// Parses a time as the SQL side does: ISO 8601 with an offset, or epoch milliseconds; nil for anything else.
    static func time(_ json: [UInt8]) -> Timestamp? {
        let text = String(decoding: json, as: UTF8.self)
        let time: Timestamp?
        if text.hasPrefix("\"") {
            time = TimeText.instant(String(text.dropFirst().dropLast()))
        } else {
            time = Int64(text).map { $0.multipliedReportingOverflow(by: 1_000) }
                .flatMap { $0.overflow ? nil : Timestamp(microseconds: $0.partialValue) }
        }
        return time.flatMap { Timestamp.accepted.contains($0) ? $0 : nil }
    }

    private static func read(_ answer: UnsafeRawBufferPointer) -> (code: String?, isReplayed: Bool) {
        var (code, isReplayed): (String?, Bool) = (nil, false)
        guard var reader = try? JSONObjectReader(answer) else { return (nil, false) }
        while let member = try? reader.next() {
            if member.isNamed("code") { code = member.value.string }
            if member.isNamed("replayed") { isReplayed = member.value.kind == .true }
        }
        return (code, isReplayed)
    }

    private static func choice(_ payload: UnsafeRawBufferPointer) -> String? {
        guard var reader = try? JSONObjectReader(payload) else { return nil }
        while let member = try? reader.next() {
            if member.isNamed("choice") { return member.value.string }
        }
        return nil
    }

    /// Writes all of them (`MetricSource`).
    package func append(to exposition: inout Exposition) {
        exposition.counter(
            "actions_total", "Actions answered, by type and result; repeats included.",
            actions, registered.withLock { $0.sorted { $0.key < $1.key }.map(\.value) })
        exposition.histogram("action_seconds", "From an action's arrival to its answer.", seconds)
        exposition.histogram(
            "device_queue_lag_seconds",
            "How long actions waited on their device, from clientTime to the first answer.",
            deviceLag)
        exposition.gauge("actions_waiting", "Actions without an answer yet.", Double(waiting.level))
        exposition.counter(
            "action_replays_total", "Actions that came again and got their first answer.",
            replays.count)
        exposition.counter("action_retries_total", "Actions that the device must send again, by the reason.", retries)
        exposition.counter("conflicts_total", "Conflicts that a person must decide, by code.", conflicts)
        exposition.counter("resolutions_total", "Conflicts decided, by the choice.", resolutions)
        exposition.counter("snapshots_total", "Snapshots asked for, by type and result.", snapshots)
        exposition.histogram("snapshot_seconds", "From the request for a snapshot to its answer.", snapshotSeconds)
        exposition.histogram(
            "notify_batch_size", "Commits that one notification announced to the other hubs.", announced)
        exposition.counter(
            "missed_corrections_total", "Missed doses that a late action turned into taken ones.", corrections.count)
        exposition.counter(
            "appended_objects_skipped_total", "Appended objects that their function or the database did not take.",
            skippedAppends.count)
    }
}

extension RetryReason {
    static var allCases: [RetryReason] { [.rateLimited, .busy, .unavailable, .outOfOrder] }

    var label: String { self == .rateLimited ? "rate_limited" : "\(code)" }
}

extension SnapshotAnswer {
    fileprivate var label: String {
        switch self {
        case .found: "found"
        case .missing: "missing"
        case .refused: "refused"
        case .tooLarge: "too_large"
        case .unavailable: "unavailable"
        }
    }
}
