import JSON

/// All that a device keeps, as values. The rules change it; the store writes what has changed in one transaction.
///
/// It is the same text as the database's at each commit: a rule that throws leaves a mirror that is read again.
struct Mirror: Sendable {
    /// What a transaction has to write.
    struct Changes: Sendable {
        var actions: Set<Int64> = []
        /// Those of them that the store must not have.
        var added: Set<Int64> = []
        var entities: Set<EntityKey> = []
        var positions: Set<String> = []
        var meta: Set<String> = []

        var isEmpty: Bool { actions.isEmpty && entities.isEmpty && positions.isEmpty && meta.isEmpty }
    }

    var queue = ActionQueue()
    var entities = EntityTable()
    private(set) var positions: [String: StoredPosition] = [:]
    private(set) var meta: [String: String] = [:]
    /// Counts the changes of positions.
    private var positionTurn = 0
    private var changes = Changes()

    // MARK: Reading

    var actions: [QueuedAction] { queue.rows }

    var index: RowIndex { queue.index }

    func row(key: String) -> QueuedAction? { queue.row(key: key) }

    /// The rows of a list of the index.
    func rows(_ ids: [Int64]) -> some Sequence<QueuedAction> { queue.rows(ids) }

    func all(_ kind: EntityKind) -> [String: Entity] { entities.all(kind) }

    func entity(_ kind: EntityKind, _ id: String) -> Entity? { entities.entity(kind, id) }

    /// What the hub said of an entity; nil where it is deleted or not known.
    func value(_ kind: EntityKind, _ id: String) -> JSONTree? { entities.entity(kind, id)?.value }

    /// Counts the changes of each kind of entity: a fold that has seen the count is not old.
    var turns: [EntityKind: Int] { entities.turns }

    /// Counts what changes rows, or which of them count, other than a new row at the end: a fold that has seen the count has
    /// only to go on.
    var rowTurn: Int { queue.turn + positionTurn }

    // MARK: Changing

    mutating func append(_ row: QueuedAction) { queue.append(row) }

    mutating func put(_ row: QueuedAction) { queue.put(row) }

    mutating func remove(_ row: QueuedAction) { queue.remove(row) }

    mutating func put(_ entity: Entity) { entities.put(entity) }

    mutating func remove(_ key: EntityKey) { entities.remove(key) }

    mutating func put(_ position: StoredPosition, of channel: String) {
        positions[channel] = position
        positionTurn += 1
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
        (changes.actions, changes.added) = queue.takeChanges()
        changes.entities = entities.takeChanges()
        return changes
    }

    /// All that is kept, as changes.
    var everything: Changes {
        Changes(
            actions: Set(actions.map(\.id)), entities: entities.keys, positions: Set(positions.keys),
            meta: Set(meta.keys))
    }

    // MARK: What a person does

    /// Appends a row, unless the user has signed out.
    mutating func enqueue(_ row: QueuedAction) throws {
        guard meta[MirrorKey.signedOut] == nil else { throw CarillonError.signedOut }
        queue.enqueue(row)
    }

    /// Takes an action back. Returns whether an `undo` has to be sent.
    mutating func cancel(_ key: String) throws -> Bool { try queue.cancel(key) }

    /// Lets go what waited behind a conflict, which is decided.
    mutating func release(_ key: String) { queue.release(key) }

    /// A refused action has been seen.
    mutating func dismiss(_ key: String) { queue.dismiss(key) }

    /// The user signs out: nothing more is appended. Throws where actions are not confirmed.
    mutating func signOut() throws {
        let open = actions.filter { $0.state.isWaiting || $0.state == .parked }
        guard open.isEmpty else { throw CarillonError.unsentActions(open.count) }
        set(MirrorKey.signedOut, "1")
    }

    // MARK: Loading

    /// What a store has, in place of an older mirror. Rows are in their order.
    init(
        actions: [QueuedAction] = [], entities: [Entity] = [], positions: [String: StoredPosition] = [:],
        meta: [String: String] = [:], after old: Mirror? = nil
    ) {
        queue = ActionQueue(actions, after: old?.queue)
        self.entities = EntityTable(entities, after: old?.entities)
        self.positions = positions
        self.meta = meta
        positionTurn = old?.positionTurn ?? 0
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
    /// How values are encrypted; none: they are not.
    static let sealing = "sealing"
}
