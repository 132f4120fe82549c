import Bytes
import Clock

/// The server's side of one WebSocket, from its upgrade on (RFC 6455), as a value: bytes and times in, one action out for each
/// pull. It does no I/O, reads no clock, and holds memory only while something is unfinished.
///
/// What a client sends is looked at in turns, each with room for so much (`Cursor`): it may send thousands of messages at
/// once, or some that grow a thousandfold, and holds up itself. What is left of a turn's input is kept (`endInput`).
///
/// Worst interleavings, each with its test in `WebSocketMachineTests`:
/// - a pause, or the end, comes in the middle of a buffer: not a byte behind it is looked at before its time;
/// - a pause comes while a message is unfinished: the message goes on after it, and its time runs on;
/// - the deadline passes while what has come waits for its turn: that is a sign of life, and may be the rest of a message
///   whose time is over;
/// - we close while the peer's messages wait: they are read, for nothing, to the close that is behind them;
/// - the peer breaks a rule after we have closed: its close can be told apart no more.
public struct WebSocketMachine {
    // Public and inlinable in part, for a caller that has it in a class: a call to ask would copy it.

    /// Valid transitions: `open` ⇄ its pauses; `open` → `draining`, `closing`; `draining` → `closing`; any → `over`.
    public enum State: Equatable, Sendable {
        /// In use.
        case open(Reading)
        /// The server ends, and answers under way are still sent. Nothing is read.
        case draining
        /// Our close frame is sent (§7.1.2); the peer's is awaited, all else ignored.
        case closing(awaitsTurn: Bool)
        /// Both have closed, or one has no more to say that could be understood.
        case over
    }

    /// When what comes is looked at.
    public enum Reading: Sendable {
        /// At once.
        case now
        /// More has come than is looked at in one turn.
        case nextTurn
        /// Something has to be settled first, so that nothing overtakes it.
        case afterPause
    }

    /// A rule that the peer has broken.
    package enum Violation: Error, Equatable, Sendable {
        case malformed(WebSocketError)
        case tooManyMessages, tooManyControlFrames
    }

    /// What the peer has sent, or what to do about it.
    package enum Action {
        case text(MessagePayload), binary(MessagePayload)
        /// Send a pong with this payload.
        case pong(MessagePayload)
        /// Come back with what is left in the next turn.
        case awaitTurn
        /// Answer with a close frame of that code, and end.
        case answerClose(CloseCode?)
        /// Close, and end without an answer: what follows cannot be told apart, or is not wanted.
        case refuse(Violation)
        /// The peer has answered our close, or never will: end.
        case finish, drop
    }

    /// What is to be done when a deadline has passed.
    package enum Due: Equatable, Sendable {
        /// What has come is still to be looked at: judge later.
        case wait
        case look(at: Instant)
        case ping(answeredBy: Instant)
        /// It has answered no ping.
        case silent
        /// It has not finished its message: close, and end without an answer.
        case unfinished
        /// Answers were awaited for long enough: close.
        case drained
        /// It has not answered our close.
        case drop
    }

    /// How far in its input a turn has come.
    public struct Cursor {
        /// Bytes taken.
        public var consumed: Int
        /// Bytes that messages may still cost in this turn; the last may go beyond them.
        public var room: Int

        /// A turn that begins there.
        @inlinable public init(consumed: Int = 0, room: Int) {
            self.consumed = consumed
            self.room = room
        }
    }

    /// What a connection holds of a message that has come in part, or of what came before a pause. Few have one at a time.
    package final class Unfinished {
        /// Read and not consumed: the beginning of a frame's header, or what came before a pause.
        var leftover: [UInt8] = []
        /// Within a frame or a message; at rest otherwise.
        var reader = MessageReader(role: .server)
        /// When the unfinished message began; nil where there is none.
        package var since: Instant?

        var isEmpty: Bool { leftover.isEmpty && !reader.holdsMessage }
    }

    /// What a message costs beside its bytes, in bytes: with most of them the engine has more to do than with many bytes.
    package static let messageCost = 1_024

    // Laid out so that a connection has no gaps (see the gateway's tests).
    /// Nil for most.
    package private(set) var unfinished: Unfinished?
    @usableFromInline var heardAt: Instant
    private var messages = SmallAllowance()
    private var controls = SmallAllowance()
    /// What it does with what comes.
    public private(set) var state = State.open(.now)
    /// A ping is not answered, nor has anything else come since.
    @usableFromInline package var isPinged = false

    /// - Parameter early: what has come behind the request for the upgrade.
    package init(at now: Instant, early: [UInt8] = []) {
        heardAt = now
        if !early.isEmpty { madeUnfinished().leftover = early }
    }

    /// Whether it takes messages of ours.
    @inlinable public var isEstablished: Bool {
        switch state {
        case .open, .draining: true
        case .closing, .over: false
        }
    }

