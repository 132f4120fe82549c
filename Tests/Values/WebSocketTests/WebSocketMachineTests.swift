import Bytes
import Clock
import TestSupport
import Testing
import WebSocket

/// Drives a machine like a connection, without a socket: input, and the actions in words.
private struct Transcript {
    var machine: WebSocketMachine
    var rules = WebSocketRules()
    /// The room of one turn.
    var room = 1 << 20
    /// Texts after which the connection pauses, or closes.
    var pauses: Set<String> = []
    var closes: Set<String> = []
    private(set) var now = Instant(nanoseconds: 1_000_000_000_000)
    private(set) var said: [String] = []
    private let start: Instant

    init(early: [UInt8] = [], _ change: (inout WebSocketRules) -> Void = { _ in }) {
        start = now
        machine = WebSocketMachine(at: now, early: early)
        change(&rules)
    }

    /// Milliseconds since the start.
    private func time(_ instant: Instant) -> String { "\((instant.nanoseconds - start.nanoseconds) / 1_000_000) ms" }

    mutating func wait(_ milliseconds: Int) { now = now.advanced(by: .milliseconds(milliseconds)) }

    /// Bytes have arrived.
    mutating func hear(_ bytes: [UInt8]) {
        if machine.heard(at: now) { said.append("alive, look at \(time(machine.nextLook(rules)))") }
        look(bytes)
    }

    /// A pause or turn has ended.
    mutating func goOn() {
        if machine.resume() || machine.turnCame(at: now) { look([]) } else { said.append("nobody waits") }
    }

    private mutating func look(_ bytes: [UInt8]) {
        let held = machine.leftoverCount
        withMutableBytes([UInt8](repeating: 0xEE, count: held) + bytes) { buffer in
            machine.takeLeftover(into: buffer)
            var cursor = WebSocketMachine.Cursor(room: room)
            do throws(WebSocketMachine.Violation) {
                while let range = try machine.nextText(buffer, &cursor, at: now, rules.limits, rules.messageRate) {
                    heardText(UnsafeRawBufferPointer(buffer).part(range).string)
                }
            } catch {
                said.append("refuse \(error)")
            }
            while let action = machine.next(buffer, &cursor, at: now, rules) { say(action, in: buffer) }
            if let look = machine.endInput(
                UnsafeRawBufferPointer(rebasing: buffer[cursor.consumed...]), at: now, rules)
            {
                said.append("look at \(time(look))")
            }
        }
    }

    private mutating func heardText(_ text: String) {
        said.append(text.count > 99 ? "text of \(text.count)" : "text \(text)")
        if pauses.contains(text) { machine.pause() }
        if closes.contains(text) { _ = machine.close() }
    }

    private mutating func say(_ action: WebSocketMachine.Action, in buffer: UnsafeMutableRawBufferPointer) {
        switch action {
        case .text(let payload): heardText(payload.withUnsafeBytes(in: buffer) { $0.string })
        case .binary(let payload): said.append("binary of \(payload.withUnsafeBytes(in: buffer) { $0.count })")
        case .pong(let payload): said.append("pong \(payload.withUnsafeBytes(in: buffer) { $0.string })")
        case .awaitTurn: said.append("turn")
        case .answerClose(let code): said.append("close \(code?.rawValue ?? 0)")
        case .refuse(let violation): said.append("refuse \(violation)")
        case .finish: said.append("finish")
        case .drop: said.append("drop")
        }
    }

    mutating func due() {
        switch machine.due(at: now, rules) {
        case .wait: said.append("wait")
        case .look(let at): said.append("look at \(time(at))")
        case .ping(let at): said.append("ping, look at \(time(at))")
        case .silent: said.append("silent")
        case .unfinished: said.append("unfinished")
        case .drained: said.append("drained")
        case .drop: said.append("drop")
        }
    }

    /// The words since the last call.
    mutating func heard() -> [String] {
        defer { said = [] }
        return said
    }
}

