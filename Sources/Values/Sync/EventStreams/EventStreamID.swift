import Bytes

/// The id of a message of an event stream: the client's position in each topic, such as
/// `adherence=5f0c.7d1.1:1288;reminders=5f0c.7d1.1:40`. It comes back as `Last-Event-ID`, on a new connection.
package enum EventStreamID {
    /// The longest id that is read, in bytes. A stream of more topics than fit into it is refused, because its id could not
    /// come back.
    package static let bytesMax = 4_096
    /// What a position of a hub's own takes in an id at most, in bytes, beside its topic: an epoch is shorter than 40.
    package static let positionBytesMax = 64
    /// The longest epoch, and the largest offset, of a `sync:resume`. A position beyond them could not be asked about.
    private static let epochBytesMax = 128
    private static let offsetMax: Int64 = 1 << 53

    /// Appends one topic's position, behind what is there.
    static func append(_ topic: String, _ position: StreamPosition, isFirst: Bool, to writer: inout ByteWriter) {
        if !isFirst { writer.append(UInt8(ascii: ";")) }
        writer.append(utf8: topic)
        writer.append(UInt8(ascii: "="))
        writer.append(utf8: position.epochText)
        writer.append(UInt8(ascii: ":"))
        writer.append(decimal: position.offset)
    }

    /// The positions in an id; nil if it is not one. An empty id has none.
    package static func positions(_ text: String) -> [(topic: String, position: StreamPosition)]? {
        guard text.utf8.count <= bytesMax else { return nil }
        var found: [(topic: String, position: StreamPosition)] = []
        for part in text.utf8.split(separator: UInt8(ascii: ";")) {
            guard let equals = part.firstIndex(of: UInt8(ascii: "=")),
                let colon = part.lastIndex(of: UInt8(ascii: ":")),
                equals < colon, let offset = Int64(String(decoding: part[part.index(after: colon)...], as: UTF8.self)),
                (0...offsetMax).contains(offset)
            else { return nil }
            let topic = String(decoding: part[..<equals], as: UTF8.self)
            let isTopic = Array(topic.utf8).withUnsafeBytes { StreamName.isTopic($0) }
            guard isTopic, !found.contains(where: { $0.topic == topic }) else { return nil }
            let epoch = String(decoding: part[part.index(after: equals)..<colon], as: UTF8.self)
            guard epoch.utf8.count <= epochBytesMax else { return nil }
            found.append((topic, StreamPosition(epoch: epoch, offset: offset)))
        }
        return found
    }
}