    /// Whether it is in use, and waits for nothing but its turn, if for anything.
    @inlinable public var isOpen: Bool {
        switch state {
        case .open(.now), .open(.nextTurn): true
        default: false
        }
    }

    /// Whether what has come waits for the next turn.
    @inlinable public var awaitsTurn: Bool {
        switch state {
        case .open(.nextTurn), .closing(awaitsTurn: true): true
        default: false
        }
    }

    /// Whether what comes is to be read.
    @inlinable public var reads: Bool {
        switch state {
        case .open(.now), .closing(awaitsTurn: false): true
        default: false
        }
    }

    /// Bytes held; the arrays, which grow in steps, may have room for as many again.
    package var heldBytes: Int { unfinished.map { $0.leftover.count &+ $0.reader.heldBytes } ?? 0 }

    // MARK: Input

    /// How many bytes of earlier input stand before what comes.
    package var leftoverCount: Int { unfinished?.leftover.count ?? 0 }

    /// Puts earlier input to the start of `buffer`, before what has come.
    package mutating func takeLeftover(into buffer: UnsafeMutableRawBufferPointer) {
        guard let unfinished else { return }
        unfinished.leftover.withUnsafeBytes { buffer.copyMemory(from: $0) }
        unfinished.leftover = []
        // As it was before a pause: whole messages have a shorter way.
        if unfinished.isEmpty, unfinished.since == nil { self.unfinished = nil }
    }

    /// Something has come: a peer is alive as long as bytes come from it; what we send proves nothing about a half-open
    /// connection. Says whether it was pinged, so that its silence is measured anew.
    @inlinable public mutating func heard(at now: Instant) -> Bool {
        heardAt = now
        guard isPinged else { return false }
        isPinged = false
        return true
    }

    /// The next message where that is, as nearly always, a text which lies whole in `bytes`: says where. Nil where `next` has
    /// to look.
    package mutating func nextText(
        _ bytes: UnsafeMutableRawBufferPointer, _ cursor: inout Cursor, at now: Instant, _ limits: MessageLimits,
        _ rate: Rate
    ) throws(Violation) -> Range<Int>? {
        guard case .open(.now) = state, unfinished == nil, cursor.room > 0, cursor.consumed < bytes.count else {
            return nil
        }
        let range: Range<Int>?
        do throws(WebSocketError) {
            range = try MessageReader.takeText(bytes, consumed: &cursor.consumed, limits: limits)
        } catch {
            state = .over
            throw .malformed(error)
        }
        guard let range else { return nil }
        cursor.room &-= range.count &+ Self.messageCost
        guard messages.take(rate, at: now, cost: 1 &+ range.count >> 12) else {
            state = .over
            throw .tooManyMessages
        }
        return range
    }

    /// What is to be done next about `bytes`; nil where all that can be has been.
    package mutating func next(
        _ bytes: UnsafeMutableRawBufferPointer, _ cursor: inout Cursor, at now: Instant, _ rules: WebSocketRules,
        inflater: Inflater? = nil
    ) -> Action? {
        while cursor.consumed < bytes.count {
            switch state {
            case .open(.now), .closing(awaitsTurn: false): break
            case .open, .draining, .closing: return nil
            case .over:
                cursor.consumed = bytes.count
                return nil
            }
            guard cursor.room > 0 else { return awaitTurn() }
            var reader =
                unfinished.map { exchange(&$0.reader, with: MessageReader(role: .server)) }
                ?? MessageReader(role: .server)
            do throws(WebSocketError) {
                let event = try reader.read(
                    bytes, consumed: &cursor.consumed, limits: rules.limits, inflater: inflater)
                if reader.holdsMessage { madeUnfinished().reader = reader }
                guard let event else { return nil }
                if !reader.holdsMessage { unfinished?.since = nil }
                cursor.room &-= event.cost &+ Self.messageCost
                if let action = received(event, at: now, rules) { return action }
            } catch {
                return refuse(.malformed(error))
            }
        }
        return nil
    }

    private mutating func received(_ event: MessageEvent, at now: Instant, _ rules: WebSocketRules) -> Action? {
        if case .closing = state {
            guard case .close = event else { return nil }
            state = .over
            return .finish
        }
        switch event {
        case .text(let payload):
            guard messages.take(rules.messageRate, at: now, cost: 1 &+ payload.cost >> 12) else {
                return refuse(.tooManyMessages)
            }
            return .text(payload)
        case .binary(let payload): return .binary(payload)
        case .ping(let payload):
            return controls.take(rules.controlRate, at: now) ? .pong(payload) : refuse(.tooManyControlFrames)
        case .pong:
            return controls.take(rules.controlRate, at: now) ? nil : refuse(.tooManyControlFrames)
        case .close(let code):
            state = .over
            return .answerClose(code)
        }
    }

