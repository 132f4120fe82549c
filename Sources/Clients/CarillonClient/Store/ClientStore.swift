import Foundation
import GRDB

/// The mirror in SQLite: one writer, WAL, each transaction on disk before it counts.
///
/// Worst interleavings, and what holds: the process is killed between two writes (SQLite rolls back; events and position are
/// one transaction). Another process appends meanwhile (`data_version` has changed: the mirror is read again before the
/// rule, inside the same transaction). Another process has taken the lease (the fence is compared in the transaction that
/// numbers). The store was restored from a backup (its file is another one: it becomes a new device).
final class ClientStore: MirrorStorage {
    private let queue: DatabaseQueue
    private var vault: Vault
    /// Reads the keys again, where there are some: another process may have made a new one.
    var unlock: (() throws -> Vault)?
    private let now: () -> Date
    private(set) var mirror: Mirror
    private var version: Int64 = 0
    /// The mirror was read again since the last look. Any write of this process reads it too, and nobody else says that
    /// another process has appended.
    private var hasNews = false
    /// The lease that this process holds.
    private(set) var fence: Int64?
    private let holder = UUID().uuidString
    private let lock: LeaseLock
    /// For tests: fails before the write of that number, as a full disk does.
    var failure: ((Int) throws -> Void)?
    private(set) var writes = 0

    /// How long a lease lasts that is not renewed.
    static let leaseSeconds: TimeInterval = 10

    /// Opens the store in a file, and makes it where there is none.
    init(_ file: URL, vault: Vault = .open, now: @escaping () -> Date = { Date() }) throws {
        self.now = now
        self.vault = vault
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
        lock = LeaseLock(file.path + "-lease")
        do {
            queue = try DatabaseQueue(path: file.path, configuration: configuration)
            try Schema.migrator.migrate(queue)
            (mirror, version) = try queue.write { [vault] database in
                (try Mirror(database, vault), try Self.version(database))
            }
        } catch {
            throw Self.told(error)
        }
        try know(file)
    }

    /// Opens the store of a user who signs in.
    convenience init(_ options: CarillonOptions) throws {
        let keys = options.keyStore
        try self.init(options.file, vault: try keys.map { try Vault($0) } ?? .open, now: options.now)
        if let keys { unlock = { try Vault(keys) } }
        try write(isFenced: false) { $0.set(MirrorKey.signedOut, nil) }
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
        version = seen
        hasNews = true
    }

    private func reload() throws {
        try queue.inDatabase { database in
            mirror = try read(database)
            version = try Self.version(database)
            hasNews = true
        }
    }

    private func read(_ database: Database) throws -> Mirror {
        do {
            return try Mirror(database, vault, after: mirror)
        } catch CarillonError.tampered {
            guard let newer = try unlock?(), newer.current != vault.current else { throw CarillonError.tampered }
            vault = newer
            return try Mirror(database, vault, after: mirror)
        }
    }

    /// Reads what other processes have written. Returns whether there was something since the last look.
    func look() throws -> Bool {
        do {
            try queue.inDatabase { database in
                guard try Self.version(database) != version else { return }
                try database.inTransaction(.deferred) {
                    try refresh(database)
                    return .commit
                }
            }
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

    /// Writes all values again with another key.
    func seal(with vault: Vault) throws {
        do {
            try queue.inDatabase { database in
                try database.inTransaction(.immediate) {
                    try refresh(database)
                    try mirror.write(mirror.everything, to: database, vault)
                    return .commit
                }
            }
            self.vault = vault
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
        for suffix in ["", "-wal", "-shm", "-lease"] {
            let path = file.path + suffix
            if FileManager.default.fileExists(atPath: path) { try FileManager.default.removeItem(atPath: path) }
        }
    }

    /// Errors of SQLite without what was written.
    private static func told(_ error: any Error) -> CarillonError {
        switch error {
        case let error as CarillonError: error
        case let error as DatabaseError: .storage("SQLite says \(error.extendedResultCode)")
        default: .storage("\(type(of: error))")
        }
    }
}
