import Bytes
import JSON
import Pusher
import TestSupport
import Testing

/// A backend's data about a user, besides the id.
@Suite(.timeLimit(.minutes(15))) struct UserDataTests {
    private func read(_ more: String, watchlistMax: Int? = 100) throws -> UserData {
        try UserData(#"{"id":"u"\#(more)}"#, times: .both, watchlistMax: watchlistMax)
    }

    @Test(
        arguments: [
            ("", nil), (#","user_info":null"#, nil), (#","user_info":{"a":[1, 2]}"#, #"{"a":[1, 2]}"#),
            (#","user_info":"x\u00e9""#, #""x\u00e9""#), (#","user_info" : 7 "#, "7"),
        ] as [(String, String?)]) func theInfoIsKeptAsItCame(text: String, info: String?) throws
    {
        #expect(try read(text).info == info.map { Array($0.utf8) })
    }

    /// A leading blank forces the general reader, which must give the same result.
    @Test(arguments: [
        "u", "load-1-2", #"\""#, #"a\u0041"#, "é", "\u{7F}", "\t", "", "\\", #"u","id":"v"#, #"u","user_info":"v"#,
        String(repeating: "u", count: 128), String(repeating: "u", count: 129), String(repeating: "é", count: 64),
    ]) func anIDAloneIsReadTheSameWay(id: String) {
        let short = Result { try UserData(#"{"id":"\#(id)"}"#, times: .each) }
        let long = Result { try UserData(#" {"id":"\#(id)"}"#, times: .each) }
        switch (short, long) {
        case (.success(let short), .success(let long)): #expect(short == long)
        case (.failure, .failure): break
        default: Issue.record("\(short) is not \(long)")
        }
    }

    @Test(
        arguments: [
            (#","issuedAt":5,"expiresAt":9"#, 5, 9), (#","expiresAt":9"#, nil, nil), (#","issuedAt":5"#, nil, nil),
            (#","issuedAt":5,"expiresAt":9.5"#, nil, nil), (#","issuedAt":5,"expiresAt":1e300"#, nil, nil),
            (#","issuedAt":"5","expiresAt":9"#, nil, nil), (#","issuedAt":null,"expiresAt":9"#, nil, nil),
        ] as [(String, Int64?, Int64?)])
    func timesCountInPairsByDefault(more: String, issuedAt: Int64?, expiresAt: Int64?) throws {
        let user = try read(more)
        #expect(user.issuedAt == issuedAt && user.expiresAt == expiresAt)
    }

    @Test func theInfoComesOnce() {
        #expect(throws: UserDataError.self) { try read(#","user_info":1,"user_info":2"#) }
        #expect(throws: UserDataError.self) { try read(#","watchlist":[],"watchlist":[]"#) }
    }

    @Test func theWatchlistHasEachUserOnce() throws {
        let list = try #require(try read(#","watchlist":["b","a","b","\u0061","é"]"#).watchlist)
        #expect(list.ids == ["b", "a", "é"])
        #expect(!list.isCut && !list.hasOthers)
        #expect(try read("").watchlist == nil)
        #expect(try read(#","watchlist":["b"]"#, watchlistMax: nil).watchlist == nil)
    }

    @Test func theWatchlistEndsAtItsLimit() throws {
        let texts = (0..<101).map { #""\#($0)""# }
        for (count, isCut) in [(99, false), (100, false), (101, true)] {
            let text = texts.prefix(count).joined(separator: ",")
            let list = try #require(try read(#","watchlist":[\#(text)]"#).watchlist)
            #expect(list.ids == (0..<min(count, 100)).map(String.init))
            #expect(list.isCut == isCut)
        }
        #expect(try read(#","watchlist":["a","a"]"#, watchlistMax: 1).watchlist?.isCut == false)
        #expect(try read(#","watchlist":["a"]"#, watchlistMax: 0).watchlist?.isCut == true)
    }

    @Test(arguments: [
        ("7", []), ("{}", []), (#""a""#, []), (#"[7,"a",null,["b"],{},""]"#, ["a"]),
        (#"["\#(String(repeating: "a", count: 129))","b"]"#, ["b"]),
    ]) func idsThatNoUserCanHaveAreLeftOut(text: String, ids: [String]) throws {
        let list = try #require(try read(#","watchlist":\#(text)"#).watchlist)
        #expect(list.ids == ids)
        #expect(list.hasOthers)
    }

    @Test func aLongestIDIsOne() throws {
        let id = String(repeating: "a", count: 128)
        #expect(try read(#","watchlist":["\#(id)"]"#).watchlist?.ids == [id])
        #expect(try read(#","watchlist":null"#).watchlist?.hasOthers == false)
    }

    // MARK: Watchlist events

    private func events(_ online: [String], _ offline: [String]) -> String {
        var writer = ByteWriter()
        ServerEvent.watchlistEvents(online: online, offline: offline, to: &writer)
        return writer.string
    }

    @Test func watchlistEventsAreWrittenAsPushersClientsReadThem() {
        #expect(
            events(["2"], [])
                == #"{"event":"pusher_internal:watchlist_events","data":"{\"events\":["#
                + #"{\"name\":\"online\",\"user_ids\":[\"2\"]}]}"}"#)
        #expect(
            events(["1", "a\"\\"], ["2"])
                == #"{"event":"pusher_internal:watchlist_events","data":"{\"events\":["#
                + #"{\"name\":\"online\",\"user_ids\":[\"1\",\"a\\\"\\\\\"]},"#
                + #"{\"name\":\"offline\",\"user_ids\":[\"2\"]}]}"}"#)
    }
}
