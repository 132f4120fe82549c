import Bytes
import Clock
import HubEngine
import Pusher

/// A call about ordinary channels as a script takes it.
package struct ChannelCommand: Sendable, Equatable {
    /// The script that carries it out.
    package let script: SharedScript
    /// The channel that it is about, as scripts name it; nil: it is for each bucket.
    package let bucket: ChannelBucket?
    /// Whether it changes the state. The caller's number counts those.
    package let changes: Bool
    /// What the script takes: `ARGV`.
    package private(set) var arguments: [[UInt8]]
    /// The time, for scripts that are given it.
    package var time: Instant? {
        didSet { if let time { arguments[3] = Array("\(time.nanoseconds / 1_000_000)".utf8) } }
    }

    /// - Parameters:
    ///   - caller: who numbers the calls: a hub has several.
    ///   - buckets: how many there are.
    /// - Throws: `unknownApp`, where the call is about an app that is not served here.
    package init(
        _ sent: SentChannelCall, caller: Int, _ apps: KnownApps, buckets: Int
    ) throws(SharedProblem) {
        var arguments = Arguments(sent.hub, caller: caller, number: sent.number)
        changes = sent.call.changes
        var script = SharedScript.channel
        if let key = sent.call.key {
            guard let app = apps[key.app] else { throw .unknownApp }
            bucket = ChannelBucket(key.name, ofApp: app.id, of: buckets)
            script = arguments.add(sent.call, key, app)
        } else {
            bucket = nil
            switch sent.call {
            case .list(let index, let prefix, let most):
                guard let app = apps[index] else { throw .unknownApp }
                arguments.add("list", app.id, prefix, "\(most)")
            case .reap(let hub): arguments.add("reap", "\(hub.number)")
            default: arguments.add("due")
            }
        }
        self.script = script
        self.arguments = arguments.parts
    }

    /// What is due ends. The answer says when there is more, and what backends are to be told.
    ///
    /// - Parameter told: the last of the latter that has been told; empty: none since.
    package init(dueOf hub: HubID, told: [UInt8]) {
        (script, bucket, changes) = (.channel, nil, false)
        var arguments = Arguments(hub, caller: 0, number: 0)
        arguments.add("due")
        self.arguments = arguments.parts + [told]
    }

    /// The hub lives.
    ///
    /// - Parameter replica: the server's replication id.
    package init(beatOf hub: HubID, at replica: [UInt8]) {
        (script, bucket, changes) = (.beat, nil, false)
        var arguments = Arguments(hub, caller: 0, number: 0)
        arguments.add(String(decoding: replica, as: UTF8.self), "\(UInt64.random(in: 0...(.max)))")
        self.arguments = arguments.parts
    }

    /// The number of the caller's last call that changed the bucket; nil: whatever it was.
    package mutating func follows(_ number: UInt64?) {
        arguments[4] = number.map { Array("\($0)".utf8) } ?? []
    }

    /// A page of a presence channel's members. It has no number: it changes nothing.
    ///
    /// - Parameters:
    ///   - call: the one that asks for them.
    ///   - cursor: `0` for the first page, and then what the page before has said.
    package init(membersFor call: ChannelCommand, from cursor: [UInt8]) {
        (script, bucket, changes) = (.channel, call.bucket, false)
        arguments = Array(call.arguments[..<9])
        arguments[4] = []
        arguments[5] = Array("members".utf8)
        arguments.append(cursor)
    }

    /// The command in which a server is asked.
    ///
    /// - Parameters:
    ///   - hash: of the script, as the server has said.
    ///   - prefix: of the bucket's keys.
    package func evaluated(_ hash: [UInt8], _ prefix: [UInt8]) -> [[UInt8]] {
        [Array("EVALSHA".utf8), hash, [UInt8(ascii: "1")], prefix] + arguments
    }
}

extension ChannelCall {
    fileprivate var changes: Bool {
        switch self {
        case .enter, .exit, .publish, .relay, .assert: true
        case .facts, .users, .list, .reap, .due: false
        }
    }
}

/// The arguments of a script as they are collected.
private struct Arguments {
    private(set) var parts: [[UInt8]]

    init(_ hub: HubID, caller: Int, number: UInt64) {
        parts = ["\(hub.number)", "\(hub.number).\(caller)", "\(number)", "", ""].map { Array($0.utf8) }
    }

    mutating func add(_ texts: String...) {
        for text in texts { parts.append(Array(text.utf8)) }
    }

    private mutating func add(_ flag: Bool) { add(flag ? "1" : "0") }

    private mutating func add(_ member: PresenceMember) {
        add(member.id)
        parts.append(member.info)
        add("\(MemberList.size(member.id, info: member.info))")
    }

    /// Returns the script that takes them.
    mutating func add(_ call: ChannelCall, _ key: ChannelKey, _ app: App) -> SharedScript {
        let channel = key.name.string
        let letters = Self.letters(key.name.kind, app)
        switch call {
        case .publish(_, let publication) where !key.name.kind.isCache:
            add(app.id, channel)
            parts.append(ChannelChange.What.published(publication, nil).encoded)
            add(key.name.kind.isPresence ? "members" : "facts")
            return .event
        case .relay(_, let event):
            add(app.id, channel)
            parts.append(ChannelChange.What.relayed(event).encoded)
            add("")
            return .event
        case .publish(_, let publication):
            add("publish", app.id, channel, letters)
            parts.append(ChannelChange.What.published(publication, nil).encoded)
        case .enter(_, let entering):
            add("enter", app.id, channel, letters)
            add(entering.isRepeated)
            add(entering.asksMembers)
            if let member = entering.member {
                add(member)
                add("\(app.limits.presenceMembersMax)")
            }
        case .exit(let exit):
            add("exit", app.id, channel, letters, exit.userID ?? "")
            add(exit.mayReturn)
        case .assert(_, let attending):
            add("assert", app.id, channel, letters, "\(attending.connections)")
            add(true)
            for member in attending.members {
                add(member.member)
                add("\(member.connections)")
            }
        case .facts: add("facts", app.id, channel, letters)
        case .users: add("users", app.id, channel, letters)
        case .list, .reap, .due: break
        }
        return .channel
    }

    /// What the script has to know of the channel and its app.
    private static func letters(_ kind: ChannelName.Kind, _ app: App) -> String {
        var letters = ""
        if kind.isPresence { letters += "P" }
        if kind.isCache { letters += "K" }
        if app.features.subscriptionCounts { letters += "N" }
        let webhooks: [(WebhookKinds, String)] = [
            (.channelExistence, "o"), (.presence, "p"), (.cacheChannels, "c"), (.subscriptionCount, "s"),
        ]
        for (kind, letter) in webhooks where app.features.webhooks.contains(kind) { letters += letter }
        return letters
    }
}
