import HubEngine
import Pusher
import Sync
import TestSupport
import Testing

/// Random histories of one engine: whatever clients do and in whatever order shards answer, a session is in a channel at
/// most once, and a closed session in none.
@Suite struct SessionEngineHistories {
    private static let names = ["news", "user.a.x", "private-user.a.x", "user.b.x", "private-user.b.x"]

    /// The quick and the general reader lead to the same answers.
    @Test(arguments: 0..<40 as Range<UInt64>) func commonMessagesAreAnsweredAsAll(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var limits = ChannelLimits()
        limits.subscriptionsPerSessionMax = 4
        limits.parkedPerSessionMax = 2
        let quick = EngineFixture(limits: limits)
        var general = EngineFixture(limits: limits)
        general.readsCommonMessages = false
        // The last are not names, but texts that the quick reader may find in place of one.
        let odd = [
            #"user.a.x","channel":"user.a.x"#, #"user.a","user.a.x"#, #"user.\u0061.x"#, "user.a b.x", "user.é.x",
        ]
        let names =
            Self.names + [
                "user.a.y", "user.a", "user.=61.x", "user.=C3=A9.x", "private-x", "user.a.z", "private-user.a.z",
            ]
            + odd
        let app = Bool.random(using: &random) ? (quick.app, general.app) : (quick.otherApp, general.otherApp)
        let (one, other) = (quick.session(0, app: app.0), general.session(0, app: app.1))
        var joins: [StreamJoin] = []
        for _ in 0..<60 {
            let name = try #require(names.randomElement(using: &random))
            var heard: [Heard] = []
            defer {
                for case .join(let name, let serial, let purpose) in heard {
                    guard let stream = try? StreamName.parse(name) else { continue }
                    joins.append(StreamJoin(name: stream, session: one.id, serial: serial, purpose: purpose))
                }
            }
            switch Int.random(in: 0..<12, using: &random) {
            case 0..<4:
                heard = try quick.subscribe(name, from: one)
                #expect(try heard == general.subscribe(name, from: other), "seed \(seed)")
            case 4, 5:
                #expect(
                    try quick.unsubscribe(name, from: one) == general.unsubscribe(name, from: other), "seed \(seed)")
            case 6:
                let user = Bool.random(using: &random) ? "a" : "b"
                let more = Bool.random(using: &random) ? "" : #","user_info":{"x":1}"#
                heard = try quick.signin(user, more: more, from: one)
                #expect(try heard == general.signin(user, more: more, from: other), "seed \(seed)")
            case 7...9:
                let offsets = ["0", "1", "2", "02", "-1", "1.0", "1e0", "9007199254740992", "9007199254740993", ""]
                let positions = try (0..<Int.random(in: 1...3, using: &random)).map { _ in
                    let name = try #require((Self.names + names).randomElement(using: &random))
                    let epoch = Bool.random(using: &random) ? "e" : "f"
                    let offset = try #require(
                        Bool.random(using: &random) ? "1" : offsets.randomElement(using: &random))
                    return #""\#(name)":{"epoch":"\#(epoch)","offset":\#(offset)}"#
                }
                let text =
                    #"{"event":"sync:resume","data":{"v":1,"channels":{\#(positions.joined(separator: ","))}}}"#
                heard = try quick.send(text, from: one)
                #expect(try heard == general.send(text, from: other), "seed \(seed)")
            case 10:
                guard !joins.isEmpty else { continue }
                let join = joins.remove(at: Int.random(in: joins.indices, using: &random))
                let offset = Int64.random(in: 0...2, using: &random)
                heard = quick.joined(join, at: offset, one)
                #expect(heard == general.joined(join, at: offset, other), "seed \(seed)")
            default:
                let text = #"{"event":"pusher:ping","data":{}}"#
                #expect(try quick.send(text, from: one) == general.send(text, from: other), "seed \(seed)")
            }
        }
    }

    @Test(arguments: 0..<100 as Range<UInt64>)
    func aSessionStandsInAChannelOnceOrNotAtAll(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let engine = EngineFixture()
        var sessions = (0..<6 as Range<UInt32>).map { engine.session($0) }
        var joins: [(join: StreamJoin, session: Session)] = []
        for _ in 0..<600 {
            let index = Int.random(in: sessions.indices, using: &random)
            let session = sessions[index]
            let name = try #require(Self.names.randomElement(using: &random))
            var heard: [Heard] = []
            switch Int.random(in: 0..<12, using: &random) {
            case 0..<4: heard = try engine.subscribe(name, from: session)
            case 4, 5:
                let channel = try #require(ChannelName(name))
                let auth = engine.app.credentials.sign(.channel(channel, channelData: nil), socketID: session.socketID)
                heard = try engine.subscribe(name, auth: auth, from: session)
            case 6, 7: heard = try engine.unsubscribe(name, from: session)
            case 8: heard = try engine.signin(Bool.random(using: &random) ? "a" : "b", from: session)
            case 9:
                heard = engine.close(session)
                sessions[index] = engine.session(session.id.slot)
            default:
                guard !joins.isEmpty else { continue }
                let (join, joining) = joins.remove(at: Int.random(in: joins.indices, using: &random))
                guard sessions.contains(where: { $0 === joining }) else { continue }
                _ = engine.joined(join, at: 1, joining)
            }
            for case .join(let name, let serial, _) in heard {
                let stream = try #require(try StreamName.parse(name))
                joins.append((StreamJoin(name: stream, session: session.id, serial: serial), session))
            }
            for name in Self.names {
                let subscribers = engine.subscribers(name)
                #expect(Set(subscribers).count == subscribers.count, "seed \(seed): \(name) \(subscribers)")
            }
        }
        for session in sessions { _ = engine.close(session) }
        #expect(engine.core.channels.count(of: engine.app) == 0, "seed \(seed)")
    }
}
