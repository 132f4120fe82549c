import Foundation
import GRDB
import JSON
import TestSupport
import Testing

@testable import CarillonClient

/// A folder that goes with this object.
final class TemporaryFolder {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("carillon-client-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    var file: URL { url.appendingPathComponent("store.sqlite") }
}

@Suite(.ownThread, .timeLimit(.minutes(5))) struct ClientStoreTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func open(now: @escaping () -> Date = { Date() }) throws -> ClientStore {
        try ClientStore(folder.file, now: now)
    }

    private func text(_ mirror: Mirror) -> String {
        let rows = mirror.actions.map {
            "\($0.key) \($0.state) \($0.n ?? 0) \($0.envelope(device: "").canonicalText) \($0.more.tree.canonicalText) \($0.entities)"
        }
        let doses = mirror.all(.dose).values.map {
            "\($0.id) \($0.offset) \($0.statusRev) \($0.value?.canonicalText ?? "-")"
        }
        let positions = mirror.positions.map { "\($0.key) \($0.value)" }
        return (rows + doses.sorted() + positions.sorted() + [mirror.meta["x"] ?? ""]).joined(separator: "\n")
    }

    @Test func whatIsWrittenIsReadAgain() throws {
        var store: ClientStore? = try open()
        try store?.fill()
        let before = text(try #require(store).mirror)
        store?.close()
        store = nil
        let again = try open()
        #expect(text(again.mirror) == before && before.contains("d1 9 4"))
        try again.write(isFenced: false) { mirror in
            mirror.remove(EntityKey(kind: .dose, id: "d1"))
            if let row = mirror.row(key: "a") { mirror.remove(row) }
            mirror.set("x", nil)
        }
        again.close()
        #expect(text(try open().mirror) == "c StoredPosition(epoch: \"e\", offset: 9)\n")
    }

    @Test func whatThrowsWritesNothing() throws {
        let store = try open()
        try store.fill()
        let before = text(store.mirror)
        struct Refused: Error {}
        #expect(throws: CarillonError.self) {
            try store.write(isFenced: false) { mirror in
                mirror.set("x", "z")
                throw Refused()
            }
        }
        #expect(text(store.mirror) == before)
        store.failure = { _ in throw Refused() }
        #expect(throws: CarillonError.self) { try store.write(isFenced: false) { $0.set("x", "z") } }
        #expect(text(store.mirror) == before)
    }

    /// The app and its widget have the store open; each sees what the other has written.
    @Test func twoProcessesShareOneQueue() throws {
        let (app, widget) = (try open(), try open())
        #expect(app.mirror.meta[MirrorKey.device] == widget.mirror.meta[MirrorKey.device])
        try app.write(isFenced: false) { try $0.enqueue(.made("a")) }
        try widget.write(isFenced: false) { try $0.enqueue(.made("b", of: "d2")) }
        #expect(widget.mirror.actions.map(\.key) == ["a", "b"])
        #expect(app.mirror.actions.map(\.key) == ["a"])
        #expect(try app.look() && app.mirror.actions.map(\.key) == ["a", "b"])
        #expect(try !app.look())
    }

    /// The worst interleaving: the app writes something of its own before it looks, and so reads what the widget has
    /// appended. It has to hear of it nevertheless: nothing else makes it send.
    @Test func aWriteHidesNothingFromALook() throws {
        let (app, widget) = (try open(), try open())
        try widget.write(isFenced: false) { try $0.enqueue(.made("a")) }
        try app.write(isFenced: false) { $0.set("x", "y") }
        #expect(app.mirror.actions.map(\.key) == ["a"])
        #expect(try app.look())
        #expect(try !app.look())
        // A write that fails reads too.
        struct Refused: Error {}
        try widget.write(isFenced: false) { try $0.enqueue(.made("b", of: "d2")) }
        #expect(throws: CarillonError.self) { try app.write(isFenced: false) { _ in throw Refused() } }
        #expect(app.mirror.actions.map(\.key) == ["a", "b"])
        #expect(try app.look())
    }

    /// The worst interleaving: a write of the app fails, and while it reads all again, the widget appends. The app's next
    /// action must not get the id of that one.
    @Test func whatIsAppendedWhileAllIsReadIsSeen() throws {
        let (app, widget) = (try open(), try open())
        try app.write(isFenced: false) { try $0.enqueue(.made("a")) }
        var appended: [Bool] = []
        app.onRead = {
            guard appended.isEmpty else { return }
            appended.append((try? widget.write(isFenced: false) { try $0.enqueue(.made("b", of: "d2")) }) != nil)
        }
        struct Refused: Error {}
        #expect(throws: CarillonError.self) { try app.write(isFenced: false) { _ in throw Refused() } }
        #expect(appended == [true])
        try app.write(isFenced: false) { try $0.enqueue(.made("c", of: "d3")) }
        #expect(app.mirror.actions.map(\.key) == ["a", "b", "c"])
        #expect(try open().mirror.actions.map(\.key) == ["a", "b", "c"])
    }

