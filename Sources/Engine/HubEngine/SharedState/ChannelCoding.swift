import Pusher

// Calls and news of ordinary channels as bytes. The byte behind the subject says which kind.

/// A call as it leaves the process.
package struct SentChannelCall: Sendable {
    /// The caller's number of it.
    package let number: UInt64
    /// The caller.
    package let hub: HubID
    /// What is asked.
    package let call: ChannelCall

    /// A call of that hub.
    package init(_ call: ChannelCall, _ number: UInt64, from hub: HubID) {
        (self.call, self.number, self.hub) = (call, number, hub)
    }

    /// As bytes, which name apps by their ids.
    package func encoded(_ apps: KnownApps) -> [UInt8] {
        var writer = SharedWriter(.channels, apps)
        writer.write(number)
        writer.write(hub.number)
        switch call {
        case .enter(let key, let entering):
            writer.write(1)
            writer.write(key)
            writer.write(entering.member) { $0.write($1) }
            writer.write(entering.isRepeated)
            writer.write(entering.asksMembers)
            writer.write(entering.subscriptions)
        case .exit(let exit):
            writer.write(2)
            writer.write(exit.key)
            writer.write(exit.userID) { $0.write($1) }
            writer.write(exit.mayReturn)
        case .publish(let key, let publication):
            writer.write(3)
            writer.write(key)
            writer.write(publication)
            writer.write(publication.once)
        case .relay(let key, let event, let webhook):
            writer.write(4)
            writer.write(key)
            writer.write(event)
            writer.write(webhook) { $0.write($1) }
        case .facts(let key):
            writer.write(5)
            writer.write(key)
        case .users(let key):
            writer.write(6)
            writer.write(key)
        case .list(let app, let prefix, let most):
            writer.write(7)
            writer.write(app: app)
            writer.write(prefix)
            writer.write(most)
        case .assert(let key, let attending):
            writer.write(8)
            writer.write(key)
            writer.write(attending.connections)
            writer.write(attending.members) {
                $0.write($1.member)
                $0.write($1.connections)
            }
        case .reap(let hub):
            writer.write(9)
            writer.write(hub.number)
        case .due: writer.write(10)
        }
        return writer.bytes
    }

    /// Reads the bytes. Any may come; of a wrong one the kind is told.
    package init(_ bytes: [UInt8], _ apps: KnownApps) throws(SharedProblem) {
        var reader = try SharedReader(bytes, .channels, apps)
        number = try reader.number()
        hub = HubID(try reader.number())
        switch try reader.byte() {
        case 1:
            let key = try reader.key()
            var entering = Entering()
            entering.member = try reader.optional { (reader) throws(SharedProblem) in try reader.member() }
            entering.isRepeated = try reader.flag()
            entering.asksMembers = try reader.flag()
            entering.subscriptions = try reader.count()
            call = .enter(key, entering)
        case 2:
            let key = try reader.key()
            let user = try reader.optional { (reader) throws(SharedProblem) in try reader.text() }
            call = .exit(ChannelExit(key: key, userID: user, mayReturn: try reader.flag()))
        case 3:
            let key = try reader.key()
            var publication = try reader.publication(key.name)
            publication.once = try reader.number()
            call = .publish(key, publication)
        case 4:
            let (key, event) = (try reader.key(), try reader.relayed())
            call = .relay(
                key, event, try reader.optional { (reader) throws(SharedProblem) in try reader.webhook() })
        case 5: call = .facts(try reader.key())
        case 6: call = .users(try reader.key())
        case 7: call = .list(app: try reader.app(), prefix: try reader.text(), most: try reader.count())
        case 8:
            let key = try reader.key()
            var attending = Attending()
            attending.connections = try reader.count()
            attending.members = try reader.list { (reader) throws(SharedProblem) in
                Attending.Member(try reader.member(), connections: try reader.count())
            }
            call = .assert(key, attending)
        case 9: call = .reap(HubID(try reader.number()))
        case 10: call = .due
        default: throw .malformed
        }
        try reader.end()
    }
}

extension ChannelChange.What {
    /// As bytes, the last part of an encoded change.
    package var encoded: [UInt8] {
        var writer = SharedWriter(part: [])
        writer.write(self)
        return writer.bytes
    }
}

