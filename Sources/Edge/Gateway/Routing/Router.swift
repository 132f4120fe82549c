import Bytes
import Feed
import HubEngine
import Pusher
import Reactor
import Sync

/// Sends to the owners of streams, ordinary channels and users, and from them to the loops with subscribers. Only the router
/// knows whether that is this loop or another.
///
/// An owner is found by a hash of what it owns, the same on every loop. A message to another loop is in its mailbox at once.
/// A message to this loop waits in line until the runner has finished the input that led to it (`ClientLoop.run`). So
/// everything that one loop tells another, or itself, arrives in order; that keeps a stream's answer before its events.
///
/// Worst interleavings, each with its test:
/// - An owner here decides an answer and then a broadcast. The session must be a subscriber before the broadcast looks for
///   subscribers. Both wait in line, so it is (`ChannelConnectionTests`, `RunnerTests`).
/// - A loop reports that a connection has left, and then that a newcomer asks to enter. The owner gets both in that order,
///   by the same line or the same mailbox (`GraceEndTests`).
final class Router {
    let here: Int
    private let loop: EventLoop
    private let mailboxes: [Mailbox<LoopMessage>]
    private let metrics: GatewayMetrics
    private var line = Fifo<OwnerMessage>()

    init(here: Int, on loop: EventLoop, _ mailboxes: [Mailbox<LoopMessage>], _ metrics: GatewayMetrics) {
        self.here = here
        self.loop = loop
        self.mailboxes = mailboxes
        self.metrics = metrics
    }

    var loops: Int { mailboxes.count }
    var mailbox: Mailbox<LoopMessage> { mailboxes[here] }

    // MARK: Finding owners

    /// The loop that owns the stream: by the highest bits of its code, without a division. So the streams of one owner share
    /// those bits, which `KeyedTable` does not mind.
    static func owner(of stream: StreamID, loops: Int) -> Int {
        Int(truncatingIfNeeded: (UInt64(stream.code) &* UInt64(loops)) >> 32)
    }

    private func owner(of stream: StreamID) -> Int { Self.owner(of: stream, loops: loops) }

    func owns(_ stream: StreamID) -> Bool { loops == 1 || owner(of: stream) == here }

    func owner(of channel: ChannelKey) -> Int { channel.shard(of: loops) }

    /// The feed's outputs for each loop, in order: those of a stream for its owner, those of none for all loops.
    static func split(_ outputs: [FeedOutput], loops: Int) -> [[FeedOutput]] {
        // A single loop gets all of them, and ignores a status.
        guard loops > 1 else { return [outputs] }
        var perLoop = [[FeedOutput]](repeating: [], count: loops)
        for output in outputs {
            switch output.receiver {
            case .shard(let stream): perLoop[owner(of: stream, loops: loops)].append(output)
            case .everyLoop: for loop in perLoop.indices { perLoop[loop].append(output) }
            case .nobody: break
            }
        }
        return perLoop
    }

    // MARK: To owners

    /// Sends the request to its owner; requests about several users to each owner in one message.
    func ask(_ request: consuming OwnerRequest) {
        guard let owner = owner(of: request) else {
            if case .users(let requests) = request { ask(requests) }
            return
        }
        send(.request(request, from: here), to: owner)
    }

    /// The loop that the request is for; nil where it may be for several.
    private func owner(of request: OwnerRequest) -> Int? {
        guard loops > 1 else { return here }
        switch request {
        case .join(let join): return owner(of: join.name.stream)
        case .forget(_, let name), .leave(let name): return owner(of: name.stream)
        case .channel(let channel), .channelWithRoom(let channel): return owner(of: channel.key)
        case .users: return nil
        }
    }

    private func ask(_ requests: [UserRequest]) {
        var perLoop = [[UserRequest]](repeating: [], count: loops)
        for request in requests { perLoop[request.user.shard(loops: loops)].append(request) }
        for (loop, requests) in perLoop.enumerated() where !requests.isEmpty {
            send(.request(.users(requests), from: here), to: loop)
        }
    }

    /// Puts a loop's request at the end of this loop's line again.
    func again(_ request: consuming OwnerRequest, from loop: Int) {
        line.append(.request(request, from: loop))
    }

    // MARK: From owners

    func tell(_ news: consuming OwnerNews, loop: Int) {
        send(.news(news), to: loop)
    }

