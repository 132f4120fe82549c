import Bytes
import Gateway
import HTTP
import HubEngine
import JSON
import Pusher
import Shared
import Sync

/// Why a call of the HTTP API is refused. Nothing of it has been done, unless it says that nobody knows.
struct CallProblem: Error {
    let status: Status
    let message: String
    /// The reason counted in metrics; nil if only the status is counted.
    let refusal: APIMetrics.Refusal?
    /// For 429 and 503.
    private let retryAfter: Duration?
    /// Whether it is refused because of Redis.
    private(set) var isOfRedis = false
    /// For 405.
    private var allowed: String?

    private init(_ status: Status, _ refusal: APIMetrics.Refusal?, _ message: String, retryAfter: Duration? = nil) {
        (self.status, self.refusal, self.message, self.retryAfter) = (status, refusal, message, retryAfter)
    }

    init(_ refusal: CallRefusal) {
        let reason: APIMetrics.Refusal =
            switch refusal {
            case .noTimestamp, .untimely: .timestamp
            case .noBodyDigest, .wrongBodyDigest: .body
            default: .signature
            }
        self.init(
            refusal == .tooManyParameters ? .badRequest : .unauthorized, reason, refusal.message.bytes.string)
    }

    init(_ error: PublishError) {
        if error.isTooLarge {
            self.init(.contentTooLarge, .size, error.message)
        } else {
            self.init(.badRequest, .invalid, error.message)
        }
    }

    /// Nil for a call that no hub has seen.
    init?(_ verdict: SeenVerdict) {
        switch verdict {
        case .new: return nil
        case .seen: self = .replay
        case .early: self = .beforeStart
        case .full: self = .tooManyCalls
        case .unavailable: self = .unseen
        }
    }

    static func invalid(_ message: String) -> CallProblem { CallProblem(.badRequest, .invalid, message) }

    static func otherMethod(isPost: Bool) -> CallProblem {
        var problem = CallProblem(.methodNotAllowed, nil, isPost ? "Use POST." : "Use GET.")
        problem.allowed = isPost ? "POST" : "GET"
        return problem
    }

    static let unknownApp = CallProblem(.notFound, .unknownApp, "This hub serves no app of that id.")
    static let disabled = CallProblem(.forbidden, .disabled, "This app is disabled.")
    static let replay = CallProblem(
        .unauthorized, .replay, "This call has come before, with the same signature: sign each call anew.")
    static let beforeStart = CallProblem(
        .unauthorized, .replay,
        """
        This call was signed before this hub was started, which does not know whether it has come before, as \
        api.refuseReplays wants it to: sign it anew, with the time that it is.
        """)
    static let tooManyCalls = CallProblem(
        .serviceUnavailable, .replay,
        "More calls have come than this hub can remember, as api.refuseReplays wants it to.", retryAfter: .seconds(60))
    static let tooManyKeys = CallProblem(
        .serviceUnavailable, nil, "More publishes with an Idempotency-Key are under way than this hub has room for.",
        retryAfter: .seconds(1))
    static let badKey = CallProblem(
        .badRequest, .key, "Idempotency-Key must have 1 to \(APILimits.idempotencyKeyBytes) bytes.")
    static let underWay = CallProblem(
        .conflict, .key, "The call that came first with this Idempotency-Key is still being done.",
        retryAfter: .seconds(1))
    static let otherCall = CallProblem(
        .unprocessableContent, .key, "This Idempotency-Key came with another call: a new one needs a key of its own.")

    static let tooManyChannels = CallProblem(
        .badRequest, .invalid,
        "More than \(APILimits.channelsNamed) channels are occupied: ask for fewer by filter_by_prefix.")
    static let overloaded = CallProblem(
        .serviceUnavailable, .overload, "More is being published, or asked, than this hub can pass on.",
        retryAfter: .seconds(1))

    /// A publish that was refused because of Redis.
    static func unpublished(_ state: StateUnavailable) -> CallProblem {
        switch state.fault {
        case .notDone: .away(state, "This hub cannot use Redis, and has published nothing: send this again.")
        case .settling:
            .away(
                state, "Redis is back, and hubs tell it what they hold. Nothing was published: send this again.")
        case .unknown:
            .away(
                state,
                """
                Redis has not answered: nobody knows whether this was published, or what of it. A repeat with the same \
                Idempotency-Key publishes nothing twice; one without a key may.
                """)
        }
    }

    /// A question that Redis has not answered.
    static func unanswered(_ state: StateUnavailable) -> CallProblem {
        .away(state, "This hub cannot ask Redis, and does not know: ask again.")
    }

    static let unseen = away(
        StateUnavailable(.notDone),
        """
        This hub cannot ask Redis whether this call has come before, as api.refuseReplays wants it to, and has done nothing: \
        sign it anew, and send it again.
        """)

    private static func away(_ state: StateUnavailable, _ message: String) -> CallProblem {
        var problem = CallProblem(
            .serviceUnavailable, nil, message, retryAfter: .seconds(state.retryAfter))
        problem.isOfRedis = true
        return problem
    }

    static let listUnderWay = CallProblem(
        .tooManyRequests, .rate, "This app's channels are being listed for another call: one at a time.",
        retryAfter: .seconds(1))

    static func tooFast(_ wait: Duration) -> CallProblem {
        CallProblem(
            .tooManyRequests, .rate, "This app publishes faster than its limits.publishesPerSecond allows.",
            retryAfter: wait)
    }

    /// Whether the call was refused before it was known whose it is.
    var showsNoIdentity: Bool {
        switch refusal {
        case .signature, .timestamp, .body, .unknownApp, .disabled: true
        default: status == .methodNotAllowed
        }
    }

    /// `{"error":"…","code":401}`, with the header fields that the status requires.
    var response: HTTPResponse {
        let response = HTTPResponse.problem(status, text: message)
        if let allowed { return response.with("Allow", allowed) }
        return retryAfter.map { response.retrying(after: $0) } ?? response
    }
}
