import Bytes

/// One committed event of a stream.
package struct StreamEvent: Hashable, Sendable {
    /// The stream that it belongs to.
    package let stream: StreamID
    /// Its number in the stream, from 1, without gaps.
    package let offset: Int64
    /// The event's name, such as `occurrence.updated`.
    package let name: String
    /// The data: one JSON object, with `_sync`. Health data: never log it.
    package let data: SharedBytes
    /// For measurements only: when the commit that wrote the event began, in nanoseconds of this process's monotonic clock.
    /// 0 when unknown, as for events read again. Not part of the event's identity.
    package var committedAt: UInt64 = 0

    /// An event read from the log.
    package init(stream: StreamID, offset: Int64, name: String, data: SharedBytes) {
        self.stream = stream
        self.offset = offset
        self.name = name
        self.data = data
    }

    /// Compares all bytes.
    package static func == (left: StreamEvent, right: StreamEvent) -> Bool {
        left.stream == right.stream && left.offset == right.offset && left.name == right.name
            && left.data.withUnsafeBytes { bytes in right.data.withUnsafeBytes { bytes.equals($0) } }
    }

    /// Hashes the position: two events at one position are equal.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(stream)
        hasher.combine(offset)
    }
}
