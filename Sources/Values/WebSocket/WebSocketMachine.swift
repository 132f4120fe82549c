import Bytes
import Clock

/// The server's side of one WebSocket after its upgrade (RFC 6455), as a value: bytes and times in, one action out for each
/// call. It does no I/O, reads no clock, and holds memory only while something is unfinished.
///
/// A client's input is processed in turns of bounded cost (`Cursor`). A client that sends thousands of messages at once, or
/// messages that inflate a thousandfold, delays only itself. `endInput` keeps the rest of a turn's input.
///
/// Worst interleavings, each with a test in `WebSocketMachineTests`:
/// - A pause or the end comes in the middle of a buffer: no later byte is processed before its time.
/// - A pause comes while a message is unfinished: the message continues after the pause, and its deadline keeps running.
/// - The deadline passes while input waits for its turn: the peer is alive, and the input may end an overdue message.
/// - We close while the peer's messages wait: they are read and ignored up to the peer's close.
/// - The peer breaks a rule after we have closed: its close can no longer be recognised.
public struct WebSocketMachine {
    // Partly public and inlinable: a call on a machine that is stored in a class would copy it.

    /// Valid transitions: between the `open` states; `open` → `draining`, `closing`; `draining` → `closing`; any → `over`.
    public enum State: Equatable, Sendable {
        /// In use.
        case open(Reading)
        /// The server stops. Answers under way are still sent. Nothing is read.
        case draining
        /// Our close frame is sent (§7.1.2). We wait for the peer's and ignore everything else.
        case closing(awaitsTurn: Bool)
        /// Both have closed, or the connection ends without that.
        case over
    }

    /// When input is processed.
    public enum Reading: Sendable {
        /// At once.
        case now
        /// In the next turn: this turn's room is used up.
        case nextTurn
        /// After `resume`: something must be settled first, so that nothing overtakes it.
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
        case pong(MessagePayload)
        /// Call again with the rest in the next turn.
        case awaitTurn
        /// Answer with a close frame with this code, and end.
        case answerClose(CloseCode?)
        /// Close, and end without waiting for an answer: later input is unreadable or unwanted.
        case refuse(Violation)
        /// End: the peer has answered our close (`finish`), or its answer can no longer be recognised (`drop`).
        case finish, drop
    }

    /// What to do when the deadline has passed.
    package enum Due: Equatable, Sendable {
        /// Input still waits for its turn: check later.
        case wait
        case look(at: Instant)
        case ping(answeredBy: Instant)
        case silent
        /// The peer has not finished its message: close, and end without waiting for an answer.
        case unfinished
        /// The time for answers under way is over: close.
        case drained
        case drop
    }

    /// A turn's progress in its input.
    public struct Cursor {
        /// Bytes consumed.
        public var consumed: Int
        /// Bytes that messages may still cost in this turn. The last message may exceed them.
        public var room: Int

        /// A turn that begins at `consumed`.
        @inlinable public init(consumed: Int = 0, room: Int) {
            self.consumed = consumed
            self.room = room
        }
    }

    /// What a connection holds of a partly received message, or of input from before a pause. Few connections have one.
    package final class Unfinished {
        /// Read but not consumed: an incomplete frame header, or input from before a pause.
        var leftover: [UInt8] = []
        /// The reader, within a frame or message, or idle.
        var reader = MessageReader(role: .server)
        /// When the unfinished message began; nil when there is none.
        package var since: Instant?

        var isEmpty: Bool { leftover.isEmpty && !reader.holdsMessage }
    }

    /// What each message costs in addition to its bytes: many small messages cost the engine more than their bytes.
    package static let messageCost = 1_024

    // Ordered so that a connection has no padding (the gateway's tests check it).
    /// Nil for most connections.
    package private(set) var unfinished: Unfinished?
    @usableFromInline var heardAt: Instant
    private var messages = SmallAllowance()
    private var controls = SmallAllowance()
    /// How input is treated now.
    public private(set) var state = State.open(.now)
    /// A ping has been sent, and nothing has been received since.
    @usableFromInline package var isPinged = false

    /// - Parameter early: bytes received after the upgrade request.
    package init(at now: Instant, early: [UInt8] = []) {
        heardAt = now
        if !early.isEmpty { madeUnfinished().leftover = early }
    }

    /// Whether our messages may still be sent.
    @inlinable public var isEstablished: Bool {
        switch state {
        case .open, .draining: true
        case .closing, .over: false
        }
    }

    /// Whether it is open and not paused.
    @inlinable public var isOpen: Bool {
        switch state {
        case .open(.now), .open(.nextTurn): true
        default: false
        }
    }

