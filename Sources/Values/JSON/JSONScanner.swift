import Bytes

/// Scans and validates JSON text. The readers and decoders of this target use it.
struct JSONScanner {
    let bytes: UnsafeRawBufferPointer
    var position: Int

    init(_ bytes: UnsafeRawBufferPointer, at position: Int = 0) {
        self.bytes = bytes
        self.position = position
    }

    func failure(_ kind: JSONError.Kind) -> JSONError { JSONError(kind, at: position) }

    @inline(__always) var current: UInt8? { position < bytes.count ? bytes[position] : nil }

    @inline(__always) mutating func skipBlanks() {
        // Most messages are written by programs without blanks: one comparison decides.
        guard position < bytes.count, bytes[position] <= 0x20 else { return }
        skipBlankRun()
    }

    private mutating func skipBlankRun() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x0A, 0x0D, 0x09: position &+= 1
            default: return
            }
        }
    }

    @inline(__always) mutating func expect(_ byte: UInt8) throws(JSONError) {
        guard let current else { throw failure(.unexpectedEnd) }
        guard current == byte else { throw failure(.unexpectedByte) }
        position &+= 1
    }

    /// Validates the value at the position and moves past it. `depth` limits its nesting, itself included.
    mutating func skipValue(depth: Int) throws(JSONError) -> JSONValue {
        let start = position
        let (kind, hasEscapes) = try skipScalarOrOpen(level: 0, limit: depth)
        if kind == .object || kind == .array { try skipContainer(kind, limit: min(depth, JSONLimits.maximumDepth)) }
        return JSONValue(kind: kind, hasEscapes: hasEscapes, bytes: bytes.part(start..<position), offset: start)
    }

    /// Skips a container whose opening bracket is taken. `stack` has one bit per level: object (1) or array (0).
    private mutating func skipContainer(_ kind: JSONKind, limit: Int) throws(JSONError) {
        var stack: UInt64 = kind == .object ? 1 : 0
        var level = 1
        var mayClose = true
        while true {
            let inObject = stack & 1 == 1
            skipBlanks()
            if mayClose, current == (inObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) {
                position &+= 1
            } else {
                if inObject {
                    _ = try skipString()
                    skipBlanks()
                    try expect(UInt8(ascii: ":"))
                    skipBlanks()
                }
                let (kind, _) = try skipScalarOrOpen(level: level, limit: limit)
                if kind == .object || kind == .array {
                    stack = stack << 1 | (kind == .object ? 1 : 0)
                    level &+= 1
                    mayClose = true
                    continue
                }
                if try takeComma(inObject: inObject) {
                    mayClose = false
                    continue
                }
            }
            repeat {
                level &-= 1
                stack >>= 1
                if level == 0 { return }
            } while try !takeComma(inObject: stack & 1 == 1)
            mayClose = false
        }
    }

    /// After a value: takes a comma (true) or the closing bracket (false).
    @inline(__always) mutating func takeComma(inObject: Bool) throws(JSONError) -> Bool {
        skipBlanks()
        guard let byte = current else { throw failure(.unexpectedEnd) }
        if byte == UInt8(ascii: ",") {
            position &+= 1
            return true
        }
        guard byte == (inObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else { throw failure(.unexpectedByte) }
        position &+= 1
        return false
    }

    /// Skips a scalar, or takes the opening bracket of a container.
    private mutating func skipScalarOrOpen(
        level: Int, limit: Int
    ) throws(JSONError) -> (kind: JSONKind, hasEscapes: Bool) {
        guard let byte = current else { throw failure(.unexpectedEnd) }
        switch byte {
        case UInt8(ascii: "\""): return (.string, try skipString())
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            guard level < limit else { throw failure(.tooDeep) }
            position &+= 1
            return (byte == UInt8(ascii: "{") ? .object : .array, false)
        case UInt8(ascii: "t"):
            try skipWord("true")
            return (.true, false)
        case UInt8(ascii: "f"):
            try skipWord("false")
            return (.false, false)
        case UInt8(ascii: "n"):
            try skipWord("null")
            return (.null, false)
        default:
            try skipNumber()
            return (.number, false)
        }
    }

    private mutating func skipWord(_ word: StaticString) throws(JSONError) {
        for expected in word.bytes { try expect(expected) }
    }

    private mutating func skipNumber() throws(JSONError) {
        if current == UInt8(ascii: "-") {
            position &+= 1
        } else if let byte = current, !byte.isASCIIDigit {
            throw failure(.unexpectedByte)
        }
        if current == UInt8(ascii: "0") {
            position &+= 1
            if let byte = current, byte.isASCIIDigit { throw failure(.invalidNumber) }
        } else {
            try skipDigits()
        }
        if current == UInt8(ascii: ".") {
            position &+= 1
            try skipDigits()
        }
        if current == UInt8(ascii: "e") || current == UInt8(ascii: "E") {
            position &+= 1
            if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") { position &+= 1 }
            try skipDigits()
        }
    }

    private mutating func skipDigits() throws(JSONError) {
        guard let byte = current else { throw failure(.unexpectedEnd) }
        guard byte.isASCIIDigit else { throw failure(.invalidNumber) }
        while let byte = current, byte.isASCIIDigit { position &+= 1 }
    }
}

