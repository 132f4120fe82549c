import Bytes
import Digests

/// A strong entity tag (RFC 9110 §8.8.3): the SHA-256 of the body, in quotes.
struct EntityTag: Equatable {
    let text: String

    init(of body: [UInt8]) {
        text = "\"\(body.withUnsafeBytes { SHA256.hash($0).hex })\""
    }

    /// Whether an `If-None-Match` field (RFC 9110 §13.1.2) names this tag, by weak comparison; `*` matches all. From the
    /// first malformed tag on nothing matches.
    func isNamed(by field: [UInt8]) -> Bool {
        field.withUnsafeBytes { field in
            var at = 0
            func skip(_ isSkipped: (UInt8) -> Bool) {
                while at < field.count, isSkipped(field[at]) { at += 1 }
            }
            while true {
                skip { $0 == 0x20 || $0 == 0x09 || $0 == UInt8(ascii: ",") }
                guard at < field.count else { return false }
                if field[at] == UInt8(ascii: "*") { return true }
                if field.part(at..<field.count).hasPrefix("W/") { at += 2 }
                guard at < field.count, field[at] == 0x22, let end = field.firstIndex(of: 0x22, from: at + 1) else {
                    return false
                }
                if field.part(at..<end + 1).elementsEqual(text.utf8) { return true }
                at = end + 1
            }
        }
    }
}
