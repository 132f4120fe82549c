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

    /// The parameters that a signature is made with, and may come once each.
    enum Own: Int {
        case key, timestamp, version, signature, bodyDigest

        init?(_ name: UnsafeRawBufferPointer) {
            switch name.count {
            case 8 where name.equals("auth_key"): self = .key
            case 8 where name.equals("body_md5"): self = .bodyDigest
            case 12 where name.equals("auth_version"): self = .version
            case 14 where name.equals("auth_timestamp"): self = .timestamp
            case 14 where name.equals("auth_signature"): self = .signature
            default: return nil
            }
        }
    }

    private var text: [UInt8] = []
    private var pairs: ContiguousArray<Pair> = []
    /// Where in `pairs` those of `Own` are; -1: nowhere.
    private var places = InlineArray<5, Int>(repeating: -1)
    /// Whether one of those came twice.
    private(set) var repeatsOwn = false

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
            guard let own = text.withUnsafeBytes({ Own($0.part(name)) }) else { continue }
            if places[own.rawValue] >= 0 { repeatsOwn = true }
            places[own.rawValue] = pairs.count - 1
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

    /// Calls `body` with the value of a parameter of the signature; nil where there is none.
    func withValue<Result>(_ own: Own, _ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
        let place = places[own.rawValue]
        guard place >= 0 else { return nil }
        return text.withUnsafeBytes { body($0.part(pairs[place].value)) }
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

    // MARK: What is signed

    /// Appends `name=value&…` in the order of the names, values not escaped; of one name in the order in which they came.
    ///
    /// - Parameter isLeftOut: names that are not part of it.
    package func append(canonicalTo writer: inout ByteWriter, leavingOut isLeftOut: (UnsafeRawBufferPointer) -> Bool) {
        text.withUnsafeBytes { text in
            var order = ContiguousArray<Pair>()
            order.reserveCapacity(pairs.count)
            for pair in pairs where !isLeftOut(text.part(pair.name)) {
                // Most libraries send them in order, so that nothing has to be moved.
                var place = order.count
                while place > 0, precedes(pair, order[place - 1], in: text) { place -= 1 }
                order.insert(pair, at: place)
            }
            var isFirst = true
            for pair in order {
                if !isFirst { writer.append(UInt8(ascii: "&")) }
                isFirst = false
                writer.append(text.part(pair.name))
                writer.append(UInt8(ascii: "="))
                writer.append(text.part(pair.value))
            }
        }
    }

    private func precedes(_ left: Pair, _ right: Pair, in text: UnsafeRawBufferPointer) -> Bool {
        let (left, right) = (text.part(left.name), text.part(right.name))
        let shorter = min(left.count, right.count)
        for index in 0..<shorter where left[index] != right[index] { return left[index] < right[index] }
        return left.count < right.count
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
