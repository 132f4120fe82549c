import Bytes
import Pusher
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct SignatureTests {
    private let app = AppCredentials(key: "278d425bdf160c739803", secret: "7ad3773142a6692b25b8")

    private func socket() throws -> SocketID { try #require(withBytes("1234.1234") { SocketID($0) }) }

    /// Pusher's documented vectors; the presence one recomputed, since the page's belongs to another name.
    @Test func signsTheVectors() throws {
        let socket = try socket()
        let presenceData = #"{"user_id":10,"user_info":{"name":"Mr. Channels"}}"#
        let foobar = try #require(ChannelName("private-foobar"))
        let presence = try #require(ChannelName("presence-foobar"))
        let cases: [(AppCredentials.Subject, String)] = [
            (.channel(foobar, channelData: nil), "58df8b0c36d6982b82c3ecf6b4662e34fe8c25bba48f5369f135bf843651c3a4"),
            (
                .channel(presence, channelData: presenceData),
                "31935e7d86dba64c2a90aed31fdc61869f9b22ba9d8863bba239c03ca481bc80"
            ),
            (.user(userData: #"{"id":"12345"}"#), "4708d583dada6a56435fb8bc611c77c359a31eebde13337c16ab43aa6de336ba"),
        ]
        for (subject, code) in cases {
            #expect(app.sign(subject, socketID: socket) == "278d425bdf160c739803:" + code)
            #expect(app.verify("278d425bdf160c739803:" + code, of: subject, socketID: socket))
            #expect(app.verify("278d425bdf160c739803:" + code.uppercased(), of: subject, socketID: socket))
        }
    }

    @Test func refusesAllElse() throws {
        let socket = try socket()
        let channel = try #require(ChannelName("private-foobar"))
        let subject = AppCredentials.Subject.channel(channel, channelData: nil)
        let good = app.sign(subject, socketID: socket)
        let other = try #require(ChannelName("private-foobaz"))
        #expect(!app.verify(good, of: .channel(other, channelData: nil), socketID: socket))
        #expect(!app.verify(good, of: .channel(channel, channelData: ""), socketID: socket))
        #expect(!app.verify(good, of: .user(userData: "{}"), socketID: socket))
        #expect(!app.verify(good, of: subject, socketID: SocketID(random: 1 << 20, 1 << 30)))
        #expect(!AppCredentials(key: "278d425bdf160c739803", secret: "x").verify(good, of: subject, socketID: socket))
        #expect(!AppCredentials(key: "x", secret: "7ad3773142a6692b25b8").verify(good, of: subject, socketID: socket))
        let code = String(good.suffix(64))
        for bad in [
            "", ":", code, ":" + code, "x:" + code, good + "0", String(good.dropLast()), good + ":",
            "278d425bdf160c739803:" + String(repeating: "é", count: 32),
        ] {
            #expect(!app.verify(bad, of: subject, socketID: socket), "\(bad)")
        }
    }

    @Test func comparesKeys() {
        #expect(withBytes("278d425bdf160c739803") { app.isKey($0) })
        #expect(!withBytes("278d425bdf160c73980") { app.isKey($0) })
        #expect(!withBytes("") { app.isKey($0) })
    }

    @Test(
        arguments: [
            (#"{"id":"u1"}"#, "u1"), (#"{"user_info":{"id":7},"id":"é\n"}"#, "é\n"), (#"{"id":7}"#, nil),
            (#"{"id":""}"#, nil),
            (#"{"id":null}"#, nil), (#"{}"#, nil), (#"[]"#, nil), (#""u1""#, nil), ("", nil),
            (#"{"id":"a","id":"b"}"#, nil),
            (#"{"id":"\#(String(repeating: "a", count: 128))"}"#, String(repeating: "a", count: 128)),
            (#"{"id":"\#(String(repeating: "a", count: 129))"}"#, nil),
        ] as [(String, String?)]) func readsUserData(text: String, id: String?)
    {
        #expect((try? UserData(text, hasTimes: true))?.id == id)
        #expect((try? UserData(text, hasTimes: false))?.id == id)
    }

    @Test func writesUserData() throws {
        var writer = ByteWriter()
        UserData.append(id: "a\"b", issuedAt: 0, expiresAt: 1_800_000_000, to: &writer)
        #expect(writer.string == #"{"id":"a\"b","issuedAt":0,"expiresAt":1800000000}"#)
        let data = try UserData(writer.string, hasTimes: true)
        #expect(data.id == "a\"b" && data.issuedAt == 0 && data.expiresAt == 1_800_000_000)
        var bare = ByteWriter()
        UserData.append(id: "u", to: &bare)
        #expect(bare.string == #"{"id":"u"}"#)
        let timeless = try UserData(writer.string, hasTimes: false)
        #expect(timeless.issuedAt == nil && timeless.expiresAt == nil)
    }

    @Test(
        arguments: [
            (#""expiresAt":7"#, nil), (#""expiresAt":null,"issuedAt":null"#, nil), (#""issuedAt":-7"#, nil),
            (#""expiresAt":7.5"#, .invalidTime), (#""issuedAt":1.5e300"#, .invalidTime),
            (#""expiresAt":99999999999999999999"#, .invalidTime),
        ] as [(String, UserDataError?)]) func timesAreWholeSeconds(members: String, error: UserDataError?)
    {
        let text = #"{"id":"u",\#(members)}"#
        var thrown: UserDataError?
        do throws(UserDataError) {
            _ = try UserData(text, hasTimes: true)
        } catch {
            thrown = error
        }
        #expect(thrown == error)
        #expect(throws: Never.self) { try UserData(text, hasTimes: false) }
    }

    /// A backend may have members of these names of its own, which it has always had.
    @Test(arguments: [#""7""#, #""2026-01-01T00:00:00Z""#, "true", "{}", "[7]", "null"])
    func whatIsNoNumberSaysNoTime(value: String) throws {
        let data = try UserData(#"{"id":"u","expiresAt":\#(value),"issuedAt":\#(value)}"#, hasTimes: true)
        #expect(data.id == "u" && data.issuedAt == nil && data.expiresAt == nil)
    }

    @Test func aTimeGivenTwiceIsRefused() {
        #expect(throws: UserDataError.self) {
            try UserData(#"{"id":"u","expiresAt":1,"expiresAt":2}"#, hasTimes: true)
        }
    }
}
