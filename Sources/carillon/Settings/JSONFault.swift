import FoundationEssentials
import JSON

/// What is wrong with a JSON text that a person has written, and where.
///
/// Stricter than Foundation's reader, which takes a comma too many and lets the last of two members of one name win.
struct JSONFault: CustomStringConvertible {
    /// From 1.
    let line: Int
    /// From 1, in characters.
    let column: Int
    let words: String

    var description: String { "line \(line), column \(column): \(words)" }

    /// Nil where the text is JSON, and no object in it has two members of one name.
    init?(in text: Data) {
        do throws(JSONError) {
            try Self.check(text)
            return nil
        } catch {
            let before = text.prefix(error.offset)
            line = before.count { $0 == UInt8(ascii: "\n") } + 1
            let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? before.startIndex
            column = String(decoding: before[start...], as: UTF8.self).count + 1
            let last = before.last { !" \t\r\n".utf8.contains($0) }
            words =
                error.kind == .unexpectedByte && last == UInt8(ascii: ",")
                ? "a comma that no member or value follows" : error.kind.words.description
        }
    }

    private static func check(_ text: Data) throws(JSONError) {
        let result = text.withUnsafeBytes { text in
            Result { () throws(JSONError) in try check(JSONValue.parse(text), at: 0) }
        }
        try result.get()
    }

    /// - Parameter start: where the text begins that the value's offset counts from.
    private static func check(_ value: JSONValue, at start: Int) throws(JSONError) {
        let place = start + value.offset
        switch value.kind {
        case .object:
            var names: Set<String> = []
            var reader = try value.object()
            while let member = try reader.next() {
                guard names.insert(member.key.string ?? "").inserted else {
                    throw JSONError(.duplicateKey, at: place + member.key.offset)
                }
                try check(member.value, at: place)
            }
        case .array:
            var reader = try value.array()
            while let element = try reader.next() { try check(element, at: place) }
        case .string, .number, .true, .false, .null: break
        }
    }
}
