/// One signed request to an endpoint: its body, and the events in it.
struct WebhookRequest {
    let endpoint: Endpoint
    /// The first events of the lines, in the order of posting.
    let events: [QueuedEvent]
    let lines: [DeliveryQueue]
    let attempt: Attempt
    let body: [UInt8]
    /// The signature of the body, in hexadecimal.
    let signature: String

    /// Whether the lines' last requests failed.
    var isRetry: Bool { attempt == .again }
}

/// How a request ended.
enum DeliveryResult: Equatable {
    case delivered
    case failed(DeliveryFailure)
}

/// Why a request failed, as a label in metrics and logs.
enum DeliveryFailure: String, CaseIterable, Sendable {
    /// The response had a status of this class.
    case status3xx = "3xx"
    case status4xx = "4xx"
    case status5xx = "5xx"
    case timeout
    /// The name has no address.
    case name
    /// The address is not of the public internet.
    case address
    /// The connection was refused or could not be made.
    case connect
    /// The certificate is not trusted, or the handshake failed.
    case tls
    /// This process or machine has no descriptor left for a socket.
    case descriptors
    /// The connection ended early, or the response is not HTTP.
    case broken

    /// Whether the endpoint may have received the request all the same.
    var mayHaveArrived: Bool {
        switch self {
        case .status3xx, .status4xx, .status5xx, .timeout, .broken: true
        case .name, .address, .connect, .tls, .descriptors: false
        }
    }

    /// For the log: what happened, and what the operator can do about it.
    var sentence: StaticString {
        switch self {
        case .status3xx: "it answers with a redirect, which is not followed: name the final URL in webhooks"
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
