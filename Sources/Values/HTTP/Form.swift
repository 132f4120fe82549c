import Bytes

/// Percent-encoding (RFC 3986 §2.1) and its form dialect, where a plus sign is a space.
package enum Percent {
    /// The decoded bytes; nil when a percent sign lacks two hexadecimal digits.
    package static func decode(_ text: UnsafeRawBufferPointer, plusIsSpace: Bool = false) -> [UInt8]? {
        var result: [UInt8] = []
        result.reserveCapacity(text.count)
        var at = 0
        while at < text.count {
            let byte = text[at]
            if byte == UInt8(ascii: "%") {
                guard text.count - at >= 3, let high = text[at &+ 1].hexValue, let low = text[at &+ 2].hexValue else {
                    return nil
                }
                result.append(high << 4 | low)
                at &+= 3
            } else {
                result.append(plusIsSpace && byte == UInt8(ascii: "+") ? 0x20 : byte)
                at &+= 1
            }
        }
        return result
    }

    /// The decoded text; nil also when it is not UTF-8.
    package static func decodeString(_ text: UnsafeRawBufferPointer, plusIsSpace: Bool = false) -> String? {
        guard let bytes = decode(text, plusIsSpace: plusIsSpace) else { return nil }
        return bytes.withUnsafeBytes { UTF8Validator.isValid($0) ? $0.string : nil }
    }
}

/// The pairs of a query or of an `application/x-www-form-urlencoded` body, in order (URL standard §5.1).
package struct FormReader {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    /// Reads `text`, which must outlive the reader.
    package init(_ text: UnsafeRawBufferPointer) { bytes = text }

    /// The next pair, still encoded; a name without `=` has an empty value. Nil at the end.
    package mutating func next() -> (name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer)? {
        while position < bytes.count {
            let end = bytes.firstIndex(of: UInt8(ascii: "&"), from: position) ?? bytes.count
            let pair = bytes.part(position..<end)
            position = end &+ 1
            guard pair.count > 0 else { continue }
            guard let equals = pair.firstIndex(of: UInt8(ascii: "="), from: 0) else {
                return (pair, UnsafeRawBufferPointer(start: nil, count: 0))
            }
            return (pair.part(0..<equals), pair.part(equals + 1..<pair.count))
        }
        return nil
    }

    /// The first value of `name` in `text`, still encoded. Encoded names do not match: ours need no escapes.
    package static func rawValue(_ name: StaticString, in text: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        var reader = FormReader(text)
        while let pair = reader.next() {
            if pair.name.equals(name) { return pair.value }
        }
        return nil
    }

    /// Whether `text` has the name more than once.
    package static func isRepeated(_ name: StaticString, in text: UnsafeRawBufferPointer) -> Bool {
        var reader = FormReader(text)
        var count = 0
        while count < 2, let pair = reader.next() {
            if pair.name.equals(name) { count += 1 }
        }
        return count > 1
    }

    /// The first value of `name` in `text`, decoded; nil when it is missing, badly escaped or not UTF-8.
    package static func value(_ name: StaticString, in text: UnsafeRawBufferPointer) -> String? {
        guard let raw = rawValue(name, in: text) else { return nil }
        return Percent.decodeString(raw, plusIsSpace: true)
    }
}
