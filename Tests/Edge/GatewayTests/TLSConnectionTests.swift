import Bytes
import Foundation
import Glibc
import HTTP
import HubEngine
import Metrics
import Reactor
import TestHub
import TestSupport
import Testing
import WebSocket

@testable import Gateway

@Suite(.ownThread, .timeLimit(.minutes(15))) struct TLSConnectionTests {
    private let folder: CertificateFolder
    private let server: TLSServer
    private let metrics = GatewayMetrics()
    private let wire: TLSWire

    init() throws {
        folder = try CertificateFolder()
        let pair = try folder.make("one", hosts: ["localhost"])
        server = try TLSServer(.init(certificates: [.init(certificate: pair.certificate, key: pair.key)]))
        wire = try TLSWire()
    }

    private func hub(
        loops: Int = 2, routes: any HTTPRoutes = NoRoutes(), _ change: (inout GatewayConfiguration) -> Void = { _ in }
    ) async throws
        -> GatewayFixture
    {
        try await GatewayFixture(loops: loops, metrics: metrics, routes: routes) {
            $0.tls = server
            $0.listeners = [ListenerConfiguration(.tcp(host: "127.0.0.1", port: 0), usesTLS: true)]
            $0.timeouts.tlsHandshake = .seconds(60)
            $0.timeouts.tlsTurn = .seconds(60)
            change(&$0)
        }
    }

    private func client(
        _ hub: GatewayFixture, resumingBy client: TLSClient? = nil, receiveBuffer: Int32? = nil
    ) throws -> SecureClient {
        try SecureClient(port: hub.port, client ?? TLSClient(), on: wire, receiveBuffer: receiveBuffer)
    }

    private func wait(_ what: String, until condition: () -> Bool) throws {
        guard eventually(condition) else { throw SecureClient.Failure(reason: "never: \(what)") }
    }

    private func failures(_ reason: TLSFailure) -> UInt64 { metrics.tls.failures[reason.rawValue].count }

    private let ping = #"{"event":"pusher:ping","data":{}}"#
    private let pong = #"{"event":"pusher:pong","data":"{}"}"#

    @Test func greetsAnswersAndResumes() async throws {
        let hub = try await hub()
        var manner = TLSClient.Manner()
        manner.resumes = true
        manner.rootsFile = folder.file("one.pem")
        let resuming = try TLSClient(manner)
        for round in 0..<3 {
            let client = try client(hub, resumingBy: resuming)
            #expect(try client.handshake())
            #expect(client.tls.isResumed == (round > 0))
            try client.upgrade()
            try client.send(text: ping)
            #expect(try client.text() == pong)
        }
        #expect(metrics.tls.handshakes["full"].count == 1)
        #expect(metrics.tls.handshakes["resumed"].count == 2)
    }

    @Test func plainHTTPIsToldWhatToDo() async throws {
        let hub = try await hub()
        let plain = try TestClient(port: hub.port)
        try await plain.sendRaw("GET /app/key HTTP/1.1\r\nHost: h\r\n\r\n")
        let answer = try await plain.response()
        #expect(answer.head.hasPrefix("HTTP/1.1 400 "))
        #expect(answer.body.contains("This port speaks TLS"))
        #expect(try await plain.next() == .end)
        let noise = try TestClient(port: hub.port)
        try await noise.sendRaw([0, 1, 2, 3])
        #expect(try await noise.next() == .end)
        #expect(failures(.plainHTTP) == 1)
        #expect(failures(.notTLS) == 1)
    }

    /// Answers that the client does not read continue where they stopped.
    @Test func aSlowReaderGetsAll() async throws {
        let hub = try await hub(loops: 1)
        let client = try client(hub, receiveBuffer: 4096)
        #expect(try client.handshake())
        try client.upgrade()
        let count = 12_000
        var frames = ByteWriter()
        for _ in 0..<count {
            Array(ping.utf8).withUnsafeBytes { FrameWriter.append(masked: Opcode.text, $0, mask: 7, to: &frames) }
        }
        try client.send(frames.array)
        try wait("the hub has read all") { metrics.messages.count == UInt64(count) }
        for _ in 0..<count { #expect(try client.text() == pong) }
    }

    @Test func everyByteMayComeAlone() async throws {
        let hub = try await hub(loops: 1)
        let hello = try self.hello(hub)
        let raw = try TestClient(port: hub.port)
        try await raw.sendByteByByte(hello)
        // The server's flight begins with a handshake record.
        #expect(try await raw.read(1) == [0x16])
    }

    /// OpenSSL keeps at most part of a record, which counts as unfinished for that time.
    @Test func aRecordThatComesInPartCounts() async throws {
        let hub = try await hub(loops: 1)
        let client = try client(hub)
        #expect(try client.handshake())
        try client.upgrade()
        // The header of the longest record, without its content.
        let header: [UInt8] = [0x17, 3, 3, 0x40, 0]
        #expect(Glibc.send(client.descriptor, header, header.count, Int32(MSG_NOSIGNAL)) == header.count)
        try wait("the record's part counts") { metrics.held.unfinishedBytes.level == TLSSession.heldBytesMax }
        shutdown(client.descriptor, Int32(SHUT_WR))
        try wait("what is gone holds nothing") { metrics.held.unfinishedBytes.level == 0 }
    }

    private struct LongAnswer: HTTPRoutes {
        let count: Int

        func respond(
            to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
        ) -> HTTPResponse? {
            HTTPResponse(.ok, body: [UInt8](repeating: 0x61, count: count))
        }
    }

    /// The answer is longer than the socket takes at once, and the client has ended its sending side: with its request, or
    /// after the answer has begun.
    @Test(arguments: [false, true]) func aLongAnswerBehindAFarewellArrives(_ isBegun: Bool) async throws {
        let count = 8 << 20
        let hub = try await hub(loops: 1, routes: LongAnswer(count: count)) {
            $0.timeouts.close = .seconds(60)
            $0.timeouts.farewell = .seconds(60)
            $0.limits.sendQueueBytesMax = 2 * count
            $0.limits.sendQueuesBytesMax = 2 * count
        }
        let client = try client(hub, receiveBuffer: 65_536)
        #expect(try client.handshake())
        #expect(Array("GET /long HTTP/1.1\r\nHost: h\r\n\r\n".utf8).withUnsafeBytes { client.tls.seal($0) })
        if isBegun {
            #expect(client.tls.send(client.descriptor) == .all)
            #expect(try client.head().hasPrefix("HTTP/1.1 200 "))
            client.tls.finishSending(client.descriptor)
        } else {
            client.tls.finishSending(client.descriptor)
            #expect(try client.head().hasPrefix("HTTP/1.1 200 "))
        }
        #expect(try client.read(count).count == count)
        try wait("the connection ends") { hub.gateway.connectionCount == 0 }
    }

    /// Waiting requests are not lost when the client ends its sending side.
    @Test func requestsBeforeAFarewellAreAnswered() async throws {
        let hub = try await hub(loops: 1) { $0.limits.requestsPerTurnMax = 4 }
        let client = try client(hub)
        #expect(try client.handshake())
        let count = 50
        let requests = Array(String(repeating: "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n", count: count).utf8)
        // One read brings everything, including the close_notify.
        #expect(requests.withUnsafeBytes { client.tls.seal($0) })
        client.tls.finishSending(client.descriptor)
        var answers = 0
        while answers < count, try client.head().contains("HTTP/1.1 404 ") { answers += 1 }
        #expect(answers == count)
        try wait("the connection ends") { hub.gateway.connectionCount == 0 }
    }

    /// Messages beyond one turn are not lost either: by then the socket reports no further event.
    @Test func messagesBeforeAFarewellAreAnswered() async throws {
        let hub = try await hub(loops: 1)
        let client = try client(hub)
        #expect(try client.handshake())
        try client.upgrade()
        let count = 1_000
        var writer = ByteWriter()
        for _ in 0..<count {
            Array(ping.utf8).withUnsafeBytes { FrameWriter.append(masked: Opcode.text, $0, mask: 7, to: &writer) }
        }
        // One read brings everything, including the close_notify.
        for part in stride(from: 0, to: writer.array.count, by: TLSWire.recordBytes) {
            let bytes = writer.array[part..<min(part + TLSWire.recordBytes, writer.array.count)]
            #expect(bytes.withUnsafeBytes { client.tls.seal($0) })
        }
        client.tls.finishSending(client.descriptor)
        var answers = 0
        while answers < count, try client.text() == pong { answers += 1 }
        #expect(answers == count)
        try wait("the connection ends") { hub.gateway.connectionCount == 0 }
    }

    private func hello(_ hub: GatewayFixture) throws -> [UInt8] {
        var ends: [Int32] = [-1, -1]
        try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
        defer { for end in ends { close(end) } }
        let session = try TLSClient().session(host: "localhost", on: wire)
        try #require(session.start(ends[0]) == .all)
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = recv(ends[1], &bytes, bytes.count, 0)
        return Array(bytes[..<max(0, count)])
    }

    @Test func aSlowHandshakeIsClosed() async throws {
        let hub = try await hub { $0.timeouts.tlsHandshake = .milliseconds(200) }
        let hello = try hello(hub)
        let silent = try TestClient(port: hub.port)
        #expect(try await silent.next() == .end)
        let half = try TestClient(port: hub.port)
        try await half.sendRaw(Array(hello.dropLast(10)))
        #expect(try await half.next() == .end)
        let lazy = try TestClient(port: hub.port)
        try await lazy.sendRaw(hello)
        try await lazy.readToEnd()
        #expect(failures(.timeout) == 3)
        #expect(metrics.tls.underWay.level == 0)
    }

    @Test func handshakesAreBoundedInNumber() async throws {
        let hub = try await hub(loops: 1) {
            $0.admission.tlsHandshakesMax = 1
            $0.admission.tlsHandshakesWaitingMax = 2
        }
        let hello = try hello(hub)
        let first = try TestClient(port: hub.port)
        try await first.sendRaw(Array(hello.dropLast(10)))
        try wait("one is under way") { metrics.tls.underWay.level == 1 }
        let waiting = try (0..<2).map { _ in try client(hub) }
        try wait("two wait") { metrics.tls.delayed.count == 2 }
        let shed = try client(hub)
        #expect(!(try shed.handshake()))
        #expect(failures(.shed) == 1)
        try await first.sendRaw(Array(hello.suffix(10)))
        first.abort()
        for client in waiting {
            #expect(try client.handshake())
            try client.upgrade()
        }
        #expect(metrics.tls.underWay.level == 0)
    }

    /// Clients that begin a handshake and fall silent keep their slots while nobody needs them, and not for long otherwise.
    @Test func aHandshakeThatHoldsUpOthersLosesItsSlot() async throws {
        let hub = try await hub(loops: 1) {
            $0.admission.tlsHandshakesMax = 3
            $0.timeouts.tlsTurn = .milliseconds(100)
        }
        let hello = try hello(hub)
        let stuck = try (0..<3).map { _ in try TestClient(port: hub.port) }
        for client in stuck { try await client.sendRaw(Array(hello.dropLast(10))) }
        try wait("all slots are taken") { metrics.tls.underWay.level == 3 }
        let waiting = try (0..<3).map { _ in try client(hub) }
        for client in waiting {
            #expect(try client.handshake())
            try client.upgrade()
        }
        // As many as were needed; the others continue.
        #expect((1...3).contains(failures(.shed)))
        #expect(metrics.tls.underWay.level == 3 - Int(failures(.shed)))
        #expect(try await stuck[0].next() == .end)
    }

    /// More handshakes at once than a tick may begin: all get their turn, and existing connections are served meanwhile.
    @Test func aStormOfHandshakesIsServedInTurn() async throws {
        let hub = try await hub(loops: 1)
        let settled = try client(hub)
        #expect(try settled.handshake())
        try settled.upgrade()
        let storm = try (0..<100).map { _ in try client(hub) }
        try settled.send(text: ping)
        #expect(try settled.text() == pong)
        for client in storm {
            #expect(try client.handshake())
            try client.upgrade()
        }
        #expect(metrics.tls.handshakes["full"].count == 101)
        #expect(metrics.tls.underWay.level == 0)
    }

    @Test func abruptEndsAtEveryStateLeaveNothing() async throws {
        let hub = try await hub(loops: 1) {
            $0.admission.tlsHandshakesMax = 2
            $0.admission.tlsHandshakesWaitingMax = 1000
        }
        let hello = try hello(hub)
        for round in 0..<5 {
            for cut in [0, 1, 4, 5, 6, hello.count / 2, hello.count - 1, hello.count] {
                let raw = try TestClient(port: hub.port)
                try await raw.sendRaw(Array(hello[..<cut]))
                if cut == hello.count, round % 2 == 0 { _ = try await raw.read(1) }
                if round % 2 == 0 { raw.abort() }
            }
            let established = try client(hub)
            #expect(try established.handshake())
            if round % 2 == 0 { try established.upgrade() }
        }
        try wait("all are gone") { hub.gateway.connectionCount == 0 }
        #expect(metrics.tls.underWay.level == 0)
        let after = try client(hub)
        #expect(try after.handshake())
    }

    @Test func reloadsUnderLoadLoseNoConnection() async throws {
        let hub = try await hub()
        let kept = try client(hub)
        #expect(try kept.handshake())
        try kept.upgrade()
        let (isDone, hasEnded) = (Locked(false), Locked(false))
        let server = server
        let reloader = Thread {
            defer { hasEnded.withLock { $0 = true } }
            while !isDone.withLock({ $0 }) {
                do throws(TLSError) {
                    try server.reload()
                } catch {
                    Issue.record(error)
                }
            }
        }
        reloader.start()
        for _ in 0..<60 {
            let client = try client(hub)
            #expect(try client.handshake())
            try client.upgrade()
        }
        isDone.withLock { $0 = true }
        try wait("no more reloads") { hasEnded.withLock { $0 } }
        try kept.send(text: ping)
        #expect(try kept.text() == pong)
    }

    @Test func theEndOfTheHubIsTold() async throws {
        let hub = try await hub()
        let client = try client(hub)
        #expect(try client.handshake())
        try client.upgrade()
        let half = try SecureClient(port: hub.port, TLSClient(), on: wire)
        let ended = hub.end()
        #expect(try client.text() == nil)
        while try half.fill() {}
        await ended.value
    }

    @Test func bothKindsOfListenersServeBesideOneAnother() async throws {
        let hub = try await hub {
            $0.listeners.append(ListenerConfiguration(.tcp(host: "127.0.0.1", port: 0)))
        }
        guard case .tcp(_, let plainPort, _) = hub.gateway.endpoints[1] else {
            Issue.record("no second listener")
            return
        }
        let (plain, _) = try await TestClient.opened(port: plainPort)
        try await plain.send(ping)
        #expect(try await plain.next() == .text(pong))
        let secure = try client(hub)
        #expect(try secure.handshake())
        try secure.upgrade()
    }

    /// No metric contains secrets or client names.
    @Test func theMetricsShowHandshakesAndCertificates() async throws {
        let hub = try await hub()
        let client = try client(hub)
        #expect(try client.handshake())
        try client.upgrade()
        metrics.tls.reloaded(false)
        var exposition = Exposition()
        metrics.append(to: &exposition)
        let text = String(decoding: exposition.bytes, as: UTF8.self)
        #expect(text.contains("carillon_tls_handshakes_total{kind=\"full\"} 1\n"))
        #expect(text.contains("carillon_tls_reloads_total{result=\"failed\"} 1\n"))
        let expiry = server.certificates[0].expiresAt
        #expect(text.contains("carillon_tls_certificate_expiry_seconds{file=\"\(folder.file("one.pem"))\"} \(expiry)"))
    }
}

extension TestClient {
    nonisolated func abort() {
        var lingering = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &lingering, socklen_t(MemoryLayout<linger>.size))
        // connect(2) with AF_UNSPEC ends the connection and leaves the descriptor for its owner to close.
        var nowhere = sockaddr()
        nowhere.sa_family = sa_family_t(AF_UNSPEC)
        connect(descriptor, &nowhere, socklen_t(MemoryLayout<sockaddr>.size))
    }
}