extension WebhookEvent {
    /// As bytes, which stand behind the app's id in a `ChannelNews`.
    package var encoded: [UInt8] {
        var writer = SharedWriter()
        writer.write(self)
        return writer.bytes
    }
}

extension ChannelNews {
    /// As bytes, which name apps by their ids.
    package func encoded(_ apps: KnownApps) -> [UInt8] {
        var writer = SharedWriter(.channels, apps)
        switch self {
        case .change(let change):
            writer.write(1)
            writer.write(change)
        case .webhook(let app, let event):
            writer.write(2)
            writer.write(app: app)
            writer.write(event)
        case .reply(let number, let reply):
            writer.write(3)
            writer.write(number)
            writer.write(reply)
        case .latest(let key, let sequence):
            writer.write(4)
            writer.write(key)
            writer.write(sequence)
        }
        return writer.bytes
    }

    /// Reads the bytes. Any may come; of a wrong one the kind is told.
    package init(_ bytes: [UInt8], _ apps: KnownApps) throws(SharedProblem) {
        var reader = try SharedReader(bytes, .channels, apps)
        switch try reader.byte() {
        case 1: self = .change(try reader.change())
        case 2: self = .webhook(app: try reader.app(), try reader.webhook())
        case 3: self = .reply(try reader.number(), try reader.reply())
        case 4: self = .latest(try reader.key(), try reader.number())
        default: throw .malformed
        }
        try reader.end()
    }
}

extension SharedWriter {
    fileprivate mutating func write(_ publication: Publication) {
        write(publication.event)
        write(publication.data)
        write(publication.except) { $0.write($1) }
    }

    fileprivate mutating func write(_ event: RelayedEvent) {
        write(event.event)
        write(event.data)
        write(event.userID) { $0.write($1) }
        write(event.sender)
    }

    fileprivate mutating func write(_ change: ChannelChange) {
        write(change.key)
        write(change.follows)
        write(change.sequence)
        write(change.what)
    }

    fileprivate mutating func write(_ what: ChannelChange.What) {
        switch what {
        case .published(let publication, _):
            write(1)
            write(publication)
        case .relayed(let event):
            write(2)
            write(event)
        case .memberAdded(let member):
            write(3)
            write(member)
        case .memberRemoved(let user):
            write(4)
            write(user)
        case .count(let count):
            write(5)
            write(count)
        case .memberSays(let member):
            write(6)
            write(member)
        }
    }

    fileprivate mutating func write(_ event: WebhookEvent) {
        switch event {
        case .channelOccupied(let name):
            write(1)
            write(name.string)
        case .channelVacated(let name):
            write(2)
            write(name.string)
        case .memberAdded(let name, let user):
            write(3)
            write(name.string)
            write(user)
        case .memberRemoved(let name, let user):
            write(4)
            write(name.string)
            write(user)
        case .clientEvent(let name, let event, let data, let socketID, let user):
            write(5)
            write(name.string)
            write(event)
            write(data)
            write(socketID)
            write(user) { $0.write($1) }
        case .cacheMiss(let name):
            write(6)
            write(name.string)
        case .subscriptionCount(let name, let count):
            write(7)
            write(name.string)
            write(count)
        }
    }

    fileprivate mutating func write(_ reply: ChannelReply) {
        switch reply {
        case .entered(let entered):
            write(1)
            write(entered)
        case .refused(let refusal):
            write(2)
            write(Int(refusal.rawValue))
        case .facts(let facts):
            write(3)
            write(facts)
        case .users(let users):
            write(4)
            write(users) { $0.write($1) }
        case .list(let channels):
            write(5)
            write(channels.sorted { $0.key < $1.key }) {
                $0.write($1.key)
                $0.write($1.value)
            }
        case .done: write(6)
        case .unavailable(let fault): write(Int(fault.rawValue))
        }
    }

    private mutating func write(_ entered: Entered) {
        write(entered.sequence)
        write(entered.count) { $0.write($1) }
        write(entered.members) {
            $0.write($1.version)
            $0.write($1.each ?? []) { $0.write($1) }
        }
        switch entered.cached {
        case .noCache: write(0)
        case .miss: write(1)
        case .event(let publication, _):
            write(2)
            write(publication.channel.string)
            write(publication)
        }
    }

