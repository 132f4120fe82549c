import Bytes
import HTTP

/// The path of a route, such as `/users/{userId}/adherence/occurrence/{id}`. A name in braces matches one segment of any
/// text.
struct PathPattern: Sendable {
    private enum Segment: Sendable {
        case literal(String)
        case capture(String)
    }

    /// As the row has it.
    let text: String
    private let segments: [Segment]
    /// The names in braces, in order.
    let names: [String]

    init(_ text: String) {
        self.text = text
        segments = text.split(separator: "/", omittingEmptySubsequences: false).map { part in
            part.hasPrefix("{") && part.hasSuffix("}")
                ? .capture(String(part.dropFirst().dropLast())) : .literal(String(part))
        }
        names = segments.compactMap { if case .capture(let name) = $0 { name } else { nil } }
    }

    /// The segments outside of braces, without empty ones.
    var literals: [String] {
        segments.compactMap { if case .literal(let text) = $0, !text.isEmpty { text } else { nil } }
    }

    /// The segments that match the names in braces, decoded once: an encoded slash does not end a segment. Nil if the path
    /// does not match, or a captured segment is empty or not text.
    func captures(of path: String) -> [String]? {
        var path = path
        return path.withUTF8 { bytes in
            let path = UnsafeRawBufferPointer(bytes)
            var captures: [String] = []
            var start = 0
            for (index, segment) in segments.enumerated() {
                let slash = path.firstIndex(of: UInt8(ascii: "/"), from: start)
                guard (slash == nil) == (index == segments.count - 1) else { return nil }
                let part = path.part(start..<(slash ?? path.count))
                switch segment {
                case .literal(let literal): guard part.elementsEqual(literal.utf8) else { return nil }
                case .capture:
                    guard part.count > 0, let text = Percent.decodeString(part) else { return nil }
                    captures.append(text)
                }
                start = (slash ?? path.count) + 1
            }
            return captures
        }
    }
}