    private mutating func refuse(_ violation: Violation) -> Action {
        defer { state = .over }
        return isEstablished ? .refuse(violation) : .drop
    }

    /// All has been looked at that can be now: keeps what is left, and says when to look at the connection next where a
    /// message has begun, whose time runs from here.
    package mutating func endInput(
        _ rest: UnsafeRawBufferPointer, at now: Instant, _ rules: WebSocketRules
    ) -> Instant? {
        if rest.count > 0, state != .over { madeUnfinished().leftover = Array(rest) }
        guard let unfinished else { return nil }
        if unfinished.isEmpty {
            self.unfinished = nil
            return nil
        }
        guard state == .open(.now), unfinished.since == nil else { return nil }
        unfinished.since = now
        return isPinged ? nil : nextLook(rules)
    }

    private mutating func madeUnfinished() -> Unfinished {
        if let unfinished { return unfinished }
        let made = Unfinished()
        unfinished = made
        return made
    }

    // MARK: Turns and pauses

    /// More has come than is looked at in one turn.
    private mutating func awaitTurn() -> Action {
        if case .closing = state { state = .closing(awaitsTurn: true) } else { state = .open(.nextTurn) }
        return .awaitTurn
    }

    /// What comes next is looked at in the next turn, though this one has room; says whether it would have been in this one.
    package mutating func yields() -> Bool {
        guard state == .open(.now) else { return false }
        state = .open(.nextTurn)
        return true
    }

    /// The turn has come, and says whether there is one who waits for it.
    package mutating func turnCame(at now: Instant) -> Bool {
        switch state {
        case .open(.nextTurn): state = .open(.now)
        case .closing(awaitsTurn: true): state = .closing(awaitsTurn: false)
        case .open, .closing, .draining, .over: return false
        }
        heardAt = now
        return true
    }

    /// Looks at nothing until `resume`.
    package mutating func pause() {
        if case .open = state { state = .open(.afterPause) }
    }

    /// Says whether there was a pause.
    package mutating func resume() -> Bool {
        guard state == .open(.afterPause) else { return false }
        state = .open(.now)
        return true
    }

    // MARK: Time

    /// When the connection is looked at next.
    package func nextLook(_ rules: WebSocketRules) -> Instant {
        let quiet = heardAt.advanced(byNanoseconds: rules.activity)
        return unfinished?.since.map { min(quiet, $0.advanced(byNanoseconds: rules.message)) } ?? quiet
    }

    /// The deadline has passed.
    package mutating func due(at now: Instant, _ rules: WebSocketRules) -> Due {
        messages.settle(rules.messageRate, at: now)
        controls.settle(rules.controlRate, at: now)
        switch state {
        case .draining: return .drained
        case .closing, .over: return .drop
        case .open(.nextTurn):
            heardAt = now
            isPinged = false
            return .wait
        case .open(.now), .open(.afterPause): break
        }
        if isPinged { return .silent }
        if let since = unfinished?.since, since.advanced(byNanoseconds: rules.message) <= now {
            state = .over
            return .unfinished
        }
        guard heardAt.advanced(byNanoseconds: rules.activity) <= now else { return .look(at: nextLook(rules)) }
        isPinged = true
        return .ping(answeredBy: now.advanced(byNanoseconds: rules.pong))
    }

    // MARK: Endings

    /// The server ends, and answers under way are awaited.
    package mutating func drain() {
        guard case .open = state else { return }
        state = .draining
        isPinged = false
    }

    /// Our close frame goes out. False where one did already.
    package mutating func close() -> Bool {
        guard isEstablished else { return false }
        state = .closing(awaitsTurn: state == .open(.nextTurn))
        isPinged = false
        return true
    }

    /// Nothing is read any more. Says whether it was in use until now.
    package mutating func end() -> Bool {
        defer { state = .over }
        (unfinished, isPinged) = (nil, false)
        return isEstablished
    }
}

/// The bounds and times of WebSockets; times are nanoseconds, for a `Duration` costs hundreds of instructions to be taken
/// apart.
package struct WebSocketRules: Sendable {
    package var limits = MessageLimits()
    /// Of messages, one more for each 4 KiB that one costs (`MessagePayload.cost`), and of pings and pongs:
    /// `SmallAllowance`'s.
    package var messageRate = SmallAllowance.rate(perSecond: 0, burst: 1)
    package var controlRate = SmallAllowance.rate(perSecond: 0, burst: 1)
    /// Silence before a ping, and after it.
    package var activity: UInt64 = 120_000_000_000
    package var pong: UInt64 = 30_000_000_000
    /// From a message's first byte to its last.
    package var message: UInt64 = 30_000_000_000

    package init() {}
}
