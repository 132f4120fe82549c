import Bytes
import JSON

/// The hub's messages: each function appends the JSON text of one message to a writer.
///
/// `data` is a string, as pusher-websocket-swift requires, except in `pusher:error`, where it requires an object.
package enum ServerEvent {
    /// `pusher:connection_established`: must be the first message. `activityTimeout` is in seconds; 0 becomes 1.
    package static func connectionEstablished(
        _ socketID: SocketID, activityTimeout: Int, to writer: inout ByteWriter
    ) {
        writer.append(#"{"event":"pusher:connection_established","data":"{\"socket_id\":\""#)
        socketID.append(to: &writer)
        writer.append(#"\",\"activity_timeout\":"#)
        writer.append(decimal: max(activityTimeout, 1))
        writer.append(#"}"}"#)
    }

    /// `pusher:pong`.
    package static func pong(to writer: inout ByteWriter) {
        writer.append(#"{"event":"pusher:pong","data":"{}"}"#)
    }

    /// `pusher:ping`.
    package static func ping(to writer: inout ByteWriter) {
        writer.append(#"{"event":"pusher:ping","data":"{}"}"#)
    }

    /// `pusher_internal:subscription_succeeded`; `data` is JSON, `{}` for a plain channel.
    package static func subscriptionSucceeded(
        _ channel: ChannelName, data: UnsafeRawBufferPointer = ("{}" as StaticString).bytes, to writer: inout ByteWriter
    ) {
        event("pusher_internal:subscription_succeeded", channel: channel.string, data: data, to: &writer)
    }

    /// `pusher_internal:subscription_succeeded` of a stream, with the position before its next event (design §5).
    ///
    /// - Parameters:
    ///   - channel: appends the channel's name, which needs no escapes.
    ///   - isPublished: false tells the client that no event comes before the topic is published.
    package static func subscriptionSucceeded(
        channel: (inout ByteWriter) -> Void, epoch: String, offset: Int64, isPublished: Bool = true,
        to writer: inout ByteWriter
    ) {
        writer.append(#"{"event":"pusher_internal:subscription_succeeded","channel":""#)
        channel(&writer)
        writer.append(#"","data":"{\"sync\":{\"epoch\":\""#)
        writer.append(jsonEscapingTwice: epoch)
        writer.append(#"\",\"offset\":"#)
        writer.append(decimal: offset)
        if !isPublished { writer.append(#",\"published\":false"#) }
        writer.append(#"}}"}"#)
    }

    /// `pusher:subscription_error`, for permanent refusals only: pusher-js never retries on this connection.
    ///
    /// - Parameters:
    ///   - channel: appends the channel's name as the inside of a JSON string.
    ///   - ending: made by `subscriptionErrorEnding`.
    package static func subscriptionError(
        channel: (inout ByteWriter) -> Void, ending: SharedBytes, to writer: inout ByteWriter
    ) {
        writer.append(#"{"event":"pusher:subscription_error","channel":""#)
        channel(&writer)
        writer.append(ending)
    }

    /// The text after the channel's name in `pusher:subscription_error`: constant for each reason.
    package static func subscriptionErrorEnding(
        type: StaticString, error: StaticString, status: Int
    ) -> SharedBytes {
        var writer = ByteWriter()
        writer.append(#"","data":"{\"type\":\""#)
        writer.append(jsonEscapingTwice: type.bytes)
        writer.append(#"\",\"error\":\""#)
        writer.append(jsonEscapingTwice: error.bytes)
        writer.append(#"\",\"status\":"#)
        writer.append(decimal: status)
        writer.append(#"}"}"#)
        return writer.finish()
    }

    /// `pusher:error` with a null code.
    package static func error(_ message: StaticString, to writer: inout ByteWriter) {
        writer.append(#"{"event":"pusher:error","data":{"code":null,"message":"#)
        writer.append(jsonString: message.bytes)
        writer.append("}}")
    }

    /// `pusher:error` with one of Pusher's codes.
    package static func error(_ code: ErrorCode, to writer: inout ByteWriter) {
        writer.append(#"{"event":"pusher:error","data":{"code":"#)
        writer.append(decimal: Int(code.rawValue))
        writer.append(#","message":"#)
        writer.append(jsonString: code.message.bytes)
        writer.append("}}")
    }

    /// `pusher:signin_success`, with the user's data exactly as it was signed.
    package static func signinSuccess(userData: UnsafeRawBufferPointer, to writer: inout ByteWriter) {
        writer.append(#"{"event":"pusher:signin_success","data":"{\"user_data\":\""#)
        writer.append(jsonEscapingTwice: userData)
        writer.append(#"\"}"}"#)
    }

    /// `pusher_internal:watchlist_events`: which watched users are online and which are not. An empty list is left out.
    package static func watchlistEvents(online: [String], offline: [String], to writer: inout ByteWriter) {
        writer.append(#"{"event":"pusher_internal:watchlist_events","data":"{\"events\":["#)
        if !online.isEmpty { watchlistEvent("online", online, to: &writer) }
        if !online.isEmpty, !offline.isEmpty { writer.append(UInt8(ascii: ",")) }
        if !offline.isEmpty { watchlistEvent("offline", offline, to: &writer) }
        writer.append(#"]}"}"#)
    }

    private static func watchlistEvent(_ name: StaticString, _ users: [String], to writer: inout ByteWriter) {
        writer.append(#"{\"name\":\""#)
        writer.append(name)
        writer.append(#"\",\"user_ids\":["#)
        var isFirst = true
        for user in users {
            if !isFirst { writer.append(UInt8(ascii: ",")) }
            isFirst = false
            writer.append(#"\""#)
            writer.append(jsonEscapingTwice: user)
            writer.append(#"\""#)
        }
        writer.append("]}")
    }

    /// An event with one of our names and without a channel, such as `sync:auth_ok`; `data` is JSON.
    package static func event(_ name: StaticString, data: UnsafeRawBufferPointer, to writer: inout ByteWriter) {
        writer.append(#"{"event":""#)
        writer.append(name)
        writer.append(#"","data":""#)
        writer.append(jsonEscaping: data)
        writer.append(#""}"#)
    }

    /// An event with one of our names on a channel; `data` is JSON.
    package static func event(
        _ name: StaticString, channel: String, data: UnsafeRawBufferPointer, to writer: inout ByteWriter
    ) {
        writer.append(#"{"event":""#)
        writer.append(name)
        writer.append(#"","channel":"#)
        writer.append(jsonString: channel)
        writer.append(#","data":""#)
        writer.append(jsonEscaping: data)
        writer.append(#""}"#)
    }

    /// An event on a channel. `data` is JSON text and is sent as a string, as clients expect.
    ///
    /// - Parameter channel: appends the channel's name, which needs no escapes.
    package static func event(
        _ name: String, channel: (inout ByteWriter) -> Void, data: UnsafeRawBufferPointer, to writer: inout ByteWriter
    ) {
        writer.append(#"{"event":"#)
        writer.append(jsonString: name)
        writer.append(#","channel":""#)
        channel(&writer)
        writer.append(#"","data":""#)
        writer.append(jsonEscaping: data)
        writer.append(#""}"#)
    }
}