    func tell(_ news: consuming OwnerNews, loops: LoopSet) {
        var rest = loops.rawValue
        while rest & (rest &- 1) != 0 {
            send(.news(copy news), to: rest.trailingZeroBitCount)
            rest &= rest &- 1
        }
        if rest != 0 { send(.news(news), to: rest.trailingZeroBitCount) }
    }

    @inline(__always)
    private func send(_ message: consuming OwnerMessage, to loop: Int) {
        if loop == here { line.append(message) } else { post(message, to: loop) }
    }

    private func post(_ message: OwnerMessage, to loop: Int) {
        message.count(in: metrics, isPosted: true)
        self.loop.post(.owner(message), to: mailboxes[loop])
    }

    @inline(__always) var isIdle: Bool { line.isEmpty }

    func next() -> OwnerMessage? { line.popFirst() }

    /// The mailbox has handed out a message of another loop.
    func received(_ message: OwnerMessage) {
        message.count(in: metrics, isPosted: false)
    }

    // MARK: Loops

    /// Hands a message to that loop; on this loop, runs `here` at once.
    func hand(_ message: @autoclosure () -> LoopMessage, to loop: Int, or here: () -> Void) {
        if loop == self.here { here() } else { mailboxes[loop].post(message()) }
    }

    func handOthers(_ message: LoopMessage) {
        for loop in mailboxes.indices where loop != here { mailboxes[loop].post(message) }
    }

    /// Has a loop do something quick, in the app's backlog until then: this one at once, another in its turn.
    ///
    /// Worst interleaving: another loop's publish arrives after this tick took its mail. Its backend is answered, and sends
    /// the next publish to this loop in the same tick. That one then waits behind the mail.
    func have(
        _ loop: Int, for app: Int, on own: ClientLoop, _ question: @escaping @Sendable (ClientLoop) -> Void
    ) {
        if isFirst(at: loop) { return question(own) }
        self.loop.post(counted(question, for: app), to: mailboxes[loop])
    }

    /// Whether that loop is this one, and no other loop's mail stands before what it does at once.
    func isFirst(at loop: Int) -> Bool { loop == here && (loops == 1 || !self.loop.hasMail) }

    /// Has another loop do something, in its turn.
    ///
    /// - Parameter app: the index of the app in whose backlog it counts until then; nil for none.
    func ask(_ loop: Int, for app: Int? = nil, _ question: @escaping @Sendable (ClientLoop) -> Void) {
        self.loop.post(app.map { counted(question, for: $0) } ?? .ask(question), to: mailboxes[loop])
    }

    /// The question, in the app's backlog until its turn.
    private func counted(_ question: @escaping @Sendable (ClientLoop) -> Void, for app: Int) -> LoopMessage {
        metrics.publishes.add(of: app)
        return .ask { loop in
            loop.metrics.publishes.subtract(of: app)
            question(loop)
        }
    }

    /// Has each of these loops, none twice, give its part, which may be a long list: this one at once, the others in their
    /// turn. Returns the parts in the order of the loops, if they are there at once; otherwise `answer` gets them, on any
    /// thread.
    func gather<Part: Sendable>(
        from targets: some Collection<Int>, for app: Int, on own: ClientLoop,
        _ part: @escaping @Sendable (ClientLoop, _ take: @escaping @Sendable (Part) -> Void) -> Void,
        _ answer: @escaping @Sendable ([Part]) -> Void
    ) -> [Part]? {
        let outcome = Outcome(answer)
        let gather = ScatterGather<Part>(targets.count) { outcome.complete($0) }
        let isAtOnce = targets.allSatisfy { isFirst(at: $0) }
        for (index, target) in targets.enumerated() {
            let question = { @Sendable (loop: ClientLoop) in part(loop) { gather.take($0, at: index) } }
            if isAtOnce { question(own) } else { mailboxes[target].post(counted(question, for: app)) }
        }
        return outcome.now()
    }

    /// Whether that loop is this one.
    func isHere(_ loop: Int) -> Bool { loop == here }

    var all: Range<Int> { mailboxes.indices }

    func others(of loops: LoopSet) -> [Int] {
        mailboxes.indices.filter { $0 != here && loops.contains(loop: $0) }
    }

    func isAlone(in loops: LoopSet) -> Bool { loops.isSubset(of: LoopSet(loop: here)) }
}
