import JSON

/// All that a device keeps, as values. The rules change it; the store writes what has changed in one transaction.
///
/// It is the same text as the database's at each commit: a rule that throws leaves a mirror that is read again.
struct Mirror: Sendable {
    /// What a transaction has to write.
    struct Changes: Sendable {
        var actions: Set<Int64> = []
        var entities: Set<EntityKey> = []
        var positions: Set<String> = []
        var meta: Set<String> = []

        var isEmpty: Bool { actions.isEmpty && entities.isEmpty && positions.isEmpty && meta.isEmpty }
    }

    /// In their order.
    private(set) var actions: [QueuedAction] = []
    /// Which of them are asked for often.
    private(set) var index = RowIndex()
    private var ids: [String: Int64] = [:]
    private var entities: [EntityKind: [String: Entity]] = [:]
    private(set) var positions: [String: StoredPosition] = [:]
    private(set) var meta: [String: String] = [:]
    /// Counts the changes of each kind of entity: a fold that has seen the count is not old.
    private(set) var turns: [EntityKind: Int] = [:]
    /// Counts what changes rows, or which of them count, other than a new row at the end: a fold that has seen the count has
    /// only to go on.
    private(set) var rowTurn = 0
    private(set) var changes = Changes()

    // MARK: Reading

    func row(key: String) -> QueuedAction? { ids[key].flatMap(row(id:)) }

    func row(id: Int64) -> QueuedAction? { arrayIndex(of: id).map { actions[$0] } }

    func all(_ kind: EntityKind) -> [String: Entity] { entities[kind] ?? [:] }

    func entity(_ kind: EntityKind, _ id: String) -> Entity? { entities[kind]?[id] }

    /// What the hub said of an entity; nil where it is deleted or not known.
    func value(_ kind: EntityKind, _ id: String) -> JSONTree? { entities[kind]?[id]?.value }

    /// The rows of a list of the index.
    func rows(_ ids: [Int64]) -> some Sequence<QueuedAction> { ids.lazy.compactMap { row(id: $0) } }

    /// The rows behind the one with that id.
    func rows(after id: Int64) -> ArraySlice<QueuedAction> { actions[actions.partition(after: id) { $0.id }...] }

    /// Rows are sorted by id.
    private func arrayIndex(of id: Int64) -> Int? {
        let found = actions.partition(after: id - 1) { $0.id }
        return found < actions.count && actions[found].id == id ? found : nil
    }

    // MARK: Changing

    /// Appends a row, which gets the next id.
    mutating func append(_ row: QueuedAction) {
        var row = row
        row.id = (actions.last?.id ?? 0) + 1
        actions.append(row)
        ids[row.key] = row.id
        index.add(row)
        changes.actions.insert(row.id)
    }

    mutating func put(_ row: QueuedAction) {
        guard let found = arrayIndex(of: row.id) else { return }
        index.remove(actions[found])
        actions[found] = row
        index.add(row)
        rowTurn += 1
        changes.actions.insert(row.id)
    }

    mutating func remove(_ row: QueuedAction) {
        guard let found = arrayIndex(of: row.id) else { return }
        index.remove(actions.remove(at: found))
        rowTurn += 1
        ids[row.key] = nil
        changes.actions.insert(row.id)
    }

    mutating func put(_ entity: Entity) {
        entities[entity.kind, default: [:]][entity.id] = entity
        touch(entity.key)
    }

    mutating func remove(_ key: EntityKey) {
        guard entities[key.kind]?.removeValue(forKey: key.id) != nil else { return }
        touch(key)
    }

    mutating func clear(_ kind: EntityKind) {
        for id in all(kind).keys { remove(EntityKey(kind: kind, id: id)) }
    }

    private mutating func touch(_ key: EntityKey) {
        turns[key.kind, default: 0] += 1
        changes.entities.insert(key)
    }

    mutating func put(_ position: StoredPosition, of channel: String) {
        positions[channel] = position
        rowTurn += 1
        changes.positions.insert(channel)
    }

    mutating func set(_ name: String, _ value: String?) {
        guard meta[name] != value else { return }
        meta[name] = value
        changes.meta.insert(name)
    }

    /// What is to be written; afterwards nothing is.
    mutating func takeChanges() -> Changes {
        defer { changes = Changes() }
        return changes
    }

    /// All that is kept, as changes.
    var everything: Changes {
        Changes(
            actions: Set(actions.map(\.id)), entities: Set(entities.values.flatMap { $0.values.map(\.key) }),
            positions: Set(positions.keys), meta: Set(meta.keys))
    }

    // MARK: Loading

    /// What a store has, in place of an older mirror. Rows are in their order.
    init(
        actions: [QueuedAction] = [], entities: [Entity] = [], positions: [String: StoredPosition] = [:],
        meta: [String: String] = [:], after old: Mirror? = nil
    ) {
        self.actions = actions
        for row in actions { index.add(row) }
        self.positions = positions
        self.meta = meta
        ids.reserveCapacity(actions.count)
        for row in actions { ids[row.key] = row.id }
        for entity in entities { self.entities[entity.kind, default: [:]][entity.id] = entity }
        // A fold that has seen the mirror before sees that this is another.
        for kind in EntityKind.allCases { turns[kind] = (old?.turns[kind] ?? 0) + 1 }
        rowTurn = (old?.rowTurn ?? 0) + 1
    }
}

/// The names of the mirror's single values, of which a device has one each.
enum MirrorKey {
    static let device = "device"
    static let number = "n"
    static let lastSync = "lastSyncAt"
    static let keptZone = "keptZone"
    static let signedOut = "isSignedOut"
    static let file = "file"
}
