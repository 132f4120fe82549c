import GRDB

/// The tables. A migration that was released never changes: the queue of an old app goes through it.
enum Schema {
    /// Makes the tables, and changes those of an older version. What a newer one has made of them is not for this one: it
    /// would misread the queue.
    static func migrate(_ queue: DatabaseQueue) throws {
        guard try !queue.read(migrator.hasBeenSuperseded) else { throw CarillonError.newerStore }
        try migrator.migrate(queue)
    }

    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in
            try database.execute(
                sql: """
                    CREATE TABLE actions (
                        id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, n INTEGER, type TEXT NOT NULL,
                        payload BLOB NOT NULL, base TEXT, clientTime TEXT NOT NULL, tz TEXT NOT NULL,
                        retries INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL, entities TEXT NOT NULL,
                        more BLOB NOT NULL);
                    CREATE TABLE entities (
                        kind TEXT NOT NULL, id TEXT NOT NULL, o INTEGER NOT NULL, value BLOB,
                        statusRev INTEGER NOT NULL DEFAULT 0, noteRev INTEGER NOT NULL DEFAULT 0,
                        isNoteOld INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (kind, id)) WITHOUT ROWID;
                    CREATE TABLE positions (
                        channel TEXT PRIMARY KEY, epoch TEXT NOT NULL, offset INTEGER NOT NULL) WITHOUT ROWID;
                    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
                    CREATE TABLE lease (
                        only INTEGER PRIMARY KEY CHECK (only = 1), fence INTEGER NOT NULL, holder TEXT NOT NULL,
                        until INTEGER NOT NULL);
                    INSERT INTO lease VALUES (1, 0, '', 0);
                    """)
        }
        return migrator
    }
}
