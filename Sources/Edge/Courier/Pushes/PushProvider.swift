import Clock
import JSON
import Outbox

/// What a request to a provider is authorised by.
enum PushCredential: Equatable, Sendable {
    /// A text, and its number: each renewed one has the next.
    case use(String, number: Int)
    /// The provider must be asked for one (`PushProvider.credentialRequest`).
    case ask
    /// There is none until then.
    case wait(until: Instant)
}

/// Builds a provider's requests, and judges its answers. Performs no I/O, reads no clock.
protocol PushProvider: Sendable {
    /// Requests in flight.
    var requestsMax: Int { get }

    /// What authorises a request made now.
    mutating func credential(now: Instant, time: UnixTime) -> PushCredential

    /// The request that carries a push; nil if none can.
    func request(_ push: DuePush, _ credential: String, now: Instant, time: UnixTime) -> PushRequest?

    func verdict(_ answer: PushAnswer) -> PushVerdict

    /// The credential of that number has expired, says the provider. Returns whether another one may help.
    mutating func expired(number: Int, now: Instant) -> Bool

    /// The request for a credential; nil if it cannot be made.
    func credentialRequest(time: UnixTime) -> PushRequest?

    /// A credential was asked for. Returns a reason if there is none.
    mutating func credentialCame(_ end: PushEnd, now: Instant) -> String?
}

extension PushProvider {
    mutating func expired(number: Int, now: Instant) -> Bool { false }

    func credentialRequest(time: UnixTime) -> PushRequest? { nil }

    mutating func credentialCame(_ end: PushEnd, now: Instant) -> String? { nil }
}

/// What an answer of that status means, where its body says nothing that is known.
func verdictOfStatus(_ answer: PushAnswer) -> PushVerdict {
    switch answer.status {
    case 200..<300: .sent
    case 408, 425, 429: .retry("4xx", after: answer.retryAfter)
    case 400, 413, 422: .dead("4xx")
    case 400..<500: .refused("4xx")
    case 500..<600: .retry("5xx", after: answer.retryAfter)
    default: .refused("3xx")
    }
}

extension PushAnswer {
    /// The body as JSON; nil if it is none.
    var json: JSONTree? { try? JSONTree(String(decoding: body, as: UTF8.self)) }
}
