import Bytes
import HubEngine
import JSON
import Pusher

/// The JSON of webhooks (Pusher's "Webhook format").
enum WebhookBody {
    /// One event as an element of `events`.
    static func text(of event: WebhookEvent) -> [UInt8] {
        var writer = ByteWriter(capacity: 128)
        func open(_ name: StaticString, _ channel: ChannelName) {
            writer.append("{\"name\":\"")
            writer.append(name)
            writer.append("\",\"channel\":")
            writer.append(jsonString: channel.string)
        }
        func add(_ name: StaticString, _ value: String) {
            writer.append(",\"")
            writer.append(name)
            writer.append("\":")
            writer.append(jsonString: value)
        }
        switch event {
        case .channelOccupied(let channel): open("channel_occupied", channel)
        case .channelVacated(let channel): open("channel_vacated", channel)
        case .cacheMiss(let channel): open("cache_miss", channel)
        case .memberAdded(let channel, let userID):
            open("member_added", channel)
            add("user_id", userID)
        case .memberRemoved(let channel, let userID):
            open("member_removed", channel)
            add("user_id", userID)
        case .subscriptionCount(let channel, let count):
            open("subscription_count", channel)
            writer.append(",\"subscription_count\":")
            writer.append(decimal: UInt64(max(0, count)))
        case .clientEvent(let channel, let name, let data, let socketID, let userID):
            open("client_event", channel)
            add("event", name)
            writer.append(",\"data\":")
            data.withUnsafeBytes { writer.append(jsonString: $0) }
            add("socket_id", socketID.string)
            if let userID { add("user_id", userID) }
        }
        writer.append(UInt8(ascii: "}"))
        return writer.array
    }

    /// The body of a request.
    ///
    /// - Parameter milliseconds: wall-clock time since 1970 when the request is made. Receivers refuse old requests.
    static func body(_ events: some Sequence<[UInt8]>, at milliseconds: UInt64) -> [UInt8] {
        var writer = ByteWriter(capacity: 512)
        writer.append("{\"time_ms\":")
        writer.append(decimal: milliseconds)
        writer.append(",\"events\":[")
        var isFirst = true
        for event in events {
            if !isFirst { writer.append(UInt8(ascii: ",")) }
            isFirst = false
            writer.append(event)
        }
        writer.append("]}")
        return writer.array
    }
}

extension WebhookEvent {
    /// The event's channel, within which events stay in order.
    var channel: ChannelName {
        switch self {
        case .channelOccupied(let channel), .channelVacated(let channel), .cacheMiss(let channel): channel
        case .memberAdded(let channel, _), .memberRemoved(let channel, _): channel
        case .subscriptionCount(let channel, _): channel
        case .clientEvent(let channel, _, _, _, _): channel
        }
    }

    /// Approximate memory before encoding, in bytes.
    var bytesKept: Int {
        let more =
            switch self {
            case .clientEvent(_, let name, let data, _, let userID):
                name.utf8.count + data.count + (userID?.utf8.count ?? 0)
            case .memberAdded(_, let userID), .memberRemoved(_, let userID): userID.utf8.count
            case .channelOccupied, .channelVacated, .cacheMiss, .subscriptionCount: 0
            }
        return channel.string.utf8.count + more + CourierLimits.bytesPerEvent
    }
}
