import JSON

/// The actions of the queue in their order: those that wait, that a person has to see, and that can still be undone.
struct ActionQueue: Sendable {
    /// In their order.
    private(set) var rows: [QueuedAction] = []
    /// Which of them are asked for often.
    private(set) var index = RowIndex()
    private var ids: [String: Int64] = [:]
    /// Counts what changes rows other than a new row at the end.
    private(set) var turn = 0
    private var changes: Set<Int64> = []
    /// Those of the changes that are rows of new ids.
    private var added: Set<Int64> = []

    /// What a store has, in place of an older queue. Rows are in their order.
    init(_ rows: [QueuedAction] = [], after old: ActionQueue? = nil) {
        self.rows = rows
        for row in rows { index.add(row) }
        ids.reserveCapacity(rows.count)
        for row in rows { ids[row.key] = row.id }
        turn = (old?.turn ?? 0) + 1
    }

    // MARK: Reading

    func row(key: String) -> QueuedAction? { ids[key].flatMap(row(id:)) }

    func row(id: Int64) -> QueuedAction? { arrayIndex(of: id).map { rows[$0] } }

    /// The rows of a list of the index.
    func rows(_ ids: [Int64]) -> some Sequence<QueuedAction> { ids.lazy.compactMap { row(id: $0) } }

    /// The rows behind the one with that id.
    func rows(after id: Int64) -> ArraySlice<QueuedAction> { rows[rows.partition(after: id) { $0.id }...] }

    /// Rows are sorted by id.
    private func arrayIndex(of id: Int64) -> Int? {
        let found = rows.partition(after: id - 1) { $0.id }
        return found < rows.count && rows[found].id == id ? found : nil
    }

    // MARK: Changing

    /// Appends a row, which gets the next id.
    mutating func append(_ row: QueuedAction) {
        var row = row
        row.id = (rows.last?.id ?? 0) + 1
        rows.append(row)
        ids[row.key] = row.id
        index.add(row)
        // Where a row was removed before, the store has one of that id.
        if changes.insert(row.id).inserted { added.insert(row.id) }
    }

    mutating func put(_ row: QueuedAction) {
        guard let found = arrayIndex(of: row.id) else { return }
        index.remove(rows[found])
        rows[found] = row
        index.add(row)
        turn += 1
        changes.insert(row.id)
    }

    mutating func remove(_ row: QueuedAction) {
        guard let found = arrayIndex(of: row.id) else { return }
        index.remove(rows.remove(at: found))
        turn += 1
        ids[row.key] = nil
        changes.insert(row.id)
    }

    /// The ids of the rows that are to be written, and those of them that are new; afterwards there are none.
    mutating func takeChanges() -> (all: Set<Int64>, added: Set<Int64>) {
        defer { (changes, added) = ([], []) }
        return (changes, added)
    }

    // MARK: What a person does

    /// Appends a row. Behind a conflict about the same entity it waits for the person, and so it does behind a row that
    /// waits for one: that row acted first.
    mutating func enqueue(_ row: QueuedAction) {
        var row = row
        let parked = rows(index.seen).first { [row] in $0.holds(row) }
        if let parked, row.type != "resolve" {
            row.state = .parked
            row.more.behind = parked.more.behind ?? parked.key
        }
        append(row)
    }

    /// Takes an action back. One that was never sent goes, and nothing is sent. One that waits for a decision, or was
    /// refused, has done nothing: it goes too. Returns whether an `undo` has to be sent.
    ///
    /// Worst interleaving: the conflict is decided, and the decision waits in the queue. It would be carried out all the
    /// same, so it goes first. One that was perhaps sent is taken back by its own undo alone: then this throws.
    mutating func cancel(_ key: String) throws -> Bool {
        guard let row = row(key: key) else { return true }
        // With tries, another device of this store has perhaps sent it.
        if row.state == .queued, row.n == nil, row.retries == 0 {
            remove(row)
            reopen(row)
            return false
        }
        if row.state == .parked, let decision = row.more.decidedBy, self.row(key: decision) != nil {
            guard try !cancel(decision) else { throw CarillonError.noConflict }
            return try cancel(key)
        }
        if row.state == .parked, row.more.until != nil {
            // Some of several doses are done, and only the hub can take that back. The others have done nothing.
            settle(row)
            release(key)
            return true
        }
        if row.state == .parked || (row.state == .failed && row.more.until == nil) {
            release(key)
            if let left = self.row(key: key) { remove(left) }
            return false
        }
        return true
    }

    /// A decision that is not told, or that the hub refuses, decides nothing: its conflict waits for another one.
    mutating func reopen(_ decision: QueuedAction) {
        guard decision.type == "resolve", let of = decision.payload["of"]?.string, var target = row(key: of) else {
            return
        }
        target.more.decidedBy = nil
        put(target)
    }

    /// Nothing of a conflict waits for a person any more. What the hub refused besides is shown now.
    mutating func settle(_ conflict: QueuedAction) {
        var row = conflict
        row.state = row.answered("rejected").isEmpty ? .done : .failed
        row.more.decidedBy = nil
        put(row)
    }

    /// Lets go what waited behind a conflict, which is decided, unless it meets another one that came before it.
    mutating func release(_ key: String) {
        if let target = row(key: key), target.state == .parked, target.more.until == nil { remove(target) }
        for var row in rows where row.more.behind == key {
            let other = rows(index.seen).first { [row] in $0.id < row.id && $0.holds(row) }
            row.more.behind = other.map { $0.more.behind ?? $0.key }
            row.state = other == nil ? .queued : .parked
            put(row)
        }
    }

    /// A refused action has been seen.
    mutating func dismiss(_ key: String) {
        guard var row = row(key: key), row.state == .failed else { return }
        guard row.more.until != nil, row.more.memory != nil else {
            remove(row)
            return
        }
        row.state = .done
        row.more.answer = nil
        put(row)
    }
}
