import Bytes
import HubEngine
import Pusher
import Sync
import TestSupport
import Testing

/// The contents of `sync:resume`, and who may send it.
@Suite struct ResumeRequestTests {
    let engine = EngineFixture()

    private func isError(_ heard: [Heard]) -> Bool {
        guard heard.count == 1, case .text(let text) = heard[0] else { return false }
        return text.hasPrefix(#"{"event":"pusher:error","data":{"code":null"#)
    }

    private static let good = #"{"epoch":"e","offset":1}"#

    @Test(arguments: [
        #"{}"#, #"{"v":1}"#, #"{"v":1,"channels":{}}"#, #"{"v":1,"channels":[]}"#, #"{"v":1,"channels":"x"}"#,
        #"{"channels":{"user.u1.x":\#(good)}}"#, #"{"v":2,"channels":{"user.u1.x":\#(good)}}"#,
        #"{"v":"1","channels":{"user.u1.x":\#(good)}}"#, #"{"v":1,"channels":{"user.u1.x":7}}"#,
        #"{"v":1,"channels":{"user.u1.x":{"epoch":"e"}}}"#, #"{"v":1,"channels":{"user.u1.x":{"offset":1}}}"#,
        #"{"v":1,"channels":{"user.u1.x":{"epoch":7,"offset":1}}}"#,
        #"{"v":1,"channels":{"user.u1.x":{"epoch":"e","offset":-1}}}"#,
        #"{"v":1,"channels":{"user.u1.x":{"epoch":"e","offset":1.5}}}"#,
        #"{"v":1,"channels":{"user.u1.x":{"epoch":"e","offset":"1"}}}"#,
        #"{"v":1,"channels":{"user.u1.x":{"epoch":"e","offset":9007199254740993}}}"#,
        #"{"v":1,"channels":{"user.u1.x":{"epoch":"e","offset":99999999999999999999}}}"#,
        #"{"v":1,"channels":{"user.u1.x":{"epoch":"\#(String(repeating: "e", count: 129))","offset":1}}}"#,
        #"{"v":1,"channels":{"no name":\#(good)}}"#, #"{"v":1,"channels":{"":\#(good)}}"#,
    ])
    func whatIsWrongIsToldAndNothingApplied(_ data: String) throws {
        let session = engine.session(0)
        _ = try engine.signin("u1", from: session)
        #expect(isError(try engine.send(#"{"event":"sync:resume","data":\#(data)}"#, from: session)), "\(data)")
        // Also beside a valid member.
        let mixed = data.replacing("\"channels\":{\"", with: "\"channels\":{\"user.u1.y\":\(Self.good),\"")
        if mixed != data {
            #expect(isError(try engine.send(#"{"event":"sync:resume","data":\#(mixed)}"#, from: session)), "\(mixed)")
        }
        _ = try engine.subscribe("user.u1.y", from: session)
        let name = try #require(try StreamName.parse("user.u1.y"))
        let join = StreamJoin(name: name, session: session.id, serial: 1)
        #expect(engine.joined(join, at: 3, session) == [succeeded("user.u1.y", at: 3)], "no position was kept")
    }

    @Test(arguments: [
        #"{"v":1,"channels":{"user.u1.x":{"epoch":"e","offset":0}}}"#,
        #"{"more":[{}],"v":1,"channels":{"user.u1.x":{"epoch":"e","offset":9007199254740992,"more":null}}}"#,
        #"{"v":1,"channels":{"user.u1.x":{"epoch":"\#(String(repeating: "e", count: 128))","offset":1}}}"#,
    ])
    func validPositionsAreKept(_ data: String) throws {
        for text in [data, "\"" + data.replacing("\"", with: "\\\"") + "\""] {
            let session = engine.session(0)
            _ = try engine.signin("u1", from: session)
            #expect(try engine.send(#"{"event":"sync:resume","data":\#(text)}"#, from: session).isEmpty)
            _ = try engine.subscribe("user.u1.x", from: session)
            let name = try #require(try StreamName.parse("user.u1.x"))
            let heard = engine.joined(StreamJoin(name: name, session: session.id, serial: 1), at: 3, session)
            #expect(heard.first == succeeded("user.u1.x", at: 3))
            guard case .join("user.u1.x", serial: 2, .resume)? = heard.last else {
                Issue.record("\(heard)")
                continue
            }
            _ = engine.close(session)
        }
    }

    private static let usual =
        #"{"event":"sync:resume","data":{"v":1,"channels":{"user.u1.x":{"epoch":"e","offset":12},"user.u1.y":{"epoch":"f","offset":0}}}}"#

    /// Everything that a client hears that is back: it subscribes, sends `resume`, and signs in.
    private func heardByOneBack(sending resume: String, readsCommonMessages: Bool) throws -> [Heard] {
        var engine = EngineFixture()
        engine.readsCommonMessages = readsCommonMessages
        let session = engine.session(0)
        var heard = try engine.subscribe("user.u1.x", from: session) + engine.subscribe("user.u1.y", from: session)
        heard += try engine.send(resume, from: session)
        heard += try engine.signin("u1", from: session)
        for (topic, serial) in [("x", 1), ("y", 2)] as [(String, UInt32)] {
            let name = try #require(try StreamName.parse("user.u1.\(topic)"))
            heard += engine.joined(StreamJoin(name: name, session: session.id, serial: serial), at: 12, session)
        }
        return heard
    }

    @Test func theUsualSpellingIsReadInPlace() throws {
        let session = engine.session(0)
        for name in ["user.u1.x", "user.u1.y"] { _ = try engine.subscribe(name, from: session) }
        var text = Self.usual
        text.withUTF8 { text in
            var effects = SessionEngine.Effects()
            let event = CommonEvent(UnsafeRawBufferPointer(text))
            #expect(event.map { engine.core.received($0, from: session, &effects) } == true)
            #expect(effects.isEmpty)
        }
        let heard = try heardByOneBack(sending: Self.usual, readsCommonMessages: true)
        #expect(heard.suffix(3).first == resumed("user.u1.x", at: 12, replayed: 0), "\(heard)")
        #expect(heard.last == .join("user.u1.y", serial: 3, .resume(from: StreamPosition(epoch: "f", offset: 0))))
    }

    /// The quick reading leaves to the general one what is not exactly the usual spelling, or not for it alone to judge.
    @Test(arguments: [
        #""user.u1.x":{"epoch":"e","offset":012}"#, #""user.u1.x":{"epoch":"e","offset":00}"#,
        #""user.u1.x":{"epoch":"e","offset":}"#, #""user.u1.x":{"epoch":"e","offset":-1}"#,
        #""user.u1.x":{"epoch":"e","offset":12.0}"#, #""user.u1.x":{"epoch":"e","offset":12e0}"#,
        #""user.u1.x":{"epoch":"e","offset":9007199254740992}"#,
        #""user.u1.x":{"epoch":"e","offset":9007199254740993}"#,
        #""user.u1.x":{"epoch":"e","offset":99999999999999999999}"#,
        #""user.u1.x":{"epoch":"e","offset":1},"user.u1.x":{"epoch":"e","offset":12}"#,
        #""user.u1.x":{"epoch":"e","offset":1},"#, #""user.u1.x":{"epoch":"e","offset":1}},"x":{"#, "",
        #""user.u1.x":{"epoch":"\#(String(repeating: "e", count: 128))","offset":1}"#,
        #""user.u1.x":{"epoch":"\#(String(repeating: "e", count: 129))","offset":1}"#,
        #""user.u1.x":{"epoch":"","offset":1}"#, #""user.u1.x":{"epoch":"\u0065","offset":12}"#,
        #""user.u1.x":{"offset":12,"epoch":"e"}"#, #""user.u1.x":{"epoch":"e","offset":12,"more":1}"#,
        #""user.u1.z":{"epoch":"e","offset":1}"#, #""user.u2.x":{"epoch":"e","offset":1}"#,
        #""private-user.u1.x":{"epoch":"e","offset":1}"#, #""news":{"epoch":"e","offset":1}"#,
    ])
    func anotherSpellingIsReadAlike(_ channels: String) throws {
        let text = #"{"event":"sync:resume","data":{"v":1,"channels":{\#(channels)}}}"#
        #expect(
            try heardByOneBack(sending: text, readsCommonMessages: true)
                == heardByOneBack(sending: text, readsCommonMessages: false))
    }

