import Clock
import HubEngine
import Pusher
import TestSupport
import Testing

/// The versions of the shared state tell and answer alike, call by call: the one in memory is the model.
@Suite struct ChannelVersionTests {
    private static let names = ["news", "cache-x", "presence-x", "presence-cache-y"]

    private static func app(members: Int) -> App {
        var features = AppFeatures()
        features.webhooks = [.channelExistence, .presence, .cacheChannels, .subscriptionCount]
        features.subscriptionCounts = true
        var limits = AppLimits()
        limits.presenceMembersMax = members
        return App(
            id: "1", credentials: AppCredentials(key: "k", secret: "s"), index: 0, ownsDatabase: false,
            features: features, limits: limits)
    }

    /// What is told of a channel, in words; in no order, for what is due at the same time may end in any.
    private func told(_ changes: ArraySlice<ChannelChange>, _ webhooks: ArraySlice<WebhookEvent>) -> [String] {
        (changes.map { "\($0.key.name.string) \($0.what.encoded)" } + webhooks.map { "\($0)" }).sorted()
    }

    private func words(_ reply: ChannelReply) -> String {
        switch reply {
        case .entered(let entered):
            let members = entered.members?.each?.map { "\($0.id)\($0.info)" }.sorted() ?? []
            let cached =
                switch entered.cached {
                case .event(let publication, _): "\(publication.data)"
                case .miss: "miss"
                case .noCache: "none"
                }
            return "entered \(entered.count ?? -1) \(members) \(cached)"
        case .users(let users): return "users \(users.sorted())"
        case .list(let list): return "list \(list.sorted { $0.key < $1.key })"
        default: return "\(reply)"
        }
    }

    @Test(arguments: 0..<60 as Range<UInt64>) func bothTellAlike(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        func pick(_ range: Range<Int>) -> Int { Int.random(in: range, using: &random) }
        var limits = ShardLimits()
        limits.leaveGrace = [.zero, .seconds(2), .seconds(3), .seconds(4)][pick(0..<4)]
        limits.webhookPause = [.zero, .seconds(3)][pick(0..<2)]
        limits.promptCountsMax = [1, 3, 100][pick(0..<3)]
        limits.membersBytesMax = [200, 2_000_000][pick(0..<2)]
        limits.cacheTime = .seconds(10)
        let app = Self.app(members: [3, 100][pick(0..<2)])
        let keys = Self.names.compactMap { ChannelName($0) }.map { ChannelKey(0, $0) }
        let model = try SharedChannelsTests.Version.memory.make(limits, app)
        let subject = try SharedChannelsTests.Version.redis.make(limits, app)
        for step in 0..<300 {
            let (hub, key) = (pick(1..<4), keys[pick(0..<4)])
            let user = key.name.kind.isPresence ? "u\(pick(0..<6))" : nil
            let member = user.map { PresenceMember(id: $0, info: [UInt8](repeating: 0x31, count: pick(0..<20))) }
            let call: ChannelCall?
            switch pick(0..<16) {
            case 0..<5: call = .enter(key, Entering(member: member))
            case 5: call = .enter(key, Entering(member: pick(0..<2) == 0 ? member : nil, isRepeated: true))
            case 6..<10: call = .exit(ChannelExit(key: key, userID: user, mayReturn: pick(0..<2) == 0))
            case 10:
                call = .publish(key, Publication(channel: key.name, event: "e", data: [UInt8(step % 256)]))
            case 11:
                let sender = SocketID(random: UInt64(step))
                let webhook = WebhookEvent.clientEvent(
                    key.name, name: "client-e", data: [1], socketID: sender, userID: user)
                call = .relay(
                    key, RelayedEvent(event: "client-e", data: [1], userID: user, sender: sender),
                    pick(0..<2) == 0 ? webhook : nil)
            case 12:
                var attending = Attending()
                attending.connections = pick(0..<3)
                if let member, attending.connections > 0 {
                    attending.members = [Attending.Member(member, connections: attending.connections)]
                }
                call = .assert(key, attending)
            case 13: call = [.facts(key), .users(key), .list(app: 0, prefix: "presence-", most: 10)][pick(0..<3)]
            default: call = nil
            }
            let before = (model.changes.count, model.webhooks.count, subject.changes.count, subject.webhooks.count)
            // Members who left first give way first: no two leave at the same time.
            model.now = model.now.advanced(by: .milliseconds(1))
            subject.now = model.now
            if let call {
                let (one, other) = (words(try model.ask(call, of: hub)), words(try subject.ask(call, of: hub)))
                try #require(one == other, "\(seed) \(step): \(call)")
            } else {
                let time = Duration.milliseconds(pick(0..<1_500))
                try model.advance(time)
                try subject.advance(time)
            }
            let one = told(model.changes[before.0...], model.webhooks[before.1...])
            let other = told(subject.changes[before.2...], subject.webhooks[before.3...])
            try #require(one == other, "\(seed) \(step): \(call.map { "\($0)" } ?? "time")")
        }
    }
}
