import Bytes
import Clock
import Postgres

/// The documents of one function, in the order in which they came.
final class AppendQueue {
    /// A part of the line as the function's parameters.
    struct Documents {
        let count: Int
        let users: String
        let texts: String
    }

    private struct Entry {
        let user: TextKey
        let name: String
        let document: [UInt8]
    }

    let function: AppendFunction
    /// When it may be written; nil if there is nothing to write. It stays while a part is in flight.
    private(set) var due: Instant?
    private var waiting = Fifo<Entry>()
    private var bytes = 0
    private var ofUsers = Shares<TextKey, Void>()
    private var rates: TokenBuckets
    /// Users who have as many documents in the database as they may have, and until when they are refused.
    private var full: [TextKey: Instant] = [:]
    /// In flight, or to be written again.
    private var batch: [Entry] = []
    /// How many more documents are written alone.
    private var singles = 0
    /// The function failed: new documents do not shorten the pause.
    private var isHeld = false

    /// - Parameter rate: how fast one user may send documents.
    init(_ function: AppendFunction, rate: Rate) {
        self.function = function
        rates = TokenBuckets(rate)
    }

    /// Whether enough waits for a whole batch.
    var isLong: Bool { waiting.count >= StoreLimits.appendBatchMax }

    /// Takes all documents or none.
    func accept(_ request: AppendRequest, now: Instant) -> AppendAnswer {
        let user = TextKey(request.user)
        if let wait = rates.wait(user, now: now) { return .tooMany(after: wait) }
        if let until = full[user] {
            if until > now { return .tooMany(after: until.duration(since: now)) }
            full[user] = nil
        }
        let size = request.documents.reduce(0) { $0 + $1.count }
        let count = request.documents.count
        guard waiting.count + count <= StoreLimits.appendsMax, bytes + size <= StoreLimits.appendBytesMax,
            ofUsers[user] + count <= StoreLimits.appendsPerUserMax
        else { return .noRoom }
        rates.take(user, count, now: now)
        for document in request.documents {
            waiting.append(Entry(user: user, name: request.user, document: document))
        }
        bytes += size
        ofUsers.add(count, to: user)
        return .taken
    }

    /// The user has as many documents in the database as a user may have: more of them are refused for a while. Jobs make
    /// room, and another hub may have been asked.
    func isFull(_ user: String, now: Instant) {
        if full.count >= StoreLimits.bucketsMax { full = full.filter { $0.value > now } }
        guard full.count < StoreLimits.bucketsMax else { return }
        full[TextKey(user)] = now.advanced(by: StoreLimits.fullUserPause)
    }

    /// It is to be written at that time, or earlier.
    func want(at instant: Instant) {
        if !isHeld { due = min(due ?? .max, instant) }
    }

    /// It is not to be written before that time.
    func hold(until instant: Instant) {
        isHeld = true
        due = instant
    }

    /// What is to be written next. It stays here until `isDone`.
    func take() -> Documents {
        if batch.isEmpty { takeBatch() }
        let part = batch.prefix(singles > 0 ? 1 : batch.count)
        var users = TextArray()
        var texts = TextArray()
        for entry in part {
            users.append(entry.name)
            entry.document.withUnsafeBytes { texts.append($0) }
        }
        return Documents(count: part.count, users: users.closed(), texts: texts.closed())
    }

    private func takeBatch() {
        while batch.count < StoreLimits.appendBatchMax, let next = waiting.popFirst() {
            batch.append(next)
            bytes -= next.document.count
            ofUsers.add(-1, to: next.user)
        }
    }

    /// The part that was taken is written, or cannot be.
    func isDone(_ count: Int, now: Instant, pause: Duration) {
        batch.removeFirst(count)
        singles = max(0, singles - count)
        isHeld = false
        if !batch.isEmpty || isLong {
            due = now
        } else {
            due = waiting.isEmpty ? nil : now.advanced(by: pause)
        }
    }

    /// One of the documents that were taken fails the others: each is written alone.
    func isSpoiled(_ count: Int, now: Instant) {
        singles = count
        due = now
    }
}
