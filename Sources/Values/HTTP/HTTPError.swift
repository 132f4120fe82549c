// HTTP: HTTP/1.1 requests read and responses written (RFC 9110, RFC 9112), as pure, bounded state machines.
//
// Purpose: the few requests that a hub serves (upgrades, the auth endpoints, the product's routes), with keep-alive and
// pipelining, and the response heads that its own clients read. Invariants: a message that two parsers could read
// differently is refused, never repaired (bare LF, folded lines, two lengths, length beside chunks); every part has a bound
// in `HTTPLimits`; a parsed request points into the caller's buffer and owns only its table of fields. `HTTPMachine` decides
// what to do next, and when. Depends on Bytes and Clock.

/// Why a message was refused. Answer with `status` and close: later bytes can no longer be told apart.
package enum HTTPError: Error, Equatable, Sendable {
    case malformedRequestLine, malformedTarget, malformedField, bareLineFeed, foldedField
    case missingHost, repeatedHost, malformedHost, repeatedAuthorization
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
        case .repeatedAuthorization: "The Authorization field is repeated."
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
