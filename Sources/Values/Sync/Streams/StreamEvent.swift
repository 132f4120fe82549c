import Bytes

/// One committed event of a stream.
package struct StreamEvent: Hashable, Sendable {
    /// Where it belongs.
    package let stream: StreamID
    /// Its number in the stream, from 1, without gaps.
    package let offset: Int64
    /// The event's name, such as `occurrence.updated`.
    package let name: String
    /// The data: one JSON object, `_sync` included. Health data: never logged.
    package let data: SharedBytes
    /// When the commit that wrote it began, for measurements: nanoseconds of this process's monotonic clock; 0 where that is
    /// not known, as of what is read again. No part of what the event is.
    package var committedAt: UInt64 = 0

    /// An event as it was read from the log.
    package init(stream: StreamID, offset: Int64, name: String, data: SharedBytes) {
        self.stream = stream
        self.offset = offset
        self.name = name
        self.data = data
    }

    /// Equal in every byte.
    package static func == (left: StreamEvent, right: StreamEvent) -> Bool {
        left.stream == right.stream && left.offset == right.offset && left.name == right.name
            && left.data.withUnsafeBytes { bytes in right.data.withUnsafeBytes { bytes.equals($0) } }
    }

    /// By place: two events of one place are the same event.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(stream)
        hasher.combine(offset)
    }
}
