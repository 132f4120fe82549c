import Bytes
import JSON
import Pusher
import Sync
import WebSocket

/// Pusher's messages as whole WebSocket frames, each written once into a block of its own.
extension ServerEvent {
    package static let pongFrame = FrameWriter.text(capacity: 64) { pong(to: &$0) }

    /// `pusher:error` without a code: the connection stays.
    package static func errorFrame(_ message: StaticString) -> SharedBytes {
        FrameWriter.text(capacity: 192) { error(message, to: &$0) }
    }

    /// `pusher:error` with the code that the connection is closed with next.
    package static func errorFrame(_ code: ErrorCode) -> SharedBytes {
        FrameWriter.text(capacity: 192) { error(code, to: &$0) }
    }

    static func succeededFrame(_ channel: ChannelName) -> SharedBytes {
        FrameWriter.text(capacity: 192) { subscriptionSucceeded(channel, to: &$0) }
    }

    static func succeededFrame(
        _ stream: StreamName, at position: StreamPosition, isPublished: Bool = true
    ) -> SharedBytes {
        FrameWriter.text(capacity: isPublished ? 240 : 264) {
            subscriptionSucceeded(
                channel: { _ = stream.append(to: &$0) }, epoch: position.epoch, offset: position.offset,
                isPublished: isPublished, to: &$0)
        }
    }

    static func refusedFrame(_ channel: ChannelName, _ refusal: SubscriptionRefusal) -> SharedBytes {
        refusedFrame(refusal) { $0.append(utf8: channel.string) }
    }

    static func refusedFrame(_ stream: StreamName, _ refusal: SubscriptionRefusal) -> SharedBytes {
        refusedFrame(refusal) { _ = stream.append(to: &$0) }
    }

    /// `name`: canonical, and so without a character that needs an escape.
    static func refusedFrame(_ name: StreamName.Text, _ refusal: SubscriptionRefusal) -> SharedBytes {
        refusedFrame(refusal) { $0.append(name.bytes) }
    }

    /// `name`: of no channel, as the inside of a JSON string.
    static func refusedFrame(escaped name: [UInt8], _ refusal: SubscriptionRefusal) -> SharedBytes {
        FrameWriter.text(capacity: name.count + 320) {
            subscriptionError(channel: { $0.append(name) }, ending: refusal.ending, to: &$0)
        }
    }

    private static func refusedFrame(
        _ refusal: SubscriptionRefusal, _ channel: (inout ByteWriter) -> Void
    ) -> SharedBytes {
        FrameWriter.text(capacity: 320) { subscriptionError(channel: channel, ending: refusal.ending, to: &$0) }
    }

    static func signinSuccessFrame(userData: UnsafeRawBufferPointer) -> SharedBytes {
        FrameWriter.text(capacity: userData.count + 128) { signinSuccess(userData: userData, to: &$0) }
    }

    /// `pusher_internal:watchlist_events`.
    static func watchlistFrame(online: [String], offline: [String]) -> SharedBytes {
        FrameWriter.text(capacity: 128 + 24 * (online.count + offline.count)) {
            watchlistEvents(online: online, offline: offline, to: &$0)
        }
    }

    /// `sync:auth_ok` (design: the wire extension); `expiresAt` in seconds since 1970.
    static func authOKFrame(userID: String, expiresAt: Int64?) -> SharedBytes {
        var data = ByteWriter(capacity: 96)
        data.append(#"{"userId":"#)
        data.append(jsonString: userID)
        if let expiresAt {
            data.append(#","expiresAt":"#)
            data.append(decimal: expiresAt)
        }
        data.append("}")
        return FrameWriter.text(capacity: 192) { writer in
            data.withUnsafeBytes { event("sync:auth_ok", data: $0, to: &writer) }
        }
    }

    /// `sync:auth_expiring` (design: the wire extension); `expiresAt` in seconds since 1970.
    static func authExpiringFrame(expiresAt: Int64) -> SharedBytes {
        var data = ByteWriter(capacity: 40)
        data.append(#"{"expiresAt":"#)
        data.append(decimal: expiresAt)
        data.append("}")
        return FrameWriter.text(capacity: 96) { writer in
            data.withUnsafeBytes { event("sync:auth_expiring", data: $0, to: &writer) }
        }
    }

    /// `sync:status` (design: the wire extension).
    package static func statusFrame(isDegraded: Bool) -> SharedBytes {
        let data: StaticString =
            isDegraded ? #"{"degraded":true,"reason":"database_unavailable"}"# : #"{"degraded":false}"#
        return FrameWriter.text(capacity: 128) { event("sync:status", data: data.bytes, to: &$0) }
    }

    /// `sync:result` (design: the wire extension).
    static func resultFrame(_ answer: ActionAnswer) -> SharedBytes {
        answer.json.withUnsafeBytes { result in
            FrameWriter.text(capacity: result.count + result.count / 4 + 64) {
                event("sync:result", data: result, to: &$0)
            }
        }
    }

    /// A stream's event under one of its names; `json` becomes a string inside.
    static func streamFrame(_ event: StreamEvent, _ stream: StreamName) -> SharedBytes {
        event.data.withUnsafeBytes { data in
            FrameWriter.text(capacity: data.count + data.count / 4 + 192) {
                self.event(event.name, channel: { _ = stream.append(to: &$0) }, data: data, to: &$0)
            }
        }
    }

    /// Events of a stream that follow one another, under one of its names: a frame for each, all in one block.
    static func pageFrames(_ page: ContiguousArray<ReplayWindow.Entry>, _ stream: StreamName) -> SharedBytes {
        var writer = ByteWriter(capacity: page.reduce(0) { $0 + $1.size + $1.size / 4 + 192 })
        for entry in page {
            entry.data.withUnsafeBytes { data in
                FrameWriter.appendText(to: &writer) {
                    event(entry.name, channel: { _ = stream.append(to: &$0) }, data: data, to: &$0)
                }
            }
        }
        return writer.finish()
    }

    /// `sync:resumed` (design: the wire extension): the events behind the client's place follow.
    static func resumedFrame(_ channel: ChannelLabel, at position: StreamPosition, replayed: Int64) -> SharedBytes {
        resumedFrame(channel, at: position) { data in
            data.append(#","recovered":true,"replayed":"#)
            data.append(decimal: replayed)
        }
    }

    /// `sync:resumed`: the channel goes on at `position`, and a snapshot is to be fetched.
    static func resumedFrame(_ channel: ChannelLabel, at position: StreamPosition, lost: ResumeLoss) -> SharedBytes {
        resumedFrame(channel, at: position) { data in
            data.append(#","recovered":false,"reason":""#)
            data.append(utf8: lost.rawValue)
            data.append(UInt8(ascii: "\""))
        }
    }

    private static func resumedFrame(
        _ channel: ChannelLabel, at position: StreamPosition, _ appendOutcome: (inout ByteWriter) -> Void
    ) -> SharedBytes {
        var data = ByteWriter(capacity: 192)
        data.append(#"{"channels":{""#)
        channel.append(to: &data)
        data.append(#"":{"epoch":"#)
        data.append(jsonString: position.epoch)
        data.append(#","offset":"#)
        data.append(decimal: position.offset)
        appendOutcome(&data)
        data.append("}}}")
        return FrameWriter.text(capacity: data.count + data.count / 4 + 64) { writer in
            data.withUnsafeBytes { event("sync:resumed", data: $0, to: &writer) }
        }
    }
}
