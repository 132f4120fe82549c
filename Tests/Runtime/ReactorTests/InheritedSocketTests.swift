import Foundation
import Glibc
import TestSupport
import Testing

@testable import Reactor

/// Sockets that go from one process to another; here from one object to another.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct InheritedSocketTests {
    private func withFolder(_ body: (String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.path + "/carillon-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try body(folder)
    }

    private func copy(_ socket: ListeningSocket) -> InheritedSocket {
        InheritedSocket(dup(socket.descriptor), name: "listen")
    }

    @Test func oneIsFoundByItsAddress() throws {
        let socket = try ListeningSocket(host: "127.0.0.1", port: 0)
        let given = copy(socket)
        defer { close(given.descriptor) }
        #expect(given.description == "127.0.0.1:\(socket.port) (listen)")
        #expect(given.listens(at: .tcp(host: "127.0.0.1", port: socket.port)))
        #expect(given.listens(at: .tcp(host: "127.0.0.1", port: 0)), "any port")
        #expect(given.listens(at: .tcp(host: "localhost", port: socket.port)))
        #expect(!given.listens(at: .tcp(host: "127.0.0.1", port: socket.port ^ 1)))
        #expect(!given.listens(at: .tcp(host: "0.0.0.0", port: socket.port)))
        #expect(!given.listens(at: .tcp(host: "no such name", port: socket.port)))
        #expect(!given.listens(at: .unix(path: "/127.0.0.1", mode: 0)))
    }

    @Test func otherDescriptorsAreNone() throws {
        var ends: [Int32] = [-1, -1]
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        let datagrams = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        let unbound = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        for descriptor in ends + [datagrams, unbound, -1] {
            let given = InheritedSocket(descriptor, name: "x")
            #expect(!given.listens && !given.listens(at: .tcp(host: "0.0.0.0", port: 0)), "\(given)")
        }
        for descriptor in ends + [datagrams, unbound] { close(descriptor) }
    }

    /// A client that came before waits in the queue of both.
    @Test func oneThatIsAdoptedOutlivesItsFirstOwner() throws {
        var old: ListeningSocket? = try ListeningSocket(host: "127.0.0.1", port: 0)
        let (port, given) = (try #require(old?.port), copy(try #require(old)))
        let waiting = try #require(Loopback.connection(to: port))
        defer { close(waiting) }
        let new = try ListeningSocket(
            adopting: given.descriptor, at: .tcp(host: "127.0.0.1", port: 0), unacked: .milliseconds(1_234))
        #expect(new.port == port && new.isShared)
        #expect(new.backlogInEffect.map { $0 > 0 && $0 <= ListeningSocket.backlog } == true)
        old = nil
        guard case .connection(let first, _) = new.accept() else {
            Issue.record("the queue was lost")
            return
        }
        close(first)
        #expect(new.accept() == .none, "it does not block")
        let late = try #require(Loopback.connection(to: port))
        defer { close(late) }
        guard case .connection(let second, _) = new.accept() else {
            Issue.record("nobody came")
            return
        }
        var time: Int32 = 0
        var length = socklen_t(4)
        getsockopt(second, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &time, &length)
        #expect(time == 1_234)
        close(second)
    }

    @Test func aSharedSocketsFileStays() throws {
        try withFolder { folder in
            let path = folder + "/hub.sock"
            var old: ListeningSocket? = try ListeningSocket(.unix(path: path, mode: 0o600))
            old?.isShared = true
            let given = copy(try #require(old))
            #expect(given.listens(at: .unix(path: path, mode: 0)) && given.description == "unix:\(path) (listen)")
            var new: ListeningSocket? = try ListeningSocket(adopting: given.descriptor, at: .unix(path: path, mode: 0))
            #expect(new?.backlogInEffect == nil)
            old = nil
            #expect(access(path, F_OK) == 0)
            let client = try #require(LocalSocket.connect(path))
            close(client)
            // It is alone.
            new?.isShared = false
            new = nil
            #expect(access(path, F_OK) != 0)
        }
    }

    @Test func descriptorsAndPeersCrossALocalConnection() throws {
        try withFolder { folder in
            let path = folder + "/control.sock"
            #expect(LocalSocket.connect(path) == nil && errno == ENOENT)
            let listener = try ListeningSocket(.unix(path: path, mode: 0o600))
            let client = try #require(LocalSocket.connect(path))
            defer { close(client) }
            guard case .connection(let server, _) = listener.accept() else {
                Issue.record("nobody came")
                return
            }
            #expect(LocalSocket.receive(client, atMost: 64) == .nothing)
            #expect(LocalSocket.peer(client) == LocalSocket.peer(server))
            #expect(LocalSocket.peer(server)?.process == getpid() && LocalSocket.peer(server)?.isTrusted == true)
            let socket = try ListeningSocket(host: "127.0.0.1", port: 0)
            #expect(LocalSocket.send("sockets a b\n", [socket.descriptor, server], to: server))
            guard case .bytes(let bytes, let descriptors, let sender) = LocalSocket.receive(client, atMost: 64) else {
                Issue.record("nothing came")
                return
            }
            #expect(bytes == Array("sockets a b\n".utf8) && descriptors.count == 2 && sender == nil)
            LocalSocket.tellsSenders(client)
            #expect(LocalSocket.send("x\n", [socket.descriptor], to: server))
            guard case .bytes(_, let more, let named) = LocalSocket.receive(client, atMost: 64) else {
                Issue.record("nothing came")
                return
            }
            #expect(more.count == 1 && named == getpid())
            for descriptor in more { close(descriptor) }
            #expect(InheritedSocket(descriptors[0], name: "a").listens(at: socket.endpoint))
            for descriptor in descriptors {
                #expect(fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0)
                close(descriptor)
            }
            close(server)
            #expect(LocalSocket.receive(client, atMost: 64) == .end)
            #expect(!LocalSocket.send("x\n", to: client))
        }
    }
}
