import Bytes
import Clock
import Postgres
import Reactor
import Sync

/// Rows of events, ordered by stream and offset, read in place: a hub sees the events of all users and copies only its own.
package protocol EventPage {
    /// The number of rows.
    var count: Int { get }
    /// Whether the row belongs to the same stream as the row before it.
    func isSameStream(_ row: Int) -> Bool
    /// The row's stream; nil if it has none, which our functions never return.
    func stream(_ row: Int) -> StreamID?
    /// The row's offset; nil if it has none, which our functions never return.
    func offset(_ row: Int) -> Int64?
    /// A copy of the event; nil if the row is malformed, which our functions never return.
    func event(_ row: Int, _ stream: StreamID, _ offset: Int64) -> StreamEvent?
}

/// An answer without the shape that the functions in `sql/` return.
package struct MalformedAnswer: Error {
    /// It carries nothing: the answer may hold health data.
    package init() {}
}

/// The answer of `sync.news`: snapshot, epoch, user_id, topic, o, name, data, age.
struct TailRows {
    let events: BulkRows
    /// There is more than a page of news; none of it is here.
    let isOverflow: Bool
    /// The statement's snapshot, the text of a `pg_snapshot`.
    let snapshot: String
    /// The database's epoch: a new one means that all streams began anew.
    let epoch: String

    /// Without events, or with too many, there is one row with a snapshot and NULLs.
    ///
    /// - Parameter readAt: when the answer came; the ages of its events count back from it.
    init(_ rows: Rows, readAt: Instant) throws(MalformedAnswer) {
        guard rows.columns == 8, let snapshot = rows.string(0, 0), let epoch = rows.string(0, 1) else {
            throw MalformedAnswer()
        }
        self.snapshot = snapshot
        self.epoch = epoch
        let isEmpty = rows.count == 1 && rows.isNull(0, 2)
        isOverflow = isEmpty && !rows.isNull(0, 4)
        events = BulkRows(rows, from: 2, count: isEmpty ? 0 : rows.count, readAt: readAt)
    }
}

/// Events of many streams: user_id, topic, o, name, data, age; also a page of the cursor of `sync.open_bulk`.
struct BulkRows: EventPage {
    private let rows: Rows
    /// The first of the six columns.
    private let first: Int
    let count: Int
    private let readAt: Instant

    /// - Parameter readAt: when the answer came; the ages of its events count back from it.
    init(_ rows: Rows, readAt: Instant) throws(MalformedAnswer) {
        guard rows.columns == 6 else { throw MalformedAnswer() }
        self.init(rows, from: 0, count: rows.count, readAt: readAt)
    }

    fileprivate init(_ rows: Rows, from first: Int, count: Int, readAt: Instant) {
        self.rows = rows
        self.first = first
        self.count = count
        self.readAt = readAt
    }

    func isSameStream(_ row: Int) -> Bool {
        row > 0 && rows.equal(row, row - 1, column: first) && rows.equal(row, row - 1, column: first + 1)
    }

    func stream(_ row: Int) -> StreamID? {
        // The server's encoding guarantees well-formed UTF-8.
        rows.withBytes(row, first) { user in
            rows.withBytes(row, first + 1) { StreamID(user: user, topic: $0) }
        } ?? nil
    }

    func offset(_ row: Int) -> Int64? { rows.integer(row, first + 2) }

    func event(_ row: Int, _ stream: StreamID, _ offset: Int64) -> StreamEvent? {
        var event = rows.event(row, stream, offset, nameColumn: first + 3)
        event?.committedAt = writtenAt(row)
        return event
    }

    /// By the hub's clock; 0 if the age makes no sense, as after the server's clock was set back.
    private func writtenAt(_ row: Int) -> UInt64 {
        guard let age = rows.integer(row, first + 5), age >= 0 else { return 0 }
        let (nanoseconds, isTooLong) = UInt64(age).multipliedReportingOverflow(by: 1000)
        return isTooLong || nanoseconds >= readAt.nanoseconds ? 0 : readAt.nanoseconds - nanoseconds
    }
}

/// A page of `sync.replay` of one stream: o, name, data.
struct ReplayRows: EventPage {
    private let rows: Rows
    private let stream: StreamID

    init(_ rows: Rows, of stream: StreamID) throws(MalformedAnswer) {
        guard rows.columns == 3 else { throw MalformedAnswer() }
        self.rows = rows
        self.stream = stream
    }

    var count: Int { rows.count }
    func isSameStream(_ row: Int) -> Bool { row > 0 }
    func stream(_ row: Int) -> StreamID? { stream }
    func offset(_ row: Int) -> Int64? { rows.integer(row, 0) }

    func event(_ row: Int, _ stream: StreamID, _ offset: Int64) -> StreamEvent? {
        rows.event(row, stream, offset, nameColumn: 1)
    }
}

/// The answer of `sync.read_log`: epoch, top, o, name, data.
enum LogPage {
    /// Without a gap, from the read's `after` + 1; at least one if any were requested.
    case events([StreamEvent])
    case none(StreamReadFailure)

    /// Without events there is one row with an epoch and NULLs.
    init(_ rows: Rows, _ read: StreamRead) throws(MalformedAnswer) {
        guard rows.columns == 5, rows.count > 0, let epoch = rows.string(0, 0, known: read.epoch.string),
            let top = rows.integer(0, 1)
        else { throw MalformedAnswer() }
        guard epoch.hasSameBytes(as: read.epoch.string) else {
            self = .none(.otherEpoch)
            return
        }
        guard read.after < read.upTo else {
            self = top < read.after ? .none(.ahead) : .events([])
            return
        }
        var events: [StreamEvent] = []
        events.reserveCapacity(rows.count)
        var last = read.after
        for row in 0..<rows.count {
            // A partial page ends where the sequence breaks off.
            guard let offset = rows.integer(row, 2), offset.follows(last) else { break }
            guard let event = rows.event(row, read.stream, offset, nameColumn: 3) else { throw MalformedAnswer() }
            events.append(event)
            last = offset
        }
        self = events.isEmpty ? .none(.expired) : .events(events)
    }
}

/// A page of `sync.revocations`: snapshot, user_id, before.
struct RevocationRows {
    let snapshot: String
    let revocations: [Revocation]

    /// Without revocations there is one row with a snapshot and NULLs.
    init(_ rows: Rows) throws(MalformedAnswer) {
        guard rows.columns == 3, let snapshot = rows.string(0, 0) else { throw MalformedAnswer() }
        self.snapshot = snapshot
        var revocations: [Revocation] = []
        for row in 0..<rows.count where !rows.isNull(row, 1) {
            guard let user = rows.string(row, 1), let before = rows.integer(row, 2) else { throw MalformedAnswer() }
            revocations.append(Revocation(userID: user, before: before))
        }
        self.revocations = revocations
    }
}

extension Int64 {
    /// Whether this offset is `last` + 1. Both may be any number, since they come from outside.
    func follows(_ last: Int64) -> Bool {
        let (next, overflow) = last.addingReportingOverflow(1)
        return !overflow && self == next
    }
}

extension Rows {
    fileprivate func event(_ row: Int, _ stream: StreamID, _ offset: Int64, nameColumn: Int) -> StreamEvent? {
        guard let name = string(row, nameColumn), let data = withBytes(row, nameColumn + 1, SharedBytes.copy) else {
            return nil
        }
        return StreamEvent(stream: stream, offset: offset, name: name, data: data)
    }
}
