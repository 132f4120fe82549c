import Bytes
import JSON
import Pusher
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct ClientEventTests {
    private func decode(_ text: String, limits: PusherLimits = PusherLimits()) throws -> ClientEvent {
        try withBytes(text) { bytes throws(ClientEventError) in try ClientEvent.decode(bytes, limits: limits) }
    }

    private func failure(_ text: String, limits: PusherLimits = PusherLimits()) -> ClientEventError? {
        do { _ = try decode(text, limits: limits) } catch { return error as? ClientEventError }
        return nil
    }

    private static func channel(_ name: String) throws -> ChannelName { try #require(ChannelName(name)) }

    @Test(arguments: [#"{}"#, #""{}""#, #""""#, "null", "[]", "7"]) func pingsTakeAnyData(data: String) throws {
        #expect(try decode(#"{"event":"pusher:ping","data":\#(data)}"#) == .ping)
        #expect(try decode(#"{"data":\#(data),"event":"pusher:pong"}"#) == .pong)
        #expect(try decode(#"{"event":"pusher:ping"}"#) == .ping)
    }

    @Test func subscribes() throws {
        let user = try ClientEventTests.channel("user.1.adherence")
        let secret = try ClientEventTests.channel("private-x")
        let plain = #"{"event":"pusher:subscribe","data":{"auth":"","channel":"user.1.adherence"}}"#
        #expect(try decode(plain) == .subscribe(user, auth: nil, channelData: nil))
        #expect(
            try decode(#"{"event":"pusher:subscribe","data":{"channel":"user.1.adherence"}}"#)
                == .subscribe(user, auth: nil, channelData: nil))
        #expect(
            try decode(
                #"{"event":"pusher:subscribe","data":{"auth":"K:ab","channel_data":"{\"a\":1}","channel":"private-x"}}"#
            )
                == .subscribe(secret, auth: "K:ab", channelData: #"{"a":1}"#))
        #expect(
            try decode(#"{"event":"pusher:subscribe","data":"{\"auth\":\"K:ab\",\"channel\":\"private-x\"}"}"#)
                == .subscribe(secret, auth: "K:ab", channelData: nil))
        #expect(
            try decode(
                #"{"event":"pusher\u003asubscribe","data":{"\u0063hannel":"private\u002dx","auth":null,"more":[]}}"#)
                == .subscribe(secret, auth: nil, channelData: nil))
    }

    @Test func unsubscribesAndSignsIn() throws {
        #expect(
            try decode(#"{"event":"pusher:unsubscribe","data":{"channel":"x"}}"#)
                == .unsubscribe(ClientEventTests.channel("x")))
        #expect(
            try decode(#"{"event":"pusher:signin","data":{"auth":"K:ab","user_data":"{\"id\":\"u1\"}"}}"#)
                == .signin(auth: "K:ab", userData: #"{"id":"u1"}"#))
    }

    @Test func carriesOurOwnEvents() throws {
        #expect(
            try decode(#"{"event":"sync:auth","data":{"token":"a.b.c"}}"#)
                == .sync(name: "auth", data: Array(#"{"token":"a.b.c"}"#.utf8)))
        #expect(
            try decode(#"{"event":"sync:auth","data":"{\"token\":\"t\"}"}"#)
                == .sync(name: "auth", data: Array(#"{"token":"t"}"#.utf8)))
        #expect(try decode(#"{"event":"sync:status"}"#) == .sync(name: "status", data: Array("{}".utf8)))
        #expect(try decode(#"{"event":"sync:status","data":""}"#) == .sync(name: "status", data: Array("{}".utf8)))
        for data in ["[]", "1", #""[]""#, #""{""#] {
            #expect(failure(#"{"event":"sync:x","data":\#(data)}"#) == .invalidData)
        }
    }

    @Test func clientEventsKeepTheirData() throws {
        let channel = try ClientEventTests.channel("private-x")
        for data in [#"{"a": 1}"#, #""text \n""#, "null", "[1]"] {
            #expect(
                try decode(#"{"event":"client-move","channel":"private-x","data":\#(data)}"#)
                    == .client(name: "client-move", channel: channel, data: Array(data.utf8)))
        }
        #expect(failure(#"{"event":"client-move","data":{}}"#) == .invalidChannel)
        #expect(failure(#"{"event":"client-move","channel":7,"data":{}}"#) == .invalidChannel)
    }

    @Test func otherNamesAreUnknown() throws {
        for name in ["pusher:subscription", "hello", "client", "pusher_internal:member_added", "Sync:auth"] {
            #expect(try decode(#"{"event":"\#(name)","data":{}}"#) == .unknown(name: name))
        }
    }

    @Test(
        arguments: [
            (#"{}"#, .invalidEvent), (#"{"event":7}"#, .invalidEvent), (#"{"event":""}"#, .invalidEvent),
            (#"[]"#, .malformed(JSONError(.wrongKind, at: 0))), ("", .malformed(JSONError(.unexpectedEnd, at: 0))),
            (#"{"event":"a","event":"b"}"#, .malformed(JSONError(.duplicateKey, at: 21))),
            (#"{"event":"pusher:subscribe"}"#, .invalidData),
            (#"{"event":"pusher:subscribe","data":[]}"#, .invalidData),
            (#"{"event":"pusher:subscribe","data":""}"#, .invalidData),
            (#"{"event":"pusher:subscribe","data":{}}"#, .invalidChannel),
            (#"{"event":"pusher:subscribe","data":{"channel":7}}"#, .invalidChannel),
            (#"{"event":"pusher:subscribe","data":{"channel":"a b"}}"#, .noChannelName(Array("a b".utf8))),
            (#"{"event":"pusher:subscribe","data":{"channel":""}}"#, .noChannelName([])),
            (##"{"event":"pusher:subscribe","data":{"channel":"#x"}}"##, .noChannelName(Array("#x".utf8))),
            // As the client wrote it: with its escapes, also where the data is a text itself.
            (
                #"{"event":"pusher:subscribe","data":{"channel":"\"\u00e9\\"}}"#,
                .noChannelName(Array(#"\"\u00e9\\"#.utf8))
            ),
            (
                #"{"event":"pusher:subscribe","data":"{\"channel\":\"\\\"é\"}"}"#,
                .noChannelName(Array(#"\"é"#.utf8))
            ),
            (#"{"event":"pusher:unsubscribe","data":{"channel":"a b"}}"#, .invalidChannel),
            (#"{"event":"pusher:subscribe","data":{"channel":"a","auth":7}}"#, .invalidData),
            (
                #"{"event":"pusher:subscribe","data":"{\"channel\":\"a\",\"channel\":\"b\"}"}"#,
                .malformed(JSONError(.duplicateKey, at: 25))
            ),
            (#"{"event":"pusher:signin","data":{"auth":"K:ab"}}"#, .invalidData),
            (#"{"event":"pusher:signin","data":{"auth":"","user_data":"{}"}}"#, .invalidData),
        ] as [(String, ClientEventError)]) func refuses(text: String, error: ClientEventError)
    { #expect(failure(text) == error) }

    @Test func limitsAtTheBoundAndOnePast() throws {
        var limits = PusherLimits()
        limits.authBytes = 10
        limits.channelDataBytes = 10
        limits.userDataBytes = 10
        let ten = String(repeating: "é", count: 5)
        for (name, event) in [("auth", "subscribe"), ("channel_data", "subscribe"), ("user_data", "signin")] {
            let auth = name == "auth" ? "" : #""auth":"K","#
            let exact = #"{"event":"pusher:\#(event)","data":{\#(auth)"channel":"c","\#(name)":"\#(ten)"}}"#
            let past = #"{"event":"pusher:\#(event)","data":{\#(auth)"channel":"c","\#(name)":"\#(ten)x"}}"#
            #expect(failure(exact, limits: limits) == nil)
            let channel = try ClientEventTests.channel("c")
            let errors: [String: ClientEventError] = [
                "auth": .signatureTooLong(channel), "channel_data": .memberTooLong(channel), "user_data": .tooLong,
            ]
            #expect(failure(past, limits: limits) == errors[name])
        }
        #expect(
            failure(#"{"event":"pusher:signin","data":{"auth":"\#(ten)x","user_data":"{}"}}"#, limits: limits)
                == .tooLong)
        let name = String(repeating: "n", count: 200)
        #expect(
            failure(#"{"event":"pusher:subscribe","data":{"channel":"\#(name)n"}}"#)
                == .noChannelName(Array("\(name)n".utf8)))
        #expect(try decode(#"{"event":"\#(name)"}"#) == .unknown(name: name))
        #expect(failure(#"{"event":"\#(name)n"}"#) == .invalidEvent)
        let deep = String(repeating: "[", count: 10_000)
        #expect(failure(#"{"event":"pusher:ping","data":\#(deep)"#) == .malformed(JSONError(.tooDeep, at: 61)))
    }

    /// Members of Pusher's events mean nothing elsewhere; and data is checked wherever it stands.
    @Test func dataOfOtherEventsIsFree() throws {
        let data = #"{"auth":1,"auth":2,"channel":{"a":[]},"user_data":null}"#
        #expect(try decode(#"{"data":\#(data),"event":"sync:x"}"#) == .sync(name: "x", data: Array(data.utf8)))
        #expect(failure(#"{"data":\#(data),"event":"pusher:subscribe"}"#)?.message.description == "Invalid JSON")
        for bad in [#"{"a":}"#, #"{"a":1,}"#, #"{"a" 1}"#, #"{"a":1"#, "{1:2}", #"{"a":"\x"}"#] {
            #expect(
                failure(#"{"event":"pusher:ping","data":\#(bad)}"#)?.message.description == "Invalid JSON", "\(bad)")
        }
        var limits = PusherLimits()
        limits.depth = 3
        #expect(failure(#"{"event":"pusher:ping","data":{"a":[]}}"#, limits: limits) == nil)
        #expect(
            failure(#"{"event":"pusher:ping","data":{"a":[[]]}}"#, limits: limits)?.message.description
                == "Invalid JSON")
        limits.depth = 1
        #expect(failure(#"{"event":"pusher:ping","data":{}}"#, limits: limits)?.message.description == "Invalid JSON")
    }

    /// Mutated messages: an event or an error, never a trap.
    @Test func survivesMutation() throws {
        let corpus = try Corpus.load("pusher").map(\.bytes)
        for seed in 0..<4000 as Range<UInt64> {
            var random = SeededRandom(seed: seed)
            let base = corpus[Int(seed) % corpus.count]
            let bytes = Mutation.apply(to: base, other: corpus.randomElement(using: &random) ?? [], using: &random)
            withBytes(bytes) { text in
                do throws(ClientEventError) {
                    if case .sync(_, let data) = try ClientEvent.decode(text) {
                        let kind = data.withUnsafeBytes { try? JSONValue.parse($0).kind }
                        #expect(kind == .object, "seed \(seed)")
                    }
                } catch {
                    #expect(!error.message.description.isEmpty)
                }
                _ = try? UserData(text, times: .each)
                _ = SocketID(text)
                _ = ChannelName(text)
            }
        }
    }
}
