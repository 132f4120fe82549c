import Bytes
import JSON
import Pusher

/// What backends want published: an event that is read is within its limits, and said anew it is the same event; a batch
/// is the events that its parts are, or nothing.
enum PublishProperties {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        var small = PublishLimits()
        small.dataBytes = 8
        small.channels = 2
        small.events = 2
        small.nameBytes = 4
        for limits in [PublishLimits(), small] {
            switch decode(bytes, limits) {
            case .success(let event):
                try checkEvent(event, limits)
                try checkAnew(event, limits)
            case .failure(let error): try checkError(error, isOfBatch: false)
            }
            switch decode(batch: bytes, limits) {
            case .success(let events): try checkBatch(events, limits)
            case .failure(let error): try checkError(error, isOfBatch: true)
            }
        }
        try checkInfo(bytes)
    }

    private static func decode(_ bytes: [UInt8], _ limits: PublishLimits) -> Result<PublishedEvent, PublishError> {
        withView(bytes) { body in
            Result { () throws(PublishError) in try PublishedEvent.decode(body, limits: limits) }
        }
    }

    private static func decode(
        batch bytes: [UInt8], _ limits: PublishLimits
    ) -> Result<[PublishedEvent], PublishError> {
        withView(bytes) { body in
            Result { () throws(PublishError) in try PublishedEvent.decode(batch: body, limits: limits) }
        }
    }

    private static func checkEvent(_ event: PublishedEvent, _ limits: PublishLimits) throws(Violation) {
        try hold((1...limits.nameBytes).contains(event.name.utf8.count), "a name of \(event.name.utf8.count) bytes")
        try hold(event.data.count <= limits.dataBytes, "data of \(event.data.count) bytes")
        try hold(event.data.strictText != nil, "data that is no text")
        try hold((1...limits.channels).contains(event.channels.count), "\(event.channels.count) channels")
        try hold(Set(event.channels).count == event.channels.count, "a channel twice")
        try hold(!event.info.contains(.cache), "a publish that asks for what is kept")
    }

    private static func checkAnew(_ event: PublishedEvent, _ limits: PublishLimits) throws(Violation) {
        guard case .success(let again) = decode(text(of: event), limits) else {
            throw Violation(message: "an event, said anew, is refused")
        }
        try hold(again == event, "an event, said anew, is another")
    }

    private static func checkBatch(_ events: [PublishedEvent], _ limits: PublishLimits) throws(Violation) {
        try hold((1...limits.events).contains(events.count), "\(events.count) events")
        for event in events {
            try checkEvent(event, limits)
            try hold(event.channels.count == 1, "an event of a batch with \(event.channels.count) channels")
            try checkAnew(event, limits)
        }
        let again = written { writer in
            writer.append(#"{"batch":["#)
            for (index, event) in events.enumerated() {
                if index > 0 { writer.append(",") }
                writer.append(text(of: event))
            }
            writer.append("]}")
        }
        guard case .success(let read) = decode(batch: again, limits), read == events else {
            throw Violation(message: "a batch, said anew, is another")
        }
    }

    private static func checkError(_ error: PublishError, isOfBatch: Bool) throws(Violation) {
        try hold(!error.message.isEmpty && error.message.utf8.count < 200, "an error without a sentence")
        try hold(isOfBatch || error.index == nil, "an index of an event that is alone")
    }

    private static func checkInfo(_ bytes: [UInt8]) throws(Violation) {
        guard let info = withView(bytes, { ChannelInfo(list: $0) }) else { return }
        try hold(bytes.isEmpty || bytes.contains(UInt8(ascii: "_")) || info.isSubset(of: .cache), "\(info.rawValue)")
    }

    /// The event as a library would say it: of one channel by its name alone.
    private static func text(of event: PublishedEvent) -> [UInt8] {
        written { writer in
            writer.append(#"{"name":"#)
            writer.append(jsonString: event.name)
            writer.append(#","data":"#)
            event.data.withUnsafeBytes { writer.append(jsonString: $0) }
            if event.channels.count == 1 {
                writer.append(#","channel":"#)
                writer.append(jsonString: event.channels[0].string)
            } else {
                writer.append(#","channels":["#)
                for (index, channel) in event.channels.enumerated() {
                    if index > 0 { writer.append(",") }
                    writer.append(jsonString: channel.string)
                }
                writer.append("]")
            }
            if let except = event.except {
                writer.append(#","socket_id":"#)
                writer.append(jsonString: except.string)
            }
            if !event.info.isEmpty {
                let names = [(ChannelInfo.userCount, "user_count"), (.subscriptionCount, "subscription_count")]
                writer.append(#","info":"#)
                writer.append(jsonString: names.filter { event.info.contains($0.0) }.map(\.1).joined(separator: ","))
            }
            writer.append("}")
        }
    }
}
