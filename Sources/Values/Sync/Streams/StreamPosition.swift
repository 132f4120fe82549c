import Bytes

/// The epoch of a stream's offsets: offsets of different epochs cannot be compared.
///
/// One word that copies share: the hub keeps one for each stream in each of three tables, and nearly all are equal.
package struct Epoch: Hashable, Sendable {
    private final class Text: Sendable {
        let string: String

        init(_ string: String) {
            self.string = string
        }
    }

    private let text: Text

    /// The epoch named `string`.
    package init(_ string: String) {
        text = Text(string)
    }

    /// Its name.
    package var string: String { text.string }

    /// Whether both are copies of one value. Two that are not may be equal.
    package func isCopy(of other: Epoch) -> Bool { text === other.text }

    /// Whether its name is `text`.
    package func isNamed(_ text: UnsafeRawBufferPointer) -> Bool {
        var name = string
        return name.withUTF8 { UnsafeRawBufferPointer($0).equals(text) }
    }

    // PostgreSQL, too, compares the bytes: it does not normalise text.

    /// Compares bytes.
    package static func == (left: Epoch, right: Epoch) -> Bool {
        left.text === right.text || left.string.hasSameBytes(as: right.string)
    }

    /// Hashes bytes.
    package func hash(into hasher: inout Hasher) {
        for byte in string.utf8 { hasher.combine(byte) }
    }
}

/// A position in a stream. Offsets of different epochs cannot be compared.
package struct StreamPosition: Hashable, Sendable {
    /// The epoch of the offset.
    package let epoch: Epoch
    /// Number of the last event, 0 before the first.
    package let offset: Int64

    /// The position after event `offset` of `epoch`.
    package init(epoch: String, offset: Int64) {
        self.init(in: Epoch(epoch), offset: offset)
    }

    /// The position after event `offset`, sharing an existing `Epoch`.
    package init(in epoch: Epoch, offset: Int64) {
        self.epoch = epoch
        self.offset = offset
    }

    /// The epoch's name.
    package var epochText: String { epoch.string }
}
