import Bytes

/// Writes responses: status line, fields, empty line, body. No Date field: answers are not cached, and layer 1 has no clock.
extension ByteWriter {
    /// Appends the status line.
    package mutating func append(statusLine status: Status) {
        append("HTTP/1.1 ")
        append(decimal: status.code)
        append(UInt8(ascii: " "))
        append(status.reason)
        append("\r\n")
    }

    /// Appends one field with a literal value.
    package mutating func append(field name: StaticString, _ value: StaticString) {
        append(name)
        append(": ")
        append(value)
        append("\r\n")
    }

    /// Appends one field. Control bytes of `value` become spaces, so no value can end its line.
    package mutating func append(field name: StaticString, _ value: UnsafeRawBufferPointer) {
        append(name)
        append(": ")
        append(capacity: value.count) { target in
            for (index, byte) in value.enumerated() { target[index] = byte < 0x20 || byte == 0x7F ? 0x20 : byte }
            return value.count
        }
        append("\r\n")
    }

    /// Appends one field. Control bytes of `value` become spaces, so no value can end its line.
    package mutating func append(field name: StaticString, _ value: String) {
        var value = value
        value.withUTF8 { append(field: name, UnsafeRawBufferPointer($0)) }
    }

    /// Appends one field with a number.
    package mutating func append(field name: StaticString, decimal value: Int) {
        append(name)
        append(": ")
        append(decimal: value)
        append("\r\n")
    }

    /// Appends a whole response.
    ///
    /// `fields` appends further fields. `omitsBody` keeps the length but leaves out the body, for HEAD; 204 and 304 have
    /// neither (RFC 9110 §15.3.5, §15.4.5).
    package mutating func append(
        response status: Status, contentType: StaticString = "application/json", keepsAlive: Bool,
        omitsBody: Bool = false, body: UnsafeRawBufferPointer, fields: (inout ByteWriter) -> Void = { _ in }
    ) {
        append(statusLine: status)
        let isBare = status == .noContent || status == .notModified
        if !isBare {
            append(field: "Content-Type", contentType)
            append(field: "Content-Length", decimal: body.count)
        }
        append(field: "Connection", keepsAlive ? "keep-alive" : "close")
        fields(&self)
        append("\r\n")
        if !omitsBody, !isBare { append(body) }
    }

    /// Appends the head of a response with a chunked body (RFC 9112 §7.1).
    package mutating func append(
        chunkedResponse status: Status, contentType: String, keepsAlive: Bool, fields: (inout ByteWriter) -> Void
    ) {
        append(statusLine: status)
        append(field: "Content-Type", contentType)
        append(field: "Transfer-Encoding", "chunked")
        append(field: "Connection", keepsAlive ? "keep-alive" : "close")
        fields(&self)
        append("\r\n")
    }

    /// Appends a chunk; an empty one ends the body.
    package mutating func append(chunk: [UInt8]) {
        append(Array(String(chunk.count, radix: 16).utf8))
        append("\r\n")
        append(chunk)
        append("\r\n")
    }

    /// Appends the answer to an unreadable request. Close the connection after it.
    ///
    /// - Parameter message: a sentence without quotes, in place of the error's own.
    package mutating func append(refusal error: HTTPError, saying message: StaticString? = nil) {
        // JSON, like all errors. The messages are ours and need no escapes.
        var body = ByteWriter(capacity: 128)
        body.append(#"{"error":""#)
        body.append(message ?? error.message)
        body.append(#"","code":"#)
        body.append(decimal: error.status.code)
        body.append("}\n")
        body.withUnsafeBytes { append(response: error.status, keepsAlive: false, body: $0) }
    }
}
