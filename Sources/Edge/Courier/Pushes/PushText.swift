import Bytes
import Clock
import Glibc
import JSON
import Outbox
import Sync

/// What bodies to all providers have in common.
enum PushText {
    /// Characters, and bytes in JSON, of a title and of a body: every message has room in 4,096 bytes (APNs and FCM).
    private static let (titleMax, bodyMax) = ((200, 600), (400, 1_200))

    static func title(_ push: DuePush) -> String { beginning(of: push.text.title, titleMax.0, bytes: titleMax.1) }
    static func body(_ push: DuePush) -> String { beginning(of: push.text.body, bodyMax.0, bytes: bodyMax.1) }

    /// As much of a text as has room. A character is not cut, unless it has no room by itself: some have hundreds of bytes.
    private static func beginning(of text: String, _ characters: Int, bytes: Int) -> String {
        // Nearly all texts are short: no byte is written with more than six.
        if text.utf8.count <= min(characters, bytes / 6) { return text }
        var (room, end) = (bytes, text.startIndex)
        for index in text.indices.prefix(characters) {
            let next = text.index(after: index)
            room -= text.unicodeScalars[index..<next].reduce(0) { $0 + bytesInJSON($1) }
            guard room >= 0 else { break }
            end = next
        }
        guard end == text.startIndex else { return String(text[..<end]) }
        room = bytes
        return String(
            String.UnicodeScalarView(
                text.unicodeScalars.prefix { scalar in
                    room -= bytesInJSON(scalar)
                    return room >= 0
                }))
    }

    /// At most so many bytes is a scalar written with.
    private static func bytesInJSON(_ scalar: Unicode.Scalar) -> Int {
        switch scalar {
        case "\"", "\\": 2
        case ..<" ": 6
        default: UTF8.width(scalar)
        }
    }

    /// What duplicates of a push are recognised by, at most 64 bytes (APNs): its occurrence, whose id the device's own
    /// notification has, too.
    static func collapseID(_ push: DuePush) -> String {
        guard let id = push.occurrenceID, !id.isEmpty, id.utf8.count <= 64,
            id.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { return "push-\(push.id)" }
        return id
    }

    /// What an app needs to read how things are: the channel, and how far it should read there.
    static func data(_ push: DuePush) -> [(name: StaticString, value: String)] {
        var data: [(name: StaticString, value: String)] = [
            ("kind", push.kind), ("channel", channel(of: push.userID)), ("epoch", push.position.epoch),
            ("offset", "\(push.position.offset)"), ("start", text(of: push.start)),
        ]
        if let id = push.occurrenceID { data.append(("occurrenceId", id)) }
        if let id = push.ruleID { data.append(("ruleId", id)) }
        return data
    }

    private static func channel(of user: String) -> String {
        var writer = ByteWriter(capacity: 64)
        writer.append("private-user.")
        StreamName.append(escaping: user, to: &writer)
        writer.append(".reminders")
        return writer.string
    }

    /// A time as `2025-11-20T09:30:00Z`.
    static func text(of time: UnixTime) -> String {
        var seconds = time_t(time.microseconds / 1_000_000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        var text = [CChar](repeating: 0, count: 32)
        let count = strftime(&text, text.count, "%Y-%m-%dT%H:%M:%SZ", &parts)
        return String(decoding: text.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

extension ByteWriter {
    /// Appends `"name":"value"`, behind a comma if asked.
    mutating func append(member name: StaticString, _ value: String, first isFirst: Bool = false) {
        append(isFirst ? "\"" : ",\"")
        append(name)
        append("\":")
        append(jsonString: value)
    }

    /// Appends an object of texts.
    mutating func append(texts: [(name: StaticString, value: String)]) {
        append(UInt8(ascii: "{"))
        for (index, pair) in texts.enumerated() { append(member: pair.name, pair.value, first: index == 0) }
        append(UInt8(ascii: "}"))
    }
}
