import Bytes
import Clock

/// The server's side of one connection's HTTP/1.1 (RFC 9112), as a value: bytes and times in, one action out for each pull.
/// It does no I/O, and reads no clock.
///
/// A client may send many requests ahead, and hold up neither others nor its own answers: of so many in one turn each is asked
/// about, whether they come in one piece, in many, or while an answer is awaited.
///
/// Worst interleavings, each with its test in `HTTPMachineTests`:
/// - a request stands behind one that is being answered, or whose upgrade is: not a byte of it is looked at before that is
///   done;
/// - answers pile up unread while a request has been begun: that is read to its end, or its time would be over without its
///   client's doing;
/// - the time of a request passes while its bytes come at a crawl: half of it is free, the rest has to be earned;
/// - an answer comes after the one that the deadline has given, or after the end: it goes nowhere.
public struct HTTPMachine {
    // Public and inlinable in part, for a caller that has it in a class: a call to ask would copy it.

    /// Valid transitions: `reading` → `answering` → `reading`; `reading` ⇄ `resting`; `answering` → `upgrading`; any → `over`.
    public enum State: Equatable, Sendable {
        /// Reads a request, whose first bytes came then; nil: none has begun.
        case reading(begunAt: Instant?)
        /// Requests that have been sent ahead wait.
        case resting(Rest)
        /// A request is being answered. Reads nothing: order is kept by waiting.
        case answering(Answering)
        /// An upgrade whose token is being verified.
        case upgrading
        /// No further request is read; what is left is who reads the last answer.
        case over
    }

    /// What requests that have been sent ahead wait for.
    public enum Rest: Sendable {
        /// For the answers to be sent, all but a few.
        case answersUnsent
        /// For the loop's next turn.
        case turnComing
    }

    /// How a request is answered.
    public struct Answering: Equatable, Sendable {
        /// Another request may follow.
        package var keepsAlive = false
        /// It was a HEAD.
        package var omitsBody = false

        package init() {}
    }

    /// What is to be done about what has come.
    package enum Action {
        /// Answer it: by `answer`, now or later. It points into the buffer.
        case request(Request)
        /// It is not all there: keep what is left, tell the client to go on where it waits for that, and look again at that
        /// time.
        case wait(sendsContinue: Bool, lookAt: Instant?)
        /// Refuse what cannot be a request, and end.
        case refuse(HTTPError)
        /// What else has come waits until answers are sent.
        case rest
    }

    /// What is to be done when a deadline has passed.
    package enum Due: Equatable, Sendable {
        case look(at: Instant)
        /// No request has begun: of a connection that has never asked, or not again.
        case idle(isFirst: Bool)
        /// Its time is over, or it comes too slowly: answer that.
        case late(isTooSlow: Bool)
        /// The answer has not come: give another.
        case unanswered
    }

    /// How far in its input a turn has come.
    package struct Cursor {
        package var consumed = 0
        var requests = 0

        package init() {}
    }

    private var parser: RequestParser
    /// From when the time of the request runs: the first one's from the connection's beginning, a later one's from its first
    /// byte.
    private var awaitedSince: Instant
    /// Bytes read and not consumed: the beginning of a request, or what came before a pause.
    @usableFromInline var held: [UInt8] = []
    /// What it does with what comes.
    public private(set) var state = State.reading(begunAt: nil)
    private var hasAnswered = false

    package init(limits: HTTPLimits, at now: Instant) {
        parser = RequestParser(limits: limits)
        awaitedSince = now
    }

    /// Its time begins here.
    package mutating func begins(at now: Instant) { awaitedSince = now }

    /// Bytes held.
    @inlinable public var heldCount: Int { held.count }

    /// Whether what comes is to be read, while so many bytes of answers are unsent. One that has been begun is read to its
    /// end.
    @inlinable public func reads(unsent: Int, _ rules: HTTPRules) -> Bool {
        guard case .reading(let begunAt) = state else { return false }
        return begunAt != nil || unsent <= rules.answerBytesMax
    }

    // MARK: Input

    /// What was held, and what has come behind it. It grows where it lies: copied at each read, a request that comes byte by
    /// byte would cost the square of its length.
    package mutating func input(_ received: UnsafeRawBufferPointer) -> [UInt8] {
        var bytes = exchange(&held, with: [])
        bytes.append(contentsOf: received)
        return bytes
    }

    /// Keeps what of the input is left.
    package mutating func keep(_ bytes: consuming [UInt8], from consumed: Int) {
        guard consumed < bytes.count, state != .over else { return }
        held = consumed > 0 ? Array(bytes[consumed...]) : bytes
    }

    /// Keeps what of the input is left, where nothing was held before.
    package mutating func keep(_ rest: UnsafeRawBufferPointer) {
        if state != .over { held = Array(rest) }
    }

    /// What came behind an upgrade.
    package mutating func takeHeld() -> [UInt8] { exchange(&held, with: []) }

    /// What is to be done next about `bytes`; nil where all that can be has been. After `wait` there is nothing.
    ///
    /// - Parameter unsent: bytes of answers that are still to be sent.
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

    /// The first bytes of a request are here, and not all. It is looked at when half of its time is over.
    private mutating func begin(at now: Instant, _ rules: HTTPRules) -> Instant {
        state = .reading(begunAt: now)
        if hasAnswered { awaitedSince = now }
        return min(
            awaitedSince.advanced(byNanoseconds: rules.time), now.advanced(byNanoseconds: rules.time / 2))
    }

    // MARK: Turns

    /// So many bytes of answers are still to be sent. Says whether requests that wait for that want the next turn.
    package mutating func sent(unsent: Int, _ rules: HTTPRules) -> Bool {
        guard state == .resting(.answersUnsent), unsent <= rules.answerBytesMax else { return false }
        state = .resting(.turnComing)
        return true
    }

    /// The turn has come. Says whether requests wait for it.
    package mutating func turnCame() -> Bool {
        guard state == .resting(.turnComing) else { return false }
        state = .reading(begunAt: nil)
        return true
    }

    // MARK: Answers

    /// Whether the client wants another request to follow the one that is being answered (`Request.keepsAlive`). Until this is
    /// said none may: an upgrade need not look for that.
    package mutating func expectsMore(_ isWanted: Bool) {
        guard case .answering(var answering) = state else { return }
        answering.keepsAlive = isWanted
        state = .answering(answering)
    }

    /// An answer goes out; says how it is written, or nil where nobody awaits one.
    ///
    /// - Parameter keepsAlive: whether a request may follow, if the client wants it.
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

    /// The request is an upgrade, whose token has to be verified.
    package mutating func upgrades() {
        if case .answering = state { state = .upgrading }
    }

    /// No further request is read.
    package mutating func end() {
        state = .over
        held = []
    }

    // MARK: Time

    /// The deadline has passed.
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

/// The bounds of what requests may ask of a connection.
public struct HTTPRules: Sendable {
    /// From the first byte awaited of a request to its last, in nanoseconds.
    public var time: UInt64 = 10_000_000_000
    /// Bytes each second that a begun request has to bring after half of that. 0: no bound.
    public var bytesPerSecondMin = 0
    /// Requests answered in one turn.
    public var requestsPerTurnMax = 16
    /// Bytes of answers unsent above which the next request waits.
    public var answerBytesMax = 65_536

    package init() {}
}
