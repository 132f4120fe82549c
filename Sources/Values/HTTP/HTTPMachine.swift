import Bytes
import Clock

/// The server's side of one HTTP/1.1 connection (RFC 9112), as a value: bytes and times in, actions out. No I/O, no clock.
///
/// A client may pipeline many requests, and delays neither other clients nor its own answers: a turn processes a bounded
/// number, whether they arrive in one piece, in many, or while an answer is under way.
///
/// Worst interleavings, each with a test in `HTTPMachineTests`:
/// - A request follows one that is being answered or upgraded: none of its bytes is processed before that is done.
/// - Unread answers pile up while a request has begun: it is still read to its end, so that it does not time out.
/// - A request's bytes arrive very slowly: half of its time is free, the rest must be earned by bytes.
/// - An answer comes after the one that the deadline gave, or after the end: it is dropped.
public struct HTTPMachine {
    // Partly public and inlinable: a call on a machine that is stored in a class would copy it.

    /// Valid transitions: `reading` ⇄ `answering`; `reading` ⇄ `resting`; `answering` → `upgrading`; any → `over`.
    public enum State: Equatable, Sendable {
        /// Reads a request whose first bytes came at this time; nil when none has begun.
        case reading(begunAt: Instant?)
        case resting(Rest)
        /// A request is being answered. Nothing is read meanwhile, which keeps the order.
        case answering(Answering)
        /// An upgrade whose token is being verified.
        case upgrading
        /// No further request is read; only the last answer may still be sent.
        case over
    }

    /// What pipelined requests wait for.
    public enum Rest: Sendable {
        /// Until most answers are sent.
        case answersUnsent
        /// The loop's next turn.
        case turnComing
    }

    /// How a request is answered.
    public struct Answering: Equatable, Sendable {
        /// Whether another request may follow.
        package var keepsAlive = false
        /// Whether it was a HEAD.
        package var omitsBody = false

        /// The answer to an ordinary request of HTTP/1.1.
        package init() {}
    }

    /// What to do with the input.
    package enum Action {
        /// Answer this request with `answer`, now or later. It points into the buffer.
        case request(ParsedRequest)
        /// The request is incomplete: keep the rest, send `100 Continue` if told to, and check again at that time.
        case wait(sendsContinue: Bool, lookAt: Instant?)
        /// Refuse invalid input, and end.
        case refuse(HTTPError)
        /// Let the rest of the input wait until answers are sent.
        case rest
    }

    /// What to do when a deadline has passed.
    package enum Due: Equatable, Sendable {
        case look(at: Instant)
        /// No request has begun, on a connection without any request so far (`isFirst`) or with earlier ones.
        case idle(isFirst: Bool)
        /// The request's time is over, or it comes too slowly: say so in an answer.
        case late(isTooSlow: Bool)
        /// The answer has not come: give another.
        case unanswered
    }

    /// A turn's progress in its input.
    package struct Cursor {
        /// Bytes of the input that are done with.
        package var consumed = 0
        var requests = 0

        /// At the input's beginning.
        package init() {}
    }

    private var parser: RequestParser
    /// The start of the request's time: for the first request when the connection began, for a later one its first byte.
    private var awaitedSince: Instant
    /// Bytes read and not consumed: the start of a request, or input from before a pause.
    @usableFromInline var held: [UInt8] = []
    /// How input is treated now.
    public private(set) var state = State.reading(begunAt: nil)
    private var hasAnswered = false

    /// A connection that was accepted at `now`.
    package init(limits: HTTPLimits, at now: Instant) {
        parser = RequestParser(limits: limits)
        awaitedSince = now
    }

    /// Starts the first request's time.
    package mutating func begins(at now: Instant) { awaitedSince = now }

    /// Whether a request was answered, and no other has begun.
    package var isBetweenRequests: Bool { hasAnswered && state == .reading(begunAt: nil) }

    /// Whether no request has begun so far.
    package var isFresh: Bool { !hasAnswered && state == .reading(begunAt: nil) }

    /// Bytes held.
    @inlinable public var heldCount: Int { held.count }

    /// Whether input is to be read while `unsent` bytes of answers wait. A request that has begun is read to its end.
    @inlinable public func reads(unsent: Int, _ rules: HTTPRules) -> Bool {
        guard case .reading(let begunAt) = state else { return false }
        return begunAt != nil || unsent <= rules.answerBytesMax
    }

    // MARK: Input

    /// The held bytes followed by `received`. The held array grows in place: copying it at each read would be quadratic for
    /// a request that comes byte by byte.
    package mutating func input(_ received: UnsafeRawBufferPointer) -> [UInt8] {
        var bytes = exchange(&held, with: [])
        bytes.append(contentsOf: received)
        return bytes
    }

    /// Keeps the rest of the input.
    package mutating func keep(_ bytes: consuming [UInt8], from consumed: Int) {
        guard consumed < bytes.count, state != .over else { return }
        held = consumed > 0 ? Array(bytes[consumed...]) : bytes
    }

