import Bytes
import JSON
import Sync

/// A device's position in each stream that it follows. Kept across connections; it is the data of `sync:resume`.
struct Cursors: Equatable {
    private(set) var positions: [String: StreamPosition] = [:]

    /// How an event relates to the device's position in its channel.
    enum Step: Equatable {
        /// Show it: it is the next of its stream, or of a channel that is no stream.
        case next
        /// It has been shown before.
        case known
        /// Events before it are missing: ask for them.
        case gap
    }

    /// The hub's position of a stream, for a new follower. A position that the device already has is kept.
    mutating func begin(_ channel: String, at position: StreamPosition) {
        positions[channel] = positions[channel] ?? position
    }

    /// Skips to a position: the events before it are lost to this device.
    mutating func skip(_ channel: String, to position: StreamPosition) {
        positions[channel] = position
    }

    /// Handles an event; its data may contain its offset.
    mutating func step(_ channel: String, data: String) -> Step {
        guard let position = positions[channel], let offset = Self.offset(of: data) else { return .next }
        guard offset > position.offset else { return .known }
        guard offset - position.offset == 1 else { return .gap }
        positions[channel] = StreamPosition(epoch: position.epochText, offset: offset)
        return .next
    }

    func append(to writer: inout ByteWriter) {
        writer.append(#"{"v":1,"channels":{"#)
        for (index, (channel, position)) in positions.sorted(by: { $0.key < $1.key }).enumerated() {
            if index > 0 { writer.append(UInt8(ascii: ",")) }
            writer.append(jsonString: channel)
            writer.append(#":{"epoch":"#)
            writer.append(jsonString: position.epochText)
            writer.append(#","offset":"#)
            writer.append(decimal: position.offset)
            writer.append(UInt8(ascii: "}"))
        }
        writer.append("}}")
    }

    /// `_sync.o`.
    private static func offset(of data: String) -> Int64? {
        (try? JSONTree(data))?["_sync"]?["o"]?.integer.flatMap { $0 > 0 ? $0 : nil }
    }
}

/// The result for one channel in `sync:resumed`.
struct Resumption: Equatable {
    let channel: String
    /// The stream's position; nil when the channel is no stream of this device.
    let position: StreamPosition?
    /// Number of events that follow; nil when they are lost, for the given reason.
    let replayed: Int64?
    var reason = ""

    /// Reads `{"channels":{"<name>":{…}}}`; otherwise nil.
    static func parse(_ data: String) -> [Resumption]? {
        guard case .object(let channels)? = (try? JSONTree(data))?["channels"],
            channels.allSatisfy(\.value.isObject)
        else { return nil }
        return channels.map { channel in
            Resumption(
                channel: channel.name, position: StreamPosition(channel.value),
                replayed: channel.value["replayed"]?.integer, reason: channel.value["reason"]?.string ?? "")
        }
    }
}

extension StreamPosition {
    /// Reads the data of a successful subscription; nil for a channel that is no stream.
    init?(acknowledgement data: String) {
        guard let position = (try? JSONTree(data))?["sync"] else { return nil }
        self.init(position)
    }

    fileprivate init?(_ position: JSONTree) {
        guard let epoch = position["epoch"]?.string, let offset = position["offset"]?.integer, offset >= 0 else {
            return nil
        }
        self.init(epoch: epoch, offset: offset)
    }
}
