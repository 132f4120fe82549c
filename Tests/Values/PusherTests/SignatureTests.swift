import Bytes
import Digests
import TestSupport
import Testing

@testable import Pusher

@Suite(.timeLimit(.minutes(15))) struct SignatureTests {
    private let app = AppCredentials(key: "278d425bdf160c739803", secret: "7ad3773142a6692b25b8")

    private func socket() throws -> SocketID { try #require(withBytes("1234.1234") { SocketID($0) }) }

    /// Pusher's documented vectors; the presence vector is recomputed, because the page's is for another name.
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
        #expect(!app.verify(good, of: subject, socketID: SocketID(random: 1 << 40 | 1 << 19)))
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

    // MARK: Replaced secrets

    @Test func bothSecretsVerifyAndTheNewOneSigns() throws {
        let socket = try socket()
        let channel = try #require(ChannelName("private-user.u1.a"))
        let old = AppCredentials(key: "k", secret: "old")
        let new = AppCredentials(key: "k", secret: "new")
        let both = AppCredentials(key: "k", secret: "new", previousSecret: "old")
        let stranger = AppCredentials(key: "k", secret: "older")
        let times = GrantTimes(issuedAt: 1, expiresAt: 2)
        let subject = AppCredentials.Subject.channel(channel, channelData: "{}")
        let user = #"{"id":"u"}"#
        for (signer, isGood) in [(old, true), (new, true), (stranger, false)] {
            #expect(both.verify(signer.sign(subject, socketID: socket), of: subject, socketID: socket) == isGood)
            let signin = signer.sign(.user(userData: user), socketID: socket)
            #expect(both.verify(signin, of: .user(userData: user), socketID: socket) == isGood)
            let isUsers = withBytes(signin) { auth in
                withBytes(user) { both.verify(auth, ofUser: $0, socketID: socket) }
            }
            #expect(isUsers == isGood)
            let grant = signer.sign(channel, grant: times, socketID: socket)
            #expect((both.verifyGrant(grant, of: channel, socketID: socket) == times) == isGood)
            let code = withBytes("POST\n/x") { signer.code(ofText: $0) }
            #expect(both.verify(code, of: "POST\n/x") == isGood)
        }
        #expect(both.sign(subject, socketID: socket) == new.sign(subject, socketID: socket))
        #expect(both.sign(channel, grant: times, socketID: socket) == new.sign(channel, grant: times, socketID: socket))
        #expect(withBytes("x") { both.code(ofText: $0) } == withBytes("x") { new.code(ofText: $0) })
        // Receivers of webhooks learn the new secret later than the hub.
        #expect(withBytes("x") { both.code(ofWebhook: $0) } == withBytes("x") { old.code(ofText: $0) })
        #expect(withBytes("x") { new.code(ofWebhook: $0) } == withBytes("x") { new.code(ofText: $0) })
    }

    /// RFC 4231 §4.3, test case 2. A code of another length is refused.
    @Test func textsAreSignedAsTheyAre() {
        let app = AppCredentials(key: "k", secret: "Jefe")
        let code = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        let text = "what do ya want for nothing?"
        #expect(withBytes(text) { app.code(ofText: $0) } == code)
        for (digits, isGood) in [(code, true), (code.uppercased(), true), (code + "0", false), ("", false)] {
            #expect(app.verify(digits, of: text) == isGood)
        }
        #expect(!app.verify(code, of: text + " "))
    }

    // MARK: The hub's own signatures

    private func grant(_ auth: String, _ channel: String, _ socket: SocketID) throws -> GrantTimes? {
        app.verifyGrant(auth, of: try #require(ChannelName(channel)), socketID: socket)
    }

    /// By `printf '1234.1234::token::private-user.u1.a:1700000000:1800000000' | openssl dgst -sha256 -hmac SECRET`.
    @Test func aGrantCarriesItsTimes() throws {
        let socket = try socket()
        let channel = try #require(ChannelName("private-user.u1.a"))
        let times = GrantTimes(issuedAt: 1_700_000_000, expiresAt: 1_800_000_000)
        let good = app.sign(channel, grant: times, socketID: socket)
        #expect(
            good == "278d425bdf160c739803:"
                + "96b97edd23e34b2347846d3918845a43d3726975029a66cf9f2f9bbc412ed57a:1700000000:1800000000")
        #expect(try grant(good, "private-user.u1.a", socket) == times)
        #expect(good.utf8.count <= PusherLimits().authBytes)

        #expect(try grant(good, "private-user.u1.b", socket) == nil)
        #expect(try grant(good, "private-user.u1.a", SocketID(random: 1 << 40 | 1 << 19)) == nil)
        for (key, secret) in [("278d425bdf160c739803", "x"), ("x", "7ad3773142a6692b25b8")] {
            let other = AppCredentials(key: key, secret: secret)
            #expect(other.verifyGrant(good, of: channel, socketID: socket) == nil)
        }
    }

    /// Times are valid in one spelling only, and only as signed.
    @Test(arguments: [
        "", ":", "1700000000", "1700000000:", ":1800000000", "1700000000:1800000001", "1700000001:1800000000",
        "01700000000:1800000000", "1700000000:+1800000000", "-1700000000:1800000000", "1700000000: 1800000000",
        "1700000000:1800000000:", "1700000000:1800000000:0", "1700000000:1800000000 ", "1.7e9:1800000000",
        "1700000000:9999999999999999", "1700000000:99999999999999999999999", "1700000000:１８０００００００",
        "nil:1800000000", "1700000000:1800000000\0", "1700000000,1800000000",
    ])
    func timesOtherThanThoseSignedAreRefused(_ times: String) throws {
        let socket = try socket()
        let channel = try #require(ChannelName("private-user.u1.a"))
        let good = app.sign(
            channel, grant: GrantTimes(issuedAt: 1_700_000_000, expiresAt: 1_800_000_000), socketID: socket)
        let start = good.dropLast(21)
        #expect(start.hasSuffix(":") && start.utf8.count == 86)
        #expect(try grant(start + times, "private-user.u1.a", socket) == nil)
    }

    @Test(
        arguments: [
            (nil, 5, "0:5"), (-5, 5, "0:5"), (0, -1, "0:0"), (7, .max, "7:999999999999999"),
            (.max, .min, "999999999999999:0"), (999_999_999_999_999, 10, "999999999999999:10"),
        ] as [(Int64?, Int64, String)])
    func timesAreBroughtWithinBounds(_ issuedAt: Int64?, _ expiresAt: Int64, _ text: String) throws {
        let times = GrantTimes(issuedAt: issuedAt, expiresAt: expiresAt)
        var writer = ByteWriter()
        times.append(to: &writer)
        #expect(writer.string == text)
        #expect(withBytes(text) { GrantTimes($0) } == times)
    }

    /// Neither kind of signature can be turned into the other: a backend's ends with nothing.
    @Test func aGrantIsNoBackendsSignatureNorTheOtherWayRound() throws {
        let socket = try socket()
        let channel = try #require(ChannelName("private-user.u1.a"))
        let grant = app.sign(channel, grant: GrantTimes(issuedAt: 7, expiresAt: 8), socketID: socket)
        let bare = String(grant.dropLast(4))
        #expect(bare.utf8.count == 85)
        let atTheEnd = ["", ":token::7:8", "token::7:8", ":token:7:8", "7:8", ":7:8", ":token::private-user.u1.a:7:8"]
        for data in [nil] + atTheEnd {
            for auth in [grant, bare] {
                #expect(!app.verify(auth, of: .channel(channel, channelData: data), socketID: socket))
                #expect(!app.verify(auth, of: .user(userData: data ?? ""), socketID: socket))
            }
            let backends = app.sign(.channel(channel, channelData: data), socketID: socket)
            #expect(try self.grant(backends, "private-user.u1.a", socket) == nil)
            #expect(try self.grant(backends + ":7:8", "private-user.u1.a", socket) == nil, "\(data ?? "nil")")
        }
        let users = app.sign(.user(userData: "private-user.u1.a:7:8"), socketID: socket)
        #expect(try self.grant(users + ":7:8", "private-user.u1.a", socket) == nil)
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
            (#"{"id":"a","id":"b"}"#, nil), (#"{"id":"a\u0000"}"#, nil),
            (#"{"id":"\#(String(repeating: "a", count: 128))"}"#, String(repeating: "a", count: 128)),
            (#"{"id":"\#(String(repeating: "a", count: 129))"}"#, nil),
        ] as [(String, String?)]) func readsUserData(text: String, id: String?)
    {
        #expect((try? UserData(text, times: .each))?.id == id)
        #expect((try? UserData(text, times: .both))?.id == id)
    }

    @Test func writesUserData() throws {
        var writer = ByteWriter()
        UserData.append(id: "a\"b", issuedAt: 0, expiresAt: 1_800_000_000, to: &writer)
        #expect(writer.string == #"{"id":"a\"b","issuedAt":0,"expiresAt":1800000000}"#)
        let data = try UserData(writer.string, times: .each)
        #expect(data.id == "a\"b" && data.issuedAt == 0 && data.expiresAt == 1_800_000_000)
        var bare = ByteWriter()
        UserData.append(id: "u", to: &bare)
        #expect(bare.string == #"{"id":"u"}"#)
        #expect(try UserData(writer.string, times: .both) == data)
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
            _ = try UserData(text, times: .each)
        } catch {
            thrown = error
        }
        #expect(thrown == error)
        #expect(throws: Never.self) { try UserData(text, times: .both) }
    }

    /// A backend may already use members with these names.
    @Test(arguments: [#""7""#, #""2026-01-01T00:00:00Z""#, "true", "{}", "[7]", "null"])
    func whatIsNoNumberSaysNoTime(value: String) throws {
        let data = try UserData(#"{"id":"u","expiresAt":\#(value),"issuedAt":\#(value)}"#, times: .each)
        #expect(data.id == "u" && data.issuedAt == nil && data.expiresAt == nil)
    }

    @Test func aTimeGivenTwiceIsRefused() {
        #expect(throws: UserDataError.self) {
            try UserData(#"{"id":"u","expiresAt":1,"expiresAt":2}"#, times: .each)
        }
    }
}

extension AppCredentials {
    fileprivate func verify(_ digits: String, of text: String) -> Bool {
        withBytes(digits) { verify(digits: $0) { secret in withBytes(text) { secret.authenticationCode(for: $0) } } }
    }
}
