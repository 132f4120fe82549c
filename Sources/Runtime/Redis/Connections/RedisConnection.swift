import Bytes
import Clock
import RESP
import Reactor

/// One connection: its greeting, and then commands and replies in a pipeline, with pushes between them.
///
/// The greeting's first command is `HELLO`; the rest is sent, at once, when that is answered well. The connection is open
/// when all is answered well.
///
/// Worst interleavings, each with its test in `RedisConnectionTests` or `RedisTroubleTests`:
/// - A push comes between two replies, or before the reply of the command that led to it. It takes no reply's place, except
///   that `SSUBSCRIBE` and `SUNSUBSCRIBE` are answered by pushes only, one for each channel, or by one error. Such a command
///   stands in the line of the others, and only pushes of its name end it
///   (`pushesTakeNoRepliesPlace`, `onlyItsConfirmationEndsASubscription`, `aRefusedSubscriptionKeepsTheOrder`).
/// - The connection is lost with commands unanswered, and a handler sends another command, or closes the client. The line is
///   taken away first; so each of them ends once, in order, and no other handler (`eachEndsOnceWhenTheServerDies`,
///   `aHandlerMaySendWhenItsCommandIsLost`).
/// - A handler closes the client while further replies were read together with its own. Those commands are lost already, and
///   the replies go nowhere (`aHandlerMayClose`).
/// - The loop was held up for longer than a reply may take, and some replies are in the socket, others behind them at the
///   server, which could send no more. What is in the socket is read before anything is judged overdue; and if something was
///   in it, the loop was late, not the server, which gets as much time once more (`aLoopThatWasHeldUpReadsFirst`).
final class RedisConnection: RedisSocket {
    /// A command of the greeting, and the judgement of its answer: nil where that is well.
    struct Greeting {
        let parts: [[UInt8]]
        /// Whether a push answers it: `SSUBSCRIBE` of one channel.
        var isSubscription = false
        let judge: (RESPValue) -> RedisTrouble?
    }

    /// Calls of the connection, on the loop. They must not keep the owner alive.
    struct Handlers {
        let opened: () -> Void
        let push: ([RESPValue]) -> Void
        /// The last call; not after `end()`.
        let ended: (RedisTrouble) -> Void
    }

    /// A command without its answer.
    private struct Unanswered {
        /// Pushes that answer it; 0: a reply does.
        var pushes: Int32 = 0
        /// Whether those are `sunsubscribe`, rather than `ssubscribe`.
        var endsSubscription = false
        let sent: Instant
        let done: (RedisReply) -> Void
    }

    private let settings: RedisSettings
    private let greetings: [Greeting]
    private let handlers: Handlers
    /// Whether commands may be sent.
    private(set) var isOpen = false
    private var parser: RESPParser
    private var values: [RESPValue] = []
    /// In the order in which they were sent, and are answered.
    private var unanswered = Fifo<Unanswered>()
    /// When the last byte came.
    private var heard = Instant(nanoseconds: 0)
    /// Answers of the greeting that are missing, beyond the first.
    private var greetingsLeft = 0

    init(
        loop: EventLoop, place: RedisURL.Place, tls: TLSClient?, room: RedisRoom, resolver: HostResolver,
        patience: Duration, settings: RedisSettings, greetings: [Greeting], handlers: Handlers
    ) {
        self.settings = settings
        self.greetings = greetings
        self.handlers = handlers
        parser = RESPParser(bytesMax: settings.valueBytesMax)
        super.init(loop: loop, place: place, tls: tls, room: room, resolver: resolver, patience: patience)
    }

    // MARK: Commands

    /// Commands without an answer.
    var unansweredCount: Int { unanswered.count }

    /// Appends what `encode` writes: one command.
    func send(_ done: @escaping (RedisReply) -> Void, _ encode: (inout ByteWriter) -> Void) -> RedisSending {
        take(Unanswered(sent: loop.now, done: done), encode)
    }

    /// Appends a command of shard channels, at least one.
    func change(
        _ name: StaticString, _ channels: [[UInt8]], ends endsSubscription: Bool,
        _ done: @escaping (RedisReply) -> Void
    ) -> RedisSending {
        precondition(!channels.isEmpty, "a subscription of no channel has no answer")
        let command = Unanswered(
            pushes: Int32(clamping: channels.count), endsSubscription: endsSubscription, sent: loop.now, done: done)
        let name = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        return take(command) { $0.append(command: [Array(name)] + channels) }
    }

    private func take(_ command: Unanswered, _ encode: (inout ByteWriter) -> Void) -> RedisSending {
        guard isOpen else { return .away }
        guard unanswered.count < settings.unansweredMax, append(most: settings.waitingBytesMax, encode) else {
            return .full
        }
        line(up: command)
        return .taken
    }

