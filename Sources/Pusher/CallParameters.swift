import Bytes

/// The parameters in the query of an HTTP API call: decoded, the names in lower case, as its signature has them
/// (pusher.md §2; Pusher's "HTTP API reference", "Generating authentication signatures").
package struct CallParameters: Sendable {
    /// How a plus sign is read: libraries that encode forms mean a space by it, others themselves.
    package enum Plus: Sendable {
        case sign, space
    }

    private struct Pair {
        let name: Range<Int>
        let value: Range<Int>
    }

    private var text: [UInt8] = []
    private var pairs: ContiguousArray<Pair> = []

    /// Reads what follows the question mark. A percent sign without two digits stands for itself: some libraries send
    /// values as they are.
    ///
    /// - Throws: `tooManyParameters`.
    package init(
        query: UnsafeRawBufferPointer, plus: Plus = .sign, limits: CallLimits = CallLimits()
    ) throws(CallRefusal) {
        text.reserveCapacity(query.count)
        pairs.reserveCapacity(8)
        var at = 0
        while at < query.count {
            let end = query.firstIndex(of: UInt8(ascii: "&"), from: at) ?? query.count
            let pair = query.part(at..<end)
            at = end + 1
            guard pair.count > 0 else { continue }
            guard pairs.count < limits.parametersMax else { throw .tooManyParameters }
            let equals = pair.firstIndex(of: UInt8(ascii: "="), from: 0) ?? pair.count
            let name = append(pair.part(0..<equals), plus)
            for index in name { text[index] = text[index].asciiLowercased }
            let value = append(pair.part(min(equals + 1, pair.count)..<pair.count), plus)
            pairs.append(Pair(name: name, value: value))
        }
    }

    private mutating func append(_ encoded: UnsafeRawBufferPointer, _ plus: Plus) -> Range<Int> {
        let start = text.count
        let hasPlus = plus == .space && encoded.firstIndex(of: UInt8(ascii: "+"), from: 0) != nil
        guard hasPlus || encoded.firstIndex(of: UInt8(ascii: "%"), from: 0) != nil else {
            text.append(contentsOf: encoded)
            return start..<text.count
        }
        LenientPercent.decode(encoded, plusIsSpace: plus == .space, to: &text)
        return start..<text.count
    }

    // MARK: Values

    /// Calls `body` with the value of the first parameter called `name`, given in lower case; nil where there is none.
    package func withValue<Result>(_ name: StaticString, _ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
        text.withUnsafeBytes { text in
            for pair in pairs where text.part(pair.name).equals(name) { return body(text.part(pair.value)) }
            return nil
        }
    }

    /// The same as text; nil also where it is not UTF-8.
    package func string(_ name: StaticString) -> String? {
        withValue(name) { UTF8Validator.isValid($0) ? $0.string : nil } ?? nil
    }

    /// The values of all parameters called `name`, given in lower case, in their order.
    package func values(_ name: StaticString) -> [[UInt8]] {
        text.withUnsafeBytes { text in
            pairs.filter { text.part($0.name).equals(name) }.map { [UInt8](text.part($0.value)) }
        }
    }

    /// Whether `name`, given in lower case, comes more than once.
    func isRepeated(_ name: StaticString) -> Bool {
        text.withUnsafeBytes { text in
            var count = 0
            for pair in pairs where text.part(pair.name).equals(name) { count += 1 }
            return count > 1
        }
    }

    // MARK: What is signed

    /// Appends `name=value&…` in the order of the names, values not escaped; of one name in the order in which they came.
    ///
    /// - Parameter isLeftOut: names that are not part of it.
    package func append(canonicalTo writer: inout ByteWriter, leavingOut isLeftOut: (UnsafeRawBufferPointer) -> Bool) {
        text.withUnsafeBytes { text in
            var order = ContiguousArray<Int>()
            order.reserveCapacity(pairs.count)
            for index in pairs.indices where !isLeftOut(text.part(pairs[index].name)) {
                // Most libraries send them in order, so that nothing has to be moved.
                var place = order.count
                while place > 0, precedes(pairs[index], pairs[order[place - 1]], in: text) { place -= 1 }
                order.insert(index, at: place)
            }
            for (place, index) in order.enumerated() {
                if place > 0 { writer.append(UInt8(ascii: "&")) }
                writer.append(text.part(pairs[index].name))
                writer.append(UInt8(ascii: "="))
                writer.append(text.part(pairs[index].value))
            }
        }
    }

    private func precedes(_ left: Pair, _ right: Pair, in text: UnsafeRawBufferPointer) -> Bool {
        text.part(left.name).lexicographicallyPrecedes(text.part(right.name))
    }
}

/// Percent-encoding (RFC 3986 §2.1) as clients get it wrong: what cannot be decoded stands for itself.
package enum LenientPercent {
    /// Appends what `encoded` stands for.
    package static func decode(
        _ encoded: UnsafeRawBufferPointer, plusIsSpace: Bool = false, to bytes: inout [UInt8]
    ) {
        var at = 0
        while at < encoded.count {
            let byte = encoded[at]
            if byte == UInt8(ascii: "%"), encoded.count - at >= 3, let high = encoded[at &+ 1].hexValue,
                let low = encoded[at &+ 2].hexValue
            {
                bytes.append(high << 4 | low)
                at &+= 3
            } else {
                bytes.append(plusIsSpace && byte == UInt8(ascii: "+") ? 0x20 : byte)
                at &+= 1
            }
        }
    }
}
