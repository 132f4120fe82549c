import Bytes

/// The head of a response, for the hub's own clients (`tail`, the load tester).
package struct ResponseHead {
    /// The status code, 100…599.
    package let statusCode: Int
    /// Bytes of the head: the body, or the first frame, begins after them.
    package let consumed: Int

    private let bytes: UnsafeRawBufferPointer
    private let fields: FieldTable

    /// The head at the start of `bytes`; nil while it is incomplete. It points into `bytes`.
    package static func parse(
        _ bytes: UnsafeRawBufferPointer, limits: HTTPLimits = HTTPLimits()
    ) throws(HTTPError) -> ResponseHead? {
        var lines = LineReader()
        var fields = FieldTable()
        var statusCode = 0
        while let line = try lines.next(in: bytes) {
            guard lines.position <= limits.headBytes else { throw .headTooLarge }
            if statusCode == 0 {
                statusCode = try parse(statusLine: bytes.part(line))
            } else if line.isEmpty {
                return ResponseHead(statusCode: statusCode, consumed: lines.position, bytes: bytes, fields: fields)
            } else {
                _ = try fields.append(line: line, of: bytes, limits: limits)
            }
        }
        guard bytes.count <= limits.headBytes else { throw .headTooLarge }
        return nil
    }

    /// The value of the first field `name` (lower case).
    package func field(_ name: StaticString) -> UnsafeRawBufferPointer? { fields.value(name, in: bytes) }

    /// True when a comma-separated field `name` has the member `token`, both in lower case.
    package func field(_ name: StaticString, contains token: StaticString) -> Bool {
        fields.contains(name, token: token, in: bytes)
    }

    private static func parse(statusLine line: UnsafeRawBufferPointer) throws(HTTPError) -> Int {
        guard line.count >= 12, line.hasPrefix("HTTP/1."), line[8] == 0x20, let code = line.part(9..<12).decimalValue,
            (100...599).contains(code), line.count == 12 || line[12] == 0x20
        else { throw .malformedStatusLine }
        return code
    }
}
