import Foundation
import GRDB
import JSON

// The mirror in tables.

extension Mirror {
    /// All that a database has.
    init(_ database: Database, _ vault: Vault, after old: Mirror? = nil) throws {
        self.init(
            actions: try Row.fetchAll(database, sql: "SELECT * FROM actions ORDER BY id").map {
                try QueuedRow($0, vault)
            },
            entities: try Row.fetchAll(database, sql: "SELECT * FROM entities").compactMap { try Entity($0, vault) },
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
        for id in changes.actions where row(id: id) == nil {
            try database.execute(literal: "DELETE FROM actions WHERE id = \(id)")
        }
        for id in changes.actions.sorted() { try row(id: id)?.write(to: database, vault) }
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

extension QueuedRow {
    fileprivate init(_ row: Row, _ vault: Vault) throws {
        let key: String = row["key"]
        self.init(
            id: row["id"], key: key, type: row["type"],
            payload: try JSONTree(vault.open(row["payload"], context: "payload \(key)")), clientTime: row["clientTime"],
            zone: row["tz"], n: row["n"], base: try (row["base"] as String?).map { try JSONTree($0) },
            retries: row["retries"], state: RowState(rawValue: row["state"]) ?? .queued,
            entities: try JSONTree(row["entities"] as String).elements.compactMap(\.string),
            more: More(try JSONTree(vault.open(row["more"], context: "more \(key)"))))
    }

    fileprivate func write(to database: Database, _ vault: Vault) throws {
        let statement = try database.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO actions
                    (id, key, n, type, payload, base, clientTime, tz, retries, state, entities, more)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """)
        try statement.execute(arguments: [
            id, key, n, type, try vault.seal(payload.canonicalText, context: "payload \(key)"), base?.canonicalText,
            clientTime, zone, retries, state.rawValue, JSONTree.array(entities.map { .string($0) }).canonicalText,
            try vault.seal(more.tree.canonicalText, context: "more \(key)"),
        ])
    }
}

extension Entity {
    /// Nil: a kind of a newer version of the app.
    fileprivate init?(_ row: Row, _ vault: Vault) throws {
        guard let kind = EntityKind(rawValue: row["kind"]) else { return nil }
        let id: String = row["id"]
        let value: Data? = row["value"]
        self.init(
            kind, id, offset: row["o"],
            value: try value.map { try JSONTree(vault.open($0, context: "\(kind.rawValue) \(id)")) },
            statusRev: row["statusRev"], noteRev: row["noteRev"], isNoteOld: row["isNoteOld"])
    }

    fileprivate func write(to database: Database, _ vault: Vault) throws {
        let statement = try database.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO entities (kind, id, o, value, statusRev, noteRev, isNoteOld)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """)
        try statement.execute(arguments: [
            kind.rawValue, id, offset,
            try value.map { try vault.seal($0.canonicalText, context: "\(kind.rawValue) \(id)") },
            statusRev, noteRev, isNoteOld,
        ])
    }
}