    /// A process that has not seen what another one has appended must not write its own action over it.
    @Test func aNewRowReplacesNone() throws {
        let database = try DatabaseQueue()
        try Schema.migrator.migrate(database)
        func append(_ key: String) throws {
            var mirror = Mirror()
            try mirror.enqueue(.made(key))
            let changes = mirror.takeChanges()
            try database.write { [mirror] in try mirror.write(changes, to: $0, .open) }
        }
        try append("a")
        #expect(throws: DatabaseError.self) { try append("b") }
        let mirror = try database.read { try Mirror($0, .open) }
        #expect(mirror.actions.map(\.key) == ["a"])
    }

    /// The worst interleaving: the app is frozen with its lease; the widget takes it over and numbers; the app wakes and
    /// wants to number too.
    @Test func aFrozenHolderNumbersNoMore() throws {
        let clock = Guarded(Date(timeIntervalSince1970: 1_000_000))
        let now = { clock.with { $0 } }
        let (app, widget) = (try open(now: now), try open(now: now))
        try app.write(isFenced: false) { try $0.enqueue(.made("a")) }
        #expect(try app.lead() && !widget.lead())
        clock.with { $0 += ClientStore.leaseSeconds - 1 }
        #expect(try app.lead() && !widget.lead())
        clock.with { $0 += ClientStore.leaseSeconds }
        #expect(try widget.lead())
        #expect(try widget.write(isFenced: true) { $0.number() }.map(\.n) == [1])
        #expect(throws: CarillonError.notLeading) { try app.write(isFenced: true) { $0.number() } }
        // The lock of the file is the app's still: awake, it leads again, and then the widget numbers no more.
        #expect(try app.lead())
        #expect(app.mirror.actions.first?.n == 1)
        #expect(throws: CarillonError.notLeading) { try widget.write(isFenced: true) { $0.number() } }
        #expect(try !widget.lead())
    }

    @Test func theLeaseOfADeadProcessIsFree() throws {
        var first: ClientStore? = try open()
        let second = try open()
        #expect(try first?.lead() == true && !second.lead())
        // As after a kill: nobody resigns, and the system lets the lock go.
        first = nil
        #expect(try second.lead())
    }

    @Test func aRestoredStoreIsAnotherDevice() throws {
        let store = try open()
        try store.write(isFenced: false) { mirror in
            try mirror.enqueue(.made("a"))
            _ = mirror.number()
        }
        let device = store.mirror.meta[MirrorKey.device]
        store.close()
        let copy = folder.url.appendingPathComponent("copy.sqlite")
        try FileManager.default.copyItem(at: folder.file, to: copy)
        #expect(try open().mirror.meta[MirrorKey.device] == device)
        let restored = try ClientStore(copy)
        #expect(restored.mirror.meta[MirrorKey.device] != device)
        #expect(restored.mirror.actions.map(\.key) == ["a"] && restored.mirror.actions.first?.n == nil)
    }

    /// A newer version of the app adds a migration; the queue of the old one goes through it, and is the newer one's then.
    @Test func migrationsKeepTheQueue() throws {
        let store = try open()
        try store.fill()
        store.close()
        let queue = try DatabaseQueue(path: folder.file.path)
        var migrator = Schema.migrator
        migrator.registerMigration("next") { try $0.execute(sql: "ALTER TABLE actions ADD COLUMN later TEXT") }
        try migrator.migrate(queue)
        let kept = try queue.read { try String.fetchAll($0, sql: "SELECT key FROM actions WHERE later IS NULL") }
        try queue.close()
        #expect(kept == ["a"])
        #expect(throws: CarillonError.newerStore) { try open() }
    }

    @Test func anInsecureHubIsRefused() throws {
        func client(_ hub: String) throws -> CarillonClient {
            let address = try #require(URL(string: hub))
            return try CarillonClient(CarillonOptions(hub: address, key: "k", user: "u", folder: folder.url) { "" })
        }
        #expect(throws: CarillonError.insecure) { try client("http://hub.example.com") }
        #expect(throws: CarillonError.invalid("the hub's address begins with https")) { try client("ftp://127.0.0.1") }
        _ = try client("http://127.0.0.1:6001")
        _ = try client("https://hub.example.com")
    }
}

extension ClientStore {
    /// An action, a dose, a position and a value.
    func fill() throws {
        var row = QueuedAction.made("a", base: 3)
        row.more.until = ["c": StoredPosition(epoch: "e", offset: 4)]
        try write(isFenced: false) { mirror in
            try mirror.enqueue(row)
            mirror.put(.dose("d1", "taken", rev: 4, offset: 9))
            mirror.put(StoredPosition(epoch: "e", offset: 9), of: "c")
            mirror.set("x", "y")
        }
    }
}
