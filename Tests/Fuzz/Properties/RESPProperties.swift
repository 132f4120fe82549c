import Bytes
import RESP

/// Values of Redis: the same however they are cut, also the refusal; what is read is written again, and read as the same.
enum RESPProperties {
    private static let bytesMax = 1_024

    private struct Outcome: Equatable {
        /// The values, written: NaN is not equal to itself.
        var values: [UInt8] = []
        var problem: RESPProblem?
        var isWithin = false
    }

    static func check(_ bytes: [UInt8]) throws(Violation) {
        let whole = outcome(bytes, [], bytesMax)
        for split in Splits.of(bytes) {
            try hold(outcome(bytes, split, bytesMax) == whole, "cut at \(split), it is another value")
        }
        // A line becomes a string behind its length, a number its shortest text.
        let again = outcome(whole.values, [], 32 * bytesMax)
        try hold(again == Outcome(values: whole.values), "a value that is another one when it is written again")
    }

    private static func outcome(_ bytes: [UInt8], _ cuts: [Int], _ bytesMax: Int) -> Outcome {
        var (parser, values, outcome) = (RESPParser(bytesMax: bytesMax), [RESPValue](), Outcome())
        do throws(RESPProblem) {
            for (start, end) in zip([0] + cuts, cuts + [bytes.count]) {
                try withView(Array(bytes[start..<end])) { view throws(RESPProblem) in try parser.read(view, &values) }
            }
            outcome.isWithin = parser.isWithinValue
        } catch {
            outcome.problem = error
        }
        outcome.values = written { writer in for value in values { RESPWriting.write(value, &writer) } }
        return outcome
    }
}

/// Writes values as a server would.
package enum RESPWriting {
    /// Any value, with values within values down to that depth. No NaN: it equals nothing.
    package static func value(_ depth: Int, using random: inout some RandomNumberGenerator) -> RESPValue {
        func bytes() -> [UInt8] {
            (0..<Int.random(in: 0...20, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
        }
        func values(_ count: Int) -> [RESPValue] { (0..<count).map { _ in value(depth - 1, using: &random) } }
        switch Int.random(in: 0..<(depth > 0 ? 8 : 6), using: &random) {
        case 0: return .bytes(bytes())
        case 1: return .integer(Int64.random(in: .min ... .max, using: &random))
        case 2: return .double(Double.random(in: -1e9...1e9, using: &random))
        case 3: return .boolean(Bool.random(using: &random))
        case 4: return .null
        case 5: return .error(RESPError(bytes()))
        case 6: return .array(values(Int.random(in: 0...4, using: &random)))
        default: return .map(values(2 * Int.random(in: 0...2, using: &random)))
        }
    }

    /// Strings and errors behind their length, which any bytes may follow.
    package static func write(_ value: RESPValue, _ writer: inout ByteWriter) {
        switch value {
        case .bytes(let bytes): write("$", bytes, &writer)
        case .error(let error): write("!", error.message, &writer)
        case .integer(let number): line(":", "\(number)", &writer)
        case .double(let number): line(",", "\(number)", &writer)
        case .boolean(let flag): line("#", flag ? "t" : "f", &writer)
        case .null: line("_", "", &writer)
        case .array(let values): write("*", values, values.count, &writer)
        case .map(let values): write("%", values, values.count / 2, &writer)
        case .push(let values): write(">", values, values.count, &writer)
        }
    }

    private static func line(_ kind: StaticString, _ text: String, _ writer: inout ByteWriter) {
        writer.append(kind)
        writer.append(utf8: text)
        writer.append("\r\n")
    }

    private static func write(_ kind: StaticString, _ bytes: [UInt8], _ writer: inout ByteWriter) {
        line(kind, "\(bytes.count)", &writer)
        writer.append(bytes)
        writer.append("\r\n")
    }

    private static func write(_ kind: StaticString, _ values: [RESPValue], _ count: Int, _ writer: inout ByteWriter) {
        line(kind, "\(count)", &writer)
        for value in values { write(value, &writer) }
    }
}
