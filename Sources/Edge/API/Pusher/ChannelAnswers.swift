import Bytes
import Gateway
import HTTP
import HubEngine
import JSON
import Pusher

/// The HTTP API's answers about channels, as JSON (pusher.md §2).
enum ChannelAnswers {
    static let nothing = HTTPResponse(.ok, body: Array("{}".utf8))
    /// The answer of the deprecated publish, which reports nothing.
    static let accepted = HTTPResponse(.accepted, body: Array("{}".utf8))

    /// `{"channels":{"presence-a":{"user_count":1}}}`, the answer to a publish to these channels. Attributes that a channel
    /// does not have are omitted, since `info` is one list for all of them.
    static func published(_ channels: [ChannelName], _ facts: [ChannelFacts], _ info: ChannelInfo) -> HTTPResponse {
        guard !info.isEmpty else { return nothing }
        var body = ByteWriter(capacity: 64 + 64 * channels.count)
        body.append(#"{"channels":{"#)
        for (index, (channel, facts)) in zip(channels, facts).enumerated() {
            if index > 0 { body.append(",") }
            body.append(jsonString: channel.string)
            body.append(":")
            append(facts, info.valid(for: channel.kind), to: &body)
        }
        body.append("}}")
        return HTTPResponse(.ok, body: body.array)
    }

    /// `{"batch":[{},{"subscription_count":13}]}`, one per event, if any event asks for attributes; otherwise `{}`.
    static func published(batch events: [PublishedEvent], _ facts: [ChannelFacts]) -> HTTPResponse {
        guard events.contains(where: { !$0.info.isEmpty }) else { return nothing }
        var body = ByteWriter(capacity: 64 + 64 * events.count)
        body.append(#"{"batch":["#)
        for (index, (event, facts)) in zip(events, facts).enumerated() {
            if index > 0 { body.append(",") }
            append(facts, event.channels.first.map { event.info.valid(for: $0.kind) } ?? [], to: &body)
        }
        body.append("]}")
        return HTTPResponse(.ok, body: body.array)
    }

    /// `{"channels":{"presence-a":{"user_count":1}}}`: the occupied channels, unordered; a refusal if they are too many.
    static func channels(_ facts: [String: ChannelFacts], _ info: ChannelInfo) -> HTTPResponse {
        guard facts.count <= APILimits.channelsNamed else { return CallProblem.tooManyChannels.response }
        var body = ByteWriter(capacity: 64 + 64 * facts.count)
        body.append(#"{"channels":{"#)
        var isFirst = true
        for (name, facts) in facts {
            if !isFirst { body.append(",") }
            isFirst = false
            body.append(jsonString: name)
            body.append(":")
            append(facts, info, to: &body)
        }
        body.append("}}")
        return HTTPResponse(.ok, body: body.array)
    }

    /// `{"occupied":true,"user_count":1,"subscription_count":2,"cache":{"data":"…","ttl":60}}`; the last three only on
    /// request.
    static func channel(_ facts: ChannelFacts, _ info: ChannelInfo) -> HTTPResponse {
        var body = ByteWriter(capacity: 128)
        body.append(#"{"occupied":"#)
        body.append(facts.isOccupied ? "true" : "false")
        if !info.isEmpty { body.append(",") }
        appendMembers(of: facts, info, to: &body)
        body.append("}")
        return HTTPResponse(.ok, body: body.array)
    }

    /// A channel's attributes in the format of the deprecated `stats`.
    static func stats(_ facts: ChannelFacts) -> HTTPResponse {
        var body = ByteWriter(capacity: 128)
        body.append(#"{"occupied":"#)
        body.append(facts.isOccupied ? "true" : "false")
        if let users = facts.userCount {
            body.append(#","user_count":"#)
            body.append(decimal: users)
        }
        body.append(#","connection_count":"#)
        body.append(decimal: facts.subscriptionCount)
        body.append("}")
        return HTTPResponse(.ok, body: body.array)
    }

    /// `{"users":[{"id":"1"}]}`, ordered by id.
    static func users(_ ids: [String]) -> HTTPResponse {
        var body = ByteWriter(capacity: 32 + 32 * ids.count)
        body.append(#"{"users":["#)
        for (index, id) in ids.sorted().enumerated() {
            body.append(index > 0 ? #",{"id":"# : #"{"id":"#)
            body.append(jsonString: id)
            body.append("}")
        }
        body.append("]}")
        return HTTPResponse(.ok, body: body.array)
    }

    private static func append(_ facts: ChannelFacts, _ info: ChannelInfo, to body: inout ByteWriter) {
        body.append("{")
        appendMembers(of: facts, info, to: &body)
        body.append("}")
    }

    private static func appendMembers(of facts: ChannelFacts, _ info: ChannelInfo, to body: inout ByteWriter) {
        var isFirst = true
        func next(_ body: inout ByteWriter, _ name: StaticString) {
            if !isFirst { body.append(",") }
            isFirst = false
            body.append(jsonString: name.bytes)
            body.append(":")
        }
        if info.contains(.userCount) {
            next(&body, "user_count")
            body.append(decimal: facts.userCount ?? 0)
        }
        if info.contains(.subscriptionCount) {
            next(&body, "subscription_count")
            body.append(decimal: facts.subscriptionCount)
        }
        guard info.contains(.cache) else { return }
        next(&body, "cache")
        guard let cached = facts.cached else { return body.append("null") }
        body.append(#"{"data":"#)
        cached.data.withUnsafeBytes { body.append(jsonString: $0) }
        body.append(#","ttl":"#)
        body.append(decimal: cached.secondsLeft)
        body.append("}")
    }
}
