import Bytes
import HTTP

/// Requests: head, body with a length, body in chunks.
///
/// - However a stream is cut, the same requests come, and a failure after them or none.
/// - A parser that wants more has room for it: a buffer of `messageBytes` never fills up in vain.
/// - What a request says is within its limits, and, written anew with a length or in chunks, is read the same.
enum RequestProperties {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        var small = HTTPLimits()
        small.headBytes = 120
        small.fieldCount = 4
        small.bodyBytes = 16
        small.chunkLineBytes = 8
        for limits in [HTTPLimits(), small] {
            let whole = try read(bytes, [], limits)
            for splits in Splits.of(bytes) {
                let pieces = try read(bytes, splits, limits)
                try hold(
                    pieces.requests == whole.requests && pieces.isFailed == whole.isFailed,
                    "cut at \(splits): \(pieces), whole: \(whole)")
            }
        }
        for request in try read(bytes, [], HTTPLimits()).requests { try checkWriting(request) }
    }

    /// What a request says, copied.
    private struct Seen: Equatable {
        var method: Method
        var minorVersion: Int
        var path: [UInt8]
        var query: [UInt8]?
        var host: [UInt8]?
        var keepsAlive: Bool
        var bearer: [UInt8]?
        var body: [UInt8]

        init(_ request: ParsedRequest) {
            method = request.method
            minorVersion = request.minorVersion
            path = [UInt8](request.path)
            query = request.query.map { [UInt8]($0) }
            host = request.onlyField("host").map { [UInt8]($0) }
            keepsAlive = request.keepsAlive
            bearer = request.bearerToken.map { [UInt8]($0) }
            body = [UInt8](request.body)
        }
    }

    private static func read(
        _ bytes: [UInt8], _ splits: [Int], _ limits: HTTPLimits
    ) throws(Violation) -> (requests: [Seen], isFailed: Bool) {
        var parser = RequestParser(limits: limits)
        var requests: [Seen] = []
        var pending: [UInt8] = []
        var previous = 0
        for end in splits + [bytes.count] {
            pending += bytes[previous..<end]
            previous = end
            while true {
                let count = pending.count
                let step: Step = withExactly(pending) { buffer in
                    do throws(HTTPError) {
                        let request = try parser.parse(buffer)
                        _ = parser.takeContinue()
                        // Chunks are joined in place: what was read must be kept as it is now.
                        pending = [UInt8](buffer.dropFirst(request?.consumed ?? 0))
                        return request.map { .request(Seen($0), consumed: $0.consumed) } ?? .wantsMore
                    } catch {
                        return .failed
                    }
                }
                switch step {
                case .failed: return (requests, true)
                case .request(let request, let consumed):
                    try hold(consumed > 0 && consumed <= count, "\(consumed) bytes consumed of \(count)")
                    try hold(request.body.count <= limits.bodyBytes, "a body beyond its limit")
                    try hold(consumed <= limits.messageBytes, "a request beyond its limit")
                    try hold(parser.isIdle, "a parser that has seen the next request")
                    requests.append(request)
                    continue
                case .wantsMore:
                    try hold(count < limits.messageBytes, "\(count) bytes are not enough")
                }
                break
            }
        }
        return (requests, false)
    }

    private enum Step {
        case request(Seen, consumed: Int)
        case wantsMore, failed
    }

    // MARK: Writing

    private static func checkWriting(_ request: Seen) throws(Violation) {
        try hold(
            request.path.first == UInt8(ascii: "/") || request.path == [UInt8(ascii: "*")], "a path without a slash")
        let target = request.path + (request.query.map { [UInt8(ascii: "?")] + $0 } ?? [])
        var head = [UInt8]("\(request.method.name.description) ".utf8) + target
        head += [UInt8](" HTTP/1.\(request.minorVersion)\r\n".utf8)
        if let host = request.host { head += [UInt8]("Host:\t".utf8) + host + [UInt8](" \r\n".utf8) }
        if let bearer = request.bearer { head += [UInt8]("AUTHORIZATION: bearer ".utf8) + bearer + [13, 10] }
        head += [UInt8]("Connection: x, \(request.keepsAlive ? "Keep-Alive" : "CLOSE")\r\n".utf8)
        // With what is added the head may grow beyond its limit, as it did not when it came.
        var limits = HTTPLimits()
        limits.headBytes *= 2
        let withLength = head + [UInt8]("content-LENGTH: \(request.body.count)\r\n\r\n".utf8) + request.body
        try hold(try read(withLength, [], limits).requests == [request], "written with a length")
        guard request.minorVersion > 0 else { return }
        let chunked = head + [UInt8]("Transfer-Encoding: Chunked\r\n\r\n".utf8) + chunks(of: request.body)
        try hold(try read(chunked, [], limits).requests == [request], "written in chunks")
    }

    private static func chunks(of body: [UInt8]) -> [UInt8] {
        var draw = Draw(body)
        var text: [UInt8] = []
        var start = 0
        while start < body.count {
            // Not so small that the sizes take more than the chunks.
            let end = min(body.count, start + Int.random(in: 1 + body.count / 8...1 + body.count / 2, using: &draw))
            text += [UInt8]("\(String(end - start, radix: 16));x=y\r\n".utf8) + body[start..<end] + [13, 10]
            start = end
        }
        return text + [UInt8]("0\r\nTrailer: t\r\n\r\n".utf8)
    }
}
