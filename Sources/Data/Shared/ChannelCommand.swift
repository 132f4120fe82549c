import Bytes
import HubEngine
import Pusher
import Synchronization

// Calls about ordinary channels.
extension SharedCommand {
    /// - Parameters:
    ///   - caller: who numbers the calls: a hub has several.
    ///   - buckets: how many there are.
    /// - Throws: `unknownApp`, where the call is about an app that is not served here.
    package init(
        _ sent: SentChannelCall, caller: Int, _ apps: KnownApps, buckets: Int
    ) throws(SharedProblem) {
        if let key = sent.call.key {
            guard let app = apps[key.app] else { throw .unknownApp }
            self.init(
                sent.call.script, ChannelBucket(key.name, ofApp: app.id, of: buckets), from: sent.hub, caller: caller,
                number: sent.number, changes: sent.call.changes)
            add(sent.call, key, app)
        } else {
            self.init(.channel, nil, from: sent.hub, caller: caller, number: sent.number)
            switch sent.call {
            case .list(let index, let prefix, let most):
                guard let app = apps[index] else { throw .unknownApp }
                add("list", app.id, prefix, "\(most)")
            case .reap(let hub): add("reap", "\(hub.number)")
            default: add("due")
            }
        }
    }

    /// What is due ends. The answer says when there is more, and what backends are to be told.
    ///
    /// - Parameters:
    ///   - last: the last of the latter that this hub has got; empty: it begins.
    ///   - told: up to this one, backends have been told all; empty: none since it was last said.
    ///   - epoch: of the bucket, in which it has got them.
    ///   - foreign: the event, if it is of an app that this hub does not serve, behind which it cannot go on; else empty.
    package init(
        dueOf hub: HubID, after last: [UInt8], told: [UInt8], in epoch: [UInt8], foreign: [UInt8] = []
    ) {
        self.init(.channel, nil, from: hub, "due")
        for word in [last, told, epoch, foreign] { add(word) }
    }

    /// The hub lives.
    ///
    /// - Parameters:
    ///   - loop: which says so; the first one does what is due.
    ///   - replica: the server's replication id.
    ///   - about: what operators are told of the hub; the first bucket has it.
    ///   - use: what the hub has of limited apps; the first bucket has it. Nil: what it has said before counts.
    ///   - apps: those whose channels are counted.
    package init(
        beatOf hub: HubID, loop: Int = 0, at replica: [UInt8], about: String = "", use: String? = nil,
        apps: [String] = []
    ) {
        self.init(.beat, nil, from: hub, caller: loop)
        add(replica)
        add(Self.uniqueNumber)
        add(about)
        add(use.map { "=" + $0 } ?? "")
        for app in apps { add(app) }
    }

    /// A page of the channels that the hub is counted in, each as `ChannelNews.latest`.
    ///
    /// - Parameter cursor: `0` for the first page, and then what the page before has said.
    package init(countedOf hub: HubID, from cursor: [UInt8]) {
        self.init(.channel, nil, from: hub, "counted")
        add(cursor)
    }

    /// A page of a presence channel's members. It has no number: it changes nothing.
    ///
    /// - Parameters:
    ///   - call: the one that asks for them.
    ///   - cursor: `0` for the first page, and then what the page before has said.
    package init(membersFor call: SharedCommand, from cursor: [UInt8]) {
        // The app, the channel, and the letters.
        self.init("members", like: call, words: 1..<4)
        add(cursor)
    }

    /// A number that no other beat has: drawn once, and then counted, for the kernel is asked for each draw.
    private static var uniqueNumber: String {
        "\(firstUnique &+ uniques.wrappingAdd(1, ordering: .relaxed).newValue)"
    }
    private static let firstUnique = UInt64.random(in: 0...(.max))
    private static let uniques = Atomic<UInt64>(0)

    // MARK: Arguments

    private mutating func add(_ flag: Bool) { add(flag ? "1" : "0") }

    private mutating func add(_ member: PresenceMember) {
        add(member.id)
        add(member.info)
        add("\(MemberList.size(member.id, info: member.info))")
    }

    private mutating func add(_ call: ChannelCall, _ key: ChannelKey, _ app: App) {
        let channel = key.name.string
        let letters = Self.letters(key.name.kind, app)
        switch call {
        case .publish(_, let publication) where !key.name.kind.isCache:
            add(app.id, channel)
            add(ChannelChange.What.published(publication, nil).encoded)
            add(key.name.kind.isPresence ? "members" : "facts", "\(publication.once)")
        case .relay(_, let event, let webhook):
            add(app.id, channel)
            add(ChannelChange.What.relayed(event).encoded)
            add("", "0")
            if let webhook { add(webhook.encoded) }
        case .publish(_, let publication):
            add("publish", app.id, channel, letters)
            add(ChannelChange.What.published(publication, nil).encoded)
            add("\(publication.once)")
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
        // No more channels of it may be made.
        if app.counts.elsewhere.hasChannels(app.limits.channelsMax) { letters += "F" }
        return letters
    }
}

extension ChannelCall {
    /// The script that takes it, where it is about a channel.
    fileprivate var script: SharedScript {
        switch self {
        case .relay: .event
        case .publish(let key, _): key.name.kind.isCache ? .channel : .event
        default: .channel
        }
    }

    fileprivate var changes: Bool {
        switch self {
        case .enter, .exit, .publish, .relay, .assert: true
        case .facts, .users, .list, .reap, .due: false
        }
    }
}
