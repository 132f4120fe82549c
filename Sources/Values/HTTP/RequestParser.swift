import Bytes

/// Reads requests from a growing buffer (RFC 9112).
///
/// The caller keeps all bytes of the unfinished request and passes them again with new ones; each byte is parsed once. After
/// a request is returned, the caller drops its `consumed` bytes, and the parser is ready for the next. Valid transitions:
/// requestLine → fields → (done | body | chunkSize), chunkSize → chunkData → chunkSize, chunkSize → trailers → done. After
/// an error the parser must not be used.
package struct RequestParser: Sendable {
    private enum Phase: Sendable {
        case requestLine, fields, body, chunkSize, chunkData, trailers
    }

    private let limits: HTTPLimits
    private var phase = Phase.requestLine
    private var lines = LineReader()
    private var head = RequestHead()
    /// The offset of the body, and its bytes so far: chunks are joined in place after the head.
    private var bodyStart = 0
    private var bodyCount = 0
    /// Length of the body, or of the current chunk without its line end.
    private var expected = 0
    private var trailersStart = 0

    /// A parser at the start of a request.
    package init(limits: HTTPLimits = HTTPLimits()) { self.limits = limits }

    /// True before the first byte of a request: the connection may then be closed without an answer.
    package var isIdle: Bool { phase == .requestLine && lines.isUntouched }

    /// True once, when the client waits for `100 Continue` before it sends the body (RFC 9110 §10.1.1).
    package mutating func takeContinue() -> Bool {
        guard phase == .body || phase == .chunkSize, head.expectsContinue, bodyCount == 0 else { return false }
        head.expectsContinue = false
        return true
    }

    /// The next request in `bytes`; nil while it is incomplete. Chunked bodies are joined in place.
    package mutating func parse(_ bytes: UnsafeMutableRawBufferPointer) throws(HTTPError) -> ParsedRequest? {
        let readable = UnsafeRawBufferPointer(bytes)
        while true {
            switch phase {
            case .requestLine:
                guard try takeRequestLine(readable) else { return nil }
                phase = .fields
            case .fields:
                guard try takeFields(readable) else { return nil }
                if phase == .fields { return finish(readable) }
            case .body:
                guard readable.count - bodyStart >= expected else { return nil }
                bodyCount = expected
                lines.position = bodyStart + expected
                return finish(readable)
            case .chunkSize:
                guard try takeChunkSize(readable) else { return nil }
            case .chunkData:
                guard try takeChunkData(bytes) else { return nil }
                phase = .chunkSize
            case .trailers:
                guard try takeTrailers(readable) else { return nil }
                return finish(readable)
            }
        }
    }

    private mutating func finish(_ bytes: UnsafeRawBufferPointer) -> ParsedRequest {
        let head = head
        let request = ParsedRequest(
            method: head.method, minorVersion: head.minorVersion, path: bytes.part(head.path),
            query: head.query.map { bytes.part($0) }, body: bytes.part(bodyStart..<bodyStart + bodyCount),
            consumed: lines.position, bytes: bytes, fields: head.fields)
        self = RequestParser(limits: limits)
        return request
    }

    // MARK: Head

    private mutating func takeRequestLine(_ bytes: UnsafeRawBufferPointer) throws(HTTPError) -> Bool {
        while true {
            guard let line = try lines.next(in: bytes) else {
                guard bytes.count - lines.position < limits.requestLineBytes else { throw .targetTooLong }
                return false
            }
            // An empty line before a request is ignored (RFC 9112 §2.2).
            if line.isEmpty, line.lowerBound == 0 { continue }
            guard lines.position - line.lowerBound <= limits.requestLineBytes else { throw .targetTooLong }
            try head.read(requestLine: line, of: bytes)
            return true
        }
    }

    /// Takes field lines up to the empty line. Returns true at the empty line, with `phase` advanced if a body follows.
    private mutating func takeFields(_ bytes: UnsafeRawBufferPointer) throws(HTTPError) -> Bool {
        while let line = try lines.next(in: bytes) {
            guard lines.position <= limits.headBytes else { throw .headTooLarge }
            guard line.isEmpty else {
                try head.read(field: line, of: bytes, limits: limits)
                continue
            }
            try head.finish(in: bytes)
            bodyStart = lines.position
            if head.isChunked {
                phase = .chunkSize
            } else if head.contentLength > 0 {
                guard head.contentLength <= limits.bodyBytes else { throw .bodyTooLarge }
                expected = head.contentLength
                phase = .body
            }
            return true
        }
        guard bytes.count <= limits.headBytes else { throw .headTooLarge }
        return false
    }

    // MARK: Chunks

    private mutating func takeChunkSize(_ bytes: UnsafeRawBufferPointer) throws(HTTPError) -> Bool {
        let start = lines.position
        guard start - bodyStart <= limits.chunkedBytes else { throw .bodyTooLarge }
        guard let line = try lines.next(in: bytes) else {
            guard bytes.count - start < limits.chunkLineBytes else { throw .malformedChunk }
            return false
        }
        guard lines.position - start <= limits.chunkLineBytes else { throw .malformedChunk }
        let size = try chunkSize(bytes.part(line))
        guard size <= limits.bodyBytes - bodyCount else { throw .bodyTooLarge }
        if size == 0 {
            trailersStart = lines.position
            phase = .trailers
        } else {
            // Checked before the chunk arrives: the caller need not buffer a chunk that would be refused.
            guard lines.position - bodyStart + size + 2 <= limits.chunkedBytes else { throw .bodyTooLarge }
            expected = size
            phase = .chunkData
        }
        return true
    }

    /// The size before a chunk; its extensions are ignored (RFC 9112 §7.1).
    private func chunkSize(_ line: UnsafeRawBufferPointer) throws(HTTPError) -> Int {
        var size = 0
        var digits = 0
        while digits < line.count, let value = line[digits].hexValue {
            digits &+= 1
            guard digits <= 8 else { throw .bodyTooLarge }
            size = size << 4 | Int(value)
        }
        guard digits > 0 else { throw .malformedChunk }
        let rest = line.part(digits..<line.count)
        for byte in rest { guard byte >= 0x20 && byte != 0x7F || byte == 0x09 else { throw .malformedChunk } }
        guard let first = rest.trimmingBlanks.first else {
            guard rest.count == 0 else { throw .malformedChunk }
            return size
        }
        guard first == UInt8(ascii: ";") else { throw .malformedChunk }
        return size
    }

    private mutating func takeChunkData(_ bytes: UnsafeMutableRawBufferPointer) throws(HTTPError) -> Bool {
        let start = lines.position
        guard bytes.count - start >= expected + 2 else { return false }
        guard bytes[start + expected] == 0x0D, bytes[start + expected + 1] == 0x0A else { throw .malformedChunk }
        guard let base = bytes.baseAddress else { return false }
        (base + bodyStart + bodyCount).copyMemory(from: base + start, byteCount: expected)
        bodyCount += expected
        lines.position = start + expected + 2
        return true
    }

    /// Validates and drops the fields after the last chunk.
    private mutating func takeTrailers(_ bytes: UnsafeRawBufferPointer) throws(HTTPError) -> Bool {
        while let line = try lines.next(in: bytes) {
            guard lines.position - trailersStart <= limits.headBytes else { throw .headTooLarge }
            if line.isEmpty { return true }
            _ = try FieldTable.split(line: line, of: bytes)
        }
        guard bytes.count - trailersStart <= limits.headBytes else { throw .headTooLarge }
        return false
    }
}
