import Foundation
import GRDB
import JSON

// The mirror in tables.

extension Mirror {
    /// All that a database has. Rows are read where SQLite has them, by the numbers of their columns: of thousands, a copy
    /// and a search for names would take longer than all else.
    init(_ database: Database, _ vault: Vault, after old: Mirror? = nil) throws {
        var actions: [QueuedAction] = []
        let rows = try Row.fetchCursor(database, sql: "SELECT \(QueuedAction.columns) FROM actions ORDER BY id")
        var known = ParsedTexts()
        while let row = try rows.next() { actions.append(try QueuedAction(row, vault, &known)) }
        var entities: [Entity] = []
        let things = try Row.fetchCursor(database, sql: "SELECT \(Entity.columns) FROM entities")
        while let row = try things.next() { if let entity = try Entity(row, vault) { entities.append(entity) } }
        self.init(
            actions: actions, entities: entities,
            positions: Dictionary(
                try Row.fetchAll(database, sql: "SELECT * FROM positions").map { row in
                    (row["channel"], StoredPosition(epoch: row["epoch"], offset: row["offset"]))
                }
            ) { _, last in last },
            meta: Dictionary(
                try Row.fetchAll(database, sql: "SELECT * FROM meta").map { ($0["name"], $0["value"]) }
            ) { _, last in last },
            after: old)
    }

    /// Writes what has changed.
    func write(_ changes: Changes, to database: Database, _ vault: Vault) throws {
        // What goes makes room first: a place may have another key.
        for id in changes.actions where queue.row(id: id) == nil {
            try database.execute(literal: "DELETE FROM actions WHERE id = \(id)")
        }
        for id in changes.actions.sorted() {
            // A new row replaces none: what has its id was acted in another process.
            try queue.row(id: id)?.write(
                to: database, vault, changes.added.contains(id) ? "INSERT" : "INSERT OR REPLACE")
        }
        for key in changes.entities {
            if let entity = entity(key.kind, key.id) {
                try entity.write(to: database, vault)
            } else {
                try database.execute(
                    literal: "DELETE FROM entities WHERE kind = \(key.kind.rawValue) AND id = \(key.id)")
            }
        }
        for channel in changes.positions {
            guard let position = positions[channel] else { continue }
            try database.execute(
                literal: "INSERT OR REPLACE INTO positions VALUES (\(channel), \(position.epoch), \(position.offset))")
        }
        for name in changes.meta {
            if let value = meta[name] {
                try database.execute(literal: "INSERT OR REPLACE INTO meta VALUES (\(name), \(value))")
            } else {
                try database.execute(literal: "DELETE FROM meta WHERE name = \(name)")
            }
        }
    }
}

/// Many actions name the same entity and the same revision: their texts are parsed once.
private struct ParsedTexts {
    private var trees: [String: JSONTree] = [:]
    private var entities: [String: [String]] = [:]

    mutating func tree(_ text: String) throws -> JSONTree {
        if let known = trees[text] { return known }
        let tree = try JSONTree(text)
        trees[text] = tree
        return tree
    }

    mutating func entities(_ text: String) throws -> [String] {
        if let known = entities[text] { return known }
        let names = try JSONTree(text).elements.compactMap(\.string)
        entities[text] = names
        return names
    }
}

extension QueuedAction {
    fileprivate static let columns =
        "id, key, n, type, payload, base, clientTime, tz, retries, state, entities, more"

    /// Where its payload is, or what the rules keep beside it: the texts of the other columns, in order.
    private static func place(_ column: String, _ key: String, _ others: [String?]) -> ValuePlace {
        ValuePlace("actions", column, row: [key] + others, old: "\(column) \(key)")
    }

    /// From these columns.
    fileprivate init(_ row: Row, _ vault: Vault, _ known: inout ParsedTexts) throws {
        let key: String = row[1]
        let (id, retries): (Int64, Int64) = (row[0], row[8])
        let n: Int64? = row[2]
        func others() -> [String?] {
            [String(id), n.map { String($0) }, row[3], row[5], row[6], row[7], String(retries), row[9], row[10]]
        }
        self.init(
            id: id, key: key, type: row[3],
            payload: try JSONTree(vault.open(row[4], Self.place("payload", key, others()))), clientTime: row[6],
            zone: row[7],
            n: n, base: try (row[5] as String?).map { try known.tree($0) }, retries: retries,
            state: QueuedActionState(rawValue: row[9]) ?? .queued,
            entities: try known.entities(row[10]),
            more: try More(stored: vault.open(row[11], Self.place("more", key, others()))))
    }

    fileprivate func write(to database: Database, _ vault: Vault, _ verb: String) throws {
        let base = base?.canonicalText
        let entities = JSONTree.array(entities.map { .string($0) }).canonicalText
        func others() -> [String?] {
            [
                String(id), n.map { String($0) }, type, base, clientTime, zone, String(retries), state.rawValue,
                entities,
            ]
        }
        let statement = try database.cachedStatement(
            sql: """
                \(verb) INTO actions (\(Self.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """)
        try statement.execute(arguments: [
            id, key, n, type, try vault.seal(payload.canonicalText, Self.place("payload", key, others())), base,
            clientTime, zone, retries, state.rawValue, entities,
            try vault.seal(more.tree.canonicalText, Self.place("more", key, others())),
        ])
    }
}

extension Entity {
    fileprivate static let columns = "kind, id, o, value, statusRev, noteRev, isNoteOld"

    private static func place(_ kind: String, _ id: String, _ others: [Int64]) -> ValuePlace {
        ValuePlace("entities", "value", row: [kind, id] + others.map { String($0) }, old: "\(kind) \(id)")
    }

    /// From these columns. Nil: a kind of a newer version of the app.
    fileprivate init?(_ row: Row, _ vault: Vault) throws {
        guard let kind = EntityKind(rawValue: row[0]) else { return nil }
        let id: String = row[1]
        let value: Data? = row[3]
        let numbers: [Int64] = [row[2], row[4], row[5], row[6]]
        // Where values are encrypted, an empty one stands for none: nobody deletes a thing by taking its value away.
        guard value != nil || vault.current == nil || vault.isOld else { throw CarillonError.tampered }
        let text = try value.map { try vault.open($0, Self.place(kind.rawValue, id, numbers)) } ?? ""
        self.init(
            kind, id, offset: row[2], value: text.isEmpty ? nil : try JSONTree(text), statusRev: row[4],
            noteRev: row[5], isNoteOld: row[6])
    }

    fileprivate func write(to database: Database, _ vault: Vault) throws {
        let statement = try database.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO entities (\(Self.columns)) VALUES (?, ?, ?, ?, ?, ?, ?)
                """)
        let numbers = [offset, statusRev, noteRev, isNoteOld ? 1 : 0]
        var stored: Data?
        if value != nil || vault.current != nil {
            stored = try vault.seal(value?.canonicalText ?? "", Self.place(kind.rawValue, id, numbers))
        }
        try statement.execute(arguments: [kind.rawValue, id, offset, stored, statusRev, noteRev, isNoteOld])
    }
}
