import Bytes
import Clock
import HTTP
import TestSupport
import Testing

/// Drives a machine like a connection, without a socket: input, and the actions in words.
private struct Transcript {
    var machine: HTTPMachine
    var rules = HTTPRules()
    /// Bytes of unsent answers.
    var unsent = 0
    var answersAtOnce = true
    private(set) var now = Instant(nanoseconds: 1_000_000_000_000)
    private(set) var said: [String] = []
    private let start: Instant

    init(_ change: (inout HTTPRules) -> Void = { _ in }) {
        start = now
        machine = HTTPMachine(limits: HTTPLimits(), at: now)
        change(&rules)
    }

    private func time(_ instant: Instant) -> String { "\((instant.nanoseconds - start.nanoseconds) / 1_000_000) ms" }

    mutating func wait(_ milliseconds: Int) { now = now.advanced(by: .milliseconds(milliseconds)) }

    mutating func hear(_ text: String) { hear(Array(text.utf8)) }

    mutating func hear(_ received: [UInt8]) {
        var bytes = received.withUnsafeBytes { machine.input($0) }
        var cursor = HTTPMachine.Cursor()
        bytes.withUnsafeMutableBytes { buffer in
            while let action = machine.next(buffer, &cursor, unsent: unsent, at: now, rules) {
                switch action {
                case .request(let request):
                    said.append("\(request.method) \(request.path.string) \(request.body.string)")
                    machine.expectsMore(request.keepsAlive)
                    if answersAtOnce { answer() }
                case .refuse(let error): said.append("refuse \(error.status.code)")
                case .rest: said.append("rest")
                case .wait(let sendsContinue, let look):
                    if sendsContinue { said.append("continue") }
                    if let look { said.append("look at \(time(look))") }
                    return
                }
            }
        }
        machine.keep(bytes, from: cursor.consumed)
    }

    @discardableResult mutating func answer(keepsAlive: Bool = true) -> HTTPMachine.Answering? {
        machine.answer(keepsAlive: keepsAlive)
    }

    mutating func due() {
        switch machine.due(at: now, rules) {
        case .look(let at): said.append("look at \(time(at))")
        case .idle(let isFirst): said.append(isFirst ? "never asked" : "idle")
        case .late(let isTooSlow): said.append(isTooSlow ? "too slow" : "late")
        case .unanswered: said.append("unanswered")
        }
    }

    /// The words since the last call.
    mutating func heard() -> [String] {
        defer { said = [] }
        return said
    }
}

