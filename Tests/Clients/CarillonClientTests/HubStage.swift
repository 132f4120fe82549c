import API
import Channels
import Clock
import Foundation
import Gateway
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
        let place = folder.url.appendingPathComponent(name)
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
        guard let address = URL(string: "http://127.0.0.1:\(hub.port)") else { throw CarillonError.closed }
        var options = CarillonOptions(hub: address, key: "key", user: "ana", folder: place) {
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
    /// Waits until nothing is left to send and all that the hub told is here.
    func drained() async {
        _ = await queueLength.first { $0 == 0 }
    }

    /// Waits until a dose is as wanted, confirmed by the hub.
    func sees(_ dose: String, _ status: CarillonDose.Status) async {
        _ = await today().first { today in
            today.doses.contains { $0.id == dose && $0.status == status && !$0.isPending }
        }
    }
}
