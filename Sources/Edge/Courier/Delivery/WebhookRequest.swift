/// A request to be made.
struct WebhookRequest {
    let endpoint: Endpoint
    /// The first of their lines, in the order in which they were posted.
    let events: [QueuedEvent]
    let lines: [DeliveryLine]
    let attempt: Attempt
    let body: [UInt8]
    /// Of the body, in hexadecimal.
    let signature: String

    /// Whether the lines' last requests failed.
    var isRetry: Bool { attempt == .again }
}

/// What a request came to.
enum DeliveryResult: Equatable {
    case delivered
    /// The label of the reason.
    case failed(DeliveryFailure)
}

/// Why a request failed, as metrics and logs have it.
enum DeliveryFailure: String, CaseIterable, Sendable {
    /// The answer's status was of the class.
    case status3xx = "3xx"
    case status4xx = "4xx"
    case status5xx = "5xx"
    /// No answer in time.
    case timeout
    /// No such name.
    case name
    /// The address is not of the public internet.
    case address
    /// Nobody took the connection.
    case connect
    /// The certificate is not trusted, or the handshake failed.
    case tls
    /// This process or machine has no descriptor left for a socket.
    case descriptors
    /// The connection ended, or what came is not HTTP.
    case broken

    /// Whether the endpoint may have got the request all the same.
    var mayHaveArrived: Bool {
        switch self {
        case .status3xx, .status4xx, .status5xx, .timeout, .broken: true
        case .name, .address, .connect, .tls, .descriptors: false
        }
    }

    /// For the log: what has happened, and what to do about it where that is the operator's.
    var sentence: StaticString {
        switch self {
        case .status3xx: "it answers with a redirect, which is not followed: name the place itself in webhooks"
        case .status4xx: "it answers with a status from 400 to 499"
        case .status5xx: "it answers with a status from 500 to 599"
        case .timeout: "it does not answer in time"
        case .name: "its host name has no address"
        case .address:
            "its address is not of the public internet: set webhooks.allowPrivate where that is meant (takes a restart)"
        case .connect: "nobody takes the connection"
        case .tls: "its certificate is not trusted, or the TLS handshake fails: webhooks.caFile names whom to trust"
        case .descriptors: "this process or machine has no descriptor left: raise LimitNOFILE (ulimit -n)"
        case .broken: "the connection ends before an answer, or what comes is not HTTP"
        }
    }
}
