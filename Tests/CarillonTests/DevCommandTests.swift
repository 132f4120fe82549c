import Foundation
import Glibc
import TestSupport
import Testing

@testable import carillon

@Suite(.ownThread, .serialized, .timeLimit(.minutes(15)))
struct DevCommandTests {
    @Test func endsSoonAfterSIGINTAndStartsAgain() throws {
        try withFolder { folder in
            let first = try RunningCommand(["dev", "--dir", folder, "--listen", "127.0.0.1:0"])
            let ready = try #require(first.line(beginningWith: "ready"))
            #expect(ready.contains("ws://127.0.0.1:"))
            #expect(FileManager.default.fileExists(atPath: folder + "/database-url"))
            let asked = ContinuousClock.now
            #expect(first.stop(SIGINT) == 0)
            #expect(ContinuousClock.now - asked < .seconds(20))
            #expect(!FileManager.default.fileExists(atPath: folder + "/postgres/data/postmaster.pid"))

            let second = try RunningCommand(["dev", "--dir", folder, "--listen", "127.0.0.1:0"])
            #expect(second.line(beginningWith: "ready") != nil)
            #expect(second.stop(SIGTERM) == 0)
        }
    }

    @Test func nothingIsLostWithAKilledHub() throws {
        try withFolder { folder in
            let first = try RunningCommand(["dev", "--dir", folder, "--listen", "127.0.0.1:0"])
            #expect(first.line(beginningWith: "ready") != nil)
            #expect(first.stop(SIGKILL) != 0)
            let second = try RunningCommand(["dev", "--dir", folder, "--listen", "127.0.0.1:0"])
            #expect(second.line(beginningWith: "ready") != nil)
            #expect(second.stop(SIGINT) == 0)
        }
    }

    @Test func twoRunSideBySideButNotInOneFolderOrOnOnePort() throws {
        try withFolder { folder in
            let first = try RunningCommand(["dev", "--dir", folder + "/a", "--listen", "127.0.0.1:0"])
            let ready = try #require(first.line(beginningWith: "ready"))
            let port = try #require(ready.firstMatch(of: /127\.0\.0\.1:(\d+)/)?.1)
            let pages = try #require(first.line(containing: "/livez"))
            let operations = try #require(pages.firstMatch(of: /127\.0\.0\.1:(\d+)/)?.1)
            let second = try RunningCommand(["dev", "--dir", folder + "/b", "--listen", "127.0.0.1:0"])
            #expect(second.line(beginningWith: "ready") != nil)

            let sameFolder = try RunningCommand(["dev", "--dir", folder + "/a", "--listen", "127.0.0.1:0"])
            #expect(sameFolder.end() == 1)
            #expect(sameFolder.complaint.contains("is in use by another `carillon dev`"))
            let samePort = try RunningCommand(["dev", "--dir", folder + "/c", "--listen", "127.0.0.1:\(port)"])
            #expect(samePort.end() == 1)
            let complaint = "carillon: cannot listen on 127.0.0.1:\(port): another program has this port"
            #expect(samePort.complaint.hasPrefix(complaint))
            #expect(samePort.complaint.split(separator: "\n").count == 1)
            // Refused before any work was done.
            #expect(!FileManager.default.fileExists(atPath: folder + "/c"))
            let samePages = try RunningCommand([
                "serve", "--listen", "127.0.0.1:0", "--apps", #"[{"id":"1","key":"k","secret":"s"}]"#,
                "--operations-listen", "127.0.0.1:\(operations)",
            ])
            #expect(samePages.end() == 1)
            #expect(
                samePages.complaint.contains(
                    "carillon: operations.listen: cannot listen on 127.0.0.1:\(operations): another program"))
            #expect(samePages.complaint.contains("choose another with --operations-listen"))

            #expect(first.stop(SIGINT) == 0)
            #expect(second.stop(SIGINT) == 0)
        }
    }

    @Test(arguments: ["unix:/tmp/hub.sock", "tls:127.0.0.1:0", "unix:/tmp/hub.sock,tls:127.0.0.1:0"])
    func needsAPlaceInTheClear(_ listen: String) throws {
        func settings(_ listen: String) throws -> Settings {
            let files = listen.contains("tls:") ? ["--tls-certificate-files", "/a", "--tls-key-files", "/b"] : []
            let sources = SettingsSources(arguments: ["--listen", listen] + files)
            return try Settings(EffectiveSettings(sources, profile: .development))
        }
        let alone = try settings(listen)
        let failure = #expect(throws: Failure.self) { try DevCommand.checkReachable(alone) }
        #expect(failure?.status == .configuration)
        #expect(failure?.description.contains("--listen \(listen),127.0.0.1:6001 ") == true)
        try DevCommand.checkReachable(settings(listen + ",127.0.0.1:6001"))
    }

    @Test func aBadConfigurationEndsWithItsOwnStatus() throws {
        let serve = try RunningCommand(["serve"])
        #expect(serve.end() == 78)
        #expect(serve.complaint.contains("CARILLON_APPS"))
        let version = try RunningCommand(["version"])
        #expect(version.line(beginningWith: "carillon ") == "carillon \(Carillon.version)")
        #expect(version.end() == 0)
    }

    @Test func serveWarnsOfANewerDatabaseAndOfASuperuser() throws {
        let server = try PrivateCluster()
        let cluster = try server.start()
        let files = try SQLFileSet.embedded()
        try Migrator(url: cluster.superuserURL, files: files).migrate { _ in }
        try server.query("insert into sync.migration (version, name, checksum) values (9999, '9999_far', 'x')")
        let apps = #"[{"id":"1","key":"k","secret":"s"}]"#
        let serve = try RunningCommand(
            [
                "serve", "--listen", "127.0.0.1:0", "--operations-listen", "off", "--apps", apps,
                "--database-url", cluster.superuserURL, "--log-format", "json",
            ], isMixed: true)
        let newer = try #require(serve.line(containing: "migrated by a newer program"))
        #expect(newer.contains(#""schema":"9999""#))
        #expect(newer.contains("\"known\":\"\(files.migrations.last?.version ?? 0)\""))
        #expect(serve.line(containing: "use carillon_hub")?.contains("warning") == true)
        #expect(serve.stop(SIGTERM) == 0)
    }

    @Test func statusAndDryRunExcludeEachOther() throws {
        let migrate = try RunningCommand(["migrate", "--status", "--dry-run"])
        // EX_USAGE, as for all invalid arguments.
        #expect(migrate.end() == 64)
        #expect(migrate.complaint.contains("exclude one another"))
    }

    /// A folder that the user `postgres` can pass through.
    private func withFolder(_ body: (String) throws -> Void) throws {
        let path = FileManager.default.temporaryDirectory.path + "/carillon-dev-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o755])
        defer { try? FileManager.default.removeItem(atPath: path) }
        try body(path)
    }
}