@Suite(.timeLimit(.minutes(15))) struct HTTPMachineTests {
    private static let get = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
    private static let post = "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
    private static let chunks =
        "PUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"

    private func saysNothingOfTime(_ line: String) -> Bool { !line.hasPrefix("look") }

    // MARK: Bytes in, actions out

    @Test(
        arguments: [
            (get, ["get /a "]), (get + post, ["get /a ", "post /b abc"]), (chunks + get, ["put /c abc", "get /a "]),
            (get + "GET /a HTTP/1.1\r\n\r\n" + get, ["get /a ", "refuse 400"]),
            ("BREW /a HTTP/1.1\r\nHost: h\r\n\r\n" + get, ["refuse 501"]),
            (
                "POST /b HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
                ["continue"]
            ),
        ] as [(String, [String])]) func sayTheSameAtEverySplit(_ text: String, _ expected: [String])
    {
        let bytes = Array(text.utf8)
        var whole = Transcript()
        whole.hear(bytes)
        #expect(whole.heard().filter(saysNothingOfTime) == expected)
        for split in 0...bytes.count {
            var parts = Transcript()
            parts.hear(Array(bytes[..<split]))
            parts.hear(Array(bytes[split...]))
            #expect(parts.heard().filter(saysNothingOfTime) == expected, "split \(split)")
        }
        var bytewise = Transcript()
        for byte in bytes { bytewise.hear([byte]) }
        #expect(bytewise.heard().filter(saysNothingOfTime) == expected)
    }

    /// `continue` is sent once, and not when the body is already there.
    @Test func continueIsSaidWhereItIsAwaited() {
        let head = "POST /b HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        var peer = Transcript()
        peer.hear(head)
        peer.hear("a")
        peer.hear("bc")
        #expect(peer.heard().filter(saysNothingOfTime) == ["continue", "post /b abc"])
        peer.hear(head + "abc")
        #expect(peer.heard() == ["post /b abc"])
    }

    // MARK: Answers

    @Test func nothingOvertakesAnAnswer() {
        let bytes = Array((Self.get + Self.post).utf8)
        for split in 0...bytes.count {
            var peer = Transcript()
            peer.answersAtOnce = false
            peer.hear(Array(bytes[..<split]))
            peer.hear(Array(bytes[split...]))
            #expect(peer.heard().filter(saysNothingOfTime) == ["get /a "], "split \(split)")
            #expect(!peer.machine.reads(unsent: 0, peer.rules))
            peer.answer()
            peer.hear("")
            #expect(peer.heard() == ["post /b abc"])
            #expect(peer.machine.heldCount == 0)
        }
    }

    @Test(
        arguments: [
            ("GET /a HTTP/1.1\r\nHost: h\r\n", true, false), ("HEAD /a HTTP/1.1\r\nHost: h\r\n", true, true),
            ("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n", false, false),
            ("HEAD /a HTTP/1.0\r\n", false, true), ("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n", true, false),
        ]) func anAnswerIsWrittenAsAsked(_ head: String, _ keepsAlive: Bool, _ omitsBody: Bool)
    {
        for isWanted in [true, false] {
            var peer = Transcript()
            peer.answersAtOnce = false
            peer.hear(head + "\r\n" + Self.get)
            let answering = peer.answer(keepsAlive: isWanted)
            #expect(answering?.keepsAlive == (keepsAlive && isWanted) && answering?.omitsBody == omitsBody)
            _ = peer.heard()
            peer.hear("")
            #expect(peer.heard() == (keepsAlive && isWanted ? ["get /a "] : []))
        }
    }

    /// An answer after the deadline's own is dropped.
    @Test func nobodyAwaitsASecondAnswer() {
        var peer = Transcript()
        peer.answersAtOnce = false
        peer.hear(Self.get + Self.get)
        peer.due()
        #expect(peer.heard() == ["get /a ", "unanswered"])
        #expect(peer.answer(keepsAlive: false) != nil)
        #expect(peer.answer() == nil)
        peer.hear(Self.get)
        #expect(peer.heard() == [] && peer.machine.state == .over)
    }

    /// Unreadable input is answered, and what follows is ignored.
    @Test func nothingFollowsARefusal() {
        var peer = Transcript()
        peer.hear("\u{1}\r\n\r\n")
        peer.hear(Self.get)
        #expect(peer.heard() == ["refuse 400"])
        #expect(peer.machine.state == .over && peer.machine.heldCount == 0)
    }

    /// Bytes after an upgrade belong to the WebSocket.
    @Test func anUpgradeKeepsWhatIsBehindIt() {
        for split in 0...Self.get.utf8.count {
            var peer = Transcript()
            peer.answersAtOnce = false
            peer.hear(String(Self.get.prefix(split)))
            peer.hear(String(Self.get.dropFirst(split)) + "\u{81}early")
            peer.machine.upgrades()
            #expect(peer.machine.state == .upgrading)
            peer.due()
            #expect(peer.heard().last == "unanswered")
            #expect(peer.machine.takeHeld() == Array("\u{81}early".utf8), "split \(split)")
            peer.machine.end()
            #expect(peer.answer() == nil)
        }
    }

    @Test func aRefusedUpgradeEndsIt() {
        var peer = Transcript()
        peer.answersAtOnce = false
        peer.hear(Self.get)
        peer.machine.upgrades()
        #expect(peer.answer() == HTTPMachine.Answering())
        #expect(peer.machine.state == .over)
        peer.machine.upgrades()
        #expect(peer.machine.state == .over, "there is no way back")
    }

    // MARK: Pipelining

    @Test(arguments: [(3, []), (4, ["rest"])] as [(Int, [String])])
    func soManyRequestsAreAnsweredInATurn(_ count: Int, _ end: [String]) {
        var peer = Transcript { $0.requestsPerTurnMax = 3 }
        peer.hear([String](repeating: Self.get, count: count).joined())
        #expect(peer.heard() == ["get /a ", "get /a ", "get /a "] + end)
        guard !end.isEmpty else { return }
        #expect(peer.machine.state == .resting(.answersUnsent))
        #expect(peer.machine.turnCame() == false, "its answers are unsent")
        #expect(peer.machine.sent(unsent: peer.rules.answerBytesMax + 1, peer.rules) == false)
        #expect(peer.machine.sent(unsent: peer.rules.answerBytesMax, peer.rules) == true)
        #expect(peer.machine.sent(unsent: 0, peer.rules) == false, "it has asked for its turn")
        #expect(!peer.machine.reads(unsent: 0, peer.rules))
        #expect(peer.machine.turnCame() == true)
        peer.hear("")
        #expect(peer.heard() == ["get /a "])
    }

    /// No request begins while too many answer bytes are unsent; one that has begun is read to its end.
    @Test func answersUnsentHoldUpTheNext() {
        for past in 0...1 {
            var peer = Transcript()
            peer.unsent = peer.rules.answerBytesMax + past
            #expect(peer.machine.reads(unsent: peer.unsent, peer.rules) == (past == 0))
            peer.hear(Self.get)
            #expect(peer.heard() == (past == 0 ? ["get /a "] : ["rest"]))
        }
        var begun = Transcript()
        begun.hear(String(Self.post.dropLast()))
        begun.unsent = .max
        #expect(begun.machine.reads(unsent: begun.unsent, begun.rules))
        begun.hear("c" + Self.get)
        #expect(begun.heard().filter(saysNothingOfTime) == ["post /b abc", "rest"])
    }

    // MARK: Time

    @Test func theFirstRequestHasItsTime() {
        var peer = Transcript()
        peer.wait(4_000)
        peer.hear("GET")
        #expect(peer.heard() == ["look at 9000 ms"])
        peer.wait(5_000)
        peer.due()
        #expect(peer.heard() == ["look at 10000 ms"])
        peer.wait(999)
        peer.hear(" /a HTTP/1.1\r\n")
        peer.due()
        #expect(peer.heard() == ["look at 10000 ms"])
        peer.wait(1)
        peer.due()
        #expect(peer.heard() == ["late"])
        #expect(peer.answer() == HTTPMachine.Answering())
    }

    /// Its time starts again after the TLS handshake.
    @Test func itBeginsAfterTheHandshake() {
        var peer = Transcript()
        peer.wait(4_000)
        peer.machine.begins(at: peer.now)
        peer.wait(9_000)
        peer.hear("G")
        #expect(peer.heard() == ["look at 14000 ms"])
    }

    @Test func aLaterOneHasItsOwn() {
        var peer = Transcript()
        peer.hear(Self.get)
        peer.wait(50_000)
        peer.hear("G")
        #expect(peer.heard() == ["get /a ", "look at 55000 ms"])
        peer.wait(9_999)
        peer.due()
        peer.wait(1)
        peer.due()
        #expect(peer.heard() == ["look at 60000 ms", "late"])
    }

    /// After half of the time, each further second needs a number of bytes.
    @Test(arguments: [(4, "too slow"), (5, "look at 5500 ms"), (50, "look at 10000 ms")])
    func aRequestHasToComeFastEnough(_ count: Int, _ end: String) {
        var peer = Transcript { $0.bytesPerSecondMin = 10 }
        peer.hear(Array(Self.post.utf8.prefix(count)))
        peer.wait(5_400)
        peer.due()
        #expect(peer.heard() == ["look at 5000 ms", end])
    }

    @Test func aConnectionWithoutARequestIsIdle() {
        var peer = Transcript()
        peer.due()
        peer.hear(Self.get)
        peer.due()
        #expect(peer.heard() == ["never asked", "get /a ", "idle"])
    }

    // MARK: Histories

    /// However bytes and answers arrive, each request is reported once, in order.
    @Test(arguments: 1...60 as ClosedRange<UInt64>) func everyHistorySaysTheSame(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var bytes: [UInt8] = []
        var expected: [String] = []
        for number in 0..<40 {
            switch Int.random(in: 0..<3, using: &random) {
            case 0:
                bytes += Array("GET /\(number) HTTP/1.1\r\nHost: h\r\n\r\n".utf8)
                expected.append("get /\(number) ")
            case 1:
                let body = String(repeating: "x", count: Int.random(in: 1...60, using: &random))
                bytes += Array(
                    "POST /\(number) HTTP/1.1\r\nHost: h\r\nContent-Length: \(body.count)\r\n\r\n\(body)".utf8)
                expected.append("post /\(number) \(body)")
            default:
                bytes += Array(Self.chunks.utf8)
                expected.append("put /c abc")
            }
        }
        var peer = Transcript { $0.requestsPerTurnMax = Int.random(in: 1...4, using: &random) }
        var at = 0
        var said: [String] = []
        while at < bytes.count || peer.machine.state != .reading(begunAt: nil) || peer.machine.heldCount > 0 {
            peer.answersAtOnce = Bool.random(using: &random)
            peer.unsent = Int.random(in: 0...2, using: &random) * peer.rules.answerBytesMax
            peer.wait(Int.random(in: 0...20, using: &random))
            switch peer.machine.state {
            case .answering: peer.answer()
            case .resting(.answersUnsent): _ = peer.machine.sent(unsent: peer.unsent, peer.rules)
            case .resting(.turnComing): if peer.machine.turnCame() { peer.hear("") }
            case .reading:
                guard peer.machine.reads(unsent: peer.unsent, peer.rules) else { continue }
                let end = min(bytes.count, at + Int.random(in: 0...300, using: &random))
                peer.hear(Array(bytes[at..<end]))
                at = end
            case .upgrading, .over: Issue.record("seed \(seed): \(peer.machine.state)")
            }
            said += peer.heard()
            if said.count > 10_000 { break }
        }
        #expect(said.filter { !$0.hasPrefix("look") && $0 != "rest" } == expected, "seed \(seed)")
    }
}
