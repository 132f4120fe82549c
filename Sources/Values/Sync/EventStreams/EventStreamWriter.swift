import Bytes
import JSON

/// Writes one client's messages as `text/event-stream` (WHATWG HTML, "Server-sent events"). Each message is the text that a
/// WebSocket gets, as `data`; after it comes the `id`, the client's position in each of its streams.
///
/// An id never says more than what was written before it. It is made of the messages themselves, so it is the same whichever
/// way they came: live, from the window, or page by page from the log.
///
/// Worst interleavings, each with its test in `EventStreamWriterTests`:
/// - The connection breaks within a message: `data` is written first. A client that takes a line at once may get an event
///   twice, with its number; it never has the position of an event that it has not.
/// - A client has named a position, and `subscription_succeeded` says where the stream stands, before the events between
///   have come. A position that is known is not moved by that.
/// - The events between cannot be had: `sync:resumed` says `recovered: false`, and the position after it. A client that has
///   read this fetches a snapshot, and must not be told so again.
/// - The log cannot be read at the moment (`store_unavailable`). Live events would move the position past what is missing:
///   nothing follows that answer, and the client asks again on its next connection.
package struct EventStreamWriter: Sendable {
    private struct Stream: Sendable {
        let topic: String
        let channel: String
        var position: StreamPosition?
    }

    private var streams: [Stream]
    /// Whether what it writes is the same for all clients: ordinary channels have no positions.
    package var isPlain: Bool { streams.isEmpty }
    /// Whether nothing more may be written: the connection is to end.
    package private(set) var isOver = false

    /// - Parameter streams: the client's streams, each with the position that it has named; none for ordinary channels.
    package init(_ streams: [(topic: String, channel: String, position: StreamPosition?)]) {
        self.streams = streams.map { Stream(topic: $0.topic, channel: $0.channel, position: $0.position) }
    }

    /// A line that clients ignore: shows that the connection is there.
    package static let heartbeat: StaticString = ":\n\n"

    /// Appends a message. Our JSON texts have no line breaks.
    package mutating func append(_ message: UnsafeRawBufferPointer, to writer: inout ByteWriter) {
        guard !isOver else { return }
        writer.append("data: ")
        writer.append(message)
        if !streams.isEmpty {
            learn(message)
            appendID(to: &writer)
        }
        writer.append("\n\n")
    }

    /// Appends how long the client stays away when the connection has ended.
    package static func append(retryAfterMs time: Int, to writer: inout ByteWriter) {
        writer.append("retry: ")
        writer.append(decimal: time)
        writer.append("\n\n")
    }

    private func appendID(to writer: inout ByteWriter) {
        var isFirst = true
        for stream in streams {
            guard let position = stream.position else { continue }
            if isFirst { writer.append("\nid: ") }
            EventStreamID.append(stream.topic, position, isFirst: isFirst, to: &writer)
            isFirst = false
        }
    }

    // MARK: What a message says of positions

    private mutating func learn(_ message: UnsafeRawBufferPointer) {
        var event: String?
        var channel: String?
        var data: JSONValue?
        guard var reader = try? JSONObjectReader(message) else { return }
        while let member = try? reader.next() {
            if member.isNamed("event") { event = member.value.string }
            if member.isNamed("channel") { channel = member.value.string }
            if member.isNamed("data") { data = member.value }
        }
        guard let data, data.kind == .string else { return }
        _ = data.withCharacters { text in
            if event == "sync:resumed" { return resumed(text) }
            guard let index = streams.firstIndex(where: { $0.channel == channel }) else { return }
            if event == "pusher_internal:subscription_succeeded" {
                entered(index, text)
            } else if let offset = Self.offset(text), let epoch = streams[index].position?.epoch {
                streams[index].position = StreamPosition(in: epoch, offset: offset)
            }
        }
    }

    /// `{"sync":{"epoch":…,"offset":…}}`: where the stream stood. It counts only for a client without a position.
    private mutating func entered(_ index: Int, _ data: UnsafeRawBufferPointer) {
        guard streams[index].position == nil, var reader = try? JSONObjectReader(data) else { return }
        while let member = try? reader.next() {
            if member.isNamed("sync") { streams[index].position = Self.readPosition(member.value).position }
        }
    }

    /// `{"channels":{"user.42.adherence":{"epoch":…,"offset":…,"recovered":false,…}}}`: the stream goes on at that position.
    private mutating func resumed(_ data: UnsafeRawBufferPointer) {
        guard var reader = try? JSONObjectReader(data) else { return }
        while let member = try? reader.next() {
            guard member.isNamed("channels"), var channels = try? JSONObjectReader(member.value.bytes) else { continue }
            while let told = try? channels.next() {
                guard let name = told.key.string, let index = streams.firstIndex(where: { $0.channel == name }) else {
                    continue
                }
                let told = Self.readPosition(told.value)
                if told.isUnavailable {
                    isOver = true
                } else if !told.isRecovered {
                    streams[index].position = told.position
                }
            }
        }
    }

    private static func readPosition(
        _ value: JSONValue
    ) -> (position: StreamPosition?, isRecovered: Bool, isUnavailable: Bool) {
        var epoch: String?
        var offset: Int64?
        var isRecovered = false
        var isUnavailable = false
        guard value.kind == .object, var reader = try? JSONObjectReader(value.bytes) else { return (nil, true, false) }
        while let member = try? reader.next() {
            if member.isNamed("epoch") { epoch = member.value.string }
            if member.isNamed("offset") { offset = member.value.integer }
            if member.isNamed("recovered") { isRecovered = member.value.bytes.equals("true") }
            if member.isNamed("reason") { isUnavailable = member.value.equals("store_unavailable") }
        }
        guard let epoch, let offset else { return (nil, true, isUnavailable) }
        return (StreamPosition(epoch: epoch, offset: offset), isRecovered, isUnavailable)
    }

    /// The event's number, `_sync.o`.
    private static func offset(_ data: UnsafeRawBufferPointer) -> Int64? {
        guard var reader = try? JSONObjectReader(data) else { return nil }
        while let member = try? reader.next() {
            guard member.isNamed("_sync"), var sync = try? JSONObjectReader(member.value.bytes) else { continue }
            while let part = try? sync.next() { if part.isNamed("o") { return part.value.integer } }
        }
        return nil
    }
}
