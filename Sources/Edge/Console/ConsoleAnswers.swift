import Bytes
import Clock
import Gateway
import HTTP
import HubEngine
import JSON
import Pusher
import Shared
import Store
import Sync

/// The console's answers as JSON. Times are ages in microseconds, by the hub's monotonic clock.
enum ConsoleAnswers {
    static func hub(_ version: String, _ rules: Console.Rules, _ apps: [App], shares: Bool) -> HTTPResponse {
        object([
            .init("version", .string(version)), .init("payloads", .bool(rules.showsPayloads)),
            .init("sharesChannels", .bool(shares)),
            .init("traceSeconds", .integer(Gateway.traceTime.components.seconds)),
            .init(
                "apps",
                .array(
                    apps.map { app in
                        .object([.init("id", .string(app.id)), .init("ownsDatabase", .bool(app.ownsDatabase))])
                    })),
        ])
    }

    /// - Parameter own: the number of the hub whose console this is.
    static func hubs(_ group: HubGroup, own: String) -> HTTPResponse {
        func age(_ time: Duration) -> JSONTree { .integer(Int64(clamping: time.wholeNanoseconds / 1_000)) }
        let hubs = group.members.map { hub -> JSONTree in
            .object([
                .init("number", .string(hub.number)), .init("about", .string(hub.about)),
                .init("silence", age(hub.silence)), .init("isLate", .bool(hub.isLate)),
                .init("isThisOne", .bool(hub.number == own)),
            ])
        }
        return object([
            .init("server", .string(group.serverVersion)), .init("memory", .integer(Int64(group.memory.used))),
            .init("memoryMost", .integer(Int64(group.memory.most))),
            .init("channels", .integer(Int64(group.channelCount))),
            .init("webhooks", .integer(Int64(group.waitingWebhooks))),
            .init("beatAge", group.beatAge.map { age($0) } ?? .null), .init("hubs", .array(hubs)),
        ])
    }

    static func connections(_ found: [SurveyedConnection], _ apps: [App]) -> HTTPResponse {
        let list = found.map { one -> JSONTree in
            .object([
                .init("socket", .string(one.socket)), .init("kind", .string(one.kind.rawValue)),
                .init("app", .text(id(one.app, apps))), .init("user", .text(one.user)),
                .init("address", .string(one.address)), .init("loop", .integer(Int64(one.loop))),
                .init("channelCount", .integer(Int64(one.channelCount))),
                .init("channels", .array(one.channels.map { .string($0) })),
                .init("unsentBytes", .integer(Int64(one.unsentBytes))), .init("isBehind", .bool(one.isBehind)),
            ])
        }
        return object([.init("connections", .array(list))])
    }

    static func channels(_ found: [String: ChannelFacts]) -> HTTPResponse {
        let list = found.sorted { $0.key < $1.key }.prefix(ConsoleLimits.channelsMax).map { name, facts -> JSONTree in
            .object([
                .init("name", .string(name)), .init("connections", .integer(Int64(facts.subscriptionCount))),
                .init("users", facts.userCount.map { .integer(Int64($0)) } ?? .null),
            ])
        }
        return object([
            .init("channels", .array(list)), .init("isComplete", .bool(found.count <= ConsoleLimits.channelsMax)),
        ])
    }

    static func events(_ found: [SurveyedEvent], _ apps: [App], now: Instant) -> HTTPResponse {
        let list = found.map { event -> JSONTree in
            .object([
                .init("source", .string(event.source.rawValue)),
                .init("app", .text(event.app.flatMap { id($0, apps) })), .init("channel", .string(event.channel)),
                .init("name", .string(event.name)), .init("offset", event.offset.map { .integer($0) } ?? .null),
                .init("epoch", .text(event.epoch)), .init("bytes", .integer(Int64(event.byteCount))),
                .init("age", age(event.at, now)),
                .init("committed", age(event.committedAt, now)),
            ])
        }
        return object([.init("events", .array(list))])
    }

    /// Half of the times are at most `half`, and 99 of 100 at most `most`.
    static func latency(_ sorted: [Duration]) -> HTTPResponse {
        func quantile(_ share: Double) -> JSONTree {
            guard let last = sorted.indices.last else { return .null }
            return .integer(Int64(sorted[Int((Double(last) * share).rounded(.up))].wholeNanoseconds / 1_000))
        }
        return object([
            .init("count", .integer(Int64(sorted.count))), .init("half", quantile(0.5)), .init("most", quantile(0.99)),
        ])
    }

    static func published(_ publications: [Publication], _ facts: [ChannelFacts]) -> HTTPResponse {
        let list = zip(publications, facts).map { publication, facts -> JSONTree in
            .object([
                .init("channel", .string(publication.channel.string)),
                .init("connections", .integer(Int64(facts.subscriptionCount))),
            ])
        }
        return object([.init("published", .array(list))])
    }

