import Bytes
import Feed
import HubEngine
import Metrics
import Pusher
import Sync
import TestHub
import TestSupport
import Testing
import WebSocket

@testable import Gateway

/// permessage-deflate (RFC 7692) on real sockets: negotiation, input and output.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct CompressionTests {
    private static let chrome = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
    private static let narrow = "Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=9\r\n"
    private static let agreed =
        "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover"
    private static let pong = TestClient.Received.text(#"{"event":"pusher:pong","data":"{}"}"#)
    private static let ping = Array(#"{"event":"pusher:ping","data":{}}"#.utf8)

    /// A connection that has agreed to compression, with its first message read.
    private func opened(_ fixture: GatewayFixture, _ fields: String = chrome) async throws -> TestClient {
        let client = try TestClient(port: fixture.port)
        let head = try await client.upgrade(fields: fields)
        #expect(head.contains(Self.agreed) == fields.contains("permessage-deflate"), "\(head)")
        _ = try await client.next()
        return client
    }

    /// The payload of a compressed message: `deflated` if that is smaller, otherwise a stored block (RFC 1951 §3.2.4).
    private func payload(_ plain: [UInt8]) -> [UInt8] {
        let frame = plain.withUnsafeBytes { FrameWriter.frame(Opcode.text, $0) }
        if let bytes = FrameDeflater(threshold: 0, level: 9).compress(frame, .wide).frames?.array {
            return Array(bytes[(bytes[1] < 126 ? 2 : bytes[1] == 126 ? 4 : 10)...])
        }
        return stored(plain) + [0]
    }

    private func stored(_ plain: [UInt8]) -> [UInt8] {
        let (low, high) = (UInt8(truncatingIfNeeded: plain.count), UInt8(truncatingIfNeeded: plain.count >> 8))
        return [0, low, high, ~low, ~high] + plain
    }

    private func count(_ series: String, _ metrics: GatewayMetrics) -> Int? {
        var exposition = Exposition()
        metrics.append(to: &exposition)
        let line = String(decoding: exposition.bytes, as: UTF8.self).split(separator: "\n").first {
            $0.hasPrefix("carillon_\(series) ")
        }
        return line.flatMap { Int($0.split(separator: " ").last ?? "") }
    }

    // MARK: The handshake

    @Test func isAgreedToWhereItIsOffered() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics)
        let client = try TestClient(port: fixture.port)
        let head = try await client.upgrade(fields: Self.narrow)
        #expect(head.contains(Self.agreed + "; server_max_window_bits=9\r\n"))
        _ = try await client.next()
        #expect(count("compression_connections", metrics) == 1)
        let plain = try await opened(fixture, "")
        #expect(count("compression_connections", metrics) == 1)
        try await plain.send(compressed: payload(Self.ping))
        #expect(try await plain.next() == .close(1002))
        try await client.send(Opcode.close, [0x03, 0xE8])
        #expect(try await client.next() == .close(1000))
        #expect(count("compression_connections", metrics) == 0)
    }

    @Test func isNotAgreedToWhereItIsOff() async throws {
        let fixture = try await GatewayFixture { $0.compression = nil }
        let client = try TestClient(port: fixture.port)
        #expect(try await !client.upgrade(fields: Self.chrome).contains("Extensions"))
        _ = try await client.next()
        try await client.send(compressed: payload(Self.ping))
        #expect(try await client.next() == .close(1002))
    }

    @Test func aMalformedOfferFailsTheHandshake() async throws {
        let fixture = try await GatewayFixture()
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw(
            "GET /app/key HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                + "Sec-WebSocket-Extensions: permessage-deflate; =1\r\n\r\n")
        #expect(try await client.response().head.hasPrefix("HTTP/1.1 400 "))
        #expect(try await client.next() == .end)
    }

    // MARK: Input

    @Test func messagesAreReadHoweverTheyAreCut() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics)
        let client = try await opened(fixture)
        let ping = payload(Self.ping)
        for split in 1..<ping.count {
            try await client.send(compressed: ping, splits: [split])
            #expect(try await client.next() == Self.pong)
        }
        try await client.send(compressed: stored(Self.ping) + [0], splits: Array(1...Self.ping.count))
        #expect(try await client.next() == Self.pong)
        // With a plain message between them, and one whose last fragment follows a ping.
        try await client.send(Opcode.text, Self.ping)
        #expect(try await client.next() == Self.pong)
        #expect(count("decompressions_total", metrics) == ping.count)
        #expect(count("decompression_plain_bytes_total", metrics) == ping.count * Self.ping.count)
    }

    @Test func bombsAreCutAtTheLimit() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics) { $0.limits.messageBytesMax = 20_000 }
        let client = try await opened(fixture)
        let blanks = { [UInt8](repeating: 0x20, count: $0 - Self.ping.count) + Self.ping }
        try await client.send(compressed: payload(blanks(20_000)))
        #expect(try await client.next() == Self.pong)
        try await client.send(compressed: payload(blanks(20_001)))
        #expect(try await client.next() == .close(1009))
        let other = try await opened(fixture)
        try await other.send(compressed: payload([UInt8](repeating: 0x20, count: 10 << 20)))
        #expect(try await other.next() == .close(1009))
        #expect(count(#"decompressions_refused_total{reason="too_big"}"#, metrics) == 2)
        #expect(count("decompression_plain_bytes_total", metrics) == 20_000)
    }

    @Test(
        arguments: [
            ([0xFF, 0xFF], 1007 as UInt16), ([0, 1, 0, 0xFE, 0xFF, 0xC3, 0], 1007), ([0xF2, 0x48, 0xCD], 1007),
        ] as [([UInt8], UInt16)])
    func whatIsNoTextCloses(_ bytes: [UInt8], _ code: UInt16) async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics)
        let client = try await opened(fixture)
        try await client.send(compressed: bytes)
        #expect(try await client.next() == .close(code))
        #expect(count(#"decompressions_refused_total{reason="malformed"}"#, metrics) == (bytes[0] == 0 ? 0 : 1))
        let other = try await opened(fixture)
        try await other.send(compressed: payload(Self.ping))
        #expect(try await other.next() == Self.pong, "the loop's inflater is as new")
        try await other.send(compressed: payload(Self.ping), Opcode.binary)
        #expect(try await other.next() == .close(1003))
    }

    /// Empty blocks up to a message's byte limit: refused once that is detected, and counted.
    @Test func aPaddedMessageCloses() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(metrics: metrics)
        let (client, other) = (try await opened(fixture), try await opened(fixture))
        var blocks = DeflateBlocks()
        while blocks.count < 73_000 { blocks.dynamic() }
        try await client.send(compressed: blocks.message)
        #expect(try await client.next() == .close(1008))
        #expect(count(#"decompressions_refused_total{reason="padded"}"#, metrics) == 1)
        #expect(count(#"limits_reached_total{limit="messagePadding"}"#, metrics) == 1)
        #expect(count("decompressions_total", metrics) == 0)
        try await other.send(compressed: payload(Self.ping))
        #expect(try await other.next() == Self.pong)
    }

    /// The rate counts a message's cost: the larger of its compressed and plain size, plus its tables.
    @Test(arguments: [(0, 1), (16, 3)]) func whatItCostsCountsInTheRate(_ tables: Int, _ messages: Int) async throws {
        let hub = try await DrivenHub {
            $0.limits.messagesPerSecond = 1
            $0.limits.messagesBurst = 6
        }
        let peer = try hub.open(fields: Self.chrome)
        var blocks = DeflateBlocks()
        blocks.stored(Self.ping)
        for _ in 0..<tables { blocks.dynamic() }
        peer.write([[UInt8]](repeating: compressedFrame(blocks.message), count: 10).flatMap { $0 })
        try hub.turn {
            _ = try peer.texts()
            return peer.closeCode == 4100
        }
        #expect(try peer.texts().count { $0.contains("pusher:pong") } == 6 / messages)
    }

    /// A message that is larger when compressed: each 4 KiB received counts as one more.
    @Test func theLargerCountsInTheRate() async throws {
        let hub = try await DrivenHub {
            $0.limits.messagesPerSecond = 1
            $0.limits.messagesBurst = 6
        }
        let peer = try hub.open(fields: Self.chrome)
        var blocks = DeflateBlocks()
        blocks.stored(Self.ping + [UInt8](repeating: 0x20, count: 4_000 - Self.ping.count))
        for _ in 0..<20 { blocks.stored() }
        #expect(blocks.message.count > 4_096)
        peer.write([[UInt8]](repeating: compressedFrame(blocks.message), count: 10).flatMap { $0 })
        try hub.turn {
            _ = try peer.texts()
            return peer.closeCode == 4100
        }
        #expect(try peer.texts().count { $0.contains("pusher:pong") } == 3)
    }

    private func compressedFrame(_ payload: [UInt8]) -> [UInt8] {
        var writer = ByteWriter()
        payload.withUnsafeBytes { FrameWriter.append(masked: Opcode.text, $0, mask: 0x1234_5678, to: &writer) }
        writer.withUnsafeMutableBytes { $0[0] |= FrameWriter.compressedBit }
        return writer.array
    }

    // MARK: Output

    /// Clients of a user's stream, with a feed that the test drives.
    private struct Audience {
        let fixture: GatewayFixture
        let metrics = GatewayMetrics()
        let stream = StreamID(user: "u1", topic: "items")
        let token: String

        init(loops: Int) async throws {
            fixture = try await GatewayFixture(
                loops: loops, ownsDatabase: true, feed: GatewayFixture.feed(), metrics: metrics)
            token = try await GatewayFixture.token("u1")
        }

        /// A subscribed client. The first one makes the hub ask for the stream's position.
        func client(_ extensions: String, isFirst: Bool = false) async throws -> TestClient {
            let client = try TestClient(port: fixture.port)
            try await client.upgrade(fields: extensions + "Authorization: Bearer \(token)\r\n")
            for _ in 0..<2 { _ = try await client.next() }
            try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"user.u1.items"}}"#)
            if isFirst {
                // Once the pong is back, the subscribe has reached the stream's shard.
                try await client.send(#"{"event":"pusher:ping"}"#)
                #expect(try await client.next() == CompressionTests.pong)
                fixture.feed([.positioned(stream, serial: 1, StreamPosition(epoch: "e", offset: 0))])
            }
            guard case .text(let text) = try await client.next(), text.contains("subscription_succeeded") else {
                throw TestClient.Failure(reason: "not subscribed")
            }
            return client
        }

        func event(_ offset: Int64, _ data: String) {
            let data = SharedBytes.copy(#"{"_sync":{"o":\#(offset)},"text":"\#(data)"}"#)
            fixture.feed([.event(StreamEvent(stream: stream, offset: offset, name: "item.created", data: data))])
        }
    }

    @Test(arguments: [1, 2])
    func aBroadcastIsCompressedOnceForAllOfAWindow(_ loops: Int) async throws {
        let audience = try await Audience(loops: loops)
        var compressing: [TestClient] = [try await audience.client(Self.chrome, isFirst: true)]
        for _ in 0..<5 { compressing.append(try await audience.client(Self.chrome)) }
        for _ in 0..<4 { compressing.append(try await audience.client(Self.narrow)) }
        var plain: [TestClient] = []
        for _ in 0..<4 { plain.append(try await audience.client("")) }
        let long = String(repeating: "Magnesium and zinc ", count: 50)
        let events = 20
        // Every second one is below the threshold.
        let texts = (1...2 * events).map { $0 % 2 == 0 ? "short" : long }
        for (index, text) in texts.enumerated() { audience.event(Int64(index + 1), text) }
        for client in compressing + plain { try await expectEvents(texts, client) }
        for client in compressing { #expect(await client.compressedCount == events) }
        let made = try #require(count(#"compressions_total{result="smaller"}"#, audience.metrics))
        // Two windows. Two loops that reach a frame at the same moment may both compress it.
        #expect(made >= 2 * events && made <= 2 * events * loops, "\(made)")
    }

    private func expectEvents(_ texts: [String], _ client: TestClient) async throws {
        for (index, expected) in texts.enumerated() {
            guard case .text(let text) = try await client.next() else { throw TestClient.Failure(reason: "no event") }
            #expect(text.contains(#"{\"o\":\#(index + 1)}"#) && text.contains(expected), "\(text.prefix(200))")
        }
    }

    /// A replayed page is many frames in one block: each worthwhile frame is compressed, and none is lost.
    @Test(arguments: [chrome, narrow, ""])
    func aReplayIsCompressedFrameByFrame(_ extensions: String) async throws {
        let audience = try await Audience(loops: 1)
        let witness = try await audience.client("", isFirst: true)
        let texts = (1...60).map { String(repeating: "zinc \($0) ", count: $0 % 3 == 0 ? 200 : 1) }
        for (index, text) in texts.enumerated() { audience.event(Int64(index + 1), text) }
        try await expectEvents(texts, witness)
        let client = try await audience.client(extensions)
        try await client.send(
            #"{"event":"sync:resume","data":{"v":1,"channels":{"user.u1.items":{"epoch":"e","offset":0}}}}"#)
        guard case .text(let answer) = try await client.next() else { throw TestClient.Failure(reason: "no answer") }
        #expect(answer.contains(#"\"recovered\":true,\"replayed\":60"#), "\(answer)")
        try await expectEvents(texts, client)
        #expect(await client.compressedCount == (extensions.isEmpty ? 0 : 20))
        audience.event(61, texts[2])
        guard case .text(let live) = try await client.next() else { throw TestClient.Failure(reason: "no event") }
        #expect(live.contains(#"{\"o\":61}"#))
    }

    /// A loop reuses a frame that another loop has compressed.
    @Test func variantsAreSharedByLoops() {
        let metrics = CompressionMetrics()
        let loops = [LoopCompression(CompressionSettings(), metrics), LoopCompression(CompressionSettings(), metrics)]
        func frame(_ bytes: [UInt8]) -> SharedBytes { bytes.withUnsafeBytes { FrameWriter.frame(Opcode.text, $0) } }
        let long = frame([UInt8](repeating: 0x61, count: 512))
        #expect(!loops[0].isWorthIt(long), "nobody is there who wants it compressed")
        metrics.connections.add(1)
        #expect(!loops[0].isWorthIt(frame([UInt8](repeating: 0x61, count: 500))))
        #expect(loops[0].isWorthIt(long))
        let variants = FrameVariants(long)
        let wide = loops[0].frames(variants, .wide)
        #expect(wide.count < 30)
        #expect(loops[1].frames(variants, .wide) === wide)
        let narrow = loops[1].frames(variants, .narrow)
        #expect(loops[0].frames(variants, .narrow) === narrow)
        #expect(!(narrow === wide))
        // A frame that does not get smaller is remembered as such.
        var random = SeededRandom()
        let noise = frame(random.bytes(600))
        let others = FrameVariants(noise)
        for loop in loops { #expect(loop.frames(others, .wide) === noise) }
        var exposition = Exposition()
        metrics.append(to: &exposition)
        let text = String(decoding: exposition.bytes, as: UTF8.self)
        #expect(text.contains("compressions_total{result=\"smaller\"} 2\n"), "\(text)")
        #expect(text.contains("compressions_total{result=\"unchanged\"} 1\n"))
    }

    /// Thousands may join a cache channel one after the other.
    @Test func aKeptEventIsCompressedOnce() async throws {
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: 1, metrics: metrics)
        let channel = try #require(ChannelName("cache-x"))
        let event = Publication(
            channel: channel, event: "e", data: [UInt8](repeating: UInt8(ascii: "x"), count: 2_000))
        let isPublished = await fixture.inLoop { loop in
            loop.directory.app(id: "1").map { loop.directory.publish([event], of: $0, tellsFacts: true) { _ in } }
                != nil
        }
        #expect(isPublished)
        for fields in [Self.chrome, Self.narrow, Self.chrome, Self.chrome, Self.narrow] {
            let client = try TestClient(port: fixture.port)
            try await client.upgrade(fields: fields)
            _ = try await client.next()
            try await client.send(#"{"event":"pusher:subscribe","data":{"channel":"cache-x"}}"#)
            #expect(try await client.text().contains("subscription_succeeded"))
            #expect(try await client.text().contains("xxxxxx"))
            #expect(await client.compressedCount == 1)
        }
        #expect(count(#"compressions_total{result="smaller"}"#, metrics) == 2, "for each window once")
    }
}
