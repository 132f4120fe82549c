import Bytes
import HubEngine
import Pusher
import Sync
import Testing

/// The engine does not depend on the transport: here it is `text/event-stream`.
@Suite struct EventStreamTests {
    private let sink: EventStreamSink

    init() {
        var features = AppFeatures()
        features.clientEvents = true
        features.watchlists = true
        let app = App(
            id: "1", credentials: AppCredentials(key: "key", secret: "secret"), index: 0, ownsDatabase: true,
            features: features)
        sink = EventStreamSink(
            app: app, at: StreamPosition(epoch: "e", offset: 7), log: (1...7).map { Self.event($0) })
    }

    private static func event(_ offset: Int64) -> StreamEvent {
        StreamEvent(
            stream: StreamID(user: "u", topic: "adherence"), offset: offset, name: "occurrence.updated",
            data: .copy(#"{"_sync":{"o":\#(offset),"k":null}}"#))
    }

    private func data(_ event: String, _ channel: String, _ data: String) -> String {
        #"data: {"event":"\#(event)","channel":"\#(channel)","data":"\#(data.replacing("\"", with: #"\""#))"}"# + "\n\n"
    }

    private func data(_ event: String, _ data: String) -> String {
        #"data: {"event":"\#(event)","data":"\#(data.replacing("\"", with: #"\""#))"}"# + "\n\n"
    }

    private func signin(_ user: String, watching: String? = nil, _ session: Session) throws -> String {
        let userData = #"{"id":"\#(user)"\#(watching.map { #","watchlist":["\#($0)"]"# } ?? "")}"#
        let auth = sink.app.credentials.sign(.user(userData: userData), socketID: session.socketID)
        let quoted = userData.replacing("\"", with: #"\""#)
        try sink.say(#"{"event":"pusher:signin","data":{"auth":"\#(auth)","user_data":"\#(quoted)"}}"#, session)
        return data("pusher:signin_success", #"{"user_data":"\#(quoted)"}"#.replacing(#"\"#, with: #"\\"#))
    }

    private func subscribe(_ channel: String, _ session: Session) throws {
        try sink.say(#"{"event":"pusher:subscribe","data":{"channel":"\#(channel)"}}"#, session)
    }

    @Test func channels() throws {
        let (one, two) = (sink.open(0), sink.open(1))
        try subscribe("cache-news", one)
        let entered = data("pusher_internal:subscription_succeeded", "cache-news", "{}")
        let miss = #"data: {"event":"pusher:cache_miss","channel":"cache-news"}"# + "\n\n"
        #expect(sink.takeSent(one) == entered + miss)
        sink.publish(
            Publication(channel: try #require(ChannelName("cache-news")), event: "e", data: Array("a\nb".utf8)))
        let published = data("e", "cache-news", #"a\nb"#)
        #expect(sink.takeSent(one) == published)
        try subscribe("cache-news", two)
        #expect(sink.takeSent(two) == entered + published)
        try subscribe("cache-news", two)
        #expect(sink.takeSent(two) == entered + published && sink.linesMade == 1)
        try subscribe("user.x", two)
        #expect(sink.takeSent(two).hasPrefix(#"data: {"event":"pusher:subscription_error","channel":"user.x""#))
        try sink.say(#"{"event":"pusher:ping"}"#, two)
        #expect(sink.takeSent(two) == ": pong\n\n")
    }

    @Test func presence() throws {
        let (one, two) = (sink.open(0), sink.open(1))
        func join(_ user: String, _ session: Session) throws {
            let channel = try #require(ChannelName("presence-x"))
            let member = #"{"user_id":"\#(user)"}"#
            let auth = sink.app.credentials.sign(.channel(channel, channelData: member), socketID: session.socketID)
            let quoted = member.replacing("\"", with: #"\""#)
            try sink.say(
                #"{"event":"pusher:subscribe","data":{"channel":"presence-x","auth":"\#(auth)","channel_data":"\#(quoted)"}}"#,
                session)
        }
        func members(_ ids: [String]) -> String {
            let quoted = ids.map { "\"\($0)\"" }
            let hash = quoted.map { $0 + ":{}" }.joined(separator: ",")
            return data(
                "pusher_internal:subscription_succeeded", "presence-x",
                #"{"presence":{"ids":[\#(quoted.joined(separator: ","))],"hash":{\#(hash)},"count":\#(ids.count)}}"#)
        }
        try join("a", one)
        #expect(sink.takeSent(one) == members(["a"]))
        try join("b", two)
        #expect(sink.takeSent(two) == members(["a", "b"]))
        let news = data("pusher_internal:member_added", "presence-x", #"{"user_id":"b","user_info":{}}"#)
        #expect(sink.takeSent(one) == news)
        try sink.say(#"{"event":"client-e","channel":"presence-x","data":{"n":1}}"#, two)
        #expect(
            sink.takeSent(one)
                == #"data: {"event":"client-e","channel":"presence-x","data":"{\"n\":1}","user_id":"b"}"# + "\n\n")
        sink.close(two)
        #expect(sink.takeSent(one) == data("pusher_internal:member_removed", "presence-x", #"{"user_id":"b"}"#))
        #expect(sink.takeSent(two) == "")
    }

    @Test func streams() throws {
        let session = sink.open(0)
        try subscribe("user.u.adherence", session)
        #expect(sink.takeSent(session) == "", "it waits for the user's sign-in")
        let signedIn = try signin("u", session)
        let entered = data(
            "pusher_internal:subscription_succeeded", "user.u.adherence", #"{"sync":{"epoch":"e","offset":7}}"#)
        #expect(sink.takeSent(session) == signedIn + entered)
        sink.feed(Self.event(8))
        let event = { (offset: Int) in
            data("occurrence.updated", "user.u.adherence", #"{"_sync":{"o":\#(offset),"k":null}}"#)
        }
        #expect(sink.takeSent(session) == event(8))

        let positions = #"{"user.u.adherence":{"epoch":"e","offset":5}}"#
        try sink.say(#"{"event":"sync:resume","data":{"v":1,"channels":\#(positions)}}"#, session)
        let resumed = data(
            "sync:resumed",
            #"{"channels":{"user.u.adherence":{"epoch":"e","offset":8,"recovered":true,"replayed":3}}}"#)
        #expect(sink.takeSent(session) == resumed + event(6) + event(7) + event(8))
        #expect(sink.linesMade == 1, "a page")
        sink.feed(Self.event(9))
        #expect(sink.takeSent(session) == event(9))
    }

    @Test func users() throws {
        let (one, two) = (sink.open(0), sink.open(1))
        let signedIn = try signin("u", watching: "v", one)
        func news(_ name: String) -> String {
            data("pusher_internal:watchlist_events", #"{"events":[{"name":"\#(name)","user_ids":["v"]}]}"#)
        }
        #expect(sink.takeSent(one) == signedIn + news("offline"))
        _ = try signin("v", two)
        #expect(sink.takeSent(one) == news("online"))
        sink.close(two)
        #expect(sink.takeSent(one) == news("offline"))
    }
}