@Suite(.timeLimit(.minutes(15))) struct WebSocketMachineTests {
    private static let hello = frame(1, "hello")

    /// Part of every connection, with its allowances and states.
    @Test func staysSmall() { #expect(MemoryLayout<WebSocketMachine?>.size <= 26) }

    // MARK: Bytes in, actions out

    private static let transcripts: [([UInt8], [String])] = [
        (hello, ["text hello"]), (hello + frame(1, "b"), ["text hello", "text b"]),
        (frame(2, [1, 2]) + hello, ["binary of 2", "text hello"]),
        (frame(9, "x") + frame(10, "y") + frame(9, ""), ["pong x", "pong "]),
        (frame(1, "a", fin: false) + frame(9, "x") + frame(0, "b") + hello, ["pong x", "text ab", "text hello"]),
        (frame(8, [0x03, 0xE8]) + hello, ["close 1000"]), (frame(8, []) + hello, ["close 0"]),
        (hello + frame(1, [0xFF]) + hello, ["text hello", "refuse malformed(WebSocket.WebSocketError.invalidUTF8)"]),
        (
            frame(9, "x") + [0x83, 0x80] + hello,
            ["pong x", "refuse malformed(WebSocket.WebSocketError.unknownOpcode)"]
        ),
        (frame(8, [0x03]) + hello, ["refuse malformed(WebSocket.WebSocketError.closePayload)"]),
    ]

    @Test(arguments: transcripts) func sayTheSameAtEverySplit(_ bytes: [UInt8], _ expected: [String]) {
        var whole = Transcript()
        whole.hear(bytes)
        #expect(whole.heard() == expected)
        for split in 0...bytes.count {
            var parts = Transcript()
            parts.hear(Array(bytes[..<split]))
            parts.hear(Array(bytes[split...]))
            #expect(parts.heard().filter { !$0.hasPrefix("look") } == expected, "split \(split)")
            #expect(parts.machine.unfinished == nil || parts.machine.state != .over)
        }
        var bytewise = Transcript()
        for byte in bytes { bytewise.hear([byte]) }
        #expect(bytewise.heard().filter { !$0.hasPrefix("look") } == expected)
    }

    /// Bytes received after the upgrade request come first.
    @Test func whatCameEarlyStandsFirst() {
        for split in 0...Self.hello.count {
            var peer = Transcript(early: Array(Self.hello[..<split]))
            #expect(peer.machine.leftoverCount == split)
            peer.hear(Self.hello[split...] + frame(1, "b"))
            #expect(peer.heard() == ["text hello", "text b"], "split \(split)")
        }
    }

    // MARK: Pauses, turns and endings

    @Test func nothingOvertakesAPause() {
        let bytes = Self.hello + frame(9, "x") + frame(1, "b")
        for split in 0...bytes.count {
            var peer = Transcript()
            peer.pauses = ["hello"]
            peer.hear(Array(bytes[..<split]))
            peer.hear(Array(bytes[split...]))
            let before = peer.heard().filter { !$0.hasPrefix("look") }
            #expect(before == ["text hello"], "split \(split)")
            #expect(peer.machine.state == .open(.afterPause) && !peer.machine.reads)
            peer.goOn()
            #expect(peer.heard() == ["pong x", "text b"])
            #expect(peer.machine.unfinished == nil)
            peer.goOn()
            #expect(peer.heard() == ["nobody waits"])
        }
    }

    /// An unfinished message continues after a pause, and its deadline keeps running.
    @Test func aMessageOutlastsAPause() {
        var peer = Transcript()
        peer.pauses = ["auth"]
        peer.hear(frame(1, "a", fin: false))
        #expect(peer.heard() == ["look at 30000 ms"])
        peer.wait(1_000)
        peer.machine.pause()
        peer.hear(frame(0, "b"))
        peer.wait(28_999)
        peer.due()
        #expect(peer.heard() == ["look at 30000 ms"])
        peer.goOn()
        #expect(peer.heard() == ["text ab"])
        #expect(peer.machine.unfinished == nil)
    }

    /// A turn has room for this many messages; the last may exceed it.
    @Test(arguments: [(2, [String]()), (3, ["turn"])]) func aTurnHasRoomForSoMany(_ count: Int, _ end: [String]) {
        for kind in [1, 9] as [UInt8] {
            var peer = Transcript()
            let words = kind == 1 ? "text hello" : "pong hello"
            peer.room = 2 * (WebSocketMachine.messageCost + 5)
            peer.hear((0..<count).flatMap { _ in frame(kind, "hello") })
            #expect(peer.heard() == [words, words] + end)
            #expect(peer.machine.awaitsTurn == !end.isEmpty)
            if !end.isEmpty {
                #expect(peer.machine.leftoverCount == Self.hello.count && !peer.machine.reads)
                peer.goOn()
                #expect(peer.heard() == [words])
            }
        }
    }

    /// Waiting input is a sign of life, and may be the rest of a message.
    @Test func nobodyIsJudgedBeforeItsTurn() {
        var peer = Transcript()
        peer.room = 1
        peer.hear(frame(1, "a", fin: false) + frame(9, "") + frame(9, ""))
        #expect(peer.heard() == ["pong ", "turn"])
        peer.wait(200_000)
        peer.due()
        #expect(peer.heard() == ["wait"])
        peer.goOn()
        #expect(peer.heard() == ["pong ", "look at 230000 ms"])
    }

    /// A turn may be ended from outside, when the socket must be read once more.
    @Test func aTurnMayBeYielded() {
        var peer = Transcript()
        #expect(peer.machine.yields() && peer.machine.awaitsTurn)
        #expect(peer.machine.yields() == false)
        peer.goOn()
        #expect(peer.heard() == [] && peer.machine.reads)
    }

    @Test func afterOurCloseOnlyThePeersCounts() {
        let bytes = Self.hello + frame(1, "b") + frame(9, "") + frame(8, []) + Self.hello
        for split in 0...bytes.count {
            var peer = Transcript()
            peer.closes = ["hello"]
            peer.hear(Array(bytes[..<split]))
            peer.hear(Array(bytes[split...]))
            #expect(peer.heard().filter { !$0.hasPrefix("look") } == ["text hello", "finish"], "split \(split)")
            #expect(peer.machine.state == .over && !peer.machine.isEstablished)
        }
    }

    /// Input is also read in turns after our close, even if it waited for its turn then.
    @Test func theClosingTakesTurns() {
        var peer = Transcript()
        peer.room = 1
        peer.hear(Self.hello + Self.hello + frame(8, []))
        #expect(peer.heard() == ["text hello", "turn"])
        #expect(peer.machine.close() && !peer.machine.close())
        #expect(peer.machine.state == .closing(awaitsTurn: true))
        peer.goOn()
        #expect(peer.heard() == ["turn"])
        peer.goOn()
        #expect(peer.heard() == ["finish"])
        peer.goOn()
        #expect(peer.heard() == ["nobody waits"])
    }

    @Test func aRuleBrokenAfterOurCloseEndsIt() {
        var peer = Transcript()
        _ = peer.machine.close()
        peer.hear([0x83, 0x80, 0, 0, 0, 0])
        #expect(peer.heard() == ["drop"])
    }

    @Test func aDrainedConnectionIsNotRead() {
        var peer = Transcript()
        peer.machine.drain()
        #expect(peer.machine.state == .draining && peer.machine.isEstablished && !peer.machine.reads)
        peer.hear(Self.hello)
        peer.due()
        #expect(peer.heard() == ["drained"])
        #expect(peer.machine.close() == true)
        peer.due()
        #expect(peer.heard() == ["drop"])
        peer.machine.drain()
        #expect(peer.machine.state == .closing(awaitsTurn: false), "there is no way back")
    }

    @Test func nothingFollowsTheEnd() {
        var peer = Transcript()
        peer.hear(frame(1, "a", fin: false))
        #expect(peer.machine.end() && !peer.machine.end())
        _ = peer.heard()
        peer.hear(Self.hello)
        peer.machine.pause()
        peer.machine.drain()
        #expect(!peer.machine.close() && !peer.machine.resume() && !peer.machine.yields())
        peer.due()
        #expect(peer.heard() == ["drop"])
        #expect(peer.machine.heldBytes == 0 && peer.machine.state == .over)
    }

    // MARK: Bounds

    @Test func soManyMessagesAtOnce() {
        var peer = Transcript { $0.messageRate = SmallAllowance.rate(perSecond: 10, burst: 3) }
        peer.hear([[UInt8]](repeating: Self.hello, count: 3).flatMap { $0 })
        #expect(peer.heard() == ["text hello", "text hello", "text hello"])
        peer.wait(101)
        peer.hear(Self.hello)
        #expect(peer.heard() == ["text hello"], "one has come back")
        peer.hear(Self.hello + Self.hello)
        #expect(peer.heard() == ["refuse tooManyMessages"])
        #expect(peer.machine.state == .over)
    }

    /// One more for each 4 KiB, whole or in pieces.
    @Test(arguments: [(4_095, 2), (4_096, 1)]) func aLongOneCountsForMore(_ length: Int, _ most: Int) {
        for isFragmented in [false, true] {
            var peer = Transcript { $0.messageRate = SmallAllowance.rate(perSecond: 1, burst: 2) }
            let text = [UInt8](repeating: 0x61, count: length)
            for _ in 0..<most + 1 {
                peer.hear(isFragmented ? frame(1, text, fin: false) + frame(0, []) : frame(1, text))
            }
            let words = [String](repeating: "text of \(length)", count: most) + ["refuse tooManyMessages"]
            #expect(peer.heard() == words)
        }
    }

    @Test(arguments: [9, 10] as [UInt8]) func soManyControlFramesAtOnce(_ opcode: UInt8) {
        var peer = Transcript { $0.controlRate = SmallAllowance.rate(perSecond: 10, burst: 3) }
        for _ in 0..<3 { peer.hear(frame(opcode, "")) }
        #expect(peer.machine.isEstablished)
        _ = peer.heard()
        peer.hear(frame(opcode, "") + Self.hello)
        #expect(peer.heard() == ["refuse tooManyControlFrames"])
    }

    @Test func aMessageMayHaveSoManyBytes() {
        for past in 0...1 {
            var peer = Transcript { $0.limits.messageBytes = 10 }
            peer.hear(frame(1, String(repeating: "a", count: 10 + past)))
            #expect(
                peer.heard()
                    == (past == 0 ? ["text aaaaaaaaaa"] : ["refuse malformed(WebSocket.WebSocketError.messageTooBig)"]))
        }
    }

    // MARK: Time

    @Test func theSilentArePinged() {
        var peer = Transcript()
        peer.wait(119_999)
        peer.due()
        #expect(peer.heard() == ["look at 120000 ms"])
        peer.wait(1)
        peer.due()
        #expect(peer.heard() == ["ping, look at 150000 ms"])
        peer.wait(29_999)
        peer.hear(frame(10, ""))
        #expect(peer.heard() == ["alive, look at 269999 ms"])
        peer.wait(120_000)
        peer.due()
        peer.wait(30_000)
        peer.due()
        #expect(peer.heard() == ["ping, look at 299999 ms", "silent"])
        #expect(peer.machine.close() == true, "with a code of its own")
    }

    /// Any received byte is a sign of life, also while a token is verified; bytes that we send are not.
    @Test func aPausedConnectionIsPingedToo() {
        var peer = Transcript()
        peer.machine.pause()
        peer.wait(120_000)
        peer.due()
        peer.hear([0x81])
        #expect(peer.heard() == ["ping, look at 150000 ms", "alive, look at 240000 ms"])
        peer.goOn()
        #expect(peer.heard() == ["look at 150000 ms"], "a message has begun")
    }

    @Test(arguments: [[0x81], frame(1, "a", fin: false), Array(frame(1, "ab").dropLast())])
    func aMessageHasItsTime(_ beginning: [UInt8]) {
        var peer = Transcript()
        peer.wait(5_000)
        peer.hear(beginning)
        #expect(peer.heard() == ["look at 35000 ms"])
        peer.wait(29_999)
        peer.due()
        #expect(peer.heard() == ["look at 35000 ms"])
        peer.wait(1)
        peer.due()
        #expect(peer.heard() == ["unfinished"])
        #expect(peer.machine.state == .over)
    }

    /// The next message has its own deadline.
    @Test func theNextMessageHasItsOwnTime() {
        var peer = Transcript()
        peer.hear(frame(1, "a", fin: false))
        peer.wait(20_000)
        peer.hear(frame(0, "b") + [0x81])
        #expect(peer.heard() == ["look at 30000 ms", "text ab", "look at 50000 ms"])
    }

    /// The deadline of a ping stands: a message that then begins does not move it.
    @Test func aPingStandsOverABeginning() {
        var peer = Transcript()
        peer.machine.isPinged = true
        let rest = [0x81] as [UInt8]
        let look = rest.withUnsafeBytes { peer.machine.endInput($0, at: peer.now, peer.rules) }
        #expect(look == nil && peer.machine.unfinished?.since == peer.now)
    }

    // MARK: Histories

    private enum Sent {
        static func message(_ number: Int, _ random: inout SeededRandom) -> (bytes: [UInt8], said: [String]) {
            let text = "m\(number)" + String(repeating: "x", count: Int.random(in: 0...40, using: &random))
            switch Int.random(in: 0..<6, using: &random) {
            case 0: return (frame(9, "p\(number)"), ["pong p\(number)"])
            case 1: return (frame(10, ""), [])
            case 2: return (frame(2, [UInt8](repeating: 7, count: number % 90)), ["binary of \(number % 90)"])
            case 3:
                let half = text.count / 2
                return (
                    frame(1, String(text.prefix(half)), fin: false) + frame(9, "q")
                        + frame(0, String(text.dropFirst(half))), ["pong q", "text \(text)"]
                )
            default: return (frame(1, text), ["text \(text)"])
            }
        }
    }

    /// However the bytes arrive, in any turns and pauses, the actions are the same, in order, each once.
    @Test(arguments: 1...60 as ClosedRange<UInt64>) func everyHistorySaysTheSame(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var bytes: [UInt8] = []
        var expected: [String] = []
        for number in 0..<60 {
            let sent = Sent.message(number, &random)
            bytes += sent.bytes
            expected += sent.said
        }
        let isClosed = Bool.random(using: &random)
        if isClosed {
            bytes += frame(8, [0x03, 0xE8])
            expected.append("close 1000")
        }
        var peer = Transcript()
        peer.pauses = Set(
            expected.filter { _ in Int.random(in: 0..<8, using: &random) == 0 }.map { String($0.dropFirst(5)) })
        var at = 0
        var said: [String] = []
        while at < bytes.count || !peer.machine.reads {
            peer.room = Int.random(in: 1...5_000, using: &random)
            peer.wait(Int.random(in: 0...20, using: &random))
            switch Int.random(in: 0..<4, using: &random) {
            case 0: peer.goOn()
            case 1: peer.due()
            default:
                // A connection reads while its machine does.
                guard peer.machine.reads else { continue }
                let end = min(bytes.count, at + Int.random(in: 0...200, using: &random))
                peer.hear(Array(bytes[at..<end]))
                at = end
            }
            said += peer.heard()
            #expect(peer.machine.heldBytes <= 5_000, "seed \(seed)")
            if peer.machine.state == .over { break }
        }
        let words = ["look", "wait", "nobody", "alive", "turn", "ping,"]
        #expect(said.filter { line in !words.contains { line.hasPrefix($0) } } == expected, "seed \(seed)")
        #expect(peer.machine.state == (isClosed ? .over : .open(.now)))
        #expect(peer.machine.unfinished == nil)
    }
}
