import Bytes
import JSON
import Pusher
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct PublishedEventTests {
    private func read(
        _ body: String, _ change: (inout PublishLimits) -> Void = { _ in }
    ) -> Result<PublishedEvent, PublishError> {
        var limits = PublishLimits()
        change(&limits)
        return withBytes(body) { body in
            Result { () throws(PublishError) in try PublishedEvent.decode(body, limits: limits) }
        }
    }

    private func batch(_ body: String, events: Int = 10) -> Result<[PublishedEvent], PublishError> {
        var limits = PublishLimits()
        limits.events = events
        limits.dataBytes = 8
        return withBytes(body) { body in
            Result { () throws(PublishError) in try PublishedEvent.decode(batch: body, limits: limits) }
        }
    }

    private func reason<Value>(_ result: Result<Value, PublishError>) -> PublishError.Reason? {
        if case .failure(let error) = result { error.reason } else { nil }
    }

    private static func names(_ texts: [String]) -> [ChannelName] { texts.compactMap { ChannelName($0) } }

    @Test func readsAnEvent() throws {
        let event = try read(
            #"{"name":"e","data":"{\"a\":\"\u00e9\"}","channels":["x","private-y"],"socket_id":"1.2","#
                + #""info":"user_count, subscription_count","more":{"a":[1]}}"#
        ).get()
        #expect(event.name == "e")
        #expect(event.data == Array(#"{"a":"é"}"#.utf8))
        #expect(event.channels == Self.names(["x", "private-y"]))
        #expect(event.except?.string == "1.2")
        #expect(event.info == [.userCount, .subscriptionCount])
        let single = try read(
            #"{"data":"","channel":"cache-x","name":"e","socket_id":null,"info":null,"channels":null}"#
        ).get()
        #expect(single.channels == Self.names(["cache-x"]))
        #expect(single.data.isEmpty && single.except == nil && single.info == [])
    }

    @Test func aChannelNamedTwiceGetsItOnce() throws {
        let event = try read(#"{"name":"e","data":"","channels":["x","y","x","y","z"]}"#).get()
        #expect(event.channels == Self.names(["x", "y", "z"]))
    }

    @Test(arguments: [
        (#"{"data":"d","channel":"x"}"#, PublishError.Reason.noName),
        (#"{"name":null,"data":"d","channel":"x"}"#, .noName),
        (#"{"name":"","data":"d","channel":"x"}"#, .nameNotText),
        (#"{"name":7,"data":"d","channel":"x"}"#, .nameNotText),
        (#"{"name":"e","channel":"x"}"#, .noData), (#"{"name":"e","data":null,"channel":"x"}"#, .noData),
        (#"{"name":"e","data":{"a":1},"channel":"x"}"#, .dataNotText),
        (#"{"name":"e","data":5,"channel":"x"}"#, .dataNotText),
        (#"{"name":"e","data":"d"}"#, .noChannel), (#"{"name":"e","data":"d","channels":[]}"#, .channelsNotList),
        (#"{"name":"e","data":"d","channels":"x"}"#, .channelsNotList),
        (#"{"name":"e","data":"d","channels":["x"],"channel":"x"}"#, .twoChannels),
        (#"{"name":"e","data":"d","channel":"a b"}"#, .badChannel(index: nil)),
        (#"{"name":"e","data":"d","channel":["x"]}"#, .badChannel(index: nil)),
        (#"{"name":"e","data":"d","channels":["x",7]}"#, .badChannel(index: 1)),
        (#"{"name":"e","data":"d","channels":["x","","y"]}"#, .badChannel(index: 1)),
        (#"{"name":"e","data":"d","channel":"x","socket_id":"1"}"#, .badSocketID),
        (#"{"name":"e","data":"d","channel":"x","socket_id":1.2}"#, .badSocketID),
        (#"{"name":"e","data":"d","channel":"x","info":"users"}"#, .badInfo),
        (#"{"name":"e","data":"d","channel":"x","info":"cache"}"#, .badInfo),
        (#"{"name":"e","data":"d","channel":"x","info":["user_count"]}"#, .badInfo),
        (#"{"name":"e","name":"e","data":"d","channel":"x"}"#, .malformed(JSONError(.duplicateKey, at: 19))),
        ("[]", .malformed(JSONError(.wrongKind, at: 0))), ("", .malformed(JSONError(.unexpectedEnd, at: 0))),
        (#"{"name":"\ud800"}"#, .malformed(JSONError(.loneSurrogate, at: 9))),
    ])
    func refusesAllElse(_ body: String, _ expected: PublishError.Reason) {
        switch (reason(read(body)), expected) {
        case (.malformed(let error), .malformed(let other)): #expect(error.kind == other.kind)
        case (let found, _): #expect(found == expected)
        }
    }

    @Test func eachBoundHoldsAndNoMore() {
        let name = String(repeating: "n", count: 200)
        let data = String(repeating: "é", count: 5_120)
        let channels = (0..<100).map { "\"c\($0)\"" }.joined(separator: ",")
        let good = #"{"name":"\#(name)","data":"\#(data)","channels":[\#(channels)]}"#
        #expect(reason(read(good)) == nil)
        #expect(reason(read(good.replacing(name, with: name + "n"))) == .longName(max: 200))
        #expect(reason(read(good.replacing(data, with: data + "x"))) == .largeData(max: 10_240))
        #expect(reason(read(good.replacing("\"c0\"", with: "\"c\",\"c0\""))) == .manyChannels(max: 100))
        #expect(reason(read(good) { $0.dataBytes = 10_239 }) == .largeData(max: 10_239))
        let escaped = #"{"name":"e","data":"\#(String(repeating: #"\u0041"#, count: 10_240))","channel":"x"}"#
        #expect(reason(read(escaped)) == nil, "what counts is what the string holds")
        #expect(PublishError(.largeData(max: 10_240)).isTooLarge)
        #expect(
            PublishError(.largeData(max: 10_240)).message.hasPrefix(
                "The data content of this event exceeds the allowed maximum (10240 bytes)."))
    }

    /// Clients take these for the hub's own events. Similar names are the backend's.
    @Test(arguments: [
        ("pusher:e", false), ("pusher:", false), ("pusher_internal:subscription_succeeded", false),
        ("pusher_internal:", false), (#"\u0070usher:e"#, false), ("pusher", true), ("pusher-e", true),
        ("pusher_internal", true), ("Pusher:e", true), ("a-pusher:e", true), ("pushers:e", true), ("client-e", true),
    ])
    func theHubsOwnEventsAreNotPublished(_ name: String, _ isTaken: Bool) {
        let body = #"{"name":"\#(name)","data":"","channel":"x"}"#
        #expect(reason(read(body)) == (isTaken ? nil : .reservedName))
    }

    // MARK: Batches

    @Test func readsABatch() throws {
        let events = try batch(
            #"{"batch":[{"name":"a","data":"1","channel":"x"},{"channel":"y","data":"2","name":"b","info":"user_count"}]}"#
        ).get()
        #expect(events.map(\.name) == ["a", "b"])
        #expect(events.map(\.channels) == [Self.names(["x"]), Self.names(["y"])])
        #expect(events[1].info == .userCount)
    }

    @Test(arguments: [
        ("{}", PublishError(.noBatch)), (#"{"batch":{}}"#, PublishError(.batchNotList)),
        (#"{"batch":null}"#, PublishError(.noBatch)),
        (#"{"batch":[]}"#, PublishError(.emptyBatch)),
        (#"{"batch":[GOOD,{"name":"b","data":"2"}]}"#, PublishError(.noChannel, index: 1)),
        (#"{"batch":[GOOD,GOOD,{"name":"b","data":"2","channels":["x"]}]}"#, PublishError(.channelsOfBatch, index: 2)),
        (
            #"{"batch":[{"name":"b","data":"2","channels":["x"],"channel":"x"}]}"#,
            PublishError(.channelsOfBatch, index: 0)
        ),
        (
            #"{"batch":[GOOD,{"name":"b","data":"123456789","channel":"x"}]}"#,
            PublishError(.largeData(max: 8), index: 1)
        ),
        (#"{"batch":[GOOD,GOOD,GOOD,GOOD]}"#, PublishError(.manyEvents(max: 3))),
        // Too many events is reported first, whatever else is wrong.
        (#"{"batch":[GOOD,7,GOOD,{}]}"#, PublishError(.manyEvents(max: 3))),
        (#"{"batch":[GOOD,7,{}]}"#, PublishError(.eventNotObject, index: 1)),
        (
            #"{"batch":[GOOD,{"name":"pusher:e","data":"2","channel":"x"}]}"#,
            PublishError(.reservedName, index: 1)
        ),
    ])
    func aBatchIsGoodAsAWholeOrNotAtAll(_ body: String, _ expected: PublishError) {
        let body = body.replacing("GOOD", with: #"{"name":"a","data":"12345678","channel":"x"}"#)
        guard case .failure(let error) = batch(body, events: 3) else {
            Issue.record("a bad batch was read")
            return
        }
        #expect(error == expected)
        #expect(!error.message.isEmpty)
    }

    @Test func anInvalidEventIsNamedByItsIndex() {
        guard case .failure(let error) = batch(#"{"batch":[7]}"#) else {
            Issue.record("a number was read as an event")
            return
        }
        #expect(error.index == 0)
        #expect(error.reason == .eventNotObject)
        #expect(error.message == "batch[0]: An event must be a JSON object.")
    }

    @Test(arguments: [
        ("[]", "The body is not a JSON object."), ("", "The body is not JSON (byte 0: the text ends inside a value)."),
        (#"{"name":"e",}"#, "The body is not JSON (byte 12: a character that does not belong there)."),
        (#"{"name":"e","name":"f"}"#, "A member of the body comes twice (the second time at byte 19)."),
    ])
    func whatIsWrongIsSaidInWords(_ body: String, _ message: String) {
        guard case .failure(let error) = read(body) else {
            Issue.record("a bad body was read")
            return
        }
        #expect(error.message == message)
    }

    // MARK: In the query

    private func parameters(_ query: String) throws -> CallParameters {
        try withBytes(query) { query throws(CallRefusal) in try CallParameters(query: query) }
    }

    @Test func readsAnEventFromTheQuery() throws {
        let event = try PublishedEvent.decode(
            try parameters("name=e&data=%7B%7D&channels[]=x&channels%5B%5D=y&socket_id=1.2&info=subscription_count"))
        #expect(event.channels == Self.names(["x", "y"]) && event.data == Array("{}".utf8))
        #expect(event.except?.string == "1.2" && event.info == .subscriptionCount)
        #expect(try PublishedEvent.decode(try parameters("name=e&data=&channel=x")).channels == Self.names(["x"]))
    }

    @Test(arguments: [
        ("name=e&channel=x", PublishError.Reason.noData), ("data=d&channel=x", .noName), ("name=e&data=d", .noChannel),
        ("name=e&data=%FF&channel=x", .noData), ("name=e&data=d&channel=x&channels[]=y", .twoChannels),
        ("name=e&data=d&channels[]=x&channels[]=a%20b", .badChannel(index: 1)),
        ("name=e&data=d&channel=", .badChannel(index: nil)), ("name=e&data=d&channel=x&socket_id=x", .badSocketID),
        ("name=e&data=d&channel=x&info=x", .badInfo),
    ])
    func refusesBadQueries(_ query: String, _ expected: PublishError.Reason) throws {
        let parameters = try parameters(query)
        #expect(throws: PublishError(expected)) { try PublishedEvent.decode(parameters) }
    }

    @Test func readsTheDeprecatedForm() throws {
        let channel = try #require(ChannelName("x"))
        let event = try withBytes(#"{"a":1}"#) { data in
            try PublishedEvent.decode(data: data, try self.parameters("name=e&socket_id=1.2"), to: channel)
        }
        #expect(event.data == Array(#"{"a":1}"#.utf8) && event.channels == [channel] && event.except?.string == "1.2")
        let parameters = try parameters("name=e")
        #expect(throws: PublishError(.dataNotText)) {
            try [0xFF].withUnsafeBytes { try PublishedEvent.decode(data: $0, parameters, to: channel) }
        }
    }

    // MARK: Info

    @Test(
        arguments: [
            ("", ChannelInfo([])), ("user_count", .userCount), ("cache,user_count", [.cache, .userCount]),
            (" subscription_count ,", .subscriptionCount), ("users", nil), ("user_count;cache", nil),
        ] as [(String, ChannelInfo?)])
    func readsInfo(_ list: String, _ expected: ChannelInfo?) {
        #expect(withBytes(list) { ChannelInfo(list: $0) } == expected)
    }

    @Test func infoIsValidForItsKinds() {
        let all: ChannelInfo = [.userCount, .subscriptionCount, .cache]
        #expect(all.valid(for: .public) == .subscriptionCount)
        #expect(all.valid(for: .presence) == [.userCount, .subscriptionCount])
        #expect(all.valid(for: .presenceCache) == all)
        #expect(all.valid(for: .privateEncryptedCache) == [.subscriptionCount, .cache])
    }
}
