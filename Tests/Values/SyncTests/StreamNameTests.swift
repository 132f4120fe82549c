import Bytes
import Sync
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct StreamNameTests {
    private func failure(_ name: [UInt8]) -> StreamNameError? {
        withBytes(name) { bytes in
            do throws(StreamNameError) {
                _ = try StreamName.parse(bytes)
                return nil
            } catch {
                return error
            }
        }
    }

    @Test(
        arguments: [
            ("user.1.adherence", .user, "1", "adherence"), ("private-user.1.reminders", .privateUser, "1", "reminders"),
            ("user.a.b.c.x_y", .user, "a.b.c", "x_y"), ("user...a", .user, ".", "a"),
            ("user.-A9_@,.;.a", .user, "-A9_@,.;", "a"),
            ("user.=3D.a", .user, "=", "a"), ("user.=C3=A9.a", .user, "é", "a"),
            ("user.e=CC=81.a", .user, "e\u{301}", "a"),
            ("user.=20=00=2F.a", .user, " \u{0}/", "a"), ("user.user.1.b.a", .user, "user.1.b", "a"),
        ] as [(String, StreamForm, String, String)])
    func parses(name: String, form: StreamForm, user: String, topic: String) throws {
        let expected = StreamName(form: form, stream: StreamID(user: user, topic: topic))
        #expect(try StreamName.parse(name) == expected)
        #expect(expected.format() == name)
    }

    @Test(arguments: [
        "", "news", "user", "users.1.a", "private-users.1.a", "User.1.a", "presence-user.1.a", "private-",
        "#server-to-user-1",
    ])
    func leavesOtherChannelsAlone(name: String) throws { #expect(try StreamName.parse(name) == nil) }

    @Test(
        arguments: [
            ("user.", .invalidTopic), ("user.a", .invalidTopic), ("user.1.", .invalidTopic),
            ("user.1.A", .invalidTopic),
            ("user.1.a1", .invalidTopic), ("user.1.a-b", .invalidTopic), ("user..a", .emptyUser),
            ("user.=3d.a", .notCanonical), ("user.=41.a", .notCanonical), ("user.=2E.a", .notCanonical),
            ("user.=.a", .notCanonical),
            ("user.=2.a", .notCanonical), ("user.=G0.a", .notCanonical), ("user.é.a", .notCanonical),
            ("user.a b.a", .notCanonical),
            ("user.=C3.a", .invalidUTF8), ("user.=ED=A0=80.a", .invalidUTF8), ("user.=FF.a", .invalidUTF8),
            ("user.=C0=AF.a", .invalidUTF8),
        ] as [(String, StreamNameError)]) func refusesNonCanonicalNames(name: String, error: StreamNameError)
    {
        #expect(failure(Array(name.utf8)) == error)
        #expect(failure(Array("private-\(name)".utf8)) == error)
    }

    @Test func lengthAtTheBoundAndOnePast() throws {
        let longest = StreamName(form: .user, stream: StreamID(user: String(repeating: "a", count: 193), topic: "b"))
        let name = try #require(longest.format())
        #expect(name.utf8.count == 200)
        #expect(try StreamName.parse(name) == longest)
        #expect(failure(Array(name.utf8) + [0x62]) == .tooLong)
        #expect(
            StreamName(form: .user, stream: StreamID(user: String(repeating: "a", count: 194), topic: "b")).format()
                == nil)
        #expect(StreamName(form: .privateUser, stream: longest.stream).format() == nil)
        #expect(
            StreamName(form: .user, stream: StreamID(user: String(repeating: "é", count: 33), topic: "b")).format()
                == nil)
    }

    /// A stream that was read from a name is written without a check, with the same result as a new stream.
    @Test(arguments: ["1", "a.b-c_D", "a@b,c;d", "é", "=", "a b", String(repeating: "a", count: 193)])
    func whatWasReadIsWrittenTheSameWay(user: String) throws {
        let made = StreamID(user: user, topic: "dose_log".prefix(user.utf8.count > 100 ? 1 : 8).description)
        for form in StreamForm.allCases {
            guard let name = StreamName(form: form, stream: made).format() else { continue }
            let read = try #require(try StreamName.parse(name)).stream
            #expect(read == made)
            for form in StreamForm.allCases {
                let (one, other) = (StreamName(form: form, stream: read), StreamName(form: form, stream: made))
                #expect(one.format() == other.format())
            }
        }
    }

    @Test func streamsWithoutANameHaveNone() {
        #expect(StreamName(form: .user, stream: StreamID(user: "", topic: "a")).format() == nil)
        for topic in ["", "A", "a.b", "a1", "é"] {
            #expect(StreamName(form: .user, stream: StreamID(user: "1", topic: topic)).format() == nil)
        }
    }

    /// Users whose ids are canonically equivalent are still different users.
    @Test func usersAreComparedByBytes() throws {
        let composed = StreamID(user: "\u{E9}", topic: "a")
        let decomposed = StreamID(user: "e\u{301}", topic: "a")
        #expect("\u{E9}" == "e\u{301}")
        #expect(composed != decomposed)
        #expect(Set([composed, decomposed]).count == 2)
        #expect(
            StreamName(form: .user, stream: composed).format() != StreamName(form: .user, stream: decomposed).format())
    }

    /// Whether the name, in a message's buffer, is one of that user's.
    private func isOf(_ user: String, _ name: String) -> Bool {
        withBytes(Array(name.utf8)) { name in
            let text = (try? StreamName.Text(name)) ?? nil
            return withBytes(Array(user.utf8)) { text?.belongs(to: $0) ?? false }
        }
    }

    @Test func everyUserHasOneNameAndEveryNameOneUser() throws {
        var random = SeededRandom()
        var users: [String: [UInt8]] = [:]
        for _ in 0..<20_000 {
            let user = random.text(upTo: 6)
            let topic = ["a", "x_y", "adherence"].randomElement(using: &random) ?? "a"
            let form = StreamForm.allCases.randomElement(using: &random) ?? .user
            let stream = StreamName(form: form, stream: StreamID(user: user, topic: topic))
            guard let name = stream.format() else {
                #expect(user.isEmpty, "seed \(random.seed)")
                continue
            }
            #expect(try StreamName.parse(name) == stream, "seed \(random.seed): \(name)")
            #expect(isOf(user, name), "seed \(random.seed): \(name)")
            #expect(!isOf(user + "x", name) && !isOf(name, name), "seed \(random.seed): \(name)")
            let owner = users.updateValue(Array(user.utf8), forKey: name)
            #expect(owner == nil || owner == Array(user.utf8), "seed \(random.seed): \(name)")
        }
    }

    /// Any bytes give an ordinary channel, an error, or a name that is written exactly as it was read.
    /// The topic is found eight bytes at a time: the same as one at a time, whatever bytes there are.
    @Test(arguments: 0..<50 as Range<UInt64>) func findsTheTopicOfAnyBytes(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let bytes: [UInt8] = Array("azAZ_`{^@.-=09".utf8) + [0, 0x5E, 0x60, 0x7B, 0x7F, 0x80, 0xDF, 0xE1, 0xFA, 0xFF]
        for _ in 0..<500 {
            let user = (0..<Int.random(in: 1...12, using: &random)).map { _ in UInt8(ascii: "u") }
            var topic = (0..<Int.random(in: 0...24, using: &random)).map { _ in UInt8(ascii: "t") }
            let odd = topic.indices.randomElement(using: &random)
            if let odd, Bool.random(using: &random) { topic[odd] = bytes.randomElement(using: &random) ?? 0 }
            let name = Array("user.".utf8) + user + [UInt8(ascii: ".")] + topic
            let end = topic.lastIndex { !((0x61...0x7A).contains($0) || $0 == 0x5F) }
            let isGood = !topic.isEmpty && end == nil
            let stream = name.withUnsafeBytes { try? StreamName.parse($0) }
            if isGood {
                #expect(stream?.stream.topic == String(decoding: topic, as: UTF8.self), "seed \(seed)")
            } else if end.map({ topic[$0] != UInt8(ascii: ".") || $0 == topic.count - 1 }) ?? true {
                #expect(stream == nil, "seed \(seed): \(name)")
            } else {
                #expect(stream?.stream.topic.utf8.count == topic.count - 1 - (end ?? 0), "seed \(seed)")
            }
        }
    }

    @Test func acceptsOnlyWhatItWrites() throws {
        let corpus = try Corpus.load("stream-name").map(\.bytes)
        for seed in 0..<20_000 as Range<UInt64> {
            var random = SeededRandom(seed: seed)
            let base = corpus[Int(seed) % corpus.count]
            let bytes = Mutation.apply(to: base, other: corpus.randomElement(using: &random) ?? [], using: &random)
            let name = withBytes(bytes) { (try? StreamName.parse($0)) ?? nil }
            if let name { #expect(name.format().map { Array($0.utf8) } == bytes, "seed \(seed)") }
        }
    }

    @Test func escapesArbitraryBytesOnlyFromUTF8() {
        var random = SeededRandom()
        for _ in 0..<5000 {
            let bytes = random.bytes(Int.random(in: 1...8, using: &random))
            var writer = ByteWriter()
            writer.append("user.")
            for byte in bytes {
                writer.append("=")
                writer.append(Hex.upperDigit(byte >> 4))
                writer.append(Hex.upperDigit(byte & 0xF))
            }
            writer.append(".a")
            let name = writer.withUnsafeBytes { (try? StreamName.parse($0)) ?? nil }
            if let name { #expect(Array(name.stream.user.utf8) == bytes, "seed \(random.seed)") }
        }
    }
}

@Suite(.timeLimit(.minutes(15))) struct StreamEventTests {
    @Test func comparesEveryByte() {
        let stream = StreamID(user: "1", topic: "a")
        let event = StreamEvent(stream: stream, offset: 1, name: "n", data: SharedBytes.copy("{}"))
        #expect(event == StreamEvent(stream: stream, offset: 1, name: "n", data: SharedBytes.copy("{}")))
        #expect(event != StreamEvent(stream: stream, offset: 1, name: "n", data: SharedBytes.copy("[]")))
        #expect(event != StreamEvent(stream: stream, offset: 2, name: "n", data: SharedBytes.copy("{}")))
        #expect(StreamPosition(epoch: "e", offset: 1) != StreamPosition(epoch: "f", offset: 1))
    }
}
