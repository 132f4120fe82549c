import Bytes
import JSON

/// Events of ordinary channels: members, counts, cache misses, client events.
extension ServerEvent {
    /// `pusher_internal:subscription_succeeded` of a presence channel, with all members. An empty `hash` is an object, too.
    package static func subscriptionSucceeded(
        _ channel: ChannelName, members: MemberList, to writer: inout ByteWriter
    ) {
        writer.append(#"{"event":"pusher_internal:subscription_succeeded","channel":""#)
        writer.append(utf8: channel.string)
        writer.append(#"","data":"{\"presence\":{\"ids\":["#)
        writer.append(members.ids)
        writer.append(#"],\"hash\":{"#)
        writer.append(members.infos)
        writer.append(#"},\"count\":"#)
        writer.append(decimal: members.count)
        writer.append(#"}}"}"#)
    }

    /// `pusher_internal:member_added`; `info` is the JSON text of `user_info`, empty when there is none.
    package static func memberAdded(
        _ channel: ChannelName, id: String, info: [UInt8], to writer: inout ByteWriter
    ) {
        member("pusher_internal:member_added", channel, id: id, to: &writer)
        writer.append(#",\"user_info\":"#)
        append(info: info, to: &writer)
        writer.append(#"}"}"#)
    }

    /// `pusher_internal:member_removed`.
    package static func memberRemoved(_ channel: ChannelName, id: String, to writer: inout ByteWriter) {
        member("pusher_internal:member_removed", channel, id: id, to: &writer)
        writer.append(#"}"}"#)
    }

    private static func member(
        _ event: StaticString, _ channel: ChannelName, id: String, to writer: inout ByteWriter
    ) {
        writer.append(#"{"event":""#)
        writer.append(event)
        writer.append(#"","channel":""#)
        writer.append(utf8: channel.string)
        writer.append(#"","data":"{\"user_id\":"#)
        append(quoted: id, to: &writer)
    }

    /// `pusher_internal:subscription_count`.
    package static func subscriptionCount(_ channel: ChannelName, _ count: Int, to writer: inout ByteWriter) {
        writer.append(#"{"event":"pusher_internal:subscription_count","channel":""#)
        writer.append(utf8: channel.string)
        writer.append(#"","data":"{\"subscription_count\":"#)
        writer.append(decimal: count)
        writer.append(#"}"}"#)
    }

    /// `pusher:cache_miss`: the cache channel has no kept event.
    package static func cacheMiss(_ channel: ChannelName, to writer: inout ByteWriter) {
        writer.append(#"{"event":"pusher:cache_miss","channel":""#)
        writer.append(utf8: channel.string)
        writer.append(#""}"#)
    }

    /// A client event as other clients get it: a string as written, any other value as a string of its text.
    ///
    /// - Parameters:
    ///   - data: the text of a JSON value.
    ///   - userID: the sender, on presence channels.
    package static func clientEvent(
        _ name: String, _ channel: ChannelName, data: UnsafeRawBufferPointer, userID: String?,
        to writer: inout ByteWriter
    ) {
        writer.append(#"{"event":"#)
        writer.append(jsonString: name)
        writer.append(#","channel":""#)
        writer.append(utf8: channel.string)
        writer.append(#"","data":"#)
        if data.first == UInt8(ascii: "\"") { writer.append(data) } else { writer.append(jsonString: data) }
        if let userID {
            writer.append(#","user_id":"#)
            writer.append(jsonString: userID)
        }
        writer.append("}")
    }

    /// A JSON string inside a JSON text that is itself in a string.
    static func append(quoted text: String, to writer: inout ByteWriter) {
        writer.append(#"\""#)
        writer.append(jsonEscapingTwice: text)
        writer.append(#"\""#)
    }

    static func append(info: [UInt8], to writer: inout ByteWriter) {
        if info.isEmpty { return writer.append("{}") }
        info.withUnsafeBytes { writer.append(jsonEscaping: $0) }
    }
}
