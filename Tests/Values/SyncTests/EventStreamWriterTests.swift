import Bytes
import Testing

@testable import Sync

@Suite struct EventStreamWriterTests {
    private let channel = "user.u.adherence"

    private func written(_ writer: inout EventStreamWriter, _ message: String) -> String {
        var text = ByteWriter()
        var message = message
        message.withUTF8 { writer.append(UnsafeRawBufferPointer($0), to: &text) }
        return text.string
    }

    private func message(_ event: String, _ channel: String?, _ data: String) -> String {
        let member = channel.map { #","channel":"\#($0)""# } ?? ""
        return #"{"event":"\#(event)"\#(member),"data":"\#(data.replacing("\"", with: #"\""#))"}"#
    }

    private func event(_ offset: Int, of channel: String) -> String {
        message("occurrence.updated", channel, #"{"note": "_sync", "_sync": {"k": null, "o": \#(offset)}}"#)
    }

    private func succeeded(_ channel: String, _ offset: Int) -> String {
        message("pusher_internal:subscription_succeeded", channel, #"{"sync":{"epoch":"e:1","offset":\#(offset)}}"#)
    }

    private func resumed(_ channel: String, _ offset: Int, _ outcome: String) -> String {
        message("sync:resumed", nil, #"{"channels":{"\#(channel)":{"epoch":"e:2","offset":\#(offset),\#(outcome)}}}"#)
    }

    @Test func anIDHasAllPositions() {
        var writer = EventStreamWriter([
            ("adherence", channel, nil), ("reminders", "user.u.reminders", StreamPosition(epoch: "r", offset: 3)),
        ])
        let first = succeeded(channel, 7)
        #expect(written(&writer, first) == "data: \(first)\nid: adherence=e:1:7;reminders=r:3\n\n")
        let second = event(8, of: channel)
        #expect(written(&writer, second) == "data: \(second)\nid: adherence=e:1:8;reminders=r:3\n\n")
        let third = event(4, of: "user.u.reminders")
        #expect(written(&writer, third).hasSuffix("\nid: adherence=e:1:8;reminders=r:4\n\n"))
        let other = message("sync:status", nil, #"{"degraded":false}"#)
        #expect(written(&writer, other).hasSuffix("\nid: adherence=e:1:8;reminders=r:4\n\n"))
    }

    /// Otherwise a client whose connection breaks now would miss 6 and 7.
    @Test func aSubscribeDoesNotMoveANamedPosition() {
        var writer = EventStreamWriter([("adherence", channel, StreamPosition(epoch: "e:1", offset: 5))])
        #expect(written(&writer, succeeded(channel, 7)).hasSuffix("\nid: adherence=e:1:5\n\n"))
        #expect(written(&writer, resumed(channel, 7, #""recovered":true,"replayed":2"#)).hasSuffix("=e:1:5\n\n"))
        #expect(written(&writer, event(6, of: channel)).hasSuffix("=e:1:6\n\n"))
        #expect(written(&writer, event(7, of: channel)).hasSuffix("=e:1:7\n\n"))
    }

    @Test func aLossMovesThePosition() {
        var writer = EventStreamWriter([("adherence", channel, StreamPosition(epoch: "old", offset: 5))])
        _ = written(&writer, succeeded(channel, 2))
        let told = resumed(channel, 2, #""recovered":false,"reason":"epoch""#)
        #expect(written(&writer, told).hasSuffix("\nid: adherence=e:2:2\n\n"))
        #expect(written(&writer, event(3, of: channel)).hasSuffix("\nid: adherence=e:2:3\n\n"))
        // Of a client whose other streams these are.
        _ = written(&writer, resumed("user.u.reminders", 9, #""recovered":false"#))
        #expect(written(&writer, event(4, of: channel)).hasSuffix("\nid: adherence=e:2:4\n\n"))
    }

    /// Otherwise the next event would move the position past those that could not be read.
    @Test func nothingFollowsALogThatCannotBeRead() {
        var writer = EventStreamWriter([("adherence", channel, StreamPosition(epoch: "e:1", offset: 5))])
        _ = written(&writer, succeeded(channel, 7))
        let told = resumed(channel, 7, #""recovered":false,"reason":"store_unavailable""#)
        #expect(!writer.isOver && written(&writer, told) == "data: \(told)\nid: adherence=e:1:5\n\n")
        #expect(writer.isOver && written(&writer, event(8, of: channel)) == "")
    }

    @Test func ordinaryChannelsHaveNone() {
        var writer = EventStreamWriter([])
        let news = event(8, of: "news")
        #expect(written(&writer, news) == "data: \(news)\n\n")
    }

    @Test(arguments: [
        ("", []), ("adherence=5f.7d.1:8", ["adherence 5f.7d.1 8"]), ("a=e:1:8;b_c=:0", ["a e:1 8", "b_c  0"]),
    ]) func idsAreRead(_ text: String, _ expected: [String]) throws {
        let found = try #require(EventStreamID.positions(text))
        #expect(found.map { "\($0.topic) \($0.position.epochText) \($0.position.offset)" } == expected)
    }

    @Test(arguments: [
        "8", "a", "a=8", "a=e:", "a=e:-1", "a=e:x", "A=e:1", "=e:1", "a=e:1;a=e:2", "a=e:99999999999999999999",
        "a=e:9007199254740993", "a:1=e",
        String(repeating: "a", count: EventStreamID.bytesMax + 1) + "=e:1",
        "a=" + String(repeating: "e", count: 129) + ":1",
    ]) func othersAreNot(_ text: String) {
        #expect(EventStreamID.positions(text) == nil)
    }

    @Test func heartbeatAndPause() {
        var text = ByteWriter()
        EventStreamWriter.append(retryAfterMs: 1_500, to: &text)
        #expect(text.string == "retry: 1500\n\n" && EventStreamWriter.heartbeat.description == ":\n\n")
    }
}
