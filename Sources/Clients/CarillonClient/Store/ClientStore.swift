import Foundation
import GRDB
import JSON

/// The mirror in SQLite: one writer, WAL, each transaction on disk before it counts.
///
/// Worst interleavings, and what holds: the process is killed between two writes (SQLite rolls back; events and position are
/// one transaction). Another process appends meanwhile (`data_version` has changed: the mirror is read again before the
/// rule, inside the same transaction). Another process has taken the lease (the fence is compared in the transaction that
/// numbers). The store was restored from a backup (its file is another one: it becomes a new device).
final class ClientStore: MirrorStorage {
    private let queue: DatabaseQueue
    private var vault: Vault
    private let now: () -> Date
    private(set) var mirror: Mirror
    private var version: Int64 = 0
    /// The mirror was read again since the last look. Any write of this process reads it too, and nobody else says that
    /// another process has appended.
    private var hasNews = false
    /// The lease that this process holds.
    private(set) var fence: Int64?
    private let holder = UUID().uuidString
    private let lock: FileLock
    private let keys: (any KeyStore)?
    /// For tests: fails before the write of that number, as a full disk does.
    var failure: ((Int) throws -> Void)?
    private(set) var writes = 0
    /// For tests: called when all was read.
    var onRead: (() -> Void)?

    /// How long a lease lasts that is not renewed.
    static let leaseSeconds: TimeInterval = 10