    /// Whether input waits for the next turn.
    @inlinable public var awaitsTurn: Bool {
        switch state {
        case .open(.nextTurn), .closing(awaitsTurn: true): true
        default: false
        }
    }

    /// Whether input is to be read.
    @inlinable public var reads: Bool {
        switch state {
        case .open(.now), .closing(awaitsTurn: false): true
        default: false
        }
    }

    /// Bytes held. The arrays grow in steps and may have allocated twice as much.
    package var heldBytes: Int { unfinished.map { $0.leftover.count &+ $0.reader.heldBytes } ?? 0 }

    // MARK: Input

    /// Bytes of earlier input that precede new input.
    package var leftoverCount: Int { unfinished?.leftover.count ?? 0 }

    /// Copies earlier input to the start of `buffer`, before the new input.
    package mutating func takeLeftover(into buffer: UnsafeMutableRawBufferPointer) {
        guard let unfinished else { return }
        unfinished.leftover.withUnsafeBytes { buffer.copyMemory(from: $0) }
        unfinished.leftover = []
        // Back to the state before a pause: whole messages then take `nextText`.
        if unfinished.isEmpty, unfinished.since == nil { self.unfinished = nil }
    }

    /// Bytes have been received. Only this shows that a peer is alive: a half-open connection still accepts what we send.
    /// Returns whether a ping was pending, so that the caller starts a new silence deadline.
    @inlinable public mutating func heard(at now: Instant) -> Bool {
        heardAt = now
        guard isPinged else { return false }
        isPinged = false
        return true
    }

    /// The range of the next message if it is a text that lies whole in `bytes`, as nearly always. Nil: call `next`.
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

    /// What to do next about `bytes`; nil when nothing more can be done now.
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

    /// Ends a turn: keeps `rest`. If a message has begun, starts its deadline and returns when to check next.
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

    private mutating func awaitTurn() -> Action {
        if case .closing = state { state = .closing(awaitsTurn: true) } else { state = .open(.nextTurn) }
        return .awaitTurn
    }

    /// Defers further input to the next turn although there is room. Returns whether this turn would have read it.
    package mutating func yields() -> Bool {
        guard state == .open(.now) else { return false }
        state = .open(.nextTurn)
        return true
    }

    /// The next turn begins. Returns whether input was waiting for it.
    package mutating func turnCame(at now: Instant) -> Bool {
        switch state {
        case .open(.nextTurn): state = .open(.now)
        case .closing(awaitsTurn: true): state = .closing(awaitsTurn: false)
        case .open, .closing, .draining, .over: return false
        }
        heardAt = now
        return true
    }

    /// Processes nothing until `resume`.
    package mutating func pause() {
        if case .open = state { state = .open(.afterPause) }
    }

    /// Ends a pause. Returns whether there was one.
    package mutating func resume() -> Bool {
        guard state == .open(.afterPause) else { return false }
        state = .open(.now)
        return true
    }

    // MARK: Time

    /// When to check the connection next.
    package func nextLook(_ rules: WebSocketRules) -> Instant {
        let quiet = heardAt.advanced(byNanoseconds: rules.activity)
        return unfinished?.since.map { min(quiet, $0.advanced(byNanoseconds: rules.message)) } ?? quiet
    }

    /// Decides what to do when the deadline has passed.
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

    /// The server stops: waits for answers under way.
    package mutating func drain() {
        guard case .open = state else { return }
        state = .draining
        isPinged = false
    }

    /// Our close frame is sent. False if one was sent before.
    package mutating func close() -> Bool {
        guard isEstablished else { return false }
        state = .closing(awaitsTurn: state == .open(.nextTurn))
        isPinged = false
        return true
    }

    /// Stops all reading. Returns whether it was established until now.
    package mutating func end() -> Bool {
        defer { state = .over }
        (unfinished, isPinged) = (nil, false)
        return isEstablished
    }
}

/// Bounds and times of WebSockets. Times are nanoseconds: converting a `Duration` costs hundreds of instructions.
package struct WebSocketRules: Sendable {
    /// Bounds of messages and frames.
    package var limits = MessageLimits()
    /// `SmallAllowance` rates of messages (each costs 1, plus 1 per 4 KiB of `MessagePayload.cost`), and of pings and pongs.
    package var messageRate = SmallAllowance.rate(perSecond: 0, burst: 1)
    /// The rate of pings and pongs; each costs 1.
    package var controlRate = SmallAllowance.rate(perSecond: 0, burst: 1)
    /// Silence before a ping, and after it.
    package var activity: UInt64 = 120_000_000_000
    /// Silence after a ping, before the connection is closed.
    package var pong: UInt64 = 30_000_000_000
    /// From a message's first byte to its last.
    package var message: UInt64 = 30_000_000_000

    /// The defaults.
    package init() {}
}
