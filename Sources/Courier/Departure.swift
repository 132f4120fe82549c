/// A request to be made.
struct Departure {
    let endpoint: Endpoint
    let line: DeliveryLine
    /// How many of the line's first events it tells.
    let events: Int
    /// Whether the line's last request failed.
    let isRetry: Bool
    let body: [UInt8]
    /// Of the body, by the app's present secret, in hexadecimal.
    let signature: String
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
}