    /// Opens the store in a file, and makes it where there is none. With `keys` it is encrypted from now on,
    /// also where it was not.
    ///
    /// Worst interleaving: two processes open a store for the first time. Each makes its tables and its first key, and one
    /// of the keys is lost, with all that was encrypted with it. So they open it one after the other.
    init(_ file: URL, keys: (any KeyStore)? = nil, now: @escaping () -> Date = { Date() }) throws {
        self.now = now
        self.keys = keys
        vault = .open
        var configuration = Configuration()
        configuration.journalMode = .wal
        configuration.busyMode = .timeout(5)
        // iOS ends a suspended app that holds a lock of a shared file.
        configuration.observesSuspensionNotifications = true
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA synchronous = FULL")
            try database.execute(sql: "PRAGMA secure_delete = ON")
        }
        mirror = Mirror()
        lock = FileLock(file.path + "-lease")
        do {
            let opening = FileLock(file.path + "-opening")
            guard opening.wait() else { throw CarillonError.storage("the store's folder cannot be written") }
            defer { opening.release() }
            try Self.seclude(file)
            queue = try DatabaseQueue(path: file.path, configuration: configuration)
            try Schema.migrate(queue)
            (mirror, vault, version) = try queue.write { database in
                let (mirror, vault) = try Self.unlocked(database, keys)
                return (mirror, vault, try Self.version(database))
            }
            if keys != nil { try Self.emptyLog(queue) }
        } catch {
            throw Self.told(error)
        }
        try know(file)
    }

    /// Opens the store of a user who signs in.
    convenience init(_ options: CarillonOptions) throws {
        try self.init(options.file, keys: options.keyStore, now: options.now)
        try write(isFenced: false) { $0.set(MirrorKey.signedOut, nil) }
    }

    /// Makes the file, and what SQLite puts beside it, its owner's alone: SQLite gives its other files this one's rights.
    private static func seclude(_ file: URL) throws {
        let opened = Foundation.open(file.path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard opened >= 0 else {
            let isFull = errno == ENOSPC || errno == EDQUOT
            throw isFull ? CarillonError.storageFull : CarillonError.storage("the store's file cannot be opened")
        }
        _ = Foundation.close(opened)
        for suffix in ["", "-wal", "-shm"] { chmod(file.path + suffix, 0o600) }
    }

    /// A restored file has another number, and so has a copy: what it sends must not look like what the old one has sent.
    private func know(_ file: URL) throws {
        let attributes = try? FileManager.default.attributesOfItem(atPath: file.path)
        let number = (attributes?[.systemFileNumber] as? NSNumber)?.stringValue ?? "-"
        guard mirror.meta[MirrorKey.file] != number || mirror.meta[MirrorKey.device] == nil else { return }
        try write(isFenced: false) { mirror in
            guard mirror.meta[MirrorKey.file] != number || mirror.meta[MirrorKey.device] == nil else { return }
            mirror.becomeDevice(UUID().uuidString)
            mirror.set(MirrorKey.file, number)
        }
    }

    /// Changes when another connection has committed.
    private static func version(_ database: Database) throws -> Int64 {
        try Int64.fetchOne(database, sql: "PRAGMA data_version") ?? 0
    }

    // MARK: MirrorStorage

    func write<Result>(isFenced: Bool, _ rule: (inout Mirror) throws -> Result) throws -> Result {
        do {
            return try queue.inDatabase { database in
                var result: Result?
                try database.inTransaction(.immediate) {
                    try refresh(database)
                    if isFenced { try checkFence(database) }
                    result = try rule(&mirror)
                    let changes = mirror.takeChanges()
                    writes += 1
                    try failure?(writes)
                    try mirror.write(changes, to: database, vault)
                    return .commit
                }
                guard let result else { throw CarillonError.closed }
                return result
            }
        } catch {
            // What the rule has changed is not on disk: the mirror is what is. If that cannot be read now, the next write
            // reads it.
            version = -1
            try? reload()
            throw Self.told(error)
        }
    }

    private func refresh(_ database: Database) throws {
        let seen = try Self.version(database)
        guard seen != version else { return }
        mirror = try read(database)
        onRead?()
        version = seen
        hasNews = true
    }

    /// Reads what another process has written, if it has.
    ///
    /// Worst interleaving: another process commits while this one reads. So all is read in one transaction, the version
    /// first: what is committed later has another version.
    private func reload() throws {
        try queue.inDatabase { database in
            try database.inTransaction(.deferred) {
                try refresh(database)
                return .commit
            }
        }
    }

    private func read(_ database: Database) throws -> Mirror {
        do {
            return try Mirror(database, vault, after: mirror)
        } catch CarillonError.tampered {
            // Another process may have made a new key.
            guard let newer = try keys.map({ try Vault($0) }), newer.current != vault.current else {
                throw CarillonError.tampered
            }
            vault = newer
            return try Mirror(database, vault, after: mirror)
        }
    }

    /// Reads what other processes have written. Returns whether there was something since the last look.
    func look() throws -> Bool {
        do {
            try reload()
            defer { hasNews = false }
            return hasNews
        } catch {
            throw Self.told(error)
        }
    }

    // MARK: Lease

    private func checkFence(_ database: Database) throws {
        let current = try Int64.fetchOne(database, sql: "SELECT fence FROM lease")
        guard let fence, current == fence else {
            self.fence = nil
            throw CarillonError.notLeading
        }
    }

    /// Takes or renews the lease. Returns whether this process drains the queue now.
    ///
    /// The lock of the file says at once that the last holder is dead; the time says that it is frozen. Neither is more than
    /// a hint: what counts is the fence.
    func lead() throws -> Bool {
        let (now, holder) = (Int64(now().timeIntervalSince1970 * 1000), holder)
        let isLocked = lock.take()
        let until = now + Int64(Self.leaseSeconds * 1000)
        do {
            fence = try queue.inDatabase { database in
                var taken: Int64?
                try database.inTransaction(.immediate) {
                    guard let row = try Row.fetchOne(database, sql: "SELECT * FROM lease") else { return .rollback }
                    let (fence, owner, end): (Int64, String, Int64) = (row["fence"], row["holder"], row["until"])
                    // A clock that was set back must not keep a lease for years.
                    let isFree = isLocked || end <= now || end > until
                    guard owner == holder || isFree else { return .rollback }
                    let next = owner == holder ? fence : fence + 1
                    try database.execute(
                        literal: "UPDATE lease SET fence = \(next), holder = \(holder), until = \(until)")
                    taken = next
                    return .commit
                }
                return taken
            }
            return fence != nil
        } catch {
            fence = nil
            throw Self.told(error)
        }
    }

    /// Lets another process drain the queue at once.
    func resign() {
        let holder = holder
        fence = nil
        lock.release()
        try? queue.inDatabase { try $0.execute(literal: "UPDATE lease SET until = 0 WHERE holder = \(holder)") }
    }

    // MARK: Keys

    /// What was not encrypted is in the log too.
    ///
    /// Worst interleavings: the process that encrypted the store was killed before it emptied the log, or another one was
    /// reading. So each open of an encrypted store does it. While another one reads, the next open does.
    private static func emptyLog(_ queue: DatabaseQueue) throws {
        do {
            try queue.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {}
    }

    /// What a store has, with the keys that read it. A store that is not encrypted is encrypted here, and one that an older
    /// version has encrypted is encrypted again. Killed before the end, it is as it was.
    private static func unlocked(_ database: Database, _ keys: (any KeyStore)?) throws -> (Mirror, Vault) {
        let sealing = try String.fetchOne(
            database, sql: "SELECT value FROM meta WHERE name = ?", arguments: [MirrorKey.sealing])
        guard let keys else {
            guard sealing == nil else { throw CarillonError.tampered }
            return (try Mirror(database, .open), .open)
        }
        let vault = try Vault(keys, isFirst: sealing == nil)
        guard sealing == nil else {
            guard sealing == Vault.sealing else {
                let isNewer = sealing.flatMap { UInt32($0) }.map { $0 > Vault.version } ?? false
                throw isNewer ? CarillonError.newerStore : CarillonError.tampered
            }
            return (try Mirror(database, vault), vault)
        }
        // An older version encrypted all values, or none.
        let kinds = try Bool.fetchAll(
            database,
            sql: """
                SELECT substr(payload, 1, 1) = X'00' FROM actions UNION SELECT substr(more, 1, 1) = X'00' FROM actions
                UNION SELECT substr(value, 1, 1) = X'00' FROM entities WHERE value IS NOT NULL
                """)
        guard kinds.count <= 1 else { throw CarillonError.tampered }
        var mirror = try Mirror(database, vault.old)
        mirror.set(MirrorKey.sealing, Vault.sealing)
        // With them goes what a newer version has kept besides.
        try database.execute(sql: "DELETE FROM entities")
        try mirror.write(mirror.everything, to: database, vault)
        _ = mirror.takeChanges()
        return (mirror, vault)
    }

    /// Makes a new key, and writes all values again with it. Killed in between, the old ones are read with the old key.
    func rotate() throws {
        guard let keys else { throw CarillonError.invalid("the store is not encrypted") }
        do {
            try queue.inDatabase { database in
                try database.inTransaction(.immediate) {
                    try refresh(database)
                    let next = try Vault.rotate(keys)
                    try mirror.write(mirror.everything, to: database, next)
                    vault = next
                    return .commit
                }
            }
        } catch {
            throw Self.told(error)
        }
    }

    // MARK: Ends

    func close() {
        resign()
        try? queue.close()
    }

    /// Deletes a store that is closed.
    static func remove(_ file: URL) throws {
        for suffix in ["", "-wal", "-shm", "-lease", "-opening"] {
            let path = file.path + suffix
            if FileManager.default.fileExists(atPath: path) { try FileManager.default.removeItem(atPath: path) }
        }
    }

    /// Errors of SQLite without what was written.
    private static func told(_ error: any Error) -> CarillonError {
        switch error {
        case let error as CarillonError: error
        case let error as DatabaseError:
            switch error.resultCode {
            case .SQLITE_FULL: .storageFull
            // On a full disk a store cannot be opened: its index of the log gets no room.
            case .SQLITE_IOERR where error.extendedResultCode == .SQLITE_IOERR_SHMSIZE: .storageFull
            case .SQLITE_BUSY, .SQLITE_LOCKED: .storageBusy
            case .SQLITE_CORRUPT, .SQLITE_NOTADB: .storageCorrupt
            default: .storage("SQLite says \(error.extendedResultCode)")
            }
        case is JSONError: .storageCorrupt
        default: .storage("\(type(of: error))")
        }
    }
}
