import Bytes
import HTTP

/// Heads of responses: a beginning of a head is unfinished or wrong, and once whole it does not change with what follows.
enum ResponseProperties {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        var small = HTTPLimits()
        small.headBytes = 60
        small.fieldCount = 3
        for limits in [HTTPLimits(), small] { try check(bytes, limits) }
    }

    private static func check(_ bytes: [UInt8], _ limits: HTTPLimits) throws(Violation) {
        let whole = Result { () throws(HTTPError) in try read(bytes, limits) }
        for end in Set(Splits.of(bytes).joined()) {
            let part = Result { () throws(HTTPError) in try read(Array(bytes[..<end]), limits) }
            if case .success(nil) = part { try hold(end <= limits.headBytes, "\(end) bytes are not enough") }
            switch (whole, part) {
            case (.success(let head?), .success(let part)):
                try hold(part == (end >= head.consumed ? head : nil), "the first \(end) bytes of a head")
            case (.success(nil), .success(let part)): try hold(part == nil, "a head in \(end) bytes of none")
            case (.success, .failure(let error)): throw Violation(message: "the first \(end) bytes: \(error)")
            case (.failure, .success(let part)): try hold(part == nil, "a head in \(end) bytes of a bad one")
            case (.failure, .failure): break
            }
        }
        guard case .success(let head?) = whole else { return }
        try hold((100...599).contains(head.statusCode), "status \(head.statusCode)")
        try hold(head.consumed <= min(bytes.count, limits.headBytes), "\(head.consumed) bytes consumed")
    }

    private struct Seen: Equatable {
        var statusCode: Int
        var consumed: Int
        var upgrade: [UInt8]?
        var isUpgrade: Bool
    }

    private static func read(_ bytes: [UInt8], _ limits: HTTPLimits) throws(HTTPError) -> Seen? {
        try withView(bytes) { text throws(HTTPError) in
            try ResponseHead.parse(text, limits: limits).map { head in
                Seen(
                    statusCode: head.statusCode, consumed: head.consumed,
                    upgrade: head.field("upgrade").map { [UInt8]($0) },
                    isUpgrade: head.field("connection", contains: "upgrade"))
            }
        }
    }
}
