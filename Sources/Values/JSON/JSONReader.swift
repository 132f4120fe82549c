import Bytes

/// A member of an object.
public struct JSONMember {
    /// The name, a string.
    public let key: JSONValue
    /// The validated value.
    public let value: JSONValue

    /// True when the member's name is `name`, with or without escapes.
    @inlinable @inline(__always) public func isNamed(_ name: StaticString) -> Bool { key.equals(name) }
}

/// Reads the members of an object. The text is just the object, with blanks around it allowed.
///
/// Members come in text order. A repeated name is returned again; the caller decides what it means.
package struct JSONObjectReader {
    private var scanner: JSONScanner
    private let depth: Int
    private var state = ContainerState.opened

    /// Fails unless `text` begins with an object. `maxDepth` limits the nesting, the object included.
    package init(_ text: UnsafeRawBufferPointer, maxDepth: Int = JSONLimits.defaultDepth) throws(JSONError) {
        guard maxDepth > 0 else { throw JSONError(.tooDeep, at: 0) }
        scanner = try JSONScanner(opening: text, with: UInt8(ascii: "{"))
        depth = maxDepth - 1
    }

    /// The next member; nil at the end, when the whole text is valid.
    package mutating func next() throws(JSONError) -> JSONMember? {
        guard let key = try nextKey() else { return nil }
        return JSONMember(key: key, value: try takeValue())
    }

    // MARK: In two steps

    /// The next member's name, nil at the end. Call `takeValue` or `takeObject` after a name.
    package mutating func nextKey() throws(JSONError) -> JSONValue? {
        guard try scanner.advance(&state, inObject: true) else {
            try scanner.expectEnd()
            return nil
        }
        return try scanner.takeKey()
    }

    /// The value after the name.
    package mutating func takeValue() throws(JSONError) -> JSONValue { try scanner.skipValue(depth: depth) }

    /// The value after the name. If it is an object, `visit` gets its members in the same pass.
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

/// Reads the elements of an array. The text is just the array, with blanks around it allowed.
package struct JSONArrayReader {
    private var scanner: JSONScanner
    private let depth: Int
    private var state = ContainerState.opened

    /// Fails unless `text` begins with an array. `maxDepth` limits the nesting, the array included.
    package init(_ text: UnsafeRawBufferPointer, maxDepth: Int = JSONLimits.defaultDepth) throws(JSONError) {
        guard maxDepth > 0 else { throw JSONError(.tooDeep, at: 0) }
        scanner = try JSONScanner(opening: text, with: UInt8(ascii: "["))
        depth = maxDepth - 1
    }

    /// The next element; nil at the end, when the whole text is valid.
    package mutating func next() throws(JSONError) -> JSONValue? {
        guard try scanner.advance(&state, inObject: false) else {
            try scanner.expectEnd()
            return nil
        }
        return try scanner.skipValue(depth: depth)
    }
}

/// A reader's state. Valid transitions: opened → inside → closed, opened → closed.
enum ContainerState {
    case opened, inside, closed
}

extension JSONScanner {
    /// A scanner after the opening bracket of `text`.
    init(opening text: UnsafeRawBufferPointer, with bracket: UInt8) throws(JSONError) {
        self.init(text)
        skipBlanks()
        guard let first = current else { throw failure(.unexpectedEnd) }
        guard first == bracket else { throw failure(.wrongKind) }
        position &+= 1
    }

    /// A member's name; the position moves to its value.
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

    mutating func expectEnd() throws(JSONError) {
        skipBlanks()
        guard current == nil else { throw failure(.trailingBytes) }
    }

    /// Moves to the next member or element. False when the closing bracket is taken.
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
