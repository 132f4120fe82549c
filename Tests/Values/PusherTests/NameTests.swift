import Bytes
import TestSupport
import Testing

@testable import Pusher

@Suite(.timeLimit(.minutes(15))) struct NameTests {
    @Test(
        arguments: [
            ("news", .public), ("user.1.adherence", .public), ("private-x", .private), ("private-user.1.a", .private),
            ("presence-x", .presence), ("private-encrypted-x", .privateEncrypted), ("cache-x", .cache),
            ("private-cache-x", .privateCache),
            ("presence-cache-x", .presenceCache), ("private-encrypted-cache-x", .privateEncryptedCache),
            ("#server-to-user-7", .serverToUser), ("cached-news", .public), ("privatex", .public),
            ("presencex", .public),
            ("private-", .private), ("private-cachex", .private), ("private-encryptedx", .private),
            ("private-encrypted-cachex", .privateEncrypted),
            ("-aZ09_=@,.;", .public),
        ] as [(String, ChannelName.Kind)]) func kinds(name: String, kind: ChannelName.Kind)
    {
        let channel = ChannelName(name)
        #expect(channel?.kind == kind)
        #expect(channel?.string == name)
        #expect(name.hasPrefix(kind.prefix.description))
    }

    @Test func alphabetAndLength() {
        let allowed = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=@,.;".utf8)
        for byte in UInt8.min...UInt8.max {
            #expect((withBytes([0x61, byte]) { ChannelName($0) } != nil) == allowed.contains(byte), "\(byte)")
        }
        #expect(ChannelName("") == nil)
        #expect(ChannelName(String(repeating: "a", count: 200)) != nil)
        #expect(ChannelName(String(repeating: "a", count: 201)) == nil)
        for bad in ["#", "#server-to-user-", "#server-to-user-a b", "#other", "a#b"] {
            #expect(ChannelName(bad) == nil)
        }
    }

    @Test func kindsOfChannelsAreKnown() {
        let guarded = ChannelName.Kind.allCases.filter(\.needsAuthentication)
        #expect(guarded.count == 7)
        #expect(ChannelName.Kind.allCases.filter(\.isPresence) == [.presence, .presenceCache])
        #expect(ChannelName.Kind.allCases.filter(\.isCache).count == 4)
        #expect(
            ChannelName.Kind.allCases.filter(\.allowsClientEvents) == [
                .private, .presence, .privateCache, .presenceCache,
            ])
    }

    @Test func socketIDsRoundTrip() throws {
        var random = SeededRandom()
        for _ in 0..<1000 {
            let id = SocketID(random: random.next())
            var writer = ByteWriter()
            id.append(to: &writer)
            #expect(writer.string == id.string)
            #expect(writer.count <= 21)
            #expect(id.withText { $0.string } == id.string)
            #expect(withBytes(id.string) { SocketID($0) } == id, "seed \(random.seed)")
        }
        #expect(SocketID(random: 0).string == "0.0")
        #expect(SocketID(random: .max).string == "4294967295.4294967295")
        for bits in [0, .max] as [UInt64] {
            #expect(SocketID(random: bits).withText { $0.string } == SocketID(random: bits).string)
        }
        // Ids of other servers.
        let longest = "9007199254740991.9007199254740991"
        let id = try #require(withBytes(longest) { SocketID($0) })
        #expect(id.string == longest)
        #expect(id.withText { $0.string } == longest)
        var writer = ByteWriter()
        id.append(to: &writer)
        #expect(writer.string == longest)
    }

    @Test(arguments: [
        "", ".", "1", "1.", ".1", "1.2.3", "01.2", "a.b", "1.2 ", "-1.2", "9007199254740992.1",
        "1.99999999999999999999",
    ])
    func refusesOtherSocketIDs(text: String) { #expect(withBytes(text) { SocketID($0) } == nil) }
}
