import Pusher
import TestSupport
import Testing

@testable import HubEngine

/// Watchlists on one loop: the requests to shards, and the news from them.
@Suite(.timeLimit(.minutes(15))) struct WatchlistTests {
    private let engine = EngineFixture()

    private func signin(_ user: String, _ watched: [String], _ session: Session) throws -> [Heard] {
        let list = watched.map { "\"\($0)\"" }.joined(separator: ",")
        return try engine.signin(user, more: #","watchlist":[\#(list)]"#, from: session)
    }

    private func news(_ user: String, _ isOnline: Bool, _ serial: UInt32? = nil) -> UserNews {
        UserNews(user: UserKey(user, of: engine.watchfulApp.index), isOnline: isOnline, serial: serial)
    }

    private func told(_ news: UserNews...) -> [String] {
        var heard: [String] = []
        engine.core.watchlists.told(news) { sessions, messages in
            let text = messages.texts.joined()
            heard += sessions.map { "\($0.slot) \(text)" }
        }
        return heard.sorted()
    }

    private func frame(online: [String] = [], offline: [String] = []) -> String {
        let events = [("online", online), ("offline", offline)].filter { !$0.1.isEmpty }.map { name, users in
            let ids = users.map { #"\"\#($0)\""# }.joined(separator: ",")
            return #"{\"name\":\"\#(name)\",\"user_ids\":[\#(ids)]}"#
        }
        return #"{"event":"pusher_internal:watchlist_events","data":"#
            + #""{\"events\":[\#(events.joined(separator: ","))]}"}"#
    }

    @Test func aSignInIsToldOfTheUsersWatched() throws {
        let one = engine.session(0, app: engine.watchfulApp)
        let heard = try signin("u", ["a", "b"], one)
        #expect(heard.first.map { "\($0)" }?.hasPrefix(#"{"event":"pusher:signin_success""#) == true)
        #expect(heard.dropFirst() == [.users(["watch a 1", "watch b 2", "arrived u"])])
        #expect(told(news("a", true, 1), news("b", false, 2)) == ["0 " + frame(online: ["a"], offline: ["b"])])

        // The loop already knows about b, and asks about c.
        let other = engine.session(1, app: engine.watchfulApp)
        let next = try signin("v", ["b", "c"], other)
        #expect(next.dropFirst() == [.text(frame(offline: ["b"])), .users(["watch c 3", "arrived v"])])
        #expect(told(news("b", true)) == ["0 " + frame(online: ["b"]), "1 " + frame(online: ["b"])])
        #expect(told(news("b", true)) == [])
        #expect(told(news("c", true, 3)) == ["1 " + frame(online: ["c"])])

        #expect(engine.close(one) == [.users(["unwatch a", "departed u"])])
        #expect(told(news("b", false)) == ["1 " + frame(offline: ["b"])])
        #expect(engine.close(other) == [.users(["unwatch b", "unwatch c", "departed v"])])
        #expect(told(news("b", true)) == [])
    }

    /// Between the watch and its answer, news is ignored: it was decided before.
    @Test func noChangeOvertakesTheAnswer() throws {
        let session = engine.session(0, app: engine.watchfulApp)
        _ = try signin("u", ["a"], session)
        #expect(told(news("a", true)) == [])
        #expect(told(news("a", false, 1)) == ["0 " + frame(offline: ["a"])])
    }

    @Test func anAnswerToAnEarlierWatchIsIgnored() throws {
        let session = engine.session(0, app: engine.watchfulApp)
        _ = try signin("u", ["a"], session)
        #expect(try signin("u", ["b"], session).last == .users(["unwatch a", "watch b 2"]))
        #expect(try signin("u", ["a"], session).last == .users(["unwatch b", "watch a 3"]))
        #expect(told(news("a", true, 1)) == [])
        #expect(told(news("a", false, 3)) == ["0 " + frame(offline: ["a"])])
        // Answered once.
        #expect(told(news("a", true, 3)) == [])
    }

    @Test func allWhoWaitAreToldByOneAnswer() throws {
        for slot in 0..<3 as Range<UInt32> {
            let session = engine.session(slot, app: engine.watchfulApp)
            let heard = try signin("u\(slot)", ["a"], session)
            #expect(heard.last == .users((slot == 0 ? ["watch a 1"] : []) + ["arrived u\(slot)"]))
        }
        #expect(told(news("a", true, 1)) == (0..<3).map { "\($0) " + frame(online: ["a"]) })
    }

    @Test func theListIsCutAtItsLimit() throws {
        let session = engine.session(0, app: engine.watchfulApp)
        #expect(
            try signin("u", ["a", "b", "c", "a"], session).last
                == .users(["watch a 1", "watch b 2", "watch c 3", "arrived u"]))
        let cut = try signin("u", ["b", "a", "c", "d"], session)
        #expect(cut.contains { "\($0)".contains(#""code":4302"#) })
        #expect(cut.contains(.users(["unwatch a", "unwatch b", "unwatch c", "watch b 4", "watch a 5", "watch c 6"])))
        let odd = try engine.signin("u", more: #","watchlist":["a",5,"",{"b":1}]"#, from: session)
        #expect(odd.contains { "\($0)".contains("watchlist names users by strings") })
    }

    /// Sessions that watch the same users leave in any order and change their watchlists: the remaining ones are told.
    @Test(arguments: 0..<20 as Range<UInt64>) func theOthersAreToldOfAnyDeparture(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let users = ["a", "b", "c", "d", "e"]
        var watching: [UInt32: (session: Session, users: [String])] = [:]
        for _ in 0..<60 {
            let slot = UInt32.random(in: 0..<8, using: &random)
            if let (session, _) = watching[slot], Bool.random(using: &random) {
                _ = engine.close(session)
                watching[slot] = nil
            } else {
                let session = watching[slot]?.session ?? engine.session(slot, app: engine.watchfulApp)
                let chosen = Array(users.shuffled(using: &random).prefix(Int.random(in: 0...3, using: &random)))
                for case .users(let requests) in try signin("u\(slot)", chosen, session) {
                    for words in requests.map({ $0.split(separator: " ") }) where words[0] == "watch" {
                        _ = told(news(String(words[1]), false, UInt32(words[2])))
                    }
                }
                watching[slot] = (session, chosen)
            }
            for user in users {
                let expected = watching.filter { $0.value.users.contains(user) }.map(\.key).sorted()
                #expect(told(news(user, true)) == expected.map { "\($0) " + frame(online: [user]) })
                _ = told(news(user, false))
            }
        }
    }

    /// Otherwise each signin would ask the shards of up to a hundred users.
    @Test func theSameListOnceMoreIsLeftAsItIs() throws {
        let session = engine.session(0, app: engine.watchfulApp)
        _ = try signin("u", ["a", "b"], session)
        #expect(told(news("a", true, 1), news("b", false, 2)) == ["0 " + frame(online: ["a"], offline: ["b"])])
        let known = Heard.text(frame(online: ["a"], offline: ["b"]))
        #expect(try signin("u", ["a", "b"], session).dropFirst() == [known], "no shard is asked")
        #expect(try signin("u", ["a", "b", "a"], session).dropFirst() == [known])
        #expect(told(news("a", false)) == ["0 " + frame(offline: ["a"])], "it is watched all the time")
        _ = try signin("u", ["a", "b", "c", "d"], session)
        let again = try signin("u", ["a", "b", "c", "d"], session)
        #expect(again.count == 2 && "\(again[1])".contains(#""code":4302"#), "what is wrong with it is said again")
        #expect(try signin("u", [], session).last == .users(["unwatch a", "unwatch b", "unwatch c"]))
        #expect(try signin("u", [], session).count == 1)
    }

    @Test func otherAppsWatchNobody() throws {
        let session = engine.session(0, app: engine.otherApp)
        #expect(try signin("u", ["a"], session).count == 1)
        #expect(engine.close(session) == [])
    }

    // MARK: Info in presence channels

    private func present(_ channel: String, _ session: Session) throws -> [Heard] {
        let name = try #require(ChannelName(channel))
        let auth = session.app.credentials.sign(.channel(name, channelData: nil), socketID: session.socketID)
        return try engine.subscribe(channel, auth: auth, from: session)
    }

    @Test func theSignedInUserIsTheMember() throws {
        let session = engine.session(0, app: engine.otherApp)
        _ = try engine.signin("u", more: #","user_info":{"name":"U"}"#, from: session)
        #expect("\(try present("presence-x", session))".contains(#"{\"u\":{\"name\":\"U\"}}"#))
        // A changed info counts for channels joined from then on.
        _ = try engine.signin("u", from: session)
        #expect("\(try present("presence-y", session))".contains(#"{\"u\":{}}"#))
    }

    @Test func aMemberHasSoManyBytesAndNoMore() throws {
        let most = engine.otherApp.limits.presenceMemberBytesMax
        for (count, isIn) in [(most, true), (most + 1, false)] {
            let session = engine.session(UInt32(count), app: engine.otherApp)
            let info = #""\#(String(repeating: "a", count: count - 2))""#
            _ = try engine.signin("u\(count)", more: #","user_info":\#(info)"#, from: session)
            let heard = "\(try present("presence-x", session))"
            #expect(heard.contains("subscription_succeeded") == isIn && heard.contains(#"\"status\":413"#) != isIn)
            // What is never sent is not kept.
            #expect(session.detail?.info?.count == (isIn ? count : nil))
        }
    }

    /// A `channel_data` that is too long to be read is also refused on its channel: the client waits for that.
    @Test func aMemberThatIsNotReadIsRefusedOnItsChannel() throws {
        let session = engine.session(0, app: engine.otherApp)
        let data = String(repeating: "a", count: PusherLimits().channelDataBytes + 1)
        let heard = try engine.send(
            #"{"event":"pusher:subscribe","data":{"channel":"presence-x","auth":"k:s","channel_data":"\#(data)"}}"#,
            from: session)
        #expect(
            heard.count == 1 && "\(heard)".contains("pusher:subscription_error") && "\(heard)".contains("presence-x"))
    }

    // MARK: All sessions of a user

    @Test func theSessionsOfAUserAreFound() throws {
        for (slot, user) in ["a", "b", "a", "c"].enumerated() {
            _ = try engine.signin(user, from: engine.session(UInt32(slot), app: engine.otherApp))
        }
        _ = try engine.signin("a", from: engine.session(4))
        let stranger = engine.session(5, app: engine.otherApp)
        let slots = { (user: String) in
            engine.core.sessions.ids(of: UserKey(user, of: engine.otherApp.index)).map(\.slot)
        }
        #expect(slots("a") == [0, 2])
        #expect(slots("d") == [])
        #expect(slots("") == [])
        if let session = engine.core.sessions[slot: 0] { _ = engine.close(session) }
        #expect(slots("a") == [2])
        _ = try engine.signin("a", from: stranger)
        #expect(slots("a") == [2, 5])
    }

    // MARK: Apps replaced

    private func replaced(_ session: Session, by app: App?, keyIsServed: Bool = false) -> [Heard] {
        var effects = SessionEngine.Effects()
        engine.core.replaceApp(of: session, by: app, keyIsServed: keyIsServed, &effects)
        return effects.flatMap(Heard.all)
    }

    private func watchful(_ change: (inout AppFeatures) -> Void) -> App {
        var features = engine.watchfulApp.features
        change(&features)
        return App(
            id: "3", credentials: engine.watchfulApp.credentials, index: 2, ownsDatabase: false, features: features)
    }

    @Test func usersAreCountedWhereAndWhileTheAppLetsThemWatch() throws {
        let (one, other) = (engine.session(0, app: engine.watchfulApp), engine.session(1, app: engine.watchfulApp))
        _ = try signin("u", ["a"], one)
        let silent = watchful { $0.watchlists = false }
        #expect(replaced(one, by: silent) == [.users(["unwatch a", "departed u"])])
        #expect(replaced(other, by: silent) == [])
        #expect(try signin("v", ["a"], other).count == 1)
        #expect(replaced(one, by: engine.watchfulApp) == [.users(["arrived u"])])
        #expect(replaced(other, by: engine.watchfulApp) == [.users(["arrived v"])])
        #expect(engine.close(one) == [.users(["departed u"])])
        #expect(engine.close(other) == [.users(["departed v"])])
    }

    @Test func connectionsOfAnAppThatIsGoneAreClosed() {
        let session = engine.session(0, app: engine.watchfulApp)
        #expect(replaced(session, by: watchful { $0.isEnabled = false }) == [.close(4003)])
        #expect(replaced(session, by: nil) == [.close(4001)])
        #expect(replaced(session, by: nil, keyIsServed: true) == [.close(4200)])
        #expect(replaced(session, by: engine.watchfulApp) == [])
    }

    // MARK: Authorization timeout

    private func due(_ session: Session) -> [Heard] {
        var effects = SessionEngine.Effects()
        #expect(engine.core.identities.due(session, &effects) == nil)
        return effects.flatMap(Heard.all)
    }

    /// Connections that return together after an outage are not closed at one moment.
    @Test func everyConnectionHasItsOwnTime() throws {
        let app = watchful { $0.authorizationDeadline = .seconds(30) }
        var random = SeededRandom()
        var times: [Duration] = []
        for slot in 0..<100 as Range<UInt32> {
            let text = Array("1.\(UInt32.random(in: 1...UInt32.max, using: &random))".utf8)
            let socketID = try #require(text.withUnsafeBytes { SocketID($0) })
            let session = Session(id: SessionID(slot: slot, generation: 1), app: app, socketID: socketID)
            times.append(try #require(session.authorizationTime))
        }
        #expect(times.count == 100 && times.allSatisfy { $0 >= .seconds(30) && $0 < .seconds(33) })
        #expect(Set(times.map { $0.components.seconds }).count == 3 && Set(times).count > 50)
        #expect(engine.session(0, app: engine.watchfulApp).authorizationTime == nil)
    }

    @Test func aSessionWithoutASignInInTimeIsClosed() throws {
        let app = watchful { $0.authorizationDeadline = .seconds(30) }
        let session = engine.session(0, app: engine.watchfulApp)
        #expect(due(session) == [])
        let time = Session(id: session.id, app: app, socketID: session.socketID).authorizationTime
        #expect(replaced(session, by: app) == [.watchIdentity(try #require(time))])
        #expect(replaced(session, by: app) == [])
        _ = try engine.subscribe("news", from: session)
        _ = try engine.subscribe("private-a", auth: "third:" + String(repeating: "0", count: 64), from: session)
        #expect(due(session) == [.close(4100)])

        let signedIn = engine.session(1, app: app)
        _ = try engine.signin("u", from: signedIn)
        #expect(due(signedIn) == [])
        // A session that was admitted once stays authorized, even after it has left.
        let admitted = engine.session(2, app: app)
        let channel = try #require(ChannelName("private-a"))
        let auth = app.credentials.sign(.channel(channel, channelData: nil), socketID: admitted.socketID)
        _ = try engine.subscribe("private-a", auth: auth, from: admitted)
        _ = try engine.unsubscribe("private-a", from: admitted)
        #expect(due(admitted) == [])
    }
}
