import Bytes

/// One member of an object.
public struct JSONMember {
    /// The name, a string value.
    public let key: JSONValue
    /// The value, validated.
    public let value: JSONValue

    /// True when the member is called `name`, however it is written.
    @inlinable @inline(__always) public func isNamed(_ name: StaticString) -> Bool { key.equals(name) }
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
        guard let key = try nextKey() else { return nil }
        return JSONMember(key: key, value: try takeValue())
    }

    // MARK: In two steps

    /// The name of the next member, nil at the end; `takeValue` or `takeObject` must follow a name.
    package mutating func nextKey() throws(JSONError) -> JSONValue? {
        guard try scanner.advance(&state, inObject: true) else {
            try scanner.expectEnd()
            return nil
        }
        return try scanner.takeKey()
    }

    /// The value behind the name.
    package mutating func takeValue() throws(JSONError) -> JSONValue { try scanner.skipValue(depth: depth) }

    /// The value behind the name; if it is an object, `visit` gets its members on the way: one pass instead of two.
    package mutating func takeObject(_ visit: (JSONMember) -> Void) throws(JSONError) -> JSONValue {
        guard scanner.current == UInt8(ascii: "{") else { return try takeValue() }
        let start = scanner.position
        guard depth > 0 else { throw scanner.failure(.tooDeep) }
        scanner.position &+= 1
        var state = ContainerState.opened
        while try scanner.advance(&state, inObject: true) {
            let key = try scanner.takeKey()
            visit(JSONMember(key: key, value: try scanner.skipValue(depth: depth - 1)))
        }
        return JSONValue(
            kind: .object, hasEscapes: false, bytes: scanner.bytes.part(start..<scanner.position), offset: start)
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
        guard try scanner.advance(&state, inObject: false) else {
            try scanner.expectEnd()
            return nil
        }
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

    /// The name of a member; the position moves to its value.
    mutating func takeKey() throws(JSONError) -> JSONValue {
        let start = position
        let hasEscapes = try skipString()
        let key = JSONValue(
            kind: .string, hasEscapes: hasEscapes, bytes: bytes.part(start..<position), offset: start)
        skipBlanks()
        try expect(UInt8(ascii: ":"))
        skipBlanks()
        return key
    }

    /// Fails unless nothing but blanks is left.
    mutating func expectEnd() throws(JSONError) {
        skipBlanks()
        guard current == nil else { throw failure(.trailingBytes) }
    }

    /// Moves to the next member or element; false when the closing bracket is taken.
    @inline(__always) mutating func advance(_ state: inout ContainerState, inObject: Bool) throws(JSONError) -> Bool {
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
        return state != .closed
    }
}