// MARK: Strings

extension JSONScanner {
    /// Validates the string at the position and moves past it. True when it has escapes.
    mutating func skipString() throws(JSONError) -> Bool {
        try expect(UInt8(ascii: "\""))
        var hasEscapes = false
        while true {
            position = JSONEscape.endOfPlain(bytes, from: position)
            guard let byte = current else { throw failure(.unexpectedEnd) }
            switch byte {
            case UInt8(ascii: "\""):
                position &+= 1
                return hasEscapes
            case UInt8(ascii: "\\"):
                hasEscapes = true
                _ = try skipEscape()
            case 0x80...: try skipNonASCII()
            default: throw failure(.controlByte)
            }
        }
    }

    private mutating func skipNonASCII() throws(JSONError) {
        var validator = UTF8Validator()
        repeat {
            guard position < bytes.count else { throw failure(.unexpectedEnd) }
            guard validator.accept(bytes.part(position..<position &+ 1)) else { throw failure(.invalidUTF8) }
            position &+= 1
        } while !validator.isComplete
    }

    /// Takes one escape, or two for a surrogate pair, and returns its character.
    mutating func skipEscape() throws(JSONError) -> UInt32 {
        let start = position
        position &+= 1
        guard let byte = current else { throw failure(.unexpectedEnd) }
        position &+= 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return UInt32(byte)
        case UInt8(ascii: "b"): return 0x08
        case UInt8(ascii: "f"): return 0x0C
        case UInt8(ascii: "n"): return 0x0A
        case UInt8(ascii: "r"): return 0x0D
        case UInt8(ascii: "t"): return 0x09
        case UInt8(ascii: "u"): break
        default: throw JSONError(.invalidEscape, at: start)
        }
        let unit = try takeHex()
        guard unit & 0xF800 == 0xD800 else { return unit }
        guard unit < 0xDC00 else { throw JSONError(.loneSurrogate, at: start) }
        guard position &+ 1 < bytes.count else {
            throw position == bytes.count || bytes[position] == UInt8(ascii: "\\")
                ? JSONError(.unexpectedEnd, at: bytes.count) : JSONError(.loneSurrogate, at: start)
        }
        guard bytes[position] == UInt8(ascii: "\\"), bytes[position &+ 1] == UInt8(ascii: "u") else {
            throw JSONError(.loneSurrogate, at: start)
        }
        position &+= 2
        let second = try takeHex()
        guard second & 0xFC00 == 0xDC00 else { throw JSONError(.loneSurrogate, at: start) }
        return 0x10000 &+ ((unit & 0x3FF) << 10 | (second & 0x3FF))
    }

    private mutating func takeHex() throws(JSONError) -> UInt32 {
        var unit: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = current else { throw failure(.unexpectedEnd) }
            guard let digit = byte.hexValue else { throw failure(.invalidEscape) }
            unit = unit << 4 | UInt32(digit)
            position &+= 1
        }
        return unit
    }
}