    static func members(_ users: [String]) -> HTTPResponse {
        object([
            .init("count", .integer(Int64(users.count))),
            .init("users", .array(users.sorted().prefix(ConsoleLimits.membersMax).map { .string($0) })),
        ])
    }

    static func ended(_ count: Int) -> HTTPResponse { object([.init("ended", .integer(Int64(count)))]) }

    /// The database's own JSON is passed on; nothing where it is in another epoch than `epoch`, for the number then is
    /// another event's.
    static func log(_ found: SnapshotAnswer, in epoch: Epoch?) -> HTTPResponse {
        guard case .found(let snapshot) = found else {
            if case .tooLarge = found { return .problem(.contentTooLarge, "The events are too large to be shown.") }
            return .problem(.serviceUnavailable, "The database does not answer.")
        }
        var body = ByteWriter(capacity: snapshot.body.count + 128)
        body.append(#"{"epoch":"#)
        body.append(jsonString: snapshot.epoch)
        body.append(#","top":"#)
        body.append(decimal: snapshot.offset)
        body.append(#","events":"#)
        if let epoch, epoch != Epoch(snapshot.epoch) {
            body.append("[]")
        } else {
            snapshot.body.withUnsafeBytes { body.append($0) }
        }
        body.append("}\n")
        return HTTPResponse(.ok, body: body.array)
    }

    static func way(_ way: EventWay, now: Instant) -> HTTPResponse {
        object([
            .init("offset", .integer(way.offset)), .init("epoch", .text(way.epoch?.string)),
            .init("verdict", .string(way.verdict)),
            .init("row", row(way.row)), .init("home", way.homed.map { home($0, now) } ?? .null),
            .init(
                "position",
                way.position.map {
                    .object([.init("epoch", .string($0.epochText)), .init("offset", .integer($0.offset))])
                } ?? .null),
            .init("subscribers", .integer(Int64(way.subscriberCount))),
            .init("devices", .array(way.devices.map { device($0, now) })),
            .init("elsewhere", .array(way.elsewhere.map { .string($0) })),
        ])
    }

    private static func row(_ row: EventWay.Row) -> JSONTree {
        switch row {
        case .unknown: .object([.init("state", .string("unknown"))])
        case .absent(let top): .object([.init("state", .string("absent")), .init("top", .integer(top))])
        case .otherEpoch(let epoch, let top):
            .object([
                .init("state", .string("otherEpoch")), .init("epoch", .string(epoch)), .init("top", .integer(top)),
            ])
        case .found(let name, let bytes, let ageMs):
            .object([
                .init("state", .string("found")), .init("name", .string(name)), .init("bytes", .integer(bytes)),
                .init("age", .integer(ageMs &* 1_000)),
            ])
        }
    }

    private static func home(_ homed: SurveyedWay.Homed, _ now: Instant) -> JSONTree {
        .object([
            .init("loop", .integer(Int64(homed.loop))), .init("committed", age(homed.committedAt, now)),
            .init("read", age(homed.readAt, now)), .init("homed", age(homed.homedAt, now)),
        ])
    }

    private static func device(_ device: EventWay.Device, _ now: Instant) -> JSONTree {
        let (state, written, since) = words(device.state)
        return .object([
            .init("socket", .string(device.socket)), .init("loop", .integer(Int64(device.loop))),
            .init("state", .string(state)), .init("queued", device.at.map { age($0, now) } ?? .null),
            .init("written", written.map { age($0, now) } ?? .null),
            .init("since", since.map { .integer($0) } ?? .null),
            .init("isConnected", .bool(device.isConnected)), .init("unsentBytes", .integer(Int64(device.unsentBytes))),
        ])
    }

    private static func words(_ state: EventWay.Device.State) -> (String, written: Instant?, since: Int64?) {
        switch state {
        case .written(let time): ("written", time, nil)
        case .queued: ("queued", nil, nil)
        case .behind: ("behind", nil, nil)
        case .caughtUp: ("caught", nil, nil)
        case .gone: ("gone", nil, nil)
        case .replayed: ("replayed", nil, nil)
        case .later(let offset): ("later", nil, offset)
        case .lost: ("lost", nil, nil)
        case .handedOn: ("handed", nil, nil)
        case .present: ("present", nil, nil)
        }
    }

    /// In microseconds; null where the time is unknown.
    private static func age(_ time: Instant, _ now: Instant) -> JSONTree {
        time == .min ? .null : .integer(Int64(now.duration(since: time).wholeNanoseconds / 1_000))
    }

    private static func id(_ index: Int, _ apps: [App]) -> String? { apps.first { $0.index == index }?.id }

    private static func object(_ members: [JSONTree.Member]) -> HTTPResponse {
        HTTPResponse(.ok, body: Array((JSONTree.object(members).canonicalText + "\n").utf8))
    }
}
