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
        var data = data
        return data.withUTF8 { text in
            guard var members = try? JSONObjectReader(UnsafeRawBufferPointer(text)) else { return nil }
            while let member = try? members.next() {
                guard member.isNamed("_sync"), var place = try? member.value.object() else { continue }
                while let member = try? place.next() {
                    if member.isNamed("o"), let offset = member.value.integer, offset > 0 { return offset }
                }
            }
            return nil
        }
    }
}

/// What `sync:resumed` says of one channel.
struct Resumption: Equatable {
    let channel: String
    /// Where the stream stands; none where the channel is not a stream of this device's.
    let position: StreamPosition?
    /// Events that follow now; none where they are lost, for the reason given.
    let replayed: Int64?
    let reason: String

    /// Reads `{"channels":{"<name>":{…}}}`; nil where it is not that.
    static func parse(_ data: String) -> [Resumption]? {
        var data = data
        return data.withUTF8 { text in
            guard var members = try? JSONObjectReader(UnsafeRawBufferPointer(text)) else { return nil }
            while let member = try? members.next() {
                guard member.isNamed("channels"), var channels = try? member.value.object() else { continue }
                var found: [Resumption] = []
                while let channel = try? channels.next() {
                    guard let name = channel.key.string, let told = try? channel.value.object() else { return nil }
                    found.append(Resumption(name, told))
                }
                return found
            }
            return nil
        }
    }

    private init(_ channel: String, _ members: consuming JSONObjectReader) {
        var epoch: String?
        var offset: Int64?
        var replayed: Int64?
        var reason = ""
        while let member = try? members.next() {
            if member.isNamed("epoch") {
                epoch = member.value.string
            } else if member.isNamed("offset") {
                offset = member.value.integer
            } else if member.isNamed("replayed") {
                replayed = member.value.integer
            } else if member.isNamed("reason") {
                reason = member.value.string ?? ""
            }
        }
        self.channel = channel
        position = if let epoch, let offset, offset >= 0 { StreamPosition(epoch: epoch, offset: offset) } else { nil }
        self.replayed = replayed
        self.reason = reason
    }

    /// Made of its parts.
    init(channel: String, position: StreamPosition?, replayed: Int64?, reason: String = "") {
        self.channel = channel
        self.position = position
        self.replayed = replayed
        self.reason = reason
    }
}

extension StreamPosition {
    /// Reads the data of a subscription's success; nil of a channel that is no stream.
    init?(acknowledgement data: String) {
        var data = data
        let found: StreamPosition? = data.withUTF8 { text in
            guard var members = try? JSONObjectReader(UnsafeRawBufferPointer(text)) else { return nil }
            while let member = try? members.next() {
                guard member.isNamed("sync"), var place = try? member.value.object() else { continue }
                var epoch: String?
                var offset: Int64?
                while let member = try? place.next() {
                    if member.isNamed("epoch") { epoch = member.value.string }
                    if member.isNamed("offset") { offset = member.value.integer }
                }
                if let epoch, let offset, offset >= 0 { return StreamPosition(epoch: epoch, offset: offset) }
            }
            return nil
        }
        guard let found else { return nil }
        self = found
    }
}
