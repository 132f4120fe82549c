import Foundation
import Glibc
import TestSupport
import Testing

@testable import Reactor

@Suite(.ownThread, .timeLimit(.minutes(15))) struct ListeningSocketTests {
    private func withFolder(_ body: (String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.path + "/carillon-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try body(folder)
    }

    private func isOpen(_ path: String) -> Bool {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let probe = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(probe) }
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(probe, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        } == 0
    }

    private func mode(_ path: String) -> UInt32? {
        var status = stat()
        return lstat(path, &status) == 0 ? status.st_mode & 0o7777 : nil
    }

    @Test func aUnixSocketHasItsModeAndGoesWithItsOwner() throws {
        try withFolder { folder in
            let path = folder + "/hub.sock"
            for mode in [0o600, 0o666, 0o777] as [UInt32] {
                let socket = try ListeningSocket(.unix(path: path, mode: mode))
                #expect(self.mode(path) == mode)
                #expect(isOpen(path))
                guard case .connection(let descriptor, let peer) = socket.accept() else {
                    Issue.record("nobody came")
                    return
                }
                close(descriptor)
                #expect(peer == .unix)
                #expect(peer.isOfThisMachine)
                #expect(socket.port == 0)
            }
            #expect(mode(path) == nil, "removed")
        }
    }

    @Test func whatADeadHubLeftIsReplacedAndALiveOneStays() throws {
        try withFolder { folder in
            let path = folder + "/hub.sock"
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
            let dead = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    #expect(bind(dead, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0)
                }
            }
            close(dead)
            #expect(mode(path) != nil)
            let live = try ListeningSocket(.unix(path: path, mode: 0o600))
            let error = #expect(throws: ListenError.self) { try ListeningSocket(.unix(path: path, mode: 0o600)) }
            #expect(error?.description.contains("another program listens there") == true)
            #expect(error?.asksForAnother == true)
            #expect(isOpen(path))
            withExtendedLifetime(live) {}
        }
    }

    /// The old listener must not remove the new one's file.
    @Test func aFileOfSomebodyElsesStays() throws {
        try withFolder { folder in
            let path = folder + "/hub.sock"
            var old: ListeningSocket? = try ListeningSocket(.unix(path: path, mode: 0o600))
            unlink(path)
            let new = try ListeningSocket(.unix(path: path, mode: 0o600))
            withExtendedLifetime(old) {}
            old = nil
            #expect(isOpen(path))
            withExtendedLifetime(new) {}
        }
    }

    @Test func whatIsNoSocketIsNeverRemoved() throws {
        try withFolder { folder in
            let path = folder + "/hub.sock"
            try "precious".write(toFile: path, atomically: true, encoding: .utf8)
            let error = #expect(throws: ListenError.self) { try ListeningSocket(.unix(path: path, mode: 0o600)) }
            #expect(error?.description.contains("no socket") == true)
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "precious")
            let nowhere = #expect(throws: ListenError.self) {
                try ListeningSocket(.unix(path: folder + "/none/hub.sock", mode: 0o600))
            }
            #expect(nowhere?.description.hasSuffix("its folder does not exist; make it") == true)
            let long = folder + "/" + String(repeating: "x", count: 107)
            let tooLong = #expect(throws: ListenError.self) { try ListeningSocket(.unix(path: long, mode: 0o600)) }
            #expect(tooLong?.description.contains("longer than 107 bytes") == true)
        }
    }

    /// Two hubs start at once: the later one finds the folder's lock held.
    @Test func aHeldLockOfTheFolderKeepsOthersOut() throws {
        try withFolder { folder in
            let lock = open(folder, O_RDONLY | O_DIRECTORY)
            #expect(flock(lock, LOCK_EX | LOCK_NB) == 0)
            let endpoint = ListenEndpoint.unix(path: folder + "/hub.sock", mode: 0o600)
            let error = #expect(throws: ListenError.self) {
                try SocketFile.lockFolder(of: folder + "/hub.sock", endpoint, patience: .milliseconds(20))
            }
            #expect(error?.description.contains("holds the lock") == true)
            Thread.detachNewThread { close(lock) }
            _ = try ListeningSocket(endpoint)
        }
    }

    @Test(.enabled(if: Loopback.hasIPv6, "this machine has no IPv6")) func bothFamiliesTogetherAndApart() throws {
        let both = try ListeningSocket(.tcp(host: "::", port: 0))
        #expect(option(both.descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY) == 0)
        #expect(throws: ListenError.self, "it has IPv4 too") {
            try ListeningSocket(.tcp(host: "0.0.0.0", port: both.port))
        }
        let four = try ListeningSocket(.tcp(host: "0.0.0.0", port: 0))
        let six = try ListeningSocket(.tcp(host: "::", port: four.port, isIPv6Only: true))
        #expect(option(six.descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY) == 1)
        #expect(six.endpoint.description == "[::]:\(four.port)")
    }

    /// Set once on the listener, it applies to each of its connections.
    @Test func connectionsHaveTheirListenersOptions() throws {
        let socket = try ListeningSocket(.tcp(host: "127.0.0.1", port: 0), unacked: .milliseconds(1_234))
        let client = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(client) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = socket.port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                #expect(connect(client, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0)
            }
        }
        guard case .connection(let accepted, let peer) = socket.accept() else {
            Issue.record("nobody came")
            return
        }
        defer { close(accepted) }
        #expect(peer == PeerAddress("127.0.0.1"))
        #expect(option(accepted, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT) == 1_234)
        #expect(option(accepted, Int32(IPPROTO_TCP), TCP_NODELAY) != 0)
        #expect(fcntl(accepted, F_GETFL) & O_NONBLOCK != 0)
        #expect(Socket.takeError(accepted) == 0)
    }

    private func option(_ descriptor: Int32, _ level: Int32, _ option: Int32) -> Int32? {
        var value: Int32 = -1
        var length = socklen_t(4)
        return getsockopt(descriptor, level, option, &value, &length) == 0 ? value : nil
    }

    /// Errors of accept(2) that a kernel does not give on request.
    @Test func failuresOfOneConnectionAreNotTheSockets() {
        #expect(ListeningSocket.outcome(of: EAGAIN) == ListeningSocket.Accepted.none)
        for code in [ECONNABORTED, EINTR, EPROTO, EPERM] { #expect(ListeningSocket.outcome(of: code) == nil) }
        for code in [EMFILE, ENFILE, ENOBUFS, ENOMEM, EINVAL] {
            #expect(ListeningSocket.outcome(of: code) == .exhausted(code))
        }
    }
}
