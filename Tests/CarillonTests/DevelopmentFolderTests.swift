import Foundation
import Glibc
import JWTKit
import Reactor
import TestSupport
import Testing

@testable import carillon

@Suite(.ownThread, .timeLimit(.minutes(15)))
struct DevelopmentFolderTests {
    @Test func keepsItsSecretToItself() throws {
        try withFolder { folder in
            let secret = try folder.secret()
            #expect(secret.utf8.count == 64)
            #expect(try folder.secret() == secret)
            try folder.writeDatabaseURL("postgresql://u@h/d")
            try folder.writeHub(hub(secret))
            #expect(try folder.hub() == hub(secret))
            for name in ["jwt-secret", "hub.json", "database-url"] {
                var status = stat()
                #expect(stat("\(folder.path)/\(name)", &status) == 0)
                #expect(status.st_mode & 0o777 == 0o600)
            }
        }
    }

    /// Planted by somebody who may write to the folder, or who knows where a link leads: tokens of all users could be made.
    @Test(arguments: ["readable", "writable", "link", "linked", "folder", "pipe", "foreign"])
    func trustsNoSecretThatOthersMayKnow(_ kind: String) throws {
        try withFolder { folder in
            let (file, other) = (folder.path + "/jwt-secret", folder.path + "/other")
            let secret = String(repeating: "s", count: 64)
            try Descriptor.replace(kind.hasPrefix("link") ? other : file, with: secret)
            switch kind {
            case "readable": #expect(chmod(file, 0o640) == 0)
            case "writable": #expect(chmod(file, 0o602) == 0)
            case "link": #expect(symlink(other, file) == 0)
            case "linked": #expect(link(other, file) == 0)
            case "folder": #expect(unlink(file) == 0 && mkdir(file, 0o700) == 0)
            case "pipe": #expect(unlink(file) == 0 && mkfifo(file, 0o600) == 0)
            default:
                guard geteuid() == 0 else { return }
                #expect(chown(file, 65_534, 65_534) == 0)
            }
            let failure = #expect(throws: Failure.self, "\(kind)") { try folder.secret() }
            #expect(failure?.description.hasPrefix("\(file) cannot be trusted: ") == true)
            #expect(failure?.description.contains(secret) == false)
        }
    }

    /// Where it leads to a cluster of somebody else's, the doses would be theirs.
    @Test func trustsNoRecordOfAClusterThatOthersMayWrite() throws {
        try withFolder { folder in
            let record = folder.path + "/postgres.path"
            try Descriptor.replace(record, with: folder.path + "/elsewhere\n")
            #expect(chmod(record, 0o602) == 0)
            let user = try ClusterUser.current()
            let failure = #expect(throws: Failure.self) {
                try ClusterFolders.prepare(directory: folder.path, user: user)
            }
            #expect(failure?.description.hasPrefix("\(record) cannot be trusted: ") == true)
        }
    }

    @Test func saysHowToMakeWhatIsNotThere() throws {
        let failure = #expect(throws: Failure.self) { try DevelopmentFolder.find("/nowhere/at/all") }
        #expect(failure?.description.contains("carillon dev --dir /nowhere/at/all") == true)
        try withFolder { folder in
            let failure = #expect(throws: Failure.self) { try folder.hub() }
            #expect(failure?.description.contains("was `carillon dev") == true)
        }
    }

    @Test func isLockedByOneAtATime() throws {
        try withFolder { folder in
            let first = try FolderLock(file: folder.lockFile)
            let failure = #expect(throws: Failure.self) { try FolderLock(file: folder.lockFile) }
            #expect(failure?.description.contains("process \(getpid())") == true)
            withExtendedLifetime(first) {}
        }
        try withFolder { folder in
            do { _ = try FolderLock(file: folder.lockFile) }
            _ = try FolderLock(file: folder.lockFile)
        }
    }

    @Test(arguments: ["demo", "Zoë.O'Neil@example.org", "a b=c/\u{1F48A}", "日本"])
    func tokensNameAnyUser(_ user: String) async throws {
        var record = hub(String(repeating: "s", count: 64))
        record.jwtIssuer = "https://issuer.example.org"
        record.jwtAudience = "carillon"
        let now = Date()
        let token = try DevelopmentToken(hub: record, user: user, lifetime: .seconds(60), now: now)
        let keys = JWTKeyCollection()
        await keys.add(hmac: HMACKey(from: record.jwtSecret), digestAlgorithm: .sha256)
        let read = try await keys.verify(token.signed(secret: record.jwtSecret), as: DevelopmentToken.self)
        #expect(read == token)
        #expect(read.sub.value == user)
        #expect(read.exp.value.timeIntervalSince(read.iat.value) == 60)
        #expect(throws: Failure.self) { try DevelopmentToken(hub: record, user: "", lifetime: .seconds(1), now: now) }
    }

    @Test func aTakenPortIsFoundBeforehand() throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                #expect(bind(descriptor, address, length) == 0)
                #expect(listen(descriptor, 1) == 0)
                #expect(getsockname(descriptor, address, &length) == 0)
            }
        }
        let taken = ListenEndpoint.tcp(host: "127.0.0.1", port: UInt16(bigEndian: address.sin_port))
        let failure = #expect(throws: Failure.self) { try taken.checkFree(for: SettingsTable[\.listen]) }
        #expect(
            failure?.description
                == "cannot listen on \(taken): another program has this port; stop it, or choose another with --listen")
        let pages = #expect(throws: Failure.self) { try taken.checkFree(for: SettingsTable[\.operations]) }
        #expect(pages?.description.hasSuffix("or choose another with --operations-listen") == true)
        try ListenEndpoint.tcp(host: "127.0.0.1", port: 0).checkFree(for: SettingsTable[\.listen])
        #expect(failure?.status == .general)
        let foreign = #expect(throws: Failure.self) {
            try ListenEndpoint.tcp(host: "192.0.2.1", port: 0).checkFree(for: SettingsTable[\.listen])
        }
        #expect(foreign?.status == .configuration)
        #expect(foreign?.description.contains("--listen") == false, "no port would do")
    }

    @Test func latchesStaySet() {
        let latch = Latch()
        #expect(!latch.wait(timeout: .milliseconds(1)))
        Thread.detachNewThread { latch.set() }
        #expect(latch.wait())
        #expect(latch.wait(timeout: .zero))
    }

    @Test func childrenHaveNothingOfOurs() throws {
        #expect(try ChildProcess.run(["sh", "-c", "exit 7"]) == .init(status: 7))
        #expect(try ChildProcess.run(["sh", "-c", "kill -9 $$"]) == .init(status: 137))
        #expect(try ChildProcess.run(["sh", "-c", "test $(pwd) = /"]).isSuccess)
        // 0, 1, 2, and the one that ls itself opens.
        #expect(try ChildProcess.run(["sh", "-c", "test $(ls /proc/self/fd | wc -l) -le 4"]).isSuccess)
        #expect(throws: Failure.self) { try ChildProcess.run(["no-such-program"]) }
    }

    private func hub(_ secret: String) -> HubRecord {
        HubRecord(
            url: "ws://127.0.0.1:6001", appID: "1", appKey: "carillon-key", appSecret: "carillon-secret",
            jwtSecret: secret)
    }

    private func withFolder(_ body: (DevelopmentFolder) throws -> Void) throws {
        let path = FileManager.default.temporaryDirectory.path + "/carillon-folder-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: path) }
        try body(DevelopmentFolder.make(path))
    }
}
