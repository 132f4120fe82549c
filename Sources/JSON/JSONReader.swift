import Bytes

/// One member of an object.
package struct JSONMember {
    /// The name, a string value.
    package let key: JSONValue
    /// The value, validated.
    package let value: JSONValue

    /// True when the member is called `name`, however it is written.
    package func isNamed(_ name: StaticString) -> Bool { key.equals(name) }
}

/// Walks the members of an object whose text is all that is given, blanks around it allowed.
///
/// Members come in the order of the text; a name given twice comes twice, and what that means is the reader's business.
package struct JSONObjectReader {
    private var scanner: JSONScanner
    private let depth: Int
    private var state = ContainerState.opened

    /// Fails unless `text` begins with an object. Values may nest `maxDepth` levels, the object itself included.
    package init(_ text: UnsafeRawBufferPointer, maxDepth: Int = JSONLimits.defaultDepth) throws(JSONError) {
        guard maxDepth > 0 else { throw JSONError(.tooDeep, at: 0) }
        scanner = try JSONScanner(opening: text, with: UInt8(ascii: "{"))
        depth = maxDepth - 1
    }

    /// The next member; nil at the end, when the text has been found valid to its last byte.
    package mutating func next() throws(JSONError) -> JSONMember? {
        guard try scanner.advance(&state, inObject: true) else { return nil }
        let start = scanner.position
        let hasEscapes = try scanner.skipString()
        let key = JSONValue(
            kind: .string, hasEscapes: hasEscapes, bytes: scanner.bytes.part(start..<scanner.position), offset: start)
        scanner.skipBlanks()
        try scanner.expect(UInt8(ascii: ":"))
        scanner.skipBlanks()
        return JSONMember(key: key, value: try scanner.skipValue(depth: depth))
    }
}

/// Walks the elements of an array whose text is all that is given, blanks around it allowed.
package struct JSONArrayReader {
    private var scanner: JSONScanner
    private let depth: Int
    private var state = ContainerState.opened

    /// Fails unless `text` begins with an array. Values may nest `maxDepth` levels, the array itself included.
    package init(_ text: UnsafeRawBufferPointer, maxDepth: Int = JSONLimits.defaultDepth) throws(JSONError) {
        guard maxDepth > 0 else { throw JSONError(.tooDeep, at: 0) }
        scanner = try JSONScanner(opening: text, with: UInt8(ascii: "["))
        depth = maxDepth - 1
    }

    /// The next element; nil at the end, when the text has been found valid to its last byte.
    package mutating func next() throws(JSONError) -> JSONValue? {
        guard try scanner.advance(&state, inObject: false) else { return nil }
        return try scanner.skipValue(depth: depth)
    }
}

/// Where a reader stands. Valid transitions: opened → inside → closed, opened → closed.
enum ContainerState {
    case opened, inside, closed
}

extension JSONScanner {
    /// A scanner behind the bracket that opens `text`.
    init(opening text: UnsafeRawBufferPointer, with bracket: UInt8) throws(JSONError) {
        self.init(text)
        skipBlanks()
        guard let first = current else { throw failure(.unexpectedEnd) }
        guard first == bracket else { throw failure(.wrongKind) }
        position &+= 1
    }

    /// Moves to the next member or element: false at the end, after which nothing but blanks may stand.
    mutating func advance(_ state: inout ContainerState, inObject: Bool) throws(JSONError) -> Bool {
        switch state {
        case .closed: return false
        case .opened:
            skipBlanks()
            if current == (inObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) {
                position &+= 1
                state = .closed
            } else {
                state = .inside
            }
        case .inside:
            if try takeComma(inObject: inObject) { skipBlanks() } else { state = .closed }
        }
        guard state == .closed else { return true }
        skipBlanks()
        guard current == nil else { throw failure(.trailingBytes) }
        return false
    }
}
