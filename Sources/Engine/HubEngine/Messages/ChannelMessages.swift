import Bytes
import Pusher

/// Messages to sessions in ordinary channels.
extension Messages {
    /// The success message, and the subscriber count where it is told.
    static func entered(_ channel: ChannelName, count: Int?) -> Messages {
        var writer = ByteWriter(capacity: count == nil ? 192 : 384)
        append(to: &writer) { ServerEvent.subscriptionSucceeded(channel, to: &$0) }
        if let count { append(to: &writer) { ServerEvent.subscriptionCount(channel, count, to: &$0) } }
        return Messages(writer)
    }

    static func entered(_ channel: ChannelName, members: MemberList) -> Messages {
        Messages(capacity: channel.string.utf8.count + members.byteCount + 192) {
            ServerEvent.subscriptionSucceeded(channel, members: members, to: &$0)
        }
    }

    static func cacheMiss(_ channel: ChannelName) -> Messages {
        Messages(capacity: 320) { ServerEvent.cacheMiss(channel, to: &$0) }
    }

    static func memberAdded(_ channel: ChannelName, _ member: PresenceMember) -> Messages {
        Messages(capacity: channel.string.utf8.count + member.info.count + member.info.count / 4 + 192) {
            ServerEvent.memberAdded(channel, id: member.id, info: member.info, to: &$0)
        }
    }

    static func memberRemoved(_ channel: ChannelName, id: String) -> Messages {
        Messages(capacity: 320) { ServerEvent.memberRemoved(channel, id: id, to: &$0) }
    }

    static func subscriptionCount(_ channel: ChannelName, _ count: Int) -> Messages {
        Messages(capacity: 320) { ServerEvent.subscriptionCount(channel, count, to: &$0) }
    }

    /// An event that an app's backend published. Its data becomes a string.
    static func published(_ publication: Publication) -> Messages {
        publication.data.withUnsafeBytes { data in
            Messages(capacity: data.count + data.count / 4 + 320) {
                ServerEvent.event(
                    publication.event, channel: { $0.append(utf8: publication.channel.string) }, data: data, to: &$0)
            }
        }
    }

    static func clientEvent(
        _ name: String, _ channel: ChannelName, data: UnsafeRawBufferPointer, userID: String?
    ) -> Messages {
        Messages(capacity: data.count + data.count / 4 + 480) {
            ServerEvent.clientEvent(name, channel, data: data, userID: userID, to: &$0)
        }
    }
}
