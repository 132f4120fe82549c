import Bytes
import RESP

/// What a script takes, as bulk strings on their way (RESP, "Bulk strings"): encoded once, however often it is sent.
struct CommandWords: Sendable, Equatable {
    private(set) var bytes: [UInt8] = []
    private(set) var count = 0

    mutating func add(_ word: some Sequence<UInt8>, count length: Int) {
        bytes.append(UInt8(ascii: "$"))
        add(decimal: length)
        bytes.append(contentsOf: Self.end)
        bytes.append(contentsOf: word)
        bytes.append(contentsOf: Self.end)
        count &+= 1
    }

    mutating func add(_ word: [UInt8]) { add(word, count: word.count) }

    mutating func add(_ word: String) { add(word.utf8, count: word.utf8.count) }

    /// Adds words of others, which are there.
    mutating func add(_ words: Range<Int>, of other: CommandWords) {
        guard !words.isEmpty else { return }
        var at = 0
        var start = 0
        for number in 0..<words.upperBound {
            if number == words.lowerBound { start = at }
            var length = 0
            at += 1
            while other.bytes[at] != UInt8(ascii: "\r") {
                length = 10 * length + Int(other.bytes[at] - UInt8(ascii: "0"))
                at += 1
            }
            at += length + 2 * Self.end.count
        }
        bytes += other.bytes[start..<at]
        count += words.count
    }

    private static let end = "\r\n".utf8

    private mutating func add(decimal number: Int) {
        withUnsafeTemporaryAllocation(byteCount: Decimal.roomBytes, alignment: 8) { room in
            guard let digits = room.baseAddress else { return }
            bytes.append(contentsOf: room[..<Decimal.write(UInt64(number), to: digits)])
        }
    }
}

extension ByteWriter {
    /// Appends a bulk string of that number's digits.
    mutating func append(bulk number: UInt64) {
        append("$")
        append(decimal: number.digitCount)
        append("\r\n")
        append(decimal: number)
        append("\r\n")
    }

    /// Appends a bulk string of `HUB.CALLER`.
    mutating func append(bulk hub: UInt64, caller: Int) {
        append("$")
        append(decimal: hub.digitCount + 1 + UInt64(caller).digitCount)
        append("\r\n")
        append(decimal: hub)
        append(".")
        append(decimal: caller)
        append("\r\n")
    }
}

extension UInt64 {
    /// How many decimal digits it has.
    fileprivate var digitCount: Int {
        var (count, rest) = (1, self / 10)
        while rest > 0 { (count, rest) = (count + 1, rest / 10) }
        return count
    }
}
