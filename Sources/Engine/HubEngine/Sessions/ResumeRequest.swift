import Bytes
import JSON
import Pusher
import Sync

/// The content of `sync:resume`: for each channel, the position up to which the client has it (design: the wire extension).
struct ResumeRequest {
    /// Why a `sync:resume` is not processed, as `pusher:error` tells it.
    struct Fault: Error {
        let message: StaticString

        init(_ message: StaticString) {
            self.message = message
        }
    }

    /// In the order of the text. For a channel named twice, the last position counts.
    private(set) var channels: [(name: ChannelName, position: StreamPosition)] = []

    /// Reads `{"v":1,"channels":{"<name>":{"epoch":"…","offset":1287}}}`. Other members are ignored.
    ///
    /// - Parameter most: the channels that may be named.
    init(_ text: UnsafeRawBufferPointer, most: Int) throws(Fault) {
        var version: JSONValue?
        var channels: JSONValue?
        do throws(JSONError) {
            var reader = try JSONObjectReader(text)
            while let member = try reader.next() {
                if member.isNamed("v") { version = member.value }
                if member.isNamed("channels") { channels = member.value }
            }
        } catch {
            throw Fault("The data of sync:resume is not a JSON object")
        }
        guard version?.integer == 1 else { throw Fault(#"sync:resume needs "v":1, the version that this hub knows"#) }
        // The whole text has been validated: below, only what is checked explicitly can fail.
        guard var reader = try? channels?.object() else { throw Self.noChannels }
        while let member = try? reader.next() {
            try take(member, most: most)
        }
        guard !self.channels.isEmpty else { throw Self.noChannels }
    }

    private static let noChannels = Fault(#"sync:resume needs channels: {"<name>":{"epoch","offset"}}"#)

    private mutating func take(_ member: JSONMember, most: Int) throws(Fault) {
        guard let name = member.key.withCharacters({ ChannelName($0) }) ?? nil else {
            throw Fault("sync:resume names a channel whose name is none")
        }
        guard var reader = try? member.value.object() else { throw Self.noChannels }
        var epoch: String?
        var offset: Int64?
        while let member = try? reader.next() {
            if member.isNamed("epoch") { epoch = member.value.string }
            if member.isNamed("offset") { offset = member.value.integer }
        }
        guard let epoch, epoch.utf8.count <= ChannelLimits.epochBytes else {
            throw Fault("An epoch of sync:resume is a string of at most 128 bytes")
        }
        guard let offset, (0...ChannelLimits.offsetMax).contains(offset) else {
            throw Fault("An offset of sync:resume is a whole number from 0 to 2^53")
        }
        channels.removeAll { $0.name == name }
        guard channels.count < most else { throw Fault("sync:resume names more channels than a connection may have") }
        // Nearly always all are of one epoch.
        let last = channels.last?.position.epoch
        let own = last.flatMap { $0.string.hasSameBytes(as: epoch) ? $0 : nil } ?? Epoch(epoch)
        channels.append((name, StreamPosition(in: own, offset: offset)))
    }
}
