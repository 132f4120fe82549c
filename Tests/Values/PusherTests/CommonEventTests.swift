import Bytes
import JSON
import Pusher
import TestSupport
import Testing

/// The quick reader agrees with the general one, or returns nil.
@Suite(.timeLimit(.minutes(15))) struct CommonEventTests {
    private static let messages = [
        #"{"event":"pusher:ping","data":{}}"#, #"{"event":"pusher:pong","data":{}}"#,
        #"{"event":"pusher:subscribe","data":{"auth":"","channel":"user.1.adherence"}}"#,
        #"{"event":"pusher:subscribe","data":{"auth":"","channel":"private-x_y=@,.;-"}}"#,
        #"{"event":"pusher:signin","data":{"auth":"key:abcdef","user_data":"{\"id\":\"u1\",\"user_info\":{}}"}}"#,
        #"{"event":"sync:resume","data":{"v":1,"channels":{"user.1.adherence":{"epoch":"e","offset":12}}}}"#,
    ]

    /// The quick reader's result, as the general reader would return it.
    private func quick(_ text: [UInt8], _ limits: PusherLimits = PusherLimits()) -> ClientEvent? {
        withBytes(text) { bytes in
            switch CommonEvent(bytes, limits: limits) {
            case nil: return nil
            case .ping: return .ping
            case .pong: return .pong
            case .subscribe(let channel):
                return ChannelName(channel).map { .subscribe($0, auth: nil, channelData: nil) }
            case .signin(let auth, let userData):
                var text = ""
                CommonEvent.unescape(userData) { text = $0.string }
                return .signin(auth: auth.string, userData: text)
            case .resume(let data):
                // The message around it is a level too.
                guard (try? JSONValue.parse(data, maxDepth: limits.depth - 1))?.kind == .object else { return nil }
                return .sync(name: "resume", data: Array(data))
            }
        }
    }

    private func general(_ text: [UInt8], _ limits: PusherLimits = PusherLimits()) -> ClientEvent? {
        withBytes(text) { try? ClientEvent.decode($0, limits: limits) }
    }

    @Test(arguments: messages) func readsWhatClientsWrite(message: String) throws {
        let found = try #require(quick(Array(message.utf8)))
        #expect(found == general(Array(message.utf8)))
    }

    @Test(arguments: messages) func agreesOnEveryChange(message: String) {
        var random = SeededRandom()
        let bytes = Array(message.utf8)
        let odd = Array(#""\{}[]:, u0n/#é"#.utf8) + [0x00, 0x1F, 0x7F, 0x80, 0xFF]
        for _ in 0..<1_000 {
            var changed = bytes
            for _ in 0...Int.random(in: 0..<2, using: &random) {
                let index = Int.random(in: changed.indices, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: changed[index] = odd.randomElement(using: &random) ?? 0
                case 1: changed.insert(odd.randomElement(using: &random) ?? 0, at: index)
                case 2: changed.remove(at: index)
                default: changed.removeSubrange(index...)
                }
                if changed.isEmpty { break }
            }
            guard let found = quick(changed) else { continue }
            #expect(found == general(changed), "seed \(random.seed)")
        }
    }

    /// The data is passed on as it stands, and the general reader passes it on without blanks.
    @Test(arguments: [("", ""), (" ", ""), ("", " "), ("\n", "\n")])
    func blanksAroundTheDataAreLeftToTheGeneralReader(before: String, after: String) throws {
        let data = #"{"v":1,"channels":{"user.1.x":{"epoch":"e","offset":1}}}"#
        let text = Array(#"{"event":"sync:resume","data":\#(before)\#(data)\#(after)}"#.utf8)
        let event = ClientEvent.sync(name: "resume", data: Array(data.utf8))
        #expect(general(text) == event)
        #expect(quick(text) == (before + after == "" ? event : nil))
    }

    /// Messages cut so that the ending overlaps the beginning.
    @Test func takesWhatIsCutOff() {
        for message in Self.messages {
            for count in 0..<message.utf8.count {
                for ending in ["", "}", "}}", "\"}}", "\"\"}}"] {
                    let text = Array(message.utf8.prefix(count)) + Array(ending.utf8)
                    if let found = quick(text) { #expect(found == general(text)) }
                }
            }
        }
    }

    @Test func boundsAreTheGeneralOnes() throws {
        let name = String(repeating: "a", count: ChannelName.maximumBytes)
        let longest = Array(#"{"event":"pusher:subscribe","data":{"auth":"","channel":"\#(name)"}}"#.utf8)
        let channel = try #require(ChannelName(name))
        #expect(quick(longest) == .subscribe(channel, auth: nil, channelData: nil))
        #expect(quick(Array(#"{"event":"pusher:subscribe","data":{"auth":"","channel":"\#(name)a"}}"#.utf8)) == nil)
        var limits = PusherLimits()
        limits.authBytes = 5
        limits.userDataBytes = 4
        let signin = { (auth: String, user: String) in
            Array(#"{"event":"pusher:signin","data":{"auth":"\#(auth)","user_data":"\#(user)"}}"#.utf8)
        }
        #expect(quick(signin("12345", "1234"), limits) == .signin(auth: "12345", userData: "1234"))
        #expect(quick(signin("123456", "1234"), limits) == nil)
        #expect(quick(signin("12345", "12345"), limits) == nil)
    }
}
