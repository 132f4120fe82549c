import HubEngine
import RESP

/// The members of a presence channel as they are read, page by page, behind the answer to a call.
///
/// Worst interleaving: users come and go between two pages. Redis returns each one that was there all the time, at least
/// once (`SCAN`, "Scan guarantees"); the changes above the answer's sequence say what has become of the others, and who is
/// known already is not told again.
package struct MemberPages {
    /// What comes before and behind the members in the encoded answer.
    private let head: [UInt8]
    private let tail: [UInt8]
    private var count = 0
    private var members: [UInt8] = []

    /// Behind the answer of the script; nil where it is whole, or none.
    package init?(_ answer: RESPValue) {
        guard case .array(let parts) = answer, parts.count == 2, case .bytes(let head) = parts[0],
            case .bytes(let tail) = parts[1]
        else { return nil }
        (self.head, self.tail) = (head, tail)
    }

    /// Adds a page.
    ///
    /// - Returns: the cursor of the next; nil where this was the last.
    /// - Throws: `malformed`, for what no script sends; `size`, for a list that is longer than messages may be.
    package mutating func add(_ page: RESPValue) throws(SharedProblem) -> [UInt8]? {
        guard case .array(let parts) = page, parts.count == 3, case .bytes(let cursor) = parts[0],
            case .integer(let count) = parts[1], case .bytes(let members) = parts[2], count >= 0
        else { throw .malformed }
        guard self.members.count + members.count <= SharedWriter.bytesMax else { throw .size }
        self.count += Int(count)
        self.members += members
        return cursor == [UInt8(ascii: "0")] ? nil : cursor
    }

    /// The whole answer: one `ChannelNews`.
    package var answer: [UInt8] {
        var writer = SharedWriter(part: head + [1])
        writer.write(0)
        writer.write(UInt64(count))
        return writer.bytes + members + tail
    }
}
