import Clock
import Reactor

/// How long the oldest writing transaction has run, by the feed's snapshots, since the hub may not see other roles'
/// sessions. Less than the truth: it counts from the first snapshot that shows it, when a later transaction has ended.
///
/// A snapshot (`xmin:xmax:…`) starts with the oldest transaction of any database that has written and not ended; if there
/// is none, with the number of the next transaction.
struct OldestWriter {
    private var number: UInt64 = 0
    /// When `number` was first seen; nil if no transaction writes.
    private(set) var since: Instant?

    /// A snapshot was read, as the text of a `pg_snapshot`.
    mutating func saw(_ snapshot: String, at now: Instant) {
        guard let (oldest, next) = Self.firstTwo(of: snapshot), oldest < next else { return gone() }
        if since == nil || oldest != number { since = now }
        number = oldest
    }

    /// The two numbers that the text begins with. By bytes, since it runs with each read of the tail.
    private static func firstTwo(of text: String) -> (UInt64, UInt64)? {
        var text = text
        return text.withUTF8 { bytes in
            var numbers: (UInt64, UInt64) = (0, 0)
            var (colons, digits) = (0, 0)
            for byte in bytes {
                if byte == UInt8(ascii: ":") {
                    guard digits > 0 else { return nil }
                    colons += 1
                    if colons == 2 { return numbers }
                    numbers = (numbers.1, 0)
                    digits = 0
                    continue
                }
                let digit = byte &- UInt8(ascii: "0")
                let (tens, overflow) = numbers.1.multipliedReportingOverflow(by: 10)
                guard digit <= 9, !overflow, tens <= .max - UInt64(digit) else { return nil }
                numbers.1 = tens + UInt64(digit)
                digits += 1
            }
            return colons == 1 && digits > 0 ? numbers : nil
        }
    }

    /// The database is unreachable: its writers are unknown.
    mutating func gone() {
        since = nil
    }
}