    private mutating func write(_ facts: ChannelFacts) {
        write(facts.subscriptionCount)
        write(facts.userCount) { $0.write($1) }
        write(facts.cached) {
            $0.write($1.name)
            $0.write($1.data)
            $0.write($1.secondsLeft)
        }
    }
}

extension SharedReader {
    fileprivate mutating func publication(_ channel: ChannelName) throws(SharedProblem) -> Publication {
        Publication(
            channel: channel, event: try text(), data: try data(),
            except: try optional { (reader) throws(SharedProblem) in try reader.socketID() })
    }

    fileprivate mutating func relayed() throws(SharedProblem) -> RelayedEvent {
        RelayedEvent(event: try text(), data: try data(), userID: try optionalText(), sender: try socketID())
    }

    private mutating func optionalText() throws(SharedProblem) -> String? {
        try optional { (reader) throws(SharedProblem) in try reader.text() }
    }

    private mutating func optionalCount() throws(SharedProblem) -> Int? {
        try optional { (reader) throws(SharedProblem) in try reader.count() }
    }

    fileprivate mutating func change() throws(SharedProblem) -> ChannelChange {
        let key = try key()
        let (follows, sequence) = (try number(), try number())
        let what: ChannelChange.What
        switch try byte() {
        case 1: what = .published(try publication(key.name), nil)
        case 2: what = .relayed(try relayed())
        case 3: what = .memberAdded(try member())
        case 4: what = .memberRemoved(try text())
        case 5: what = .count(try count())
        case 6: what = .memberSays(try member())
        default: throw .malformed
        }
        return ChannelChange(key: key, follows: follows, sequence: sequence, what: what)
    }

    fileprivate mutating func webhook() throws(SharedProblem) -> WebhookEvent {
        switch try byte() {
        case 1: .channelOccupied(try name())
        case 2: .channelVacated(try name())
        case 3: .memberAdded(try name(), userID: try text())
        case 4: .memberRemoved(try name(), userID: try text())
        case 5:
            .clientEvent(
                try name(), name: try text(), data: try data(), socketID: try socketID(), userID: try optionalText())
        case 6: .cacheMiss(try name())
        case 7: .subscriptionCount(try name(), try count())
        default: throw .malformed
        }
    }

    fileprivate mutating func reply() throws(SharedProblem) -> ChannelReply {
        switch try byte() {
        case 1: return .entered(try entered())
        case 2:
            guard let refusal = EntryRefusal(rawValue: try byte()) else { throw .malformed }
            return .refused(refusal)
        case 3: return .facts(try facts())
        case 4: return .users(try list { (reader) throws(SharedProblem) in try reader.text() })
        case 5:
            let channels = try list { (reader) throws(SharedProblem) in (try reader.text(), try reader.facts()) }
            return .list(Dictionary(channels) { first, _ in first })
        case 6: return .done
        case let code:
            guard let fault = StateFault(rawValue: code) else { throw .malformed }
            return .unavailable(fault)
        }
    }

    private mutating func entered() throws(SharedProblem) -> Entered {
        var entered = Entered(sequence: try number())
        entered.count = try optionalCount()
        entered.members = try optional { (reader) throws(SharedProblem) in
            let version = try reader.number()
            let each = try reader.list { (reader) throws(SharedProblem) in try reader.member() }
            var list = MemberList()
            for member in each { list.append(member.id, info: member.info) }
            return Entered.Members(list: list, version: version, each: each)
        }
        switch try byte() {
        case 0: entered.cached = .noCache
        case 1: entered.cached = .miss
        case 2: entered.cached = .event(try publication(try name()), nil)
        default: throw .malformed
        }
        return entered
    }

    private mutating func facts() throws(SharedProblem) -> ChannelFacts {
        var facts = ChannelFacts()
        facts.subscriptionCount = try count()
        facts.userCount = try optionalCount()
        facts.cached = try optional { (reader) throws(SharedProblem) in
            CachedEvent(name: try reader.text(), data: try reader.data(), secondsLeft: try reader.count())
        }
        return facts
    }
}
