import Bytes
import Pusher
import WebSocket

/// What ordinary channels are told, as whole WebSocket frames.
extension ServerEvent {
    /// What a session is told when it is in: that it is, and the number of subscribers where it is told.
    static func enteredFrames(_ channel: ChannelName, count: Int?) -> SharedBytes {
        var writer = ByteWriter(capacity: count == nil ? 192 : 384)
        FrameWriter.appendText(to: &writer) { subscriptionSucceeded(channel, to: &$0) }
        if let count { FrameWriter.appendText(to: &writer) { subscriptionCount(channel, count, to: &$0) } }
        return writer.finish()
    }

    /// What a session is told when it is in a presence channel: that it is, and with whom.
    static func enteredFrame(_ channel: ChannelName, members: MemberList) -> SharedBytes {
        FrameWriter.text(capacity: channel.string.utf8.count + members.byteCount + 192) {
            subscriptionSucceeded(channel, members: members, to: &$0)
        }
    }

    static func cacheMissFrame(_ channel: ChannelName) -> SharedBytes {
        FrameWriter.text(capacity: 320) { cacheMiss(channel, to: &$0) }
    }

    static func memberAddedFrame(_ channel: ChannelName, _ member: PresenceMember) -> SharedBytes {
        FrameWriter.text(capacity: channel.string.utf8.count + member.info.count + member.info.count / 4 + 192) {
            memberAdded(channel, id: member.id, info: member.info, to: &$0)
        }
    }

    static func memberRemovedFrame(_ channel: ChannelName, id: String) -> SharedBytes {
        FrameWriter.text(capacity: 320) { memberRemoved(channel, id: id, to: &$0) }
    }

    static func subscriptionCountFrame(_ channel: ChannelName, _ count: Int) -> SharedBytes {
        FrameWriter.text(capacity: 320) { subscriptionCount(channel, count, to: &$0) }
    }

    /// What an app's backend published; its data becomes a string.
    static func publishedFrame(_ publication: Publication) -> SharedBytes {
        publication.data.withUnsafeBytes { data in
            FrameWriter.text(capacity: data.count + data.count / 4 + 320) {
                event(
                    publication.event, channel: { $0.append(utf8: publication.channel.string) }, data: data, to: &$0)
            }
        }
    }

    /// What a client sent to the others.
    static func clientFrame(
        _ name: String, _ channel: ChannelName, data: UnsafeRawBufferPointer, userID: String?
    ) -> SharedBytes {
        FrameWriter.text(capacity: data.count + data.count / 4 + 480) {
            clientEvent(name, channel, data: data, userID: userID, to: &$0)
        }
    }
}
