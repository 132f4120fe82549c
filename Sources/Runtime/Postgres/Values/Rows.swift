import CPostgres
import Glibc

/// The rows of one answered statement, in text format. Owns libpq's result and clears it.
///
/// Getters take any row and column, and return nil for missing, NULL or malformed values: no server's answer can trap.
public final class Rows {
    private let result: OpaquePointer
    /// Rows in the answer; 0 for statements that return none.
    package let count: Int
    /// Columns in the answer.
    package let columns: Int

    /// Takes ownership of `result`, which must be a success.
    init(_ result: OpaquePointer) {
        self.result = result
        count = Int(PQntuples(result))
        columns = Int(PQnfields(result))
    }

    deinit {
        PQclear(result)
    }

    /// Calls `body` with the value's bytes, which are valid only during the call. Returns nil for NULL.
    @inline(__always)
    package func withBytes<Value>(_ row: Int, _ column: Int, _ body: (UnsafeRawBufferPointer) -> Value) -> Value? {
        guard row >= 0, row < count, column >= 0, column < columns else { return nil }
        let row = Int32(truncatingIfNeeded: row)
        let column = Int32(truncatingIfNeeded: column)
        guard PQgetisnull(result, row, column) == 0, let start = PQgetvalue(result, row, column) else { return nil }
        return body(UnsafeRawBufferPointer(start: start, count: Int(PQgetlength(result, row, column))))
    }

    /// Whether the value is NULL, or the row or column does not exist.
    package func isNull(_ row: Int, _ column: Int) -> Bool {
        withBytes(row, column) { _ in false } ?? true
    }

    /// The value as text. Bytes that are not UTF-8 become U+FFFD; the server's encoding rules them out.
    package func string(_ row: Int, _ column: Int) -> String? {
        withBytes(row, column) { String(decoding: $0, as: UTF8.self) }
    }

    /// The value as text. Returns `known` if the bytes are equal, which saves a copy for a column that hardly ever changes.
    package func string(_ row: Int, _ column: Int, known: String) -> String? {
        withBytes(row, column) { bytes in
            var known = known
            let isKnown = known.withUTF8 { known in
                guard known.count == bytes.count, let start = known.baseAddress, let other = bytes.baseAddress else {
                    return known.count == bytes.count
                }
                return memcmp(start, other, known.count) == 0
            }
            return isKnown ? known : String(decoding: bytes, as: UTF8.self)
        }
    }

    /// The value as an integer.
    package func integer(_ row: Int, _ column: Int) -> Int64? {
        withBytes(row, column, Self.decimal) ?? nil
    }

    /// The value as integers: the text of a one-dimensional array (manual, 8.15.6) without NULLs.
    package func integers(_ row: Int, _ column: Int) -> [Int64]? {
        withBytes(row, column) { bytes -> [Int64]? in
            guard bytes.count >= 2, bytes[0] == UInt8(ascii: "{"), bytes[bytes.count - 1] == UInt8(ascii: "}") else {
                return nil
            }
            var numbers: [Int64] = []
            guard bytes.count > 2 else { return numbers }
            // Each number takes at least one digit and one separator.
            numbers.reserveCapacity(bytes.count / 2)
            var start = 1
            for index in 1..<bytes.count where index == bytes.count - 1 || bytes[index] == UInt8(ascii: ",") {
                guard let number = Self.decimal(UnsafeRawBufferPointer(rebasing: bytes[start..<index])) else {
                    return nil
                }
                numbers.append(number)
                start = index + 1
            }
            return numbers
        } ?? nil
    }

    /// The value as a boolean: `t` or `f`.
    package func boolean(_ row: Int, _ column: Int) -> Bool? {
        withBytes(row, column) { bytes -> Bool? in
            guard bytes.count == 1 else { return nil }
            return bytes[0] == UInt8(ascii: "t") ? true : bytes[0] == UInt8(ascii: "f") ? false : nil
        } ?? nil
    }

    /// Whether two rows have the same bytes in one column. NULL equals nothing.
    package func equal(_ row: Int, _ other: Int, column: Int) -> Bool {
        withBytes(row, column) { left in
            withBytes(other, column) { right in
                left.count == right.count && left.elementsEqual(right)
            } ?? false
        } ?? false
    }

    /// All rows as text.
    package func strings() -> [[String?]] {
        (0..<count).map { row in (0..<columns).map { column in string(row, column) } }
    }

    private static func decimal(_ bytes: UnsafeRawBufferPointer) -> Int64? {
        let isNegative = bytes.first == UInt8(ascii: "-")
        let first = isNegative ? 1 : 0
        guard first < bytes.count else { return nil }
        var value: Int64 = 0
        for index in first..<bytes.count {
            let byte = bytes[index]
            guard byte >= 0x30, byte <= 0x39 else { return nil }
            let (scaled, overflow) = value.multipliedReportingOverflow(by: 10)
            guard !overflow else { return nil }
            // Counts downwards, since the smallest number has no positive counterpart.
            let (next, overflowNext) = scaled.subtractingReportingOverflow(Int64(byte - 0x30))
            guard !overflowNext else { return nil }
            value = next
        }
        guard !isNegative else { return value }
        return value == .min ? nil : -value
    }
}
