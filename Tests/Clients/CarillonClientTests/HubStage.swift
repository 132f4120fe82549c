import API
import Clock
import Foundation
import Gateway
import HubEngine
import Postgres
import Store
import TestDatabase
import TestHub

@testable import CarillonClient

/// A hub with a real PostgreSQL, and devices of one user.
final class HubStage {
    let owner: BlockingConnection
    let hub: GatewayFixture
    private let database: Database
    private let folder: TemporaryFolder
    private var devices: [CarillonClient] = []

    /// Doses of today in UTC, each of now with a window of four hours.
    init(doses: Int = 3) async throws {
        folder = try TemporaryFolder()
        database = try Cluster.shared.get().database()
        owner = try database.owner()
        try owner.execute(
            """
            INSERT INTO care.dose_occurrence (id, user_id, scheduled_at, window_end, tz)
                SELECT 'd' || i, 'ana', now(), now() + interval '4 hours', 'UTC' FROM generate_series(1, \(doses)) AS i
            """)
        let connection = database.hub
        var actions = StoreConfiguration(connectionString: connection)
        // A month offline drains at the client's pace, not at that of a person.
        actions.userRate = Rate(nanoseconds: 0, burst: 1)
        actions.deviceRate = actions.userRate
        hub = try await GatewayFixture(
            ownsDatabase: true, feed: GatewayFixture.feed(of: connection), knowsRevocations: false,
            actions: actions,
            routes: { configuration, verifier in
                let users = HubRoutes.OfUsers(app: configuration.apps[0], verifier: verifier)
                return HubRoutes(pusher: PusherRoutes(), users: users, origins: configuration.origins)
            }
        )
    }

    func options(_ name: String) throws -> CarillonOptions {
        let deviceFolder = folder.url.appendingPathComponent(name)
        try FileManager.default.createDirectory(at: deviceFolder, withIntermediateDirectories: true)
        guard let address = URL(string: "http://127.0.0.1:\(hub.port)") else { throw CarillonError.closed }
        var options = CarillonOptions(hub: address, key: "key", user: "ana", folder: deviceFolder) {
            try await GatewayFixture.token("ana")
        }
        options.timeZone = { "UTC" }
        options.backoffMs = 10...200
        return options
    }

    /// A device; with the same name, the same store.
    func device(_ name: String, _ change: (inout CarillonOptions) -> Void = { _ in }) throws -> CarillonClient {
        var options = try options(name)
        change(&options)
        let client = try CarillonClient(options)
        devices.append(client)
        return client
    }

    /// How often an action has been stored, by its key.
    func count(_ key: String) throws -> Int {
        let rows = try owner.query("SELECT count(*)::text FROM sync.action WHERE key = $1", [key])
        return rows.first?.first.flatMap { $0 }.flatMap { Int($0) } ?? -1
    }

    func status(_ dose: String) throws -> String? {
        try owner.query("SELECT status FROM care.dose_occurrence WHERE id = $1", [dose]).first?.first ?? nil
    }

    func end() async {
        for device in devices { await device.close() }
    }
}

extension CarillonClient {
    /// Waits until a value is as wanted. If it does not come, the error tells what was waited for, and where the client
    /// stands.
    @discardableResult
    func waits<Value>(
        for what: String, _ values: CarillonValues<Value>, seconds: Int = 30,
        _ fits: @escaping @Sendable (Value) -> Bool
    ) async throws -> Value {
        let found = await withTaskGroup(of: Value?.self) { group in
            group.addTask { await values.first(fits) }
            group.addTask {
                try? await Task.sleep(for: .seconds(seconds))
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
        guard let found else { throw NeverCame(what: what, state: standing) }
        return found
    }

    /// As above, of a value that may go again.
    func waits<Value>(
        for what: String, _ values: CarillonOptionalValues<Value>, seconds: Int = 30,
        _ fits: @escaping @Sendable (Value?) -> Bool
    ) async throws {
        let isFound = await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                for await value in values where fits(value) { return true }
                return false
            }
            group.addTask {
                try? await Task.sleep(for: .seconds(seconds))
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
        guard isFound else { throw NeverCame(what: what, state: standing) }
    }

    /// Waits until nothing is left to send.
    func drained(seconds: Int = 30) async throws {
        try await waits(for: "an empty queue", queueLength, seconds: seconds) { $0 == 0 }
    }

    /// Waits until a dose is as wanted, confirmed by the hub.
    func sees(_ dose: String, _ status: CarillonDose.Status) async throws {
        try await waits(for: "\(dose) \(status)", today()) { today in
            today.doses.contains { $0.id == dose && $0.status == status && !$0.isPending }
        }
    }

    /// All that says why it does not go on.
    var standing: String {
        let rows = store.mirror.actions.map { "\($0.n ?? 0) \($0.type) \($0.entities) \($0.state)" }
        let doses = today().current?.doses.map { "\($0.id) \($0.status)\($0.isPending ? " pending" : "")" }
        return """
            fence \(store.fence ?? -1), \(connection.current.map(\.rawValue) ?? "-"), problem \(problem.current, default: "none")
            rows \(rows.prefix(20)) of \(rows.count)
            doses \(doses ?? [])
            positions \(store.mirror.positions)
            \(machine)
            """
    }
}

/// What a device waited for in vain.
struct NeverCame: Error, CustomStringConvertible {
    let what: String
    let state: String

    var description: String { "waited in vain for \(what):\n\(state)" }
}
