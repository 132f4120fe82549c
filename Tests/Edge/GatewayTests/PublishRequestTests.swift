import HubEngine
import Pusher
import Testing

@testable import Gateway

@Suite(.ownThread, .timeLimit(.minutes(15))) struct PublishRequestTests {
    /// One loop answers the backend, which at once publishes through the loop that owns the channel. That loop has already
    /// taken its mail in this tick, as happens if more is ready than a tick handles.
    @Test(arguments: [false, true]) func whatWasAnsweredStandsFirst(tellsFacts: Bool) async throws {
        let hub = try await DrivenHub(loops: 2)
        let peer = try hub.subscribed(to: "room")
        let name = try #require(ChannelName("room"))
        let owner = ChannelKey(0, name).shard(of: 2)
        nonisolated(unsafe) let first = hub.clients[1 - owner]
        nonisolated(unsafe) let second = hub.clients[owner]
        let app = hub.app
        // The loop's mail has been taken when this runs.
        second.mailbox.post(
            .ask { _ in
                for (client, data) in [(first, "1"), (second, "2"), (second, "3")] {
                    let event = Publication(channel: name, event: "e", data: Array(data.utf8))
                    _ = client.directory.publish([event], of: app, tellsFacts: tellsFacts && data != "1") { _ in }
                }
            })
        try hub.turn { try peer.texts().count { $0.contains("\"e\"") } == 3 }
        let heard = try peer.texts().filter { $0.contains("\"e\"") }
        #expect(heard == ["1", "2", "3"].map { #"{"event":"e","channel":"room","data":"\#($0)"}"# })
    }
}