    /// Keeps the rest of the input when nothing was held before.
    package mutating func keep(_ rest: UnsafeRawBufferPointer) {
        if state != .over { held = Array(rest) }
    }

    /// Takes the bytes that follow an upgrade request.
    package mutating func takeHeld() -> [UInt8] { exchange(&held, with: []) }

    /// What to do next about `bytes`; nil when nothing more can be done now, and after `wait`.
    ///
    /// - Parameter unsent: bytes of answers not yet sent.
    package mutating func next(
        _ bytes: UnsafeMutableRawBufferPointer, _ cursor: inout Cursor, unsent: Int, at now: Instant, _ rules: HTTPRules
    ) -> Action? {
        guard case .reading(let begunAt) = state, cursor.consumed < bytes.count else { return nil }
        let isFull = cursor.requests > 0 && cursor.requests >= rules.requestsPerTurnMax
        if isFull || !reads(unsent: unsent, rules) {
            state = .resting(.answersUnsent)
            return .rest
        }
        do throws(HTTPError) {
            let rest = UnsafeMutableRawBufferPointer(rebasing: bytes[cursor.consumed...])
            guard let request = try parser.parse(rest) else {
                let look = begunAt == nil ? begin(at: now, rules) : nil
                return .wait(sendsContinue: parser.takeContinue(), lookAt: look)
            }
            cursor.requests += 1
            cursor.consumed += request.consumed
            var answering = Answering()
            answering.omitsBody = request.method == .head
            state = .answering(answering)
            return .request(request)
        } catch {
            state = .over
            return .refuse(error)
        }
    }

    /// A request has begun but is incomplete. Returns when to check it: after half of its time.
    private mutating func begin(at now: Instant, _ rules: HTTPRules) -> Instant {
        state = .reading(begunAt: now)
        if hasAnswered { awaitedSince = now }
        return min(
            awaitedSince.advanced(byNanoseconds: rules.time), now.advanced(byNanoseconds: rules.time / 2))
    }

    // MARK: Turns

    /// `unsent` bytes of answers are still to be sent. Returns whether waiting requests now need the next turn.
    package mutating func sent(unsent: Int, _ rules: HTTPRules) -> Bool {
        guard state == .resting(.answersUnsent), unsent <= rules.answerBytesMax else { return false }
        state = .resting(.turnComing)
        return true
    }

    /// The next turn begins. Returns whether requests were waiting for it.
    package mutating func turnCame() -> Bool {
        guard state == .resting(.turnComing) else { return false }
        state = .reading(begunAt: nil)
        return true
    }

    // MARK: Answers

    /// Sets whether the client wants a request after this one (`ParsedRequest.keepsAlive`). The default is no, for upgrades.
    package mutating func expectsMore(_ isWanted: Bool) {
        guard case .answering(var answering) = state else { return }
        answering.keepsAlive = isWanted
        state = .answering(answering)
    }

    /// An answer is sent. Returns how to write it; nil when none is awaited.
    ///
    /// - Parameter keepsAlive: whether another request may follow if the client wants it.
    package mutating func answer(keepsAlive: Bool) -> Answering? {
        var answering = Answering()
        switch state {
        case .answering(let own): answering = own
        case .reading, .resting, .upgrading: break
        case .over: return nil
        }
        answering.keepsAlive = answering.keepsAlive && keepsAlive
        state = answering.keepsAlive ? .reading(begunAt: nil) : .over
        hasAnswered = hasAnswered || answering.keepsAlive
        return answering
    }

    /// The request is an upgrade, and its token must be verified.
    package mutating func upgrades() {
        if case .answering = state { state = .upgrading }
    }

    /// Stops: no further request is read.
    package mutating func end() {
        state = .over
        held = []
    }

    // MARK: Time

    /// Decides what to do when the deadline has passed.
    package func due(at now: Instant, _ rules: HTTPRules) -> Due {
        switch state {
        case .answering, .upgrading: return .unanswered
        case .reading(let begunAt?) where !parser.isIdle:
            let end = awaitedSince.advanced(byNanoseconds: rules.time)
            guard now < end else { return .late(isTooSlow: false) }
            var earned = end
            if rules.bytesPerSecondMin > 0 {
                let time = UInt64(held.count) * 1_000_000_000 / UInt64(rules.bytesPerSecondMin)
                earned = min(earned, begunAt.advanced(byNanoseconds: rules.time / 2 + time))
            }
            return earned > now ? .look(at: earned) : .late(isTooSlow: true)
        case .reading, .resting, .over: return .idle(isFirst: !hasAnswered)
        }
    }
}

/// Bounds of the requests on a connection.
public struct HTTPRules: Sendable {
    /// Nanoseconds for a whole request: the first from the connection's start, a later one from its first byte.
    public var time: UInt64 = 10_000_000_000
    /// Bytes a second that a request must bring after half of `time`. 0: no bound.
    public var bytesPerSecondMin = 0
    /// Requests answered in one turn.
    public var requestsPerTurnMax = 16
    /// Unsent answer bytes above which the next request waits.
    public var answerBytesMax = 65_536

    /// The defaults.
    package init() {}
}
