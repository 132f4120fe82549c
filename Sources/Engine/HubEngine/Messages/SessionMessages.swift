import Bytes
import JSON
import Pusher
import Sync

/// Messages to sessions, in Pusher's protocol. Each is written once, into a block of its own.
extension Messages {
    /// `pusher:pong`.
    package static func pong() -> Messages { Messages(capacity: 64) { ServerEvent.pong(to: &$0) } }

    /// `pusher:error` without a code: the connection stays open.
    package static func error(_ message: StaticString) -> Messages {
        Messages(capacity: 192) { ServerEvent.error(message, to: &$0) }
    }

    /// `pusher:error` with the code that the connection is closed with next.
    package static func error(_ code: ErrorCode) -> Messages {
        Messages(capacity: 192) { ServerEvent.error(code, to: &$0) }
    }

    static func succeeded(_ channel: ChannelName) -> Messages {
        Messages(capacity: 192) { ServerEvent.subscriptionSucceeded(channel, to: &$0) }
    }

    static func succeeded(
        _ stream: StreamName, at position: StreamPosition, isPublished: Bool = true
    ) -> Messages {
        Messages(capacity: isPublished ? 240 : 264) {
            ServerEvent.subscriptionSucceeded(
                channel: { _ = stream.append(to: &$0) }, epoch: position.epochText, offset: position.offset,
                isPublished: isPublished, to: &$0)
        }
    }

    static func refused(_ channel: ChannelName, _ refusal: SubscriptionRefusal) -> Messages {
        refused(refusal) { $0.append(utf8: channel.string) }
    }

    static func refused(_ stream: StreamName, _ refusal: SubscriptionRefusal) -> Messages {
        refused(refusal) { _ = stream.append(to: &$0) }
    }

    /// `name` is canonical, and so has no character that needs an escape.
    static func refused(_ name: StreamName.Text, _ refusal: SubscriptionRefusal) -> Messages {
        refused(refusal) { $0.append(name.bytes) }
    }

    /// `name` is not a channel's name. It is given as the inside of a JSON string.
    static func refused(escaped name: [UInt8], _ refusal: SubscriptionRefusal) -> Messages {
        Messages(capacity: name.count + 320) {
            ServerEvent.subscriptionError(channel: { $0.append(name) }, ending: refusal.ending, to: &$0)
        }
    }

    private static func refused(
        _ refusal: SubscriptionRefusal, _ channel: (inout ByteWriter) -> Void
    ) -> Messages {
        Messages(capacity: 320) { ServerEvent.subscriptionError(channel: channel, ending: refusal.ending, to: &$0) }
    }

    static func signinSuccess(userData: UnsafeRawBufferPointer) -> Messages {
        // Each quote of it takes three bytes more.
        Messages(capacity: userData.count * 2 + 128) { ServerEvent.signinSuccess(userData: userData, to: &$0) }
    }

    /// `pusher_internal:watchlist_events`.
    static func watchlist(online: [String], offline: [String]) -> Messages {
        Messages(capacity: 128 + 24 * (online.count + offline.count)) {
            ServerEvent.watchlistEvents(online: online, offline: offline, to: &$0)
        }
    }

