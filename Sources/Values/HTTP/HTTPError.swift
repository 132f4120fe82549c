// HTTP: HTTP/1.1 requests read and responses written (RFC 9110, RFC 9112), as pure, bounded state machines.
//
// Purpose: the few requests that a hub serves (upgrades, the auth endpoints, the product's routes), with keep-alive and
// pipelining, and the response heads that its own clients read. Invariants: a message that two parsers could read
// differently is refused, never repaired (bare LF, folded lines, two lengths, length beside chunks); every part has a bound
// in `HTTPLimits`; a parsed request points into the caller's buffer and owns only its table of fields. `HTTPMachine` decides
// what to do next, and when. Depends on Bytes and Clock.

/// A status code with its phrase (RFC 9110 §15).
package struct Status: Sendable, Equatable {
    /// Three digits.
    package let code: Int
    /// The phrase of the status line.
    package let reason: StaticString

    /// A status of our own.
    package init(_ code: Int, _ reason: StaticString) {
        self.code = code
        self.reason = reason
    }

    /// Compares codes, not phrases.
    package static func == (left: Status, right: Status) -> Bool { left.code == right.code }

    /// 200.
    package static let ok = Status(200, "OK")
    /// 202: it is done later.
    package static let accepted = Status(202, "Accepted")
    /// 204: there is no body.
    package static let noContent = Status(204, "No Content")
    /// 304: the client's copy is current.
    package static let notModified = Status(304, "Not Modified")
    /// 400: the request is wrong.
    package static let badRequest = Status(400, "Bad Request")
    /// 401: no credentials, or wrong ones.
    package static let unauthorized = Status(401, "Unauthorized")
    /// 403: these credentials do not suffice.
    package static let forbidden = Status(403, "Forbidden")
    /// 404.
    package static let notFound = Status(404, "Not Found")
    /// 405: the path has other methods.
    package static let methodNotAllowed = Status(405, "Method Not Allowed")
    /// 408: the request did not come in time.
    package static let requestTimeout = Status(408, "Request Timeout")
    /// 409: what the request meets forbids it, such as a call with its key that is still being done.
    package static let conflict = Status(409, "Conflict")
    /// 413: the body is too long.
    package static let contentTooLarge = Status(413, "Content Too Large")
    /// 414: the request line is too long.
    package static let uriTooLong = Status(414, "URI Too Long")
    /// 415: the body has another type.
    package static let unsupportedMediaType = Status(415, "Unsupported Media Type")
    /// 417: an `Expect` other than 100-continue.
    package static let expectationFailed = Status(417, "Expectation Failed")
    /// 422: the body can be read, and its content is refused.
    package static let unprocessableContent = Status(422, "Unprocessable Content")
    /// 426: only WebSocket, version 13, is served here.
    package static let upgradeRequired = Status(426, "Upgrade Required")
    /// 429: a rate is exceeded.
    package static let tooManyRequests = Status(429, "Too Many Requests")
    /// 431: the header is too long.
    package static let fieldsTooLarge = Status(431, "Request Header Fields Too Large")
    /// 500: a fault of the hub's own.
    package static let internalServerError = Status(500, "Internal Server Error")
    /// 501: an unknown method or transfer coding.
    package static let notImplemented = Status(501, "Not Implemented")
    /// 503: try again later.
    package static let serviceUnavailable = Status(503, "Service Unavailable")
    /// 505: neither HTTP/1.0 nor HTTP/1.1.
    package static let versionNotSupported = Status(505, "HTTP Version Not Supported")
}

/// Why a message was refused. Answer with `status` and close: later bytes can no longer be told apart.
package enum HTTPError: Error, Equatable, Sendable {
    case malformedRequestLine, malformedTarget, malformedField, bareLineFeed, foldedField
    case missingHost, repeatedHost, malformedHost
    case malformedLength, repeatedLength, lengthAndChunks, malformedChunk, chunksBeforeHTTP11
    case unknownMethod, unknownTransferCoding, unknownExpectation, unsupportedVersion
    case targetTooLong, headTooLarge, tooManyFields, bodyTooLarge
    case malformedStatusLine

    /// The status of the answer.
    package var status: Status {
        switch self {
        case .unknownMethod, .unknownTransferCoding: .notImplemented
        case .unknownExpectation: .expectationFailed
        case .unsupportedVersion: .versionNotSupported
        case .targetTooLong: .uriTooLong
        case .headTooLarge, .tooManyFields: .fieldsTooLarge
        case .bodyTooLarge: .contentTooLarge
        default: .badRequest
        }
    }

    /// A line for the body of the answer. It contains no byte of the request.
    package var message: StaticString {
        switch self {
        case .malformedRequestLine: "The request line is malformed."
        case .malformedTarget: "The request target is malformed."
        case .malformedField: "A header field is malformed."
        case .bareLineFeed: "A line ends without a carriage return."
        case .foldedField: "A header field is folded over lines."
        case .missingHost: "The Host field is missing."
        case .repeatedHost: "The Host field is repeated."
        case .malformedHost: "The Host field is malformed."
        case .malformedLength: "The Content-Length field is malformed."
        case .repeatedLength: "The Content-Length field is repeated."
        case .lengthAndChunks: "Content-Length and Transfer-Encoding exclude each other."
        case .malformedChunk: "The chunked body is malformed."
        case .chunksBeforeHTTP11: "Transfer-Encoding needs HTTP/1.1."
        case .unknownMethod: "The method is not known."
        case .unknownTransferCoding: "The transfer coding is not known."
        case .unknownExpectation: "The expectation is not known."
        case .unsupportedVersion: "The HTTP version is not supported."
        case .targetTooLong: "The request target is too long."
        case .headTooLarge: "The header fields are too large."
        case .tooManyFields: "There are too many header fields."
        case .bodyTooLarge: "The body is too large."
        case .malformedStatusLine: "The status line is malformed."
        }
    }
}
