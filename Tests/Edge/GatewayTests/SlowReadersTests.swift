import Bytes
import Glibc
import Reactor
import TestHub
import TestSupport
import Testing

@testable import Gateway

/// Clients that read slowly or not at all, and newcomers when the kernel has no room.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct SlowReadersTests {
    /// The socket of a client that reads a few bytes a second is not writable for minutes; its acknowledgements show the
    /// progress.
    @Test func aSlowReaderIsSeenToRead() async throws {
        let hub = try await DrivenHub()
        let peer = try SecureClient.connect(hub.port, 4_096)
        defer { close(peer) }
        try hub.turn { hub.connections.count == 1 }
        let connection = try #require(hub.connections.first)
        let bytes = [UInt8](repeating: 0x61, count: 8 << 20)
        connection.queue(bytes.withUnsafeBytes { SharedBytes.copy($0) })
        hub.turn()
        #expect(!connection.output.isEmpty)
        let now = hub.loops[0].now
        // The peer's kernel takes what it has room for, and the rest fills the hub's.
        var socket = pollfd(fd: connection.descriptor, events: Int16(POLLOUT), revents: 0)
        try hub.wait { poll(&socket, 1, 0) == 0 }
        let first = PullProgress(connection, at: now)
        #expect(first.untaken > 0)
        var room = [UInt8](repeating: 0, count: 8_192)
        try hub.wait {
            _ = recv(peer, &room, room.count, Int32(MSG_DONTWAIT))
            return PullProgress(connection, at: now).isBeyond(first)
        }
        #expect(connection.output.sentCount == first.sentCount, "nothing new was offered to the kernel")
    }

    /// A connection that the kernel refuses to watch is closed, and accepting pauses, for both ways to a loop.
    @Test(arguments: [0, 1]) func acceptingRestsWhereThereIsNoRoom(_ loop: Int) async throws {
        let hub = try await DrivenHub(loops: 2)
        // epoll_ctl refuses files that cannot be polled.
        let descriptor = Glibc.open("/dev/null", O_RDONLY)
        let address = PeerAddress.unix
        #expect(hub.admission.arrived(from: address, at: hub.loops[0].now) == .welcome(loop: 0))
        if loop == 1 { #expect(hub.admission.arrived(from: address, at: hub.loops[0].now) == .welcome(loop: 1)) }
        hub.context.mailboxes[loop].post(.accepted(descriptor, address, nil, usesTLS: false))
        try hub.turn { hub.clients[0].intake.acceptors[0].interest == [] }
        #expect(hub.metrics.text.contains("accept_pauses_total 1\n"))
        #expect(hub.admission.total == loop, "it is counted out")
        let waiting = try hub.newPeer()
        try hub.turn { try waiting.socketID() != nil }
        #expect(hub.metrics.text.contains("accept_pauses_total 1\n"))
    }
}