    /// `sync:auth_ok` (design: the wire extension). `expiresAt`: seconds since 1970.
    static func authOK(userID: String, expiresAt: Int64?) -> Messages {
        var data = ByteWriter(capacity: 96)
        data.append(#"{"userId":"#)
        data.append(jsonString: userID)
        if let expiresAt {
            data.append(#","expiresAt":"#)
            data.append(decimal: expiresAt)
        }
        data.append("}")
        return Messages(capacity: 192) { writer in
            data.withUnsafeBytes { ServerEvent.event("sync:auth_ok", data: $0, to: &writer) }
        }
    }

    /// `sync:auth_expiring` (design: the wire extension). `expiresAt`: seconds since 1970.
    static func authExpiring(expiresAt: Int64) -> Messages {
        var data = ByteWriter(capacity: 40)
        data.append(#"{"expiresAt":"#)
        data.append(decimal: expiresAt)
        data.append("}")
        return Messages(capacity: 96) { writer in
            data.withUnsafeBytes { ServerEvent.event("sync:auth_expiring", data: $0, to: &writer) }
        }
    }

    /// `sync:status` (design: the wire extension).
    package static func status(isDegraded: Bool) -> Messages {
        let data: StaticString =
            isDegraded ? #"{"degraded":true,"reason":"database_unavailable"}"# : #"{"degraded":false}"#
        return Messages(capacity: 128) { ServerEvent.event("sync:status", data: data.bytes, to: &$0) }
    }

    /// `sync:backoff` (design: the wire extension).
    package static func backoff(minMs: Int, maxMs: Int) -> Messages {
        var data = ByteWriter(capacity: 48)
        data.append(#"{"minMs":"#)
        data.append(decimal: minMs)
        data.append(#","maxMs":"#)
        data.append(decimal: maxMs)
        data.append("}")
        return Messages(capacity: 112) { writer in
            data.withUnsafeBytes { ServerEvent.event("sync:backoff", data: $0, to: &writer) }
        }
    }

    /// `sync:result` (design: the wire extension).
    static func result(_ answer: ActionAnswer) -> Messages {
        answer.json.withUnsafeBytes { result in
            Messages(capacity: result.count + result.count / 4 + 64) {
                ServerEvent.event("sync:result", data: result, to: &$0)
            }
        }
    }

    /// A stream's event under one of the stream's two names. Its data becomes a string.
    static func event(_ event: StreamEvent, _ stream: StreamName) -> Messages {
        event.data.withUnsafeBytes { data in
            Messages(capacity: data.count + data.count / 4 + 192) {
                ServerEvent.event(event.name, channel: { _ = stream.append(to: &$0) }, data: data, to: &$0)
            }
        }
    }

    /// Consecutive events of a stream under one of its names, all in one block.
    static func page(_ page: ContiguousArray<ReplayWindow.Entry>, _ stream: StreamName) -> Messages {
        var writer = ByteWriter(capacity: page.reduce(0) { $0 + $1.size + $1.size / 4 + 192 })
        for entry in page {
            entry.data.withUnsafeBytes { data in
                append(to: &writer) {
                    ServerEvent.event(entry.name, channel: { _ = stream.append(to: &$0) }, data: data, to: &$0)
                }
            }
        }
        return Messages(writer)
    }

    /// `sync:resumed` (design: the wire extension): the events after the client's position follow.
    static func resumed(_ channel: ChannelLabel, at position: StreamPosition, replayed: Int64) -> Messages {
        Messages(capacity: 264) { resumed(channel, at: position, replayed: replayed, to: &$0) }
    }

    private static func resumed(
        _ channel: ChannelLabel, at position: StreamPosition, replayed: Int64, to writer: inout ByteWriter
    ) {
        resumed(channel, at: position, to: &writer) { writer in
            writer.append(#",\"recovered\":true,\"replayed\":"#)
            writer.append(decimal: replayed)
        }
    }

    /// The answers to the subscribe and to the position of a client that is back and has missed nothing.
    static func rejoined(_ stream: StreamName, at position: StreamPosition) -> Messages {
        var writer = ByteWriter(capacity: 512)
        append(to: &writer) {
            ServerEvent.subscriptionSucceeded(
                channel: { _ = stream.append(to: &$0) }, epoch: position.epochText, offset: position.offset, to: &$0)
        }
        append(to: &writer) { resumed(.stream(stream), at: position, replayed: 0, to: &$0) }
        return Messages(writer)
    }

    /// `sync:resumed`: the channel continues at `position`, and the client must fetch a snapshot.
    static func resumed(_ channel: ChannelLabel, at position: StreamPosition, lost: ResumeLoss) -> Messages {
        Messages(capacity: 280) { writer in
            resumed(channel, at: position, to: &writer) { writer in
                writer.append(#",\"recovered\":false,\"reason\":\""#)
                writer.append(utf8: lost.rawValue)
                writer.append(#"\""#)
            }
        }
    }

    /// The whole event. A client is told so for each of its channels when it comes back: what the event would escape is
    /// written escaped.
    private static func resumed(
        _ channel: ChannelLabel, at position: StreamPosition, to writer: inout ByteWriter,
        _ appendOutcome: (inout ByteWriter) -> Void
    ) {
        writer.append(#"{"event":"sync:resumed","data":"{\"channels\":{\""#)
        channel.append(to: &writer)
        writer.append(#"\":{\"epoch\":\""#)
        writer.append(jsonEscapingTwice: position.epochText)
        writer.append(#"\",\"offset\":"#)
        writer.append(decimal: position.offset)
        appendOutcome(&writer)
        writer.append(#"}}}"}"#)
    }
}
