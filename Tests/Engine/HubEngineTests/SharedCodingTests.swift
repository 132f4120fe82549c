import Foundation
import FuzzProperties
import Pusher
import Sync
import TestSupport
import Testing

@testable import HubEngine

/// What leaves the process: each value comes back as it was, each part of it is refused, and nothing traps.
@Suite struct SharedCodingTests {
    private static var apps: KnownApps { SharedProperties.apps() }
    private static let names = ["news", "presence-a", "private-cache-b", "#server-to-user-7"].compactMap {
        ChannelName($0)
    }
    private static let key = ChannelKey(1, names[1])
    private static let member = PresenceMember(id: "ä7", info: Array(#"{"n":1}"#.utf8))
    private static let socketID = SocketID(random: 0xFFFF_FFFF_0000_0001)

    private static let calls: [ChannelCall] = {
        var attending = Attending()
        attending.connections = 3
        attending.members = [Attending.Member(member, connections: 2)]
        let publication = Publication(channel: key.name, event: "e", data: Array("x\u{0}ü".utf8), except: socketID)
        return [
            .enter(key, Entering(member: member, isRepeated: true, subscriptions: 300)), .enter(key, Entering()),
            .exit(ChannelExit(key: key, userID: nil, mayReturn: true)),
            .exit(ChannelExit(key: key, userID: "u", mayReturn: false)), .publish(key, publication),
            .relay(key, RelayedEvent(event: "client-e", data: [0x31], userID: "u", sender: socketID)),
            .relay(
                key, RelayedEvent(event: "client-e", data: [0x31], userID: nil, sender: socketID),
                .clientEvent(key.name, name: "client-e", data: [0x31], socketID: socketID, userID: nil)), .facts(key),
            .users(key), .list(app: 0, prefix: "pre", most: 1_000), .assert(key, attending), .assert(key, Attending()),
            .reap(HubID(.max)), .due,
        ]
    }()

    private static let news: [ChannelNews] = {
        var facts = ChannelFacts()
        facts.subscriptionCount = 7
        facts.userCount = 0
        facts.cached = CachedEvent(name: "e", data: [1, 2], secondsLeft: 1)
        let publication = Publication(channel: key.name, event: "e", data: [])
        var list = MemberList()
        list.append(member.id, info: member.info)
        let members = Entered.Members(list: list, version: 9, each: [member])
        let changes: [ChannelChange.What] = [
            .published(publication, nil), .memberAdded(member), .memberRemoved("u"), .count(0),
            .memberSays(member),
            .relayed(RelayedEvent(event: "client-e", data: [], userID: nil, sender: socketID)),
        ]
        let webhooks: [WebhookEvent] = [
            .channelOccupied(names[0]), .channelVacated(names[1]), .memberAdded(names[1], userID: "u"),
            .memberRemoved(names[1], userID: "u"), .cacheMiss(names[2]), .subscriptionCount(names[0], 5),
            .clientEvent(names[1], name: "client-e", data: [0x22], socketID: socketID, userID: "u"),
        ]
        let replies: [ChannelReply] =
            [
                .entered(Entered()), .facts(facts), .facts(ChannelFacts()), .users(["u", ""]),
                .list(["a": facts, "b": facts]),
                .entered(Entered(sequence: .max, count: 4, members: members, cached: .miss)),
                .entered(Entered(cached: .event(publication, nil))), .done, .unavailable(.notDone),
            ] + EntryRefusal.allCases.map { .refused($0) } + [.unavailable(.unknown), .unavailable(.settling)]
        return changes.map { .change(ChannelChange(key: key, follows: 127, sequence: 128, what: $0)) }
            + [.latest(key, 129)] + webhooks.map { .webhook(app: 1, $0) }
            + replies.enumerated().map { .reply(UInt64($0.offset), $0.element) }
    }()

    private static let user = UserKey("ä7", of: 1)
    private static let userCalls: [UserCall] = [
        .arrived(user), .departed(user, mayReturn: true), .watch(user, serial: .max), .unwatch(user),
        .only(UserPart(1, of: 3), [user, UserKey("", of: 0)]), .only(UserPart(0, of: 1), []), .reap(HubID(.max)), .due,
    ]
    private static let userNews = [
        SharedUserNews(news: UserNews(user: user, isOnline: true, serial: nil), version: 300),
        SharedUserNews(news: UserNews(user: user, isOnline: false, serial: 7), version: 1),
    ]

    private static let commands: [HubCommand] = [
        .terminate(app: 1, user: "u"), .revoked([]),
        .revoked([Revocation(userID: "u", before: -1)]),
    ]

    /// Each as bytes, with what reads and writes them again.
    private static var samples: [(name: String, bytes: [UInt8], again: ([UInt8]) throws(SharedProblem) -> [UInt8])] {
        calls.enumerated().map { number, call in
            (
                "call-\(number)", SentChannelCall(call, UInt64(number) << 40, from: HubID(7)).encoded(apps),
                { (bytes) throws(SharedProblem) in try SentChannelCall(bytes, apps).encoded(apps) }
            )
        }
            + news.enumerated().map { number, news in
                (
                    "news-\(number)", news.encoded(apps),
                    { (bytes) throws(SharedProblem) in try ChannelNews(bytes, apps).encoded(apps) }
                )
            }
            + userCalls.enumerated().map { number, call in
                (
                    "user-call-\(number)", SentUserCall(call, from: HubID(7)).encoded(apps),
                    { (bytes) throws(SharedProblem) in try SentUserCall(bytes, apps).encoded(apps) }
                )
            }
            + userNews.enumerated().map { number, news in
                (
                    "user-news-\(number)", news.encoded(apps),
                    { (bytes) throws(SharedProblem) in try SharedUserNews(bytes, apps).encoded(apps) }
                )
            }
            + commands.enumerated().map { number, command in
                (
                    "command-\(number)", command.encoded(apps),
                    { (bytes) throws(SharedProblem) in try HubCommand(bytes, apps).encoded(apps) }
                )
            }
    }

    @Test func whatIsWrittenIsReadAgain() throws {
        for (number, call) in Self.calls.enumerated() {
            let sent = try SentChannelCall(SentChannelCall(call, 5, from: HubID(9)).encoded(Self.apps), Self.apps)
            #expect(sent.call == call && sent.number == 5 && sent.hub == HubID(9), "call \(number)")
        }
        for call in Self.userCalls {
            let sent = SentUserCall(call, from: HubID(9))
            #expect(try SentUserCall(sent.encoded(Self.apps), Self.apps) == sent)
        }
        for command in Self.commands {
            #expect(try HubCommand(command.encoded(Self.apps), Self.apps) == command)
        }
        for (name, bytes, again) in Self.samples { #expect(try again(bytes) == bytes, "\(name)") }
    }

    /// No part of a message is a message, nor is one with something behind it.
    @Test func partsAreRefused() throws {
        for (name, bytes, again) in Self.samples {
            for count in bytes.indices {
                #expect(throws: SharedProblem.self, "\(name) \(count)") { try again(Array(bytes[..<count])) }
            }
            #expect(throws: SharedProblem.size, "\(name)") { try again(bytes + [0]) }
            #expect(throws: SharedProblem.malformed, "\(name)") { try again([2] + bytes.dropFirst()) }
        }
    }

    @Test func anAppThatIsNotServedIsToldApart() {
        let bytes = SentChannelCall(.facts(Self.key), 1, from: .only).encoded(Self.apps)
        #expect(throws: SharedProblem.unknownApp) { try SentChannelCall(bytes, KnownApps()) }
        let long = [UInt8](repeating: 1, count: 8 << 20 + 1)
        #expect(throws: SharedProblem.size) { try ChannelNews(long, Self.apps) }
    }

    /// What fuzzing begins with is what is written today. `CARILLON_CORPUS=write` writes it.
    @Test func theCorpusHasEachMessage() throws {
        let folder = Corpus.folder("shared")
        for (name, bytes, _) in Self.samples {
            let file = folder.appendingPathComponent(name)
            if ProcessInfo.processInfo.environment["CARILLON_CORPUS"] == "write" { try Data(bytes).write(to: file) }
            #expect(try [UInt8](Data(contentsOf: file)) == bytes, "\(name)")
        }
    }

    /// Fixed: another version of the hub finds the same bucket.
    @Test func aBucketIsTheSameEverywhere() {
        let numbers = Self.names.map { ChannelBucket($0, ofApp: "app", of: 64).number }
        #expect(numbers == [47, 19, 31, 23])
        #expect(
            ChannelBucket(Self.names[0], ofApp: "a", of: 64).number
                != ChannelBucket(Self.names[0], ofApp: "b", of: 64).number)
        var counts = [Int](repeating: 0, count: 64)
        for number in 0..<64_000 {
            if let name = ChannelName("private-room-\(number)") {
                counts[ChannelBucket(name, ofApp: "7", of: 64).number] += 1
            }
        }
        #expect(counts.min() ?? 0 > 800 && counts.max() ?? 0 < 1_200)
    }

    /// Fixed, too. Parts and buckets are ranges of the places, and get equal shares.
    @Test func aUsersPlaceIsTheSameEverywhere() {
        let places = ["anna", "", "ä7"].map { UserPlace(UserKey($0, of: 0), ofApp: "app").number }
        #expect(places == [3_452_469_868, 2_984_612_230, 443_559_488])
        #expect(places.map { ChannelBucket(ofUserAt: UInt64($0), of: 64).number } == [51, 44, 6])
        var counts = [Int](repeating: 0, count: 64)
        for number in 0..<64_000 {
            let place = UserPlace(UserKey("user-\(number)", of: 0), ofApp: "7")
            counts[UserPart(of: UInt64(place.number), count: 64).number] += 1
        }
        #expect(counts.min() ?? 0 > 800 && counts.max() ?? 0 < 1_200)
        for count in [1, 3, 64, 1_000, Int(Int32.max)] {
            for number in [0, count / 2, count - 1] {
                let part = UserPart(number, of: count)
                let ends = [part.places.lowerBound, part.places.upperBound - 1]
                #expect(ends.allSatisfy { UserPart(of: $0, count: count) == part })
            }
            #expect(UserPart(0, of: count).places.lowerBound == 0)
            #expect(UserPart(count - 1, of: count).places.upperBound == 1 << 32)
        }
    }
}
