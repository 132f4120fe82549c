import Foundation
import GRDB
import JSON
import Testing

@testable import CarillonClient

/// Stores that cannot be used: each fault has its own error, nothing is lost by asking, and a store can be removed.
@Suite(.ownThread, .timeLimit(.minutes(5))) struct StoreFaultTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func options(_ user: String = "u") throws -> CarillonOptions {
        let address = try #require(URL(string: "http://127.0.0.1:1"))
        return CarillonOptions(hub: address, key: "key", user: user, folder: folder.url) { "T" }
    }

    /// A store with a queue, which is closed.
    private func filled(_ options: CarillonOptions) async throws {
        let client = try CarillonClient(options)
        for number in 0..<200 {
            try await client.act(CarillonAction("x", ["text": .string(String(repeating: "\(number) ", count: 100))]))
        }
        await client.close()
    }

    private func rights(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions].flatMap {
            ($0 as? NSNumber)?.intValue
        }
    }

    @Test func filesAreTheirOwnersAlone() async throws {
        let options = try options()
        let path = options.file.path
        // As an older version has left it.
        try Data().write(to: options.file)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        for round in 0..<2 {
            let client = try CarillonClient(options)
            try await client.act(CarillonAction("x"))
            for suffix in ["", "-wal", "-shm", "-opening"] { #expect(try rights(path + suffix) == 0o600, "\(suffix)") }
            guard round == 0 else { return await client.close() }
            for suffix in ["", "-wal", "-shm"] { chmod(path + suffix, 0o644) }
            let other = try CarillonClient(options)
            for suffix in ["", "-wal", "-shm"] { #expect(try rights(path + suffix) == 0o600, "\(suffix)") }
            await other.close()
            await client.close()
        }
    }

    /// It would misread the queue.
    @Test func anOlderLibraryRefusesANewerStore() async throws {
        let options = try options()
        try await filled(options)
        let raw = try DatabaseQueue(path: options.file.path)
        try await raw.write {
            try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('1000'); ALTER TABLE actions ADD more2")
        }
        #expect(throws: CarillonError.newerStore) { try CarillonClient(options) }
        #expect(try await raw.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM actions") } == 200)
        try await raw.write { try $0.execute(sql: "DELETE FROM grdb_migrations WHERE identifier = '1000'") }
        try raw.close()
        let client = try CarillonClient(options)
        #expect(client.queueLength.current == 200)
        await client.close()
    }

    @Test(arguments: ["header", "pages", "value"])
    func aCorruptStoreIsSaidToBe(what: String) async throws {
        let options = try options()
        try await filled(options)
        if what == "value" {
            let raw = try DatabaseQueue(path: options.file.path)
            // A zero, and then what is not JSON.
            try await raw.write { try $0.execute(sql: "UPDATE actions SET payload = X'007B2274'") }
            try raw.close()
        } else {
            let file = try FileHandle(forUpdating: options.file)
            let size = try file.seekToEnd()
            try file.seek(toOffset: what == "header" ? 0 : 4096)
            try file.write(contentsOf: Data(repeating: 0xA5, count: what == "header" ? 100 : Int(size) - 4096))
            try file.close()
        }
        #expect(throws: CarillonError.storageCorrupt) { try CarillonClient(options) }
        try CarillonClient.removeStore(options)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).isEmpty)
        let client = try CarillonClient(options)
        #expect(client.queueLength.current == 0)
        await client.close()
    }

    /// Of another user nothing goes.
    @Test func aStoreIsRemovedAlone() async throws {
        try await filled(try options("u"))
        try await filled(try options("v"))
        try CarillonClient.removeStore(try options("u"))
        try CarillonClient.removeStore(try options("nobody"))
        let client = try CarillonClient(try options("v"))
        #expect(client.queueLength.current == 200)
        await client.close()
    }

    @Test(arguments: [
        (ResultCode.SQLITE_FULL, CarillonError.storageFull), (.SQLITE_BUSY_SNAPSHOT, .storageBusy),
        (.SQLITE_IOERR_SHMSIZE, .storageFull), (.SQLITE_CORRUPT_INDEX, .storageCorrupt),
        (.SQLITE_IOERR_READ, .storage("SQLite says 266 (disk I/O error)")),
        (.SQLITE_READONLY, .storage("SQLite says 8 (attempt to write a readonly database)")),
    ])
    func whatSQLiteSaysHasAName(code: ResultCode, error: CarillonError) throws {
        let store = try ClientStore(folder.file)
        store.failure = { _ in throw DatabaseError(resultCode: code) }
        #expect(throws: error) { try store.write(isFenced: false) { $0.set("x", "y") } }
        store.failure = nil
        #expect(store.mirror.meta["x"] == nil)
        store.close()
    }

    @Test func aStoreThatIsInUseIsBusy() async throws {
        let options = try options()
        let client = try CarillonClient(options)
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let raw = try DatabaseQueue(path: options.file.path, configuration: configuration)
        try await raw.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        await #expect(throws: CarillonError.storageBusy) { try await client.act(CarillonAction("x")) }
        #expect(client.queueLength.current == 0)
        try await raw.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        try await client.act(CarillonAction("x"))
        #expect(client.queueLength.current == 1)
        try raw.close()
        await client.close()
    }
}
