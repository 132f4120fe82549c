import Clock
import HubEngine
import Pusher
import Sync
import TestHub
import TestSupport
import Testing

@testable import Gateway

/// How apps share the backlog between loops, as seen by backends.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct PublishShareTests {
    /// One app's flood does not stop another app's publishes and client events.
    @Test(arguments: [1, 2]) func theOthersPublishesAndClientEventsPass(loops: Int) async throws {
        let flooding = TestApp(0) { $0.features.clientEvents = true }
        let quiet = TestApp(1) { $0.features.clientEvents = true }
        let metrics = GatewayMetrics()
        let fixture = try await GatewayFixture(loops: loops, metrics: metrics) {
            $0.apps = [flooding.app, quiet.app]
            $0.limits.publishesUnderWayMax = 100
        }
        for _ in 0...(50 * loops) { metrics.publishes.add(of: flooding.app.index) }
        for app in [flooding, quiet] {
            var caller = PusherCaller(credentials: app.app.credentials, app: app.app.id)
            caller.time = UnixTime.read().microseconds / 1_000_000
            let backend = try TestClient(port: fixture.port)
            for request in [caller.publish("private-a"), caller.get("/channels"), caller.get("/channels/private-a")] {
                try await backend.sendRaw(request)
                let (head, _) = try await backend.response()
                let isRefused = head.hasPrefix("HTTP/1.1 503 ") && head.contains("Retry-After: 1\r\n")
                #expect(isRefused == (app.number == 0) && (isRefused || head.hasPrefix("HTTP/1.1 200 ")), "\(head)")
            }
            // Closing connections is not limited by a flood.
            try await backend.sendRaw(caller.post("/users/u/terminate_connections", "{}"))
            #expect(try await backend.response().head.hasPrefix("HTTP/1.1 200 "))
            let (sender, senderID) = try await TestClient.opened(fixture, app)
            let (receiver, receiverID) = try await TestClient.opened(fixture, app)
            try await sender.subscribe("private-a", app, senderID)
            try await receiver.subscribe("private-a", app, receiverID)
            try await sender.send(#"{"event":"client-e","channel":"private-a","data":"x"}"#)
            if app.number == 1 {
                let heard = try await receiver.text()
                #expect(heard == #"{"event":"client-e","channel":"private-a","data":"x"}"#)
            } else {
                #expect(try await sender.answersPing())
                #expect(metrics.text.contains(#"client_events_refused_total{reason="overload"} 1"#))
            }
        }
    }
}
