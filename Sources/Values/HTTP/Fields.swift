import Bytes

/// The header fields of one message, in wire order, as offsets into its bytes.
struct FieldTable: Sendable {
    struct Field: Sendable {
        var name: UInt32
        /// The name's length and its first letter in lower case: they distinguish most names.
        var key: UInt32
        var value: UInt32
        var valueCount: UInt32
    }

    private(set) var fields: ContiguousArray<Field> = []
    /// A bit for the key of each field: most names looked up are absent.
    private var present: UInt64 = 0

    /// Parses and stores one field line, without its end (RFC 9112 §5). `line` is a range of `bytes`.
    mutating func append(
        line: Range<Int>, of bytes: UnsafeRawBufferPointer, limits: HTTPLimits
    ) throws(HTTPError) -> (name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        guard fields.count < limits.fieldCount else { throw .tooManyFields }
        let (name, value) = try FieldTable.split(line: line, of: bytes)
        if fields.isEmpty { fields.reserveCapacity(16) }
        let key = FieldTable.key(count: name.count, initial: bytes[name.lowerBound].asciiLowercased)
        present |= FieldTable.bit(of: key)
        fields.append(
            Field(
                name: UInt32(truncatingIfNeeded: name.lowerBound),
                key: key,
                value: UInt32(truncatingIfNeeded: value.lowerBound),
                valueCount: UInt32(truncatingIfNeeded: value.count)))
        return (bytes.part(name), bytes.part(value))
    }

    static func split(
        line: Range<Int>, of bytes: UnsafeRawBufferPointer
    ) throws(HTTPError) -> (name: Range<Int>, value: Range<Int>) {
        let first = bytes[line.lowerBound]
        guard first != 0x20, first != 0x09 else { throw .foldedField }
        let colon = FieldText.endOfToken(line, of: bytes)
        // Two parsers may disagree about anything between name and colon, above all a space (RFC 9112 §5.1).
        guard colon > line.lowerBound, colon < line.upperBound, bytes[colon] == UInt8(ascii: ":") else {
            throw .malformedField
        }
        var low = colon &+ 1
        var high = line.upperBound
        while low < high, bytes[low] == 0x20 || bytes[low] == 0x09 { low &+= 1 }
        while high > low, bytes[high &- 1] == 0x20 || bytes[high &- 1] == 0x09 { high &-= 1 }
        guard FieldText.isValue(low..<high, of: bytes) else { throw .malformedField }
        return (line.lowerBound..<colon, low..<high)
    }

    /// The value of the first field `name` (lower case) from `index` on. Advances `index` past it.
    func value(
        _ name: StaticString, in bytes: UnsafeRawBufferPointer, from index: inout Int
    ) -> UnsafeRawBufferPointer? {
        let count = name.utf8CodeUnitCount
        let key = FieldTable.key(count: count, initial: name.utf8Start.pointee)
        guard present & FieldTable.bit(of: key) != 0 else { return nil }
        for at in index..<fields.count where fields[at].key == key {
            let start = Int(fields[at].name)
            guard bytes.part(start..<start &+ count).equalsIgnoringCase(name) else { continue }
            index = at &+ 1
            let value = Int(fields[at].value)
            return bytes.part(value..<value &+ Int(fields[at].valueCount))
        }
        index = fields.count
        return nil
    }

    private static func key(count: Int, initial: UInt8) -> UInt32 {
        UInt32(truncatingIfNeeded: count) << 8 | UInt32(initial)
    }

    private static func bit(of key: UInt32) -> UInt64 { 1 << UInt64((key >> 8 &* 5 &+ key) & 63) }

    func value(_ name: StaticString, in bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        var index = 0
        return value(name, in: bytes, from: &index)
    }

    /// True when a comma-separated field `name` has the member `token`, both in lower case.
    func contains(_ name: StaticString, token: StaticString, in bytes: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        while let value = value(name, in: bytes, from: &index) {
            // Nearly always the only member.
            if value.equalsIgnoringCase(token) { return true }
            var list = ListReader(value)
            while let member = list.next() {
                if member.equalsIgnoringCase(token) { return true }
            }
        }
        return false
    }
}

/// The members of a comma-separated field value, blanks trimmed, empty members skipped (RFC 9110 §5.6.1).
package struct ListReader {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    /// Reads `value`, which must outlive the reader.
    package init(_ value: UnsafeRawBufferPointer) { bytes = value }

    /// The next member, nil at the end.
    package mutating func next() -> UnsafeRawBufferPointer? {
        while position < bytes.count {
            let end = bytes.firstIndex(of: UInt8(ascii: ","), from: position) ?? bytes.count
            let member = bytes.part(position..<end).trimmingBlanks
            position = end &+ 1
            if member.count > 0 { return member }
        }
        return nil
    }
}

/// Splits a growing buffer into lines. Looks at each byte once.
struct LineReader: Sendable {
    var position = 0
    private var searched = 0

    /// True before any byte has been seen.
    var isUntouched: Bool { position == 0 && searched == 0 }

    /// The next complete line without its end, nil when more bytes are needed. Every line must end in CRLF.
    mutating func next(in bytes: UnsafeRawBufferPointer) throws(HTTPError) -> Range<Int>? {
        guard let feed = bytes.firstIndex(of: 0x0A, from: max(position, searched)) else {
            searched = bytes.count
            return nil
        }
        guard feed > position, bytes[feed &- 1] == 0x0D else { throw .bareLineFeed }
        let line = position..<feed &- 1
        position = feed &+ 1
        return line
    }
}

extension UInt8 {
    /// True for the characters of a token (RFC 9110 §5.6.2).
    @inline(__always) package var isTokenCharacter: Bool {
        let bits: UInt64 = self < 64 ? 0x03FF_6CFA_0000_0000 : 0x57FF_FFFF_C7FF_FFFE
        return self < 0x80 && bits >> UInt64(self & 63) & 1 == 1
    }
}
