import Foundation
import Glibc
import Postgres

@testable import carillon

/// A test's own folder with the development cluster in it. Both are removed when the test releases it.
final class PrivateCluster {
    let directory: String
    /// The parts created so far.
    private let base: String
    private(set) var cluster: DevelopmentCluster?

    /// - Parameter depth: letters added to the path, to make it long.
    init(depth: Int = 0) throws {
        base = FileManager.default.temporaryDirectory.path + "/carillon-test-\(UUID().uuidString.prefix(8))"
        let deep = stride(from: 0, to: depth, by: 50).map { _ in "/" + String(repeating: "d", count: 49) }.joined()
        directory = base + deep
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o755])
    }

    deinit {
        cluster?.stop()
        if let folders = cluster?.folders {
            try? FileManager.default.removeItem(atPath: folders.socket)
            try? FileManager.default.removeItem(atPath: folders.base)
        }
        try? FileManager.default.removeItem(atPath: base)
    }

    @discardableResult func start() throws -> DevelopmentCluster {
        let taken = try cluster ?? DevelopmentCluster(directory: directory)
        cluster = taken
        try taken.start()
        return taken
    }

    /// Releases the folder without stopping the server, as a killed hub does.
    func abandon() {
        cluster = nil
    }

    /// Runs SQL as a role, in the hub's database unless another is named.
    @discardableResult func query(
        _ sql: String, as role: String = "postgres", in database: String = DevelopmentCluster.database
    ) throws -> [[String?]] {
        guard let cluster else { return [] }
        return try BlockingConnection(cluster.folders.databaseURL(role: role, database: database)).query(sql)
    }

    func makeDatabase(_ name: String) throws -> String {
        try query("create database \(name)", in: "postgres")
        return cluster?.folders.databaseURL(role: "postgres", database: name) ?? ""
    }
}
