import FoundationEssentials
import JSON

/// A fault in a JSON text written by a person, with its position.
struct JSONFault: Error, CustomStringConvertible {
    let description: String

    init(_ words: String) { description = words }

    /// Parses the text. No object may have two members with one name.
    static func tree(of text: Data) throws(JSONFault) -> JSONTree {
        let result = text.withUnsafeBytes { bytes in
            Result { () throws(JSONError) in
                try check(JSONValue.parse(bytes), at: 0)
                return try JSONTree(String(decoding: bytes, as: UTF8.self))
            }
        }
        do throws(JSONError) {
            return try result.get()
        } catch {
            let before = text.prefix(error.offset)
            let line = before.count { $0 == UInt8(ascii: "\n") } + 1
            let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? before.startIndex
            let column = String(decoding: before[start...], as: UTF8.self).count + 1
            let last = before.last { !" \t\r\n".utf8.contains($0) }
            let words =
                error.kind == .unexpectedByte && last == UInt8(ascii: ",")
                ? "a comma that no member or value follows" : error.kind.words.description
            throw JSONFault("not JSON: line \(line), column \(column): \(words)")
        }
    }

    /// - Parameter start: the offset of the text in which `value.offset` counts.
    private static func check(_ value: JSONValue, at start: Int) throws(JSONError) {
        let offset = start + value.offset
        switch value.kind {
        case .object:
            var names: Set<String> = []
            var reader = try value.object()
            while let member = try reader.next() {
                guard names.insert(member.key.string ?? "").inserted else {
                    throw JSONError(.duplicateKey, at: offset + member.key.offset)
                }
                try check(member.value, at: offset)
            }
        case .array:
            var reader = try value.array()
            while let element = try reader.next() { try check(element, at: offset) }
        case .string, .number, .true, .false, .null: break
        }
    }
}
