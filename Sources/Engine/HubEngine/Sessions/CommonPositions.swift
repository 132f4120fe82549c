import Bytes
import JSON
import Sync

/// The positions of a `sync:resume` as `JSON.stringify` and our own tools write them, read in place, one after the other.
///
/// Only a shortcut: `ResumeRequest` reads any spelling. Tests compare both.
struct CommonPositions {
    /// Whether the whole text was read. False until the last position has been returned.
    private(set) var isComplete = false
    private var rest: UnsafeRawBufferPointer

    /// Nil where the text begins in another spelling.
    init?(_ data: UnsafeRawBufferPointer) {
        rest = data
        guard take(#"{"v":1,"channels":{"#) else { return nil }
    }

    /// The next channel's name and position, pointing into the text. Nil at the end, which `isComplete` tells, and where the
    /// general reader must decide.
    mutating func next() -> (name: StreamName.Text, epoch: UnsafeRawBufferPointer, offset: Int64)? {
        guard take("\""), let name = try? StreamName.Text(takePlain()), take(#"":{"epoch":""#) else {
            return nil
        }
        let epoch = takePlain()
        guard epoch.count <= ChannelLimits.epochBytes, take(#"","offset":"#), let offset = takeOffset(), take("}")
        else { return nil }
        if !take(",") {
            isComplete = rest.equals("}}")
            rest = rest.part(0..<0)
        }
        return (name, epoch, offset)
    }

    private mutating func take(_ text: StaticString) -> Bool {
        guard rest.hasPrefix(text) else { return false }
        rest = rest.part(text.utf8CodeUnitCount..<rest.count)
        return true
    }

    /// The inside of a string, to its quote or to what is not plain.
    private mutating func takePlain() -> UnsafeRawBufferPointer {
        let end = JSONEscape.endOfPlain(rest, from: 0)
        defer { rest = rest.part(end..<rest.count) }
        return rest.part(0..<end)
    }

    private mutating func takeOffset() -> Int64? {
        var end = 0
        while end < rest.count, rest[end].isASCIIDigit { end &+= 1 }
        let digits = rest.part(0..<end)
        guard end == 1 || digits.first != UInt8(ascii: "0"), let offset = digits.decimalValue.map(Int64.init),
            offset <= ChannelLimits.offsetMax
        else { return nil }
        rest = rest.part(end..<rest.count)
        return offset
    }
}