    private func line(up command: Unanswered) {
        // Otherwise the deadline is that of an older one, or earlier, and is set anew when it has passed.
        if unanswered.isEmpty, isOpen { loop.setDeadline(self, command.sent.advanced(by: settings.replyTimeout)) }
        unanswered.append(command)
    }

    /// Ends it without a word to the owner; commands without an answer are lost.
    func end() {
        close()
        loseAll()
    }

    private func loseAll() {
        isOpen = false
        var lost = Fifo<Unanswered>()
        swap(&lost, &unanswered)
        while let command = lost.popFirst() { command.done(.lost) }
    }

    override func broke(_ trouble: RedisTrouble) {
        loseAll()
        handlers.ended(trouble)
    }

    // MARK: The greeting

    override func connected() {
        guard let first = greetings.first else { return open() }
        greet(first) { [weak self] in self?.greetTheRest() }
    }

    private func greetTheRest() {
        greetingsLeft = greetings.count - 1
        if greetingsLeft == 0 { return open() }
        for greeting in greetings.dropFirst() {
            greet(greeting) { [weak self] in
                guard let self else { return }
                greetingsLeft -= 1
                if greetingsLeft == 0 { open() }
            }
        }
    }

    private func greet(_ greeting: Greeting, _ well: @escaping () -> Void) {
        let isTaken = append(most: .max) { $0.append(command: greeting.parts) }
        precondition(isTaken, "there is no bound")
        line(
            up: Unanswered(pushes: greeting.isSubscription ? 1 : 0, sent: loop.now) { [weak self] reply in
                let trouble: RedisTrouble?
                switch reply {
                case .value(let value): trouble = greeting.judge(value)
                // That ends the connection by itself.
                case .refused(let error) where RedisTrouble(unfit: error) != nil: return
                case .refused(let error): trouble = greeting.judge(.error(error))
                case .lost: return
                }
                if let trouble { self?.lose(trouble) } else { well() }
            })
    }

    private func open() {
        guard !isClosed else { return }
        isOpen = true
        heard = loop.now
        loop.setDeadline(self, loop.now.advanced(by: settings.pingAfter))
        handlers.opened()
    }

    // MARK: Replies

    override func received(_ bytes: UnsafeRawBufferPointer) {
        heard = loop.now
        var problem: RESPProblem?
        var batch: [RESPValue] = []
        // Its memory is used again.
        swap(&batch, &values)
        do throws(RESPProblem) {
            try parser.read(bytes, &batch)
        } catch {
            problem = error
        }
        for value in batch {
            guard !isClosed else { break }
            deliver(value)
        }
        batch.removeAll(keepingCapacity: batch.capacity <= 1_024)
        swap(&batch, &values)
        if let problem { lose(RedisTrouble(bytes: problem)) }
    }

    private func deliver(_ value: RESPValue) {
        switch value {
        case .push(let elements):
            handlers.push(elements)
            if !isClosed { answer(with: elements) }
        case .error(let error):
            guard let command = unanswered.popFirst() else { return lose(RedisTrouble(.malformed, "a reply too many")) }
            command.done(.refused(error))
            if let trouble = RedisTrouble(unfit: error) { lose(trouble) }
        default:
            guard let first = unanswered.first, first.pushes == 0 else {
                return lose(RedisTrouble(.malformed, "a reply too many"))
            }
            unanswered.popFirst()
            first.done(.value(value))
        }
    }

    /// A push may be what the first command in line waits for.
    private func answer(with elements: [RESPValue]) {
        guard var first = unanswered.first, first.pushes > 0, case .bytes(let name)? = elements.first,
            name.elementsEqual(first.endsSubscription ? "sunsubscribe".utf8 : "ssubscribe".utf8)
        else { return }
        unanswered.popFirst()
        first.pushes -= 1
        if first.pushes > 0 { unanswered.prepend(first) } else { first.done(.value(.push(elements))) }
    }

    // MARK: Time

    private var isOldestOverdue: Bool {
        unanswered.first.map { $0.sent.advanced(by: settings.replyTimeout) <= Instant.read() } ?? false
    }

    override func timePassed() {
        guard isOpen else { return lose(RedisTrouble(.timeout, "while it was greeted")) }
        if isOldestOverdue {
            read()
            guard !isClosed else { return }
            if isOldestOverdue {
                guard heard == loop.now else { return lose(RedisTrouble(.overdue)) }
                return loop.setDeadline(self, loop.now.advanced(by: settings.replyTimeout))
            }
        }
        if unanswered.isEmpty, heard.advanced(by: settings.pingAfter) <= loop.now {
            _ = send({ _ in }, { $0.append("*1\r\n$4\r\nPING\r\n") })
        }
        let next = unanswered.first?.sent.advanced(by: settings.replyTimeout) ?? heard.advanced(by: settings.pingAfter)
        loop.setDeadline(self, next)
    }
}
