import Bytes

/// Which life of a stream an offset belongs to.
///
/// One word, which its copies share: the hub keeps one for each stream, in each of three tables, and nearly all are equal.
package struct Epoch: Hashable, Sendable {
    private final class Text: Sendable {
        let string: String

        init(_ string: String) {
            self.string = string
        }
    }

    private let text: Text

    /// The epoch of that name.
    package init(_ string: String) {
        text = Text(string)
    }

    /// Its name.
    package var string: String { text.string }

    // As PostgreSQL compares, which knows no two spellings of one text.

    /// Byte for byte.
    package static func == (left: Epoch, right: Epoch) -> Bool {
        left.text === right.text || left.string.hasSameBytes(as: right.string)
    }

    /// Byte for byte.
    package func hash(into hasher: inout Hasher) {
        for byte in string.utf8 { hasher.combine(byte) }
    }
}

/// A place in a stream. Offsets of different epochs cannot be compared.
package struct StreamPosition: Hashable, Sendable {
    /// Which life of the stream the offset belongs to.
    package let life: Epoch
    /// Number of the last event, 0 before the first.
    package let offset: Int64

    /// The place behind event `offset` of `epoch`.
    package init(epoch: String, offset: Int64) {
        self.init(in: Epoch(epoch), offset: offset)
    }

    /// The place behind event `offset` of a life that is known already.
    package init(in life: Epoch, offset: Int64) {
        self.life = life
        self.offset = offset
    }

    /// The life's name.
    package var epoch: String { life.string }
}
