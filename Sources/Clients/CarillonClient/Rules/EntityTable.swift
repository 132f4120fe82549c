import JSON

/// What the hub said of each thing, and the revisions that actions of this device have made.
struct EntityTable: Sendable {
    private var entities: [EntityKind: [String: Entity]] = [:]
    /// Counts the changes of each kind: a fold that has seen the count is not old.
    private(set) var turns: [EntityKind: Int] = [:]
    private var changes: Set<EntityKey> = []

    /// What a store has, in place of an older table.
    init(_ entities: [Entity] = [], after old: EntityTable? = nil) {
        for entity in entities { self.entities[entity.kind, default: [:]][entity.id] = entity }
        // A fold that has seen the table before sees that this is another.
        for kind in EntityKind.allCases { turns[kind] = (old?.turns[kind] ?? 0) + 1 }
    }

    // MARK: Reading

    func all(_ kind: EntityKind) -> [String: Entity] { entities[kind] ?? [:] }

    func entity(_ kind: EntityKind, _ id: String) -> Entity? { entities[kind]?[id] }

    /// The keys of all.
    var keys: Set<EntityKey> { Set(entities.values.flatMap { $0.values.map(\.key) }) }

    // MARK: Changing

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
        changes.insert(key)
    }

    /// The keys of what is to be written; afterwards there are none.
    mutating func takeChanges() -> Set<EntityKey> {
        defer { changes = [] }
        return changes
    }

    // MARK: Own revisions

    /// What the person saw, and what this device itself has changed since: own actions never conflict with each other. Of
    /// reminders the hub knows what a device changed: a later revision would hide what others changed in between.
    ///
    /// - Parameter folded: the revision that an action of this device which is not answered yet will probably make.
    func base(of row: QueuedAction, folded: (String) -> Int64? = { _ in nil }) -> JSONTree? {
        guard let base = row.base, row.entities.first?.hasPrefix("reminder:") != true else { return row.base }
        func newest(_ seen: JSONTree, _ entity: String) -> JSONTree {
            guard let rev = seen.integer else { return seen }
            return .integer(max(rev, self.entity(.own, entity)?.offset ?? 0, folded(entity) ?? 0))
        }
        if let rev = base["rev"], !rev.isObject {
            return base.setting([.init("rev", newest(rev, row.entities.first ?? ""))])
        }
        return .object(
            base.members.map { member in
                guard let rev = member.value["rev"] else { return member }
                return .init(member.name, member.value.setting([.init("rev", newest(rev, "dose:\(member.name)"))]))
            })
    }

    /// Forgets which revisions this device has made of what a topic is about.
    mutating func forgetOwn(_ topic: Topic) {
        for row in all(.own).values where topic.touched.contains(String(row.id.prefix { $0 != ":" })) {
            remove(row.key)
        }
    }

    // MARK: Tidying

    /// Entities of which the device remembers the revision that it made itself.
    private static let ownMax = 2000

    /// The newest revisions stay; an action that waits longer names what the person saw.
    mutating func tidyOwn() {
        for old in all(.own).values.sorted(by: { $0.offset > $1.offset }).dropFirst(Self.ownMax) { remove(old.key) }
    }

    /// Forgets deletions that are older than all positions.
    mutating func tidy(_ topic: Topic, before position: StoredPosition) {
        for kind in topic.kinds {
            for row in all(kind).values where row.value == nil && row.offset < position.offset - 1000 {
                remove(row.key)
            }
        }
    }
}