    /// Whatever the text is: the quick reading does what the general one does.
    @Test func anyChangeOfTheUsualSpellingIsReadAlike() throws {
        var random = SeededRandom()
        let odd =
            #""\{}[]:,. u0n/#é9-"#.map(String.init) + [
                "\u{0}", "\u{7F}", "}}", #"{"v":1,"#, #""user.u1.z""#, #","offset":1"#,
            ]
        for _ in 0..<1_000 {
            var changed = Self.usual.map(String.init)
            for _ in 0...Int.random(in: 0..<2, using: &random) {
                let index = Int.random(in: changed.indices, using: &random)
                let piece = odd.randomElement(using: &random) ?? ""
                switch Int.random(in: 0..<3, using: &random) {
                case 0: changed[index] = piece
                case 1: changed.insert(piece, at: index)
                default: changed.remove(at: index)
                }
            }
            let text = changed.joined()
            #expect(
                try heardByOneBack(sending: text, readsCommonMessages: true)
                    == heardByOneBack(sending: text, readsCommonMessages: false), "\(text), seed \(random.seed)")
        }
    }

    @Test func onlyOnesOwnStreams() throws {
        let session = engine.session(0)
        _ = try engine.signin("u1", from: session)
        #expect(
            try engine.resume(["news": ("e", 4), "user.u2.x": ("e", 5), "user.u1.x": ("e", 6)], from: session)
                == [resumed("news", at: 4, lost: .forbidden), resumed("user.u2.x", at: 5, lost: .forbidden)])
        _ = try engine.subscribe("news", from: session)
        #expect(try engine.resume(["news": ("e", 4)], from: session) == [resumed("news", at: 4, lost: .forbidden)])
        let other = engine.session(0, app: engine.otherApp)
        #expect(
            try engine.resume(["user.u1.x": ("e", 4)], from: other)
                == [resumed("user.u1.x", at: 4, lost: .forbidden)])
        #expect(
            try engine.resume(["user.=41.x": ("e", 4)], from: session)
                == [resumed("user.=41.x", at: 4, lost: .forbidden)], "no canonical name")
    }

    @Test func placesAreBounded() throws {
        var limits = ChannelLimits()
        limits.positionsPerSessionMax = 2
        let engine = EngineFixture(limits: limits)
        let session = engine.session(0)
        #expect(try engine.resume(["user.a.x": ("e", 1), "user.a.y": ("e", 1)], from: session).isEmpty)
        #expect(try engine.resume(["user.a.x": ("e", 2)], from: session).isEmpty, "not a further one")
        #expect(isError(try engine.resume(["user.a.z": ("e", 1)], from: session)))
        #expect(
            isError(
                try engine.resume(["user.a.x": ("e", 1), "user.a.y": ("e", 1), "user.a.z": ("e", 1)], from: session)))
        // An unsubscribe frees a position, even when nothing was subscribed.
        #expect(try engine.unsubscribe("user.a.y", from: session).isEmpty)
        #expect(try engine.resume(["user.a.z": ("e", 1)], from: session).isEmpty)
    }

    /// A backend may still admit to another user's private channel, after an HTTP call: the position waits for that.
    @Test func aPrivateChannelOfAnotherUserMayStillCome() throws {
        let name = "private-user.u2.x"
        let session = engine.session(0)
        _ = try engine.signin("u1", from: session)
        #expect(try engine.resume([name: ("e", 4)], from: session).isEmpty)
        let channel = try #require(ChannelName(name))
        let auth = engine.app.credentials.sign(.channel(channel, channelData: nil), socketID: session.socketID)
        #expect(try engine.subscribe(name, auth: auth, from: session) == [.join(name, serial: 1)])
        let join = StreamJoin(
            name: try #require(try StreamName.parse(name)), session: session.id, serial: 1)
        #expect(
            engine.joined(join, at: 5, session) == [
                succeeded(name, at: 5), .join(name, serial: 2, .resume(from: StreamPosition(epoch: "e", offset: 4))),
            ])
    }

    /// The wire format, byte for byte.
    @Test func theAnswersOnTheWire() {
        #expect(
            resumed("user.u1.x", at: 7, replayed: 2)
                == .text(
                    #"{"event":"sync:resumed","data":"{\"channels\":{\"user.u1.x\":{\"epoch\":\"e\",\"offset\":7,\"recovered\":true,\"replayed\":2}}}"}"#
                ))
        #expect(
            resumed("user.u1.x", at: 7, lost: .tooMany)
                == .text(
                    #"{"event":"sync:resumed","data":"{\"channels\":{\"user.u1.x\":{\"epoch\":\"e\",\"offset\":7,\"recovered\":false,\"reason\":\"too_many\"}}}"}"#
                ))
    }
}
