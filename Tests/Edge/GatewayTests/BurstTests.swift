import Bytes
import Glibc
import HubEngine
import Pusher
import Reactor
import TestHub
import TestSupport
import Testing
import WebSocket

@testable import Gateway

/// A burst from one client is handled in turns, with other clients in between, until all of it is done.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct BurstTests {
    private static let ping = #"{"event":"pusher:ping"}"#
    private static let deflate = "Sec-WebSocket-Extensions: permessage-deflate\r\n"

    private func frame(_ payload: [UInt8], isCompressed: Bool = false) -> [UInt8] {
        var writer = ByteWriter()
        payload.withUnsafeBytes { FrameWriter.append(masked: Opcode.text, $0, mask: 0x1234_5678, to: &writer) }
        if isCompressed { writer.withUnsafeMutableBytes { $0[0] |= FrameWriter.compressedBit } }
        return writer.array
    }

    private func pings(_ count: Int) -> [UInt8] {
        [[UInt8]](repeating: frame(Array(Self.ping.utf8)), count: count).flatMap { $0 }
    }

    /// A ping padded with blanks to 64 KiB, compressed to some dozens of bytes.
    private var bomb: [UInt8] {
        let plain = [UInt8](repeating: 0x20, count: 65_536 - Self.ping.utf8.count) + Array(Self.ping.utf8)
        let bytes = plain.withUnsafeBytes { FrameWriter.frame(Opcode.text, $0) }
        let compressed = FrameDeflater(threshold: 0, level: 9).compress(bytes, .wide).frames?.array ?? []
        return frame(Array(compressed[(compressed[1] < 126 ? 2 : 4)...]), isCompressed: true)
    }

    private func plainBytes(_ hub: DrivenHub) -> Int {
        let name = "carillon_decompression_plain_bytes_total "
        guard let start = hub.metrics.text.firstRange(of: "\n" + name)?.upperBound else { return 0 }
        return Int(hub.metrics.text[start...].prefix { $0.isNumber }) ?? 0
    }

    private func pongs(_ peer: DrivenPeer) throws -> Int { try peer.texts().count { $0.contains("pusher:pong") } }

    /// Turns until all are answered. Returns the most that one turn handled of what is measured, and whether another client
    /// was answered before the end.
    private func watch(
        _ hub: DrivenHub, _ peer: DrivenPeer, _ count: Int, measure: () -> Int
    ) throws -> (most: Int, isFair: Bool) {
        let other = try hub.open()
        other.send(Self.ping)
        var (most, isFair, before) = (0, false, measure())
        try hub.turn {
            let now = measure()
            (most, before) = (max(most, now - before), now)
            let isDone = try pongs(peer) == count
            if try pongs(other) == 1, !isDone { isFair = true }
            return isDone
        }
        return (most, isFair)
    }

    @Test func aCompressedBurstTakesTurns() async throws {
        let hub = try await DrivenHub { $0.limits.messagesPerSecond = 0 }
        let peer = try hub.open(fields: Self.deflate)
        peer.write([[UInt8]](repeating: bomb, count: 40).flatMap { $0 })
        let (most, isFair) = try watch(hub, peer, 40) { plainBytes(hub) }
        #expect(most <= 65_536, "one message, which is all that a turn has room for")
        #expect(isFair)
        #expect(plainBytes(hub) == 40 * 65_536)
        #expect(hub.metrics.held.unfinishedBytes.level == 0)
    }

    /// Short messages, compressed and plain, whose tables cost as much as 64 KiB: eight fit into a turn.
    @Test func aBurstOfTablesTakesTurns() async throws {
        let hub = try await DrivenHub { $0.limits.messagesPerSecond = 0 }
        let peer = try hub.open(fields: Self.deflate)
        var blocks = DeflateBlocks()
        blocks.stored(Array(Self.ping.utf8))
        for _ in 0..<16 { blocks.dynamic() }
        peer.write([[UInt8]](repeating: frame(blocks.message, isCompressed: true), count: 200).flatMap { $0 })
        let (most, isFair) = try watch(hub, peer, 200) { Int(hub.metrics.messages.count) }
        #expect(most <= 9, "8 KiB each, and the other's")
        #expect(isFair)
    }

    @Test func aBurstOfMessagesTakesTurns() async throws {
        let hub = try await DrivenHub()
        let peer = try hub.open()
        peer.write(pings(1_000))
        let (most, isFair) = try watch(hub, peer, 1_000) { Int(hub.metrics.messages.count) }
        #expect(most <= 65_536 / WebSocketMachine.messageCost + 1)
        #expect(isFair)
        #expect(try #require(try hub.connection(of: peer)).interest == .readable)
        #expect(hub.metrics.held.unfinishedBytes.level == 0)
    }

    /// Messages that fit into one turn need no second one.
    @Test(arguments: [(62, Turn.none), (63, .none), (64, .coming)])
    func aTurnHasRoomForSoMany(_ count: Int, _ turn: Turn) async throws {
        let hub = try await DrivenHub()
        let peer = try hub.open()
        let connection = try #require(try hub.connection(of: peer))
        peer.write(pings(count))
        try hub.turn { hub.metrics.messages.count > 0 }
        #expect(connection.turn == turn)
    }

    /// Messages of a closing connection are ignored, but finding the peer's close among them costs the same.
    @Test func theClosingTakesTurnsToo() async throws {
        let hub = try await DrivenHub { $0.limits.messagesPerSecond = 0 }
        let peer = try hub.open(fields: Self.deflate)
        let connection = try #require(try hub.connection(of: peer))
        connection.close(.reconnect)
        peer.write([[UInt8]](repeating: bomb, count: 20).flatMap { $0 })
        try hub.turn { plainBytes(hub) > 0 }
        #expect(plainBytes(hub) == 65_536)
        #expect(connection.turn == .coming)
        peer.write([0x88, 0x82, 0, 0, 0, 0, 0x10, 0x68])
        try hub.turn { connection.phase != .closing }
        #expect(plainBytes(hub) == 20 * 65_536, "the peer's close is behind them")
    }

    // MARK: Worst interleavings

    enum End: CaseIterable {
        case reset, close, endOfSending, resetMetBySending, closeMetBySending
    }

    /// Everything that a peer sent before its end counts, even if the end comes before its turn.
    @Test(arguments: End.allCases) func whatWasSaidBeforeTheEndCounts(_ end: End) async throws {
        var features = AppFeatures()
        features.clientEvents = true
        var limits = AppLimits()
        limits.clientEventsPerSecond = 10_000
        let hub = try await DrivenHub(features: features, limits: limits)
        let (peer, other) = (try hub.subscribed(to: "private-a"), try hub.subscribed(to: "private-a"))
        let connection = try #require(try hub.connection(of: peer))
        // More than one read takes, and the beginning of a frame that never ends.
        let count = 1_500
        peer.write(
            (0..<count).flatMap {
                frame(Array(#"{"event":"client-e","channel":"private-a","data":\#($0)}"#.utf8))
            } + [0x81])
        try hub.turn { connection.turn == .coming }
        switch end {
        case .reset, .resetMetBySending: peer.go(byReset: true)
        case .close, .closeMetBySending: peer.go(byReset: false)
        case .endOfSending: peer.endSending()
        }
        if end == .resetMetBySending || end == .closeMetBySending {
            // The first is answered by a reset, unless that has already arrived.
            for _ in 0..<2 {
                connection.queue(FrameWriter.frames(of: .pong()))
                connection.tickEnded()
            }
            #expect(connection.turn == .last)
        }
        try hub.turnUntilMarked(left: 1)
        let heard = { try other.texts().filter { $0.contains("client-e") } }
        try hub.turn { try heard().count == count }
        #expect(try heard().map { Int($0.filter(\.isNumber)) } == Array(0..<count), "in order")
        try hub.turn { hub.facts("private-a").subscriptionCount == 1 }
        #expect(hub.metrics.held.unfinishedBytes.level == 0)
    }

    enum Other: CaseIterable {
        case closed, cutOff, dropped, hubEnds, appRemoved, holdsTooMuch
    }

    /// The waiting input is dropped, and the posted turn finds no connection.
    @Test(arguments: Other.allCases) func anotherEndMeetsItBeforeItsTurn(_ other: Other) async throws {
        let hub = try await DrivenHub { $0.timeouts.close = .milliseconds(50) }
        let peer = try hub.open()
        let connection = try #require(try hub.connection(of: peer))
        peer.write(pings(1_000))
        try hub.turn { connection.turn == .coming }
        let before = hub.metrics.messages.count
        switch other {
        case .closed: connection.close(.reconnect)
        case .cutOff: connection.cutOff(.terminated)
        case .dropped: connection.drop()
        case .hubEnds: hub.context.mailboxes[0].post(.shutdown(hasSuccessor: false))
        case .appRemoved:
            hub.clients[0].serve(try hub.context.firstApps.replaced(by: []))
        case .holdsTooMuch: connection.dropUnfinished()
        }
        try hub.turn { connection.phase == .gone }
        hub.turn()
        // The shutdown is queued after the turn.
        #expect(hub.metrics.messages.count - before <= (other == .hubEnds ? 235 : 0))
        #expect(hub.metrics.held.unfinishedBytes.level == 0)
        #expect(hub.metrics.connections.level == 0)
    }

    /// The pong may be in the waiting input, here or in the kernel.
    @Test func waitingInputIsNoSilence() async throws {
        let hub = try await DrivenHub()
        let peer = try hub.open()
        let connection = try #require(try hub.connection(of: peer))
        peer.write(pings(1_000))
        try hub.turn { connection.turn == .coming }
        #expect(hub.metrics.held.unfinishedBytes.level > 0, "what waits is held")
        #expect(connection.messageSince == ClientConnection.never, "nor is it an unfinished message")
        connection.awaitsPong = true
        connection.deadlineReached()
        #expect(connection.phase == .open && !connection.awaitsPong)
        try hub.turn { try pongs(peer) == 1_000 }
        #expect(peer.closeCode == nil)
    }

    /// If the timeout of an unfinished message passes meanwhile, it is judged at its turn, and the loop goes on.
    @Test func theTimeOfAMessageMayPassMeanwhile() async throws {
        let hub = try await DrivenHub {
            $0.timeouts.message = .milliseconds(1)
            $0.limits.controlFramesPerSecond = 0
        }
        let peer = try hub.open()
        let connection = try #require(try hub.connection(of: peer))
        peer.write([0x01, 0x81, 0, 0, 0, 0, 0x7b])
        try hub.turn { connection.messageSince != ClientConnection.never }
        let since = connection.messageSince
        peer.write([[UInt8]](repeating: [0x89, 0x80, 0, 0, 0, 0], count: 1_000).flatMap { $0 })
        try hub.turn { connection.turn == .coming || connection.phase != .open }
        if connection.phase == .open {
            connection.messageSince = since
            connection.deadlineReached()
            #expect(connection.phase == .open)
        }
        try hub.turn {
            _ = try peer.texts()
            return peer.closeCode == 1008
        }
    }

    /// Of many connections with waiting input, a bounded number gets another turn per tick, and all finish.
    @Test func soManyHaveATurnInATick() async throws {
        let hub = try await DrivenHub { $0.limits.turnsPerTickMax = 2 }
        let peers = try (0..<6).map { _ in try hub.open() }
        for connection in hub.connections { hub.loops[0].setInterest(connection, []) }
        for peer in peers { peer.write(pings(1_000)) }
        for connection in hub.connections { hub.loops[0].setInterest(connection, .readable) }
        try hub.turn { hub.connections.allSatisfy { $0.turn == .coming } }
        var (most, before) = (0, Int(hub.metrics.messages.count))
        try hub.turn {
            let now = Int(hub.metrics.messages.count)
            // The last one's bytes may still be in the kernel, so more may be read.
            if hub.connections.allSatisfy({ $0.turn == .coming }) { most = max(most, now - before) }
            before = now
            return try peers.allSatisfy { try pongs($0) == 1_000 }
        }
        #expect(most > 0 && most <= 2 * (65_536 / WebSocketMachine.messageCost + 1))
    }

    /// However many connections a user comes on, one tick handles no more for all of them than for one. Another user's, who
    /// sends behind them all, waits for one tick and not for all that they sent.
    @Test func theConnectionsOfAUserShareATurn() async throws {
        let hub = try await DrivenHub { $0.limits.messagesPerSecond = 0 }
        func peer(of user: String) throws -> DrivenPeer {
            let peer = try hub.open()
            try hub.turn { try peer.socketID() != nil }
            let id = try #require(try peer.socketID())
            let auth = hub.credentials.sign(.user(userData: #"{"id":"\#(user)"}"#), socketID: id)
            peer.send(#"{"event":"pusher:signin","data":{"auth":"\#(auth)","user_data":"{\"id\":\"\#(user)\"}"}}"#)
            try hub.turn { try peer.texts().contains { $0.contains("signin_success") } }
            return peer
        }
        let crowd = try (0..<40).map { _ in try peer(of: "many") }
        let other = try peer(of: "other")
        // A ping of 10 KB costs 11 KB: two have room in a quarter of a turn.
        let ping = Self.ping.dropLast() + String(repeating: " ", count: 10_240 - Self.ping.utf8.count) + "}"
        for connection in hub.connections { hub.loops[0].setInterest(connection, []) }
        for peer in crowd { peer.write(frame(Array(ping.utf8))) }
        other.write(frame(Array(ping.utf8)))
        for connection in hub.connections { hub.loops[0].setInterest(connection, .readable) }
        var (most, before, others) = (0, Int(hub.metrics.messages.count), 0)
        try hub.turn {
            let now = Int(hub.metrics.messages.count)
            (most, before) = (max(most, now - before), now)
            let answered = try crowd.reduce(0) { try $0 + pongs($1) }
            if others == 0, try pongs(other) == 1 { others = answered + 1 }
            return answered == crowd.count
        }
        #expect(most <= 3, "two of the user's and the other's")
        #expect(1...10 ~= others, "the other's came before most of them: \(others)")
        #expect(hub.metrics.held.unfinishedBytes.level == 0)
    }

    // MARK: After a stall

    /// Input that arrived in time is handled before its sender is judged, even if the loop handles few events per turn.
    @Test func inputIsReadBeforeADeadlineIsJudged() async throws {
        let hub = try await DrivenHub(eventsPerWait: 2)
        let peers = try (0..<9).map { _ in try hub.open() }
        try hub.turn { !hub.loops[0].isCrowded }
        for (peer, connection) in zip(peers, hub.connections) {
            connection.awaitsPong = true
            peer.send(Self.ping)
            hub.loops[0].setDeadline(connection, hub.loops[0].now)
        }
        try hub.turn { try peers.allSatisfy { try pongs($0) == 1 || $0.closeCode != nil } }
        #expect(peers.allSatisfy { $0.closeCode == nil })
    }

    private final class Restless: EventSource {}

    /// But only as long as it takes to handle everybody once.
    @Test func theSilentAreJudgedInACrowd() async throws {
        let hub = try await DrivenHub(eventsPerWait: 1)
        let peer = try hub.open()
        let connection = try #require(try hub.connection(of: peer))
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        let restless = Restless()
        try hub.loops[0].add(restless, descriptor: ends[1], interest: .writable)
        connection.awaitsPong = true
        hub.loops[0].setDeadline(connection, hub.loops[0].now)
        try hub.turn {
            _ = try peer.texts()
            return peer.closeCode == 4201
        }
        #expect(hub.loops[0].isCrowded)
        hub.loops[0].remove(restless)
    }
}
