import Bytes
import JSON

/// JSON: the scanner, the readers and the escapes.
///
/// - A text is valid with each depth from some depth on, and an error lies within it.
/// - A valid text that is cut short is unfinished, and nothing worse.
/// - The readers find in it what the scanner has passed over; written again, it is read the same.
/// - A string's characters are the same by every way to get them, and any text survives being written as a string.
enum JSONProperties {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        var isValid = false
        for depth in [1, 2, 32, 64] {
            let error = failure(bytes, depth)
            if let error {
                try hold((0...bytes.count).contains(error.offset), "an error at \(error.offset) of \(bytes.count)")
                try hold(!isValid, "valid with less depth than \(depth)")
            }
            isValid = error == nil
        }
        if isValid {
            try checkPrefixes(bytes)
            let once = try rewritten(bytes)
            let twice = try rewritten(once)
            try hold(once == twice, "written again it is another text")
            try hold(failure(once, JSONLimits.maximumDepth) == nil, "written again it is not valid")
        }
        try checkObjectSteps(bytes)
        try checkEscapes(bytes)
    }

    private static func failure(_ bytes: [UInt8], _ depth: Int) -> JSONError? {
        withView(bytes) { text in
            do throws(JSONError) {
                _ = try JSONValue.parse(text, maxDepth: depth)
                return nil
            } catch {
                return error
            }
        }
    }

    private static func checkPrefixes(_ bytes: [UInt8]) throws(Violation) {
        var draw = Draw(bytes)
        let ends =
            bytes.count <= 64
            ? Array(0..<bytes.count) : (0..<16).map { _ in Int.random(in: 0..<bytes.count, using: &draw) }
        for end in ends {
            guard let error = failure(Array(bytes[..<end]), JSONLimits.maximumDepth) else { continue }
            try hold(error.kind == .unexpectedEnd, "the first \(end) bytes of a valid text: \(error)")
        }
    }

    // MARK: Values

    /// The text written again from what the readers tell.
    private static func rewritten(_ bytes: [UInt8]) throws(Violation) -> [UInt8] {
        try withView(bytes) { text throws(Violation) in
            let value = try succeed("valid text") { () throws(JSONError) in
                try JSONValue.parse(text, maxDepth: JSONLimits.maximumDepth)
            }
            var writer = ByteWriter(capacity: bytes.count + 16)
            try append(value, depth: JSONLimits.maximumDepth, to: &writer)
            return writer.array
        }
    }

    private static func append(_ value: JSONValue, depth: Int, to writer: inout ByteWriter) throws(Violation) {
        switch value.kind {
        case .string:
            let characters = try self.characters(of: value)
            characters.withUnsafeBytes { writer.append(jsonString: $0) }
        case .number:
            let text = String(decoding: [UInt8](value.bytes), as: UTF8.self)
            try hold(value.integer == integer(text), "\(text) is read as \(String(describing: value.integer))")
            writer.append(utf8: text)
        case .true, .false, .null: writer.append(value.bytes)
        case .array:
            let elements = try succeed("an array that was valid") { () throws(JSONError) in
                var reader = try value.array(maxDepth: depth)
                var elements: [JSONValue] = []
                while let element = try reader.next() { elements.append(element) }
                return elements
            }
            writer.append("[")
            for (index, element) in elements.enumerated() {
                if index > 0 { writer.append(",") }
                try append(element, depth: depth - 1, to: &writer)
            }
            writer.append("]")
        case .object:
            let members = try succeed("an object that was valid") { () throws(JSONError) in
                var reader = try value.object(maxDepth: depth)
                var members: [JSONMember] = []
                while let member = try reader.next() { members.append(member) }
                return members
            }
            writer.append("{")
            for (index, member) in members.enumerated() {
                if index > 0 { writer.append(",") }
                try append(member.key, depth: depth - 1, to: &writer)
                writer.append(":")
                try append(member.value, depth: depth - 1, to: &writer)
            }
            writer.append("}")
        }
    }

    private static func integer(_ text: String) -> Int64? {
        // Of the lowest number there is, the hub's reader, who asks for magnitudes, makes none.
        guard let value = Int64(text), value != .min else { return nil }
        return value
    }

    private static func characters(of value: JSONValue) throws(Violation) -> [UInt8] {
        let characters = try need(value.characters, "a string without characters")
        try hold(characters.strictText != nil, "a string that is not UTF-8")
        try hold(value.string.map { [UInt8]($0.utf8) } == characters, "string and characters differ")
        try hold(value.withCharacters { [UInt8]($0) } == characters, "withCharacters and characters differ")
        try hold(characters.count + 2 <= value.bytes.count, "longer than its text")
        if let plain = value.plainBytes { try hold([UInt8](plain) == characters, "plainBytes and characters differ") }
        try hold(value.equals("event") == (characters == [UInt8]("event".utf8)), "equals and characters differ")
        return characters
    }

    // MARK: Readers

    /// Reading a member in two steps tells the same as in one, whatever the text is.
    private static func checkObjectSteps(_ bytes: [UInt8]) throws(Violation) {
        let inOne = members(bytes) { (reader: inout JSONObjectReader) throws(JSONError) in
            guard let member = try reader.next() else { return nil }
            return [UInt8](member.key.bytes) + [UInt8](member.value.bytes)
        }
        let inTwo = members(bytes) { (reader: inout JSONObjectReader) throws(JSONError) in
            guard let key = try reader.nextKey() else { return nil }
            return [UInt8](key.bytes) + [UInt8](try reader.takeValue().bytes)
        }
        var hasVisitedWrongly = false
        let visited = members(bytes) { (reader: inout JSONObjectReader) throws(JSONError) in
            guard let key = try reader.nextKey() else { return nil }
            var inner: [[UInt8]] = []
            let value = try reader.takeObject { inner.append([UInt8]($0.key.bytes) + [UInt8]($0.value.bytes)) }
            if value.kind == .object {
                let expected = members([UInt8](value.bytes)) { (reader: inout JSONObjectReader) throws(JSONError) in
                    guard let member = try reader.next() else { return nil }
                    return [UInt8](member.key.bytes) + [UInt8](member.value.bytes)
                }
                if expected.members != inner || expected.error != nil { hasVisitedWrongly = true }
            }
            return [UInt8](key.bytes) + [UInt8](value.bytes)
        }
        try hold(inOne.members == inTwo.members && inOne.error == inTwo.error, "members in one step and in two")
        try hold(inOne.members == visited.members && inOne.error == visited.error, "members with visits and without")
        try hold(!hasVisitedWrongly, "the members that a visit gets")
        if inOne.error == nil { try hold(failure(bytes, JSONLimits.defaultDepth) == nil, "read, but not valid") }
    }

    private static func members(
        _ bytes: [UInt8], _ step: (inout JSONObjectReader) throws(JSONError) -> [UInt8]?
    ) -> (members: [[UInt8]], error: JSONError?) {
        withView(bytes) { text in
            var members: [[UInt8]] = []
            do throws(JSONError) {
                var reader = try JSONObjectReader(text)
                while let member = try step(&reader) { members.append(member) }
                return (members, nil)
            } catch {
                return (members, error)
            }
        }
    }

    // MARK: Escapes

    private static func checkEscapes(_ bytes: [UInt8]) throws(Violation) {
        guard let string = bytes.strictText else { return }
        let text = written { writer in bytes.withUnsafeBytes { writer.append(jsonString: $0) } }
        let back = withView(text) { text in (try? JSONValue.parse(text))?.characters }
        try hold(back == bytes, "a text written as a string is read as another")
        let once = written { writer in bytes.withUnsafeBytes { writer.append(jsonEscaping: $0) } }
        let twice = written { writer in once.withUnsafeBytes { writer.append(jsonEscaping: $0) } }
        try hold(written { $0.append(jsonEscapingTwice: string) } == twice, "escaping twice is not escaping two times")
        let spelled = withView(spelled(string, Draw(bytes))) { text in (try? JSONValue.parse(text))?.characters }
        try hold(spelled == bytes, "a text spelled with escapes is read as another")
    }

    /// The text as a string in which characters stand as themselves or by their numbers (RFC 8259 §7).
    private static func spelled(_ text: String, _ draw: Draw) -> [UInt8] {
        var draw = draw
        return written { writer in
            writer.append(UInt8(ascii: "\""))
            for scalar in text.unicodeScalars {
                let mustEscape = scalar.value < 0x20 || scalar == "\"" || scalar == "\\"
                guard mustEscape || Bool.random(using: &draw) else {
                    writer.append([UInt8](String(scalar).utf8))
                    continue
                }
                for unit in String(scalar).utf16 {
                    let digits = String(unit, radix: 16, uppercase: Bool.random(using: &draw))
                    writer.append([UInt8]("\\u\(String(repeating: "0", count: 4 - digits.count))\(digits)".utf8))
                }
            }
            writer.append(UInt8(ascii: "\""))
        }
    }
}
