import Bytes

/// A JSON value as a tree, with the semantics of PostgreSQL's `jsonb`: of repeated members the last counts, their order does
/// not matter, and numbers are decimal texts.
///
/// For rules and tests with small values; the hub's message path reads bytes in place.
package enum JSONTree: Sendable {
    /// One member of an object.
    package struct Member: Sendable {
        /// The name.
        package let name: String
        /// The value.
        package let value: JSONTree

        /// The member `name`.
        package init(_ name: String, _ value: JSONTree) {
            self.name = name
            self.value = value
        }
    }

    case null
    case bool(Bool)
    /// The number's plain decimal text, without an exponent.
    case number(String)
    case string(String)
    case array([JSONTree])
    case object([Member])

    /// A whole number.
    package static func integer(_ value: Int64) -> JSONTree { .number(String(value)) }

    /// A string, or null.
    package static func text(_ value: String?) -> JSONTree { value.map { .string($0) } ?? .null }

    /// The member `name` of an object; nil also for null, which counts as absent.
    package subscript(name: String) -> JSONTree? {
        guard case .object(let members) = self,
            let member = members.last(where: { $0.name.hasSameBytes(as: name) })
        else { return nil }
        if case .null = member.value { return nil }
        return member.value
    }

    /// The characters of a string; otherwise nil.
    package var string: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    /// True or false; otherwise nil.
    package var flag: Bool? {
        guard case .bool(let value) = self else { return nil }
        return value
    }

    /// True for an object.
    package var isObject: Bool {
        guard case .object = self else { return false }
        return true
    }

    /// The value of a number without a fraction that fits `Int64`, however written; otherwise nil.
    package var integer: Int64? {
        guard case .number(let text) = self else { return nil }
        guard let dot = text.firstIndex(of: ".") else { return Int64(text) }
        guard text[text.index(after: dot)...].allSatisfy({ $0 == "0" }) else { return nil }
        return Int64(text[..<dot])
    }

    /// The object with the members of `more` added.
    package func with(_ more: Member...) -> JSONTree {
        guard case .object(let members) = self else { return self }
        return .object(members + more)
    }
}

// MARK: Reading

extension JSONTree {
    /// Parses `text`. `maxDepth` limits the nesting.
    package init(_ text: String, maxDepth: Int = JSONLimits.defaultDepth) throws(JSONError) {
        var text = text
        let result: Result<JSONTree, JSONError> = text.withUTF8 { bytes in
            do throws(JSONError) {
                let value = try JSONValue.parse(UnsafeRawBufferPointer(bytes), maxDepth: maxDepth)
                return .success(try JSONTree(value, depth: maxDepth))
            } catch {
                return .failure(error)
            }
        }
        self = try result.get()
    }

    private init(_ value: JSONValue, depth: Int) throws(JSONError) {
        switch value.kind {
        case .null: self = .null
        case .true: self = .bool(true)
        case .false: self = .bool(false)
        case .number: self = .number(Self.plainNumber(value.bytes.string))
        case .string: self = .string(value.string ?? "")
        case .array:
            var elements: [JSONTree] = []
            var reader = try value.array(maxDepth: depth)
            while let element = try reader.next() { elements.append(try JSONTree(element, depth: depth - 1)) }
            self = .array(elements)
        case .object:
            var members: [Member] = []
            var reader = try value.object(maxDepth: depth)
            while let member = try reader.next() {
                let name = member.key.string ?? ""
                members.removeAll { $0.name.hasSameBytes(as: name) }
                members.append(Member(name, try JSONTree(member.value, depth: depth - 1)))
            }
            self = .object(members)
        }
    }

    /// A JSON number without its exponent, as PostgreSQL's `numeric` writes it. Exponents beyond ±400 stay as they are.
    private static func plainNumber(_ text: String) -> String {
        var digits = Array(text.utf8)
        let isNegative = digits.first == UInt8(ascii: "-")
        if isNegative { digits.removeFirst() }
        var exponent = 0
        if let mark = digits.firstIndex(where: { $0 | 0x20 == UInt8(ascii: "e") }) {
            exponent =
                Int(String(decoding: digits[(mark + 1)...].drop { $0 == UInt8(ascii: "+") }, as: UTF8.self)) ?? 401
            guard abs(exponent) <= 400 else { return text }
            digits.removeSubrange(mark...)
        }
        var point = digits.firstIndex(of: UInt8(ascii: ".")) ?? digits.count
        if point < digits.count { digits.remove(at: point) }
        point += exponent
        while digits.count < point { digits.append(UInt8(ascii: "0")) }
        while point <= 0 {
            digits.insert(UInt8(ascii: "0"), at: 0)
            point += 1
        }
        while point > 1, digits[0] == UInt8(ascii: "0") {
            digits.removeFirst()
            point -= 1
        }
        let isZero = digits.allSatisfy { $0 == UInt8(ascii: "0") }
        if point < digits.count { digits.insert(UInt8(ascii: "."), at: point) }
        return (isNegative && !isZero ? "-" : "") + String(decoding: digits, as: UTF8.self)
    }
}

// MARK: Writing

extension JSONTree {
    /// The text that PostgreSQL gives for this `jsonb`: members by length, then bytes of their names; one blank after colons
    /// and commas. Equal values have equal texts.
    package var canonicalText: String {
        var writer = ByteWriter(capacity: 1024)
        append(to: &writer)
        return writer.string
    }

    private func append(to writer: inout ByteWriter) {
        switch self {
        case .null: writer.append("null")
        case .bool(let value): writer.append(value ? "true" : "false")
        case .number(let text): writer.append(utf8: text)
        case .string(let text): writer.append(jsonString: text)
        case .array(let elements):
            writer.append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { writer.append(", ") }
                element.append(to: &writer)
            }
            writer.append(UInt8(ascii: "]"))
        case .object(let members):
            writer.append(UInt8(ascii: "{"))
            for (index, member) in Self.sorted(members).enumerated() {
                if index > 0 { writer.append(", ") }
                writer.append(jsonString: member.name)
                writer.append(": ")
                member.value.append(to: &writer)
            }
            writer.append(UInt8(ascii: "}"))
        }
    }

    /// Members as `jsonb` orders them: shorter names first, then by bytes. Of a repeated name the last counts.
    private static func sorted(_ members: [Member]) -> [Member] {
        var order: [(length: Int, index: Int)] = []
        for (index, member) in members.enumerated() { order.append((member.name.utf8.count, index)) }
        order.sort { left, right in
            if left.length != right.length { return left.length < right.length }
            let (first, second) = (members[left.index].name, members[right.index].name)
            return first.hasSameBytes(as: second)
                ? left.index < right.index : first.utf8.lexicographicallyPrecedes(second.utf8)
        }
        var sorted: [Member] = []
        for (_, index) in order {
            if let last = sorted.last, last.name.hasSameBytes(as: members[index].name) { sorted.removeLast() }
            sorted.append(members[index])
        }
        return sorted
    }
}
