import Crypto
import Foundation
import GRDB
import JSON
import TestSupport
import Testing

@testable import CarillonClient

@Suite(.ownThread, .timeLimit(.minutes(5))) struct EncryptedStoreTests {
    private let folder: TemporaryFolder
    private var keys: FileKeyStore { FileKeyStore(keyFile) }
    private var keyFile: URL { folder.url.appendingPathComponent("keys") }

    init() throws { folder = try TemporaryFolder() }

    private func open(_ keys: (any KeyStore)?) throws -> ClientStore { try ClientStore(folder.file, keys: keys) }

    private func bytes() throws -> Data {
        try ["", "-wal"].map { folder.file.path + $0 }.filter(FileManager.default.fileExists).reduce(into: Data()) {
            $0 += try Data(contentsOf: URL(fileURLWithPath: $1))
        }
    }

    private func change(_ body: (Database) throws -> Void) throws {
        let queue = try DatabaseQueue(path: folder.file.path)
        try queue.write(body)
        try queue.close()
    }

    @Test func nothingOfAPersonIsInTheFile() throws {
        let store = try open(keys)
        try store.fill()
        #expect(try bytes().range(of: Data("Ramipril".utf8)) == nil)
        let rights = try FileManager.default.attributesOfItem(atPath: keyFile.path)[.posixPermissions]
        #expect((rights as? NSNumber)?.intValue == 0o600)
        store.close()
        #expect(try open(keys).mirror.value(.dose, "d1")?["productName"]?.string == "Ramipril")
        // Without its keys it is not read.
        #expect(throws: CarillonError.tampered) { try open(nil) }
    }

    // MARK: Keys

    /// The worst interleaving: both have seen that there is no key, and each has made one.
    @Test func ofTwoFirstKeysOneIsKept() throws {
        let (mine, others) = (Data(repeating: 1, count: 32), Data(repeating: 2, count: 32))
        let (first, second) = (keys, keys)
        #expect(try first.keys().isEmpty && second.keys().isEmpty)
        #expect(try second.add(others, number: 1) == [1: others])
        #expect(try first.add(mine, number: 1) == [1: others])
        #expect(try first.add(mine, number: 2) == [1: others, 2: mine])
    }

    /// The app and its widget start an encrypted store for the first time, at once: both read what each has written.
    @Test(arguments: 0..<10) func storesThatStartAtOnceHaveOneKey(_ round: Int) throws {
        let (file, keys, count) = (folder.file, keys, 4)
        let failures = Guarded<[String]>([])
        DispatchQueue.concurrentPerform(iterations: count) { number in
            do {
                let store = try ClientStore(file, keys: keys)
                try store.write(isFenced: false) { try $0.enqueue(.made("k\(number)", of: "d\(number)")) }
            } catch {
                failures.with { $0.append("\(error)") }
            }
        }
        #expect(failures.with { $0 } == [])
        #expect(try keys.keys().count == 1)
        #expect(try open(keys).mirror.actions.map(\.key).sorted() == (0..<count).map { "k\($0)" })
    }

    /// Stores of several users share a file of keys, and are started and rotated at once.
    @Test func storesThatShareKeysLoseNone() throws {
        let (url, keys, count) = (folder.url, keys, 4)
        let failures = Guarded<[String]>([])
        DispatchQueue.concurrentPerform(iterations: count) { number in
            do {
                let store = try ClientStore(url.appendingPathComponent("\(number).sqlite"), keys: keys)
                try store.fill()
                try store.rotate()
            } catch {
                failures.with { $0.append("\(error)") }
            }
        }
        #expect(failures.with { $0 } == [])
        for number in 0..<count {
            let store = try ClientStore(url.appendingPathComponent("\(number).sqlite"), keys: keys)
            #expect(store.mirror.actions.map(\.key) == ["a"])
        }
    }

    @Test func rotatedKeysReadBoth() throws {
        let store = try open(keys)
        try store.fill()
        try store.rotate()
        #expect(try keys.keys().keys.sorted() == [1, 2])
        store.close()
        let again = try open(keys)
        #expect(again.mirror.actions.map(\.key) == ["a"])
        again.close()
        // The old key is of no use any more.
        let newest = try keys.keys().filter { $0.key == 2 }
        try Data(KeyText.text(newest).utf8).write(to: keyFile)
        #expect(try open(keys).mirror.actions.map(\.key) == ["a"])
    }

    /// A number of one byte would end at 255.
    @Test func keysDoNotEnd() throws {
        let keys = KeysInMemory()
        let store = try open(keys)
        try store.fill()
        for _ in 0..<300 { try store.rotate() }
        #expect(try keys.keys().count == 301)
        store.close()
        #expect(try open(keys).mirror.actions.map(\.key) == ["a"])
        #expect(throws: CarillonError.invalid("the store is not encrypted")) {
            try ClientStore(folder.url.appendingPathComponent("plain.sqlite")).rotate()
        }
        _ = try keys.add(Data(repeating: 1, count: 32), number: .max)
        #expect(throws: CarillonError.invalid("the key store has no number for another key")) {
            try Vault.rotate(keys)
        }
    }

    /// An app rotates while its widget has the store open: the widget reads the keys again.
    @Test func aKeyOfAnotherProcessIsRead() throws {
        let app = try open(keys)
        try app.fill()
        let widget = try open(keys)
        try app.rotate()
        try widget.write(isFenced: false) { try $0.enqueue(.made("b")) }
        #expect(try app.look() && app.mirror.actions.map(\.key) == ["a", "b"])
        // Both at once: one after the other.
        try widget.rotate()
        try app.rotate()
        #expect(try keys.keys().count == 4)
        #expect(try widget.look() && widget.mirror.actions.map(\.key) == ["a", "b"])
    }

    /// The keys are away for a moment. A new key in their place would read nothing, and take the old one's number.
    @Test func noKeyIsMadeForASealedStore() throws {
        let store = try open(keys)
        try store.fill()
        let away = folder.url.appendingPathComponent("away")
        try FileManager.default.moveItem(at: keyFile, to: away)
        #expect(throws: CarillonError.tampered) { try open(keys) }
        #expect(throws: CarillonError.tampered) { try store.rotate() }
        #expect(!FileManager.default.fileExists(atPath: keyFile.path))
        try FileManager.default.moveItem(at: away, to: keyFile)
        #expect(try open(keys).mirror.actions.map(\.key) == ["a"])
    }

    // MARK: Stores of older versions, and plain ones

    /// An app that encrypts from now on keeps what it has. Nothing of it is left in the clear.
    @Test func aPlainStoreIsEncrypted() throws {
        let plain = try open(nil)
        try plain.fill()
        let device = plain.mirror.meta[MirrorKey.device]
        #expect(try bytes().range(of: Data("Ramipril".utf8)) != nil)
        plain.close()
        let store = try open(keys)
        #expect(store.mirror.actions.map(\.key) == ["a"] && store.mirror.meta[MirrorKey.device] == device)
        #expect(store.mirror.value(.dose, "d1")?["productName"]?.string == "Ramipril")
        #expect(try bytes().range(of: Data("Ramipril".utf8)) == nil)
        store.close()
        #expect(throws: CarillonError.tampered) { try open(nil) }
        #expect(try open(keys).mirror.actions.map(\.key) == ["a"])
    }

    /// The worst moment: the key is made, and the process dies before all is encrypted.
    @Test func aStoreIsEncryptedWholeOrNotAtAll() throws {
        let plain = try open(nil)
        try plain.fill()
        plain.close()
        try change {
            try $0.execute(
                sql: "CREATE TRIGGER death BEFORE INSERT ON entities BEGIN SELECT RAISE(ABORT, 'death'); END")
        }
        #expect(throws: CarillonError.self) { try open(keys) }
        #expect(try keys.keys().count == 1)
        try change { try $0.execute(sql: "DROP TRIGGER death") }
        #expect(try open(nil).mirror.actions.map(\.key) == ["a"])
        #expect(try open(keys).mirror.value(.dose, "d1")?["productName"]?.string == "Ramipril")
    }

    /// Another process reads while the store is encrypted, so that the log keeps what it was before. The store is open all
    /// the same, and the next open empties the log.
    @Test func whatIsLeftInTheLogGoesWithTheNextOpen() throws {
        let plain = try open(nil)
        try plain.fill()
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let reader = try DatabaseQueue(path: folder.file.path, configuration: configuration)
        try reader.inDatabase {
            try $0.beginTransaction(.deferred)
            _ = try Int.fetchOne($0, sql: "SELECT count(*) FROM actions")
        }
        plain.close()
        try open(keys).close()
        #expect(try bytes().range(of: Data("Ramipril".utf8)) != nil)
        try reader.inDatabase { try $0.commit() }
        let store = try open(keys)
        #expect(try bytes().range(of: Data("Ramipril".utf8)) == nil)
        #expect(store.mirror.actions.map(\.key) == ["a"])
        try reader.close()
    }

    /// Known: who puts a whole store that is not encrypted in the place of one that is, is not found. A store that is
    /// encrypted for the first time looks the same, with keys where the process was killed, or another store has made them.
    @Test func aForgedPlainStoreIsNotFound() throws {
        let store = try open(keys)
        try store.fill()
        store.close()
        try change {
            try $0.execute(
                sql: """
                    DELETE FROM meta WHERE name = 'sealing'; DELETE FROM entities;
                    UPDATE actions SET payload = X'007B7D', more = X'007B7D'
                    """)
        }
        #expect(try open(keys).mirror.actions.map(\.payload.canonicalText) == ["{}"])
    }

    /// An older version sealed each value for the key of its row alone.
    @Test func anOldStoreKeepsItsQueue() throws {
        try open(nil).fill()
        let bytes = Data(repeating: 7, count: 32)
        _ = try keys.add(bytes, number: 1)
        let key = SymmetricKey(data: bytes)
        func sealed(_ row: Row, _ column: String, _ context: String) throws -> Data {
            let stored: Data = row[column]
            let box = try AES.GCM.seal(stored.dropFirst(), using: key, authenticating: Data(context.utf8))
            return Data([1]) + (try #require(box.combined))
        }
        try change { database in
            for row in try Row.fetchAll(database, sql: "SELECT * FROM actions") {
                let name: String = row["key"]
                let (payload, more) = (
                    try sealed(row, "payload", "payload \(name)"), try sealed(row, "more", "more \(name)")
                )
                try database.execute(
                    literal: "UPDATE actions SET payload = \(payload), more = \(more) WHERE key = \(name)")
            }
            for row in try Row.fetchAll(database, sql: "SELECT * FROM entities WHERE value IS NOT NULL") {
                let (kind, id): (String, String) = (row["kind"], row["id"])
                let value = try sealed(row, "value", "\(kind) \(id)")
                try database.execute(
                    literal: "UPDATE entities SET value = \(value) WHERE kind = \(kind) AND id = \(id)")
            }
        }
        let store = try open(keys)
        #expect(store.mirror.actions.map(\.key) == ["a"])
        #expect(store.mirror.value(.dose, "d1")?["productName"]?.string == "Ramipril")
        store.close()
        try change { try $0.execute(sql: "UPDATE actions SET type = 'skip'") }
        #expect(throws: CarillonError.tampered) { try open(keys) }
    }

    // MARK: Tampering

    private static let tampering = [
        // A value that was moved to another row, and two that were exchanged.
        "UPDATE entities SET value = (SELECT value FROM entities WHERE id = 'd2') WHERE id = 'd1'",
        """
        UPDATE entities SET value = (SELECT other.value FROM entities AS other
            WHERE other.kind = 'dose' AND other.id <> entities.id) WHERE kind = 'dose'
        """,
        "UPDATE actions SET payload = (SELECT payload FROM actions WHERE key = 'b') WHERE key = 'a'",
        "UPDATE actions SET payload = more, more = payload WHERE key = 'a'",
        // One that somebody has written in the clear, and one that was taken away.
        "UPDATE entities SET value = X'007B7D' WHERE id = 'd1'",
        "UPDATE entities SET value = NULL WHERE id = 'd1'",
        // Other columns of a row.
        "UPDATE entities SET o = o + 1 WHERE id = 'd1'",
        "UPDATE entities SET statusRev = 1 WHERE id = 'd1'",
        "UPDATE actions SET type = 'skip' WHERE key = 'a'",
        "UPDATE actions SET state = 'failed' WHERE key = 'a'",
        "UPDATE actions SET base = NULL WHERE key = 'a'",
        "UPDATE actions SET id = 9 WHERE key = 'a'",
        "UPDATE actions SET n = 9 WHERE key = 'a'",
        "UPDATE actions SET entities = '[\"dose:d2\"]' WHERE key = 'a'",
        // As if an older version had written it.
        "DELETE FROM meta WHERE name = 'sealing'",
    ]

    @Test(arguments: tampering) func tamperingIsFound(_ change: String) throws {
        let store = try open(keys)
        try store.fill()
        try store.write(isFenced: false) { mirror in
            mirror.put(.dose("d2", "skipped", rev: 2))
            mirror.put(Entity(.dose, "d3", offset: 3, value: nil))
            try mirror.enqueue(.made("b", of: "d2"))
        }
        store.close()
        let again = try open(keys)
        #expect(again.mirror.entity(.dose, "d3")?.offset == 3 && again.mirror.value(.dose, "d3") == nil)
        again.close()
        try self.change { try $0.execute(sql: change) }
        #expect(throws: CarillonError.tampered) { try open(keys) }
    }
}

/// Keys that go with the test.
private final class KeysInMemory: KeyStore {
    private let all = Guarded<[UInt32: Data]>([:])

    func keys() throws -> [UInt32: Data] { all.with { $0 } }

    func add(_ key: Data, number: UInt32) throws -> [UInt32: Data] {
        all.with { all in
            if all[number] == nil { all[number] = key }
            return all
        }
    }
}
