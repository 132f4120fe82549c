/// Reads values of RESP3 from bytes as they arrive, cut anywhere. Nothing is read again when more comes.
///
/// Attributes (`|`) are read and dropped. A push comes between values, never within one: where a server puts it into the
/// answer to `EXEC`, nobody can say which element is which, so that is refused.
package struct RESPParser {
    /// Values within values. Answers of commands stay below; scripts answer what they like.
    package static let depthMax = 16

    /// Strings that come behind their length.
    private enum Blob { case string, verbatim, error }

    private enum Group { case array, map, push, attribute }

    /// A group of values whose end has not come.
    private struct Open {
        let group: Group
        var left: Int
        var values: [RESPValue] = []
    }

    private let bytesMax: Int
    /// What has come of the line, or of the string and the line's end behind it.
    private var partial: [UInt8] = []
    /// The string that comes, and its bytes with the line's end; nil for a line.
    private var blob: (kind: Blob, bytes: Int)?
    private var open: [Open] = []
    /// Bytes of the value so far, on the wire.
    private var size = 0

    /// - Parameter bytesMax: the longest value, in bytes on the wire.
    package init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// Whether the last value, or the last line, is not whole.
    package var isWithinValue: Bool { size > 0 }

    /// Appends the values that end in `bytes`. After an error, those before it are whole, and the parser is of no more use.
    package mutating func read(
        _ bytes: UnsafeRawBufferPointer, _ values: inout [RESPValue]
    ) throws(RESPProblem) {
        var at = 0
        while at < bytes.count {
            if let blob {
                let end = min(bytes.count, at + blob.bytes - partial.count)
                // Nearly always it is whole: one block of its size, and no more room than it needs.
                if partial.isEmpty { partial.reserveCapacity(end - at) }
                take(bytes, &at, to: end)
                guard partial.count == blob.bytes else { return }
                guard partial.popLast() == UInt8(ascii: "\n"), partial.popLast() == UInt8(ascii: "\r") else {
                    throw .malformed
                }
                self.blob = nil
                close(try value(of: blob.kind), &values)
            } else {
                let newline = bytes[at...].firstIndex(of: UInt8(ascii: "\n"))
                let end = newline.map { $0 + 1 } ?? bytes.count
                guard size + end - at <= bytesMax else { throw .tooLong }
                take(bytes, &at, to: end)
                guard newline != nil else { return }
                partial.removeLast()
                guard partial.popLast() == UInt8(ascii: "\r"), !partial.contains(UInt8(ascii: "\r")) else {
                    throw .malformed
                }
                try line(&values)
            }
        }
    }

    private mutating func take(_ bytes: UnsafeRawBufferPointer, _ at: inout Int, to end: Int) {
        partial.append(contentsOf: bytes[at..<end])
        size += end - at
        at = end
    }

    // MARK: Lines

    /// Reads the line in `partial`.
    private mutating func line(_ values: inout [RESPValue]) throws(RESPProblem) {
        guard let kind = partial.first else { throw .malformed }
        let text = partial.dropFirst()
        defer { partial.removeAll(keepingCapacity: partial.capacity <= 4_096) }
        switch kind {
        case UInt8(ascii: "+"): close(.bytes(Array(text)), &values)
        case UInt8(ascii: "-"): close(.error(RESPError(Array(text))), &values)
        case UInt8(ascii: ":"): close(.integer(try Self.integer(text)), &values)
        case UInt8(ascii: ","): close(.double(try Self.double(text)), &values)
        case UInt8(ascii: "("):
            guard Self.isBigNumber(text) else { throw .malformed }
            close(.bytes(Array(text)), &values)
        case UInt8(ascii: "#"):
            switch (text.first, text.count) {
            case (UInt8(ascii: "t"), 1): close(.boolean(true), &values)
            case (UInt8(ascii: "f"), 1): close(.boolean(false), &values)
            default: throw .malformed
            }
        case UInt8(ascii: "_"):
            guard text.isEmpty else { throw .malformed }
            close(.null, &values)
        case UInt8(ascii: "$"):
            if Self.isMinusOne(text) { close(.null, &values) } else { try begin(.string, text) }
        case UInt8(ascii: "="): try begin(.verbatim, text)
        case UInt8(ascii: "!"): try begin(.error, text)
        case UInt8(ascii: "*"):
            if Self.isMinusOne(text) { close(.null, &values) } else { try begin(.array, text, &values) }
        case UInt8(ascii: "~"): try begin(.array, text, &values)
        case UInt8(ascii: "%"): try begin(.map, text, &values)
        case UInt8(ascii: "|"): try begin(.attribute, text, &values)
        case UInt8(ascii: ">"):
            guard open.isEmpty else { throw .malformed }
            try begin(.push, text, &values)
        default: throw .malformed
        }
    }

    private mutating func begin(_ kind: Blob, _ text: ArraySlice<UInt8>) throws(RESPProblem) {
        let length = try Self.length(text)
        guard length <= bytesMax - size - 2 else { throw .tooLong }
        blob = (kind, length + 2)
    }

    private mutating func begin(
        _ group: Group, _ text: ArraySlice<UInt8>, _ values: inout [RESPValue]
    ) throws(RESPProblem) {
        guard open.count < Self.depthMax else { throw .tooDeep }
        let count = try Self.length(text)
        let isOfPairs = group == .map || group == .attribute
        // The shortest value takes three bytes. Room is made as values come, not because they are promised.
        guard count <= (bytesMax - size) / (isOfPairs ? 6 : 3) else { throw .tooLong }
        let opened = Open(group: group, left: isOfPairs ? 2 * count : count)
        if count > 0 {
            open.append(opened)
        } else if let value = Self.value(of: opened) {
            close(value, &values)
        }
    }

    // MARK: Ends

    private mutating func value(of kind: Blob) throws(RESPProblem) -> RESPValue {
        let bytes = partial
        // A long one keeps its memory, and leaves none behind here.
        partial = []
        switch kind {
        case .string: return .bytes(bytes)
        case .error: return .error(RESPError(bytes))
        case .verbatim:
            // Three bytes of its format, and a colon.
            guard bytes.count >= 4, bytes[3] == UInt8(ascii: ":") else { throw .malformed }
            return .bytes(Array(bytes.dropFirst(4)))
        }
    }

    /// Nil for attributes.
    private static func value(of open: Open) -> RESPValue? {
        switch open.group {
        case .array: .array(open.values)
        case .map: .map(open.values)
        case .push: .push(open.values)
        case .attribute: nil
        }
    }

    /// The value is whole, and so may be the groups that it ends.
    private mutating func close(_ value: RESPValue, _ values: inout [RESPValue]) {
        var value = value
        while var last = open.popLast() {
            last.values.append(value)
            last.left -= 1
            guard last.left == 0 else { return open.append(last) }
            // What an attribute is about still comes.
            guard let whole = Self.value(of: last) else { return }
            value = whole
        }
        values.append(value)
        size = 0
    }

    // MARK: Numbers

    private static func isMinusOne(_ text: ArraySlice<UInt8>) -> Bool { text.elementsEqual("-1".utf8) }

    private static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }

    /// Digits alone: streamed strings and groups (`?`) are not sent by any server.
    private static func length(_ text: ArraySlice<UInt8>) throws(RESPProblem) -> Int {
        guard let first = text.first, isDigit(first) else { throw .malformed }
        return Int(clamping: try integer(text))
    }

    private static func integer(_ text: ArraySlice<UInt8>) throws(RESPProblem) -> Int64 {
        let isNegative = text.first == UInt8(ascii: "-")
        let digits = isNegative || text.first == UInt8(ascii: "+") ? text.dropFirst() : text
        guard !digits.isEmpty else { throw .malformed }
        // Below zero, where there is one number more.
        var negated: Int64 = 0
        for byte in digits {
            guard isDigit(byte) else { throw .malformed }
            let (tens, isOver) = negated.multipliedReportingOverflow(by: 10)
            let (next, isOverToo) = tens.subtractingReportingOverflow(Int64(byte - UInt8(ascii: "0")))
            guard !isOver, !isOverToo else { throw .malformed }
            negated = next
        }
        guard isNegative || negated > .min else { throw .malformed }
        return isNegative ? negated : -negated
    }

    private static func double(_ text: ArraySlice<UInt8>) throws(RESPProblem) -> Double {
        let text = String(decoding: text, as: UTF8.self)
        switch text {
        case "inf": return .infinity
        case "-inf": return -.infinity
        case "nan", "-nan": return .nan
        default:
            guard text.utf8.allSatisfy({ isDigit($0) || "+-.eE".utf8.contains($0) }), let number = Double(text) else {
                throw .malformed
            }
            return number
        }
    }

    private static func isBigNumber(_ text: ArraySlice<UInt8>) -> Bool {
        let isSigned = text.first == UInt8(ascii: "-") || text.first == UInt8(ascii: "+")
        let digits = isSigned ? text.dropFirst() : text
        return !digits.isEmpty && digits.allSatisfy(isDigit)
    }
}
