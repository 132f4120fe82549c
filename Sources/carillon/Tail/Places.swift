import Bytes
import JSON
import Sync

/// Where a device is in each stream that it follows: kept over connections, it is what `sync:resume` tells.
struct Places: Equatable {
    private(set) var positions: [String: StreamPosition] = [:]

    /// What an event means to a device that follows its channel.
    enum Step: Equatable {
        /// The one to show: the next of its stream, or of a channel that is none.
        case next
        /// It has been shown before.
        case known
        /// There are others between: to be asked for.
        case gap
    }

    /// The hub says where a stream stands. A device that was there before is where it was, until it is told otherwise.
    mutating func begin(_ channel: String, at position: StreamPosition) {
        positions[channel] = positions[channel] ?? position
    }

    /// What lies before is lost to this device.
    mutating func skip(_ channel: String, to position: StreamPosition) {
        positions[channel] = position
    }

    /// Takes an event, whose data may hold its place.
    mutating func step(_ channel: String, data: String) -> Step {
        guard let position = positions[channel], let offset = Self.offset(of: data) else { return .next }
        guard offset > position.offset else { return .known }
        guard offset - position.offset == 1 else { return .gap }
        positions[channel] = StreamPosition(epoch: position.epoch, offset: offset)
        return .next
    }

    /// The data of a `sync:resume`.
    func append(to writer: inout ByteWriter) {
        writer.append(#"{"v":1,"channels":{"#)
        for (index, (channel, position)) in positions.sorted(by: { $0.key < $1.key }).enumerated() {
            if index > 0 { writer.append(UInt8(ascii: ",")) }
            writer.append(jsonString: channel)
            writer.append(#":{"epoch":"#)
            writer.append(jsonString: position.epoch)
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

/// What `sync:resumed` says of one channel.
struct Resumption: Equatable {
    let channel: String
    /// Where the stream stands; none where the channel is not a stream of this device's.
    let position: StreamPosition?
    /// Events that follow now; none where they are lost, for the reason given.
    let replayed: Int64?
    var reason = ""

    /// Reads `{"channels":{"<name>":{…}}}`; nil where it is not that.
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
    /// Reads the data of a subscription's success; nil of a channel that is no stream.
    init?(acknowledgement data: String) {
        guard let place = (try? JSONTree(data))?["sync"] else { return nil }
        self.init(place)
    }

    /// Of an object with `epoch` and `offset`.
    fileprivate init?(_ place: JSONTree) {
        guard let epoch = place["epoch"]?.string, let offset = place["offset"]?.integer, offset >= 0 else { return nil }
        self.init(epoch: epoch, offset: offset)
    }
}
