import Bytes

/// The decoded query parameters of an HTTP API call, with lower-case names as in its signature (pusher.md §2; Pusher's "HTTP
/// API reference", "Generating authentication signatures").
package struct CallParameters: Sendable {
    /// How a plus sign is read: libraries that encode forms mean a space, others a plus sign.
    package enum Plus: Sendable {
        case sign, space
    }

    private struct Pair {
        let name: Range<Int>
        let value: Range<Int>
    }

    /// The parameters that make up a signature. Each may come only once.
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
    /// The index in `pairs` of each `Own` parameter; -1 when it is missing.
    private var indices = InlineArray<5, Int>(repeating: -1)
    private(set) var repeatsOwn = false

    /// Reads the query without its question mark. A percent sign without two hex digits stays: some libraries do not encode.
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
            if indices[own.rawValue] >= 0 { repeatsOwn = true }
            indices[own.rawValue] = pairs.count - 1
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

    /// Calls `body` with the value of the first parameter `name` (lower case); nil when there is none.
    package func withValue<Result>(_ name: StaticString, _ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
        text.withUnsafeBytes { text in
            for pair in pairs where text.part(pair.name).equals(name) { return body(text.part(pair.value)) }
            return nil
        }
    }

    /// Calls `body` with the value of a signature parameter; nil when there is none.
    func withValue<Result>(_ own: Own, _ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
        let index = indices[own.rawValue]
        guard index >= 0 else { return nil }
        return text.withUnsafeBytes { body($0.part(pairs[index].value)) }
    }

    /// The first value of `name` as text; nil when it is missing or not UTF-8.
    package func string(_ name: StaticString) -> String? {
        withValue(name) { UTF8Validator.isValid($0) ? $0.string : nil } ?? nil
    }

    /// The values of all parameters `name` (lower case), in order.
    package func values(_ name: StaticString) -> [[UInt8]] {
        text.withUnsafeBytes { text in
            pairs.filter { text.part($0.name).equals(name) }.map { [UInt8](text.part($0.value)) }
        }
    }

    // MARK: Signed text

    /// Appends `name=value&…` sorted by name, values not escaped. Parameters of one name keep their order.
    ///
    /// - Parameter isLeftOut: true for names to leave out.
    package func append(canonicalTo writer: inout ByteWriter, leavingOut isLeftOut: (UnsafeRawBufferPointer) -> Bool) {
        text.withUnsafeBytes { text in
            var order = ContiguousArray<Pair>()
            order.reserveCapacity(pairs.count)
            for pair in pairs where !isLeftOut(text.part(pair.name)) {
                // Most libraries send them sorted: nothing has to move.
                var index = order.count
                while index > 0, precedes(pair, order[index - 1], in: text) { index -= 1 }
                order.insert(pair, at: index)
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

/// Percent-encoding (RFC 3986 §2.1) that tolerates client errors: what cannot be decoded stays as it is.
package enum LenientPercent {
    /// Appends `encoded`, decoded.
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
