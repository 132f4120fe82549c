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
    /// 302: it is at another address.
    package static let found = Status(302, "Found")
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
