import HubEngine
import Pusher
import Testing

@testable import Courier

@Suite(.timeLimit(.minutes(15)))
struct WebhookBodyTests {
    /// As in Pusher's documentation.
    @Test func eventsAreWrittenAsPusherDoes() throws {
        func expect(_ event: WebhookEvent, _ text: String) {
            #expect(String(decoding: WebhookBody.text(of: event), as: UTF8.self) == text)
        }
        let socket = try #require(Array("12.34".utf8).withUnsafeBytes { SocketID($0) })
        let data = Array(#"{"n":"é"}"#.utf8)
        expect(.channelOccupied(channel("a")), #"{"name":"channel_occupied","channel":"a"}"#)
        expect(.channelVacated(channel("a")), #"{"name":"channel_vacated","channel":"a"}"#)
        expect(.cacheMiss(channel("cache-a")), #"{"name":"cache_miss","channel":"cache-a"}"#)
        expect(
            .memberAdded(channel("presence-a"), userID: "7"),
            #"{"name":"member_added","channel":"presence-a","user_id":"7"}"#)
        expect(
            .memberRemoved(channel("presence-a"), userID: "a\"b"),
            #"{"name":"member_removed","channel":"presence-a","user_id":"a\"b"}"#)
        expect(
            .subscriptionCount(channel("a"), 12),
            #"{"name":"subscription_count","channel":"a","subscription_count":12}"#)
        expect(
            .clientEvent(channel("private-a"), name: "client-x", data: data, socketID: socket, userID: nil),
            #"{"name":"client_event","channel":"private-a","event":"client-x","data":"{\"n\":\"é\"}","socket_id":"12.34"}"#
        )
        expect(
            .clientEvent(channel("presence-a"), name: "client-x", data: [], socketID: socket, userID: "u"),
            #"{"name":"client_event","channel":"presence-a","event":"client-x","data":"","socket_id":"12.34","user_id":"u"}"#
        )
    }

    @Test func bodiesSayWhenTheyWereMade() {
        let none: [[UInt8]] = []
        #expect(String(decoding: WebhookBody.body(none, at: 0), as: UTF8.self) == #"{"time_ms":0,"events":[]}"#)
        let two = [Array("{}".utf8), Array("[]".utf8)]
        let body = WebhookBody.body(two, at: 1_327_078_148_132)
        #expect(String(decoding: body, as: UTF8.self) == #"{"time_ms":1327078148132,"events":[{},[]]}"#)
    }

    @Test func originsHoldNothingThatMayBeSecret() {
        for (url, origin) in [
            ("https://user:pass@example.org:8443/secret?token=x", "https://example.org:8443"),
            ("http://example.org", "http://example.org"), ("http://example.org?token=x", "http://example.org"),
            ("http://[::1]:80/a@b", "http://[::1]:80"), ("nonsense", ""),
        ] { #expect(WebhookEndpoint(url: url, kinds: []).origin == origin) }
    }
}
