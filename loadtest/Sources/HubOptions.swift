import ArgumentParser
import Foundation
import Pusher

/// The hub, its database, and the output file.
struct HubOptions: ParsableArguments {
    @Option(help: "Folder of `carillon dev`: address and database are read there.")
    var dir: String?

    @Option(help: "Address of the hub, as 127.0.0.1:PORT, or wss://127.0.0.1:PORT for TLS.")
    var hub: String?

    @Flag(help: "With --dir: by TLS, where that hub has an address for it.")
    var secure = false

    @Option(help: "PEM file of the roots by which the hub's certificate, for localhost, is judged; else it is not.")
    var caFile: String?

    @Flag(help: "Resume one TLS session, that of the first connection, in all others.")
    var resume = false

    @Option(help: "Newest version of TLS offered: 1.2 or 1.3.")
    var tlsVersion = "1.3"

    @Option(help: "Connection string of the database's owner.")
    var database: String?

    @Option(help: "Id of the application.")
    var appID = "1"

    @Option(help: "Key of the application.")
    var appKey = "carillon-key"

    @Option(help: "Secret of the application.")
    var appSecret = "carillon-secret"

    @Option(help: "Address of the hub's metrics, as 127.0.0.1:PORT; with --dir it is known.")
    var operations: String?

    @Option(help: "Process id of the hub, for its CPU time and memory.")
    var pid: Int32?

    @Option(help: "Write the figures to this file, as JSON.")
    var json: String?

    @Option(help: "A shell command to run when all devices have subscribed, before anything else.")
    var onceOpen: String?

    @Option(help: "A shell command to run at the end, while all devices are still there.")
    var onceDone: String?

    /// Runs the user's command, if any, and waits for it.
    func run(_ command: String?) throws {
        guard let command else { return }
        let shell = Process()
        shell.executableURL = URL(fileURLWithPath: "/bin/sh")
        shell.arguments = ["-c", command]
        try shell.run()
        shell.waitUntilExit()
        guard shell.terminationStatus == 0 else { throw LoadFailure("\(command): status \(shell.terminationStatus)") }
    }

    var credentials: AppCredentials { AppCredentials(key: appKey, secret: appSecret) }

    func address() throws -> LoadAddress { try address(of: url()) }

    /// With TLS, whatever `secure` says. Only with `dir`.
    func secureAddress() throws -> LoadAddress {
        guard let dir, let url = try record(dir).secureURL else {
            throw LoadFailure("that hub has no address with TLS")
        }
        return try address(of: url)
    }

    /// Where the hub tells its metrics.
    func operationsAddress() throws -> LoadAddress {
        if let operations { return try LoadAddress(operations) }
        guard let dir, let url = try record(dir).operationsURL else {
            throw LoadFailure("where are the hub's metrics? give --operations, or --dir of a hub that tells them")
        }
        return try LoadAddress(url)
    }

    private func address(of url: String) throws -> LoadAddress {
        var address = try LoadAddress(url)
        address.security?.rootsFile = caFile
        address.security?.resumes = resume
        switch tlsVersion {
        case "1.2": address.security?.newest = .tls12
        case "1.3": address.security?.newest = .tls13
        default: throw LoadFailure("--tls-version: 1.2 or 1.3")
        }
        return address
    }

    private func url() throws -> String {
        if let hub { return hub }
        guard let dir else { throw LoadFailure("which hub? give --dir or --hub") }
        let record = try record(dir)
        guard secure else { return record.url }
        guard let url = record.secureURL else { throw LoadFailure("\(dir): that hub has no address with TLS") }
        return url
    }

    private func record(_ dir: String) throws -> HubRecord {
        let file = "\(dir)/hub.json"
        guard let data = FileManager.default.contents(atPath: file),
            let record = try? JSONDecoder().decode(HubRecord.self, from: data)
        else { throw LoadFailure("\(file): cannot be read; is `carillon dev --dir \(dir)` running?") }
        return record
    }

    /// The database that the hub publishes.
    func databaseURL() throws -> String { try Self.databaseURL(database, dir) }

    /// That of `database`, or of the folder of `carillon dev`.
    static func databaseURL(_ database: String?, _ dir: String?) throws -> String {
        if let database { return database }
        guard let dir else { throw LoadFailure("which database? give --dir or --database") }
        guard let text = try? String(contentsOfFile: "\(dir)/database-url", encoding: .utf8) else {
            throw LoadFailure("\(dir)/database-url: cannot be read")
        }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// The hub's process, if it was named and exists.
    func process() throws -> ProcessMeter? {
        guard let pid else { return nil }
        return try ProcessMeter(pid: pid)
    }
}

/// The part of the record of `carillon dev` that is needed here.
private struct HubRecord: Decodable {
    let url: String
    let secureURL: String?
    let operationsURL: String?
}
