import HTTP
import HubEngine
import Pusher
import TestHub
import TestSupport
import Testing

@testable import Gateway

/// Event streams of ordinary channels: an event becomes lines once for all of them on a loop.
@Suite(.timeLimit(.minutes(15))) struct EventStreamLinesTests {
    private struct Streams: HTTPRoutes {
        func respond(
            to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
        ) -> HTTPResponse? {
            HTTPResponse(EventStreamRequest(of: 0, .channels(["news", "more"].compactMap { ChannelName($0) })))
        }
    }

    private func publish(_ channel: String, _ data: String, _ fixture: GatewayFixture) async throws {
        let publication = Publication(
            channel: try #require(ChannelName(channel)), event: "told", data: Array(data.utf8))
        let app = fixture.gateway.apps.apps[0]
        _ = await withCheckedContinuation { continuation in
            fixture.gateway.publish([publication], of: app) { continuation.resume(returning: $0) }
        }
    }

    @Test func anEventBecomesLinesOnceForAllReceivers() async throws {
        let fixture = try await GatewayFixture(loops: 1, routes: Streams())
        var clients: [TestClient] = []
        for _ in 0..<5 {
            let client = try TestClient(port: fixture.port)
            try await client.sendRaw("GET /events HTTP/1.1\r\nHost: h\r\n\r\n")
            _ = try await client.readHeadOnly()
            for mark in ["subscription_succeeded", "\n\n", "subscription_succeeded", "\n\n"] {
                _ = try #require(try await client.text(through: mark))
            }
            clients.append(client)
        }
        let before = await fixture.inLoop { $0.eventStreams.linesMade }
        let told = [("news", "one"), ("more", "two"), ("news", "one"), ("news", "three")]
        for (channel, data) in told { try await publish(channel, data, fixture) }
        for client in clients {
            for (channel, data) in told {
                var block: String?
                // On a slow machine there may be a sign of life between.
                repeat { block = try await client.text(through: "\n\n") } while block == ":\n\n"
                let lines = try #require(block)
                #expect(lines.contains(#""channel":"\#(channel)""#) && lines.contains(data), "\(lines)")
            }
        }
        #expect(await fixture.inLoop { $0.eventStreams.linesMade } == before + told.count)
    }
}
