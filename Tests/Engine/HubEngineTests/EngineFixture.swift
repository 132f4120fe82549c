import Bytes
import Clock
import HubEngine
import Pusher
import Sync

/// An engine with an app that owns the database and one that does not, driven by text messages.
struct EngineFixture {
    let app = App(
        id: "1", credentials: AppCredentials(key: "key", secret: "secret"), index: 0, ownsDatabase: true)
    let otherApp = App(
        id: "2", credentials: AppCredentials(key: "other", secret: "else"), index: 1, ownsDatabase: false)
    /// An app with watchlists of at most three users.
    let watchfulApp: App = {
        var features = AppFeatures()
        features.watchlists = true
        var limits = AppLimits()
        limits.watchlistMax = 3
        return App(
            id: "3", credentials: AppCredentials(key: "third", secret: "third"), index: 2, ownsDatabase: false,
            features: features, limits: limits)
    }()
    let core: SessionEngine
    /// The shard of its ordinary channels: answers at once; its broadcasts go nowhere.
    private let shard = ShardOfOne()
    private let time: () -> Instant
    /// Whether common messages are read the quick way, as by the gateway.
    var readsCommonMessages = true

    init(
        limits: ChannelLimits = ChannelLimits(), now: @escaping () -> UnixTime = { UnixTime(microseconds: .min) },
        time: @escaping () -> Instant = { 0 }
    ) {
        self.time = time
        core = SessionEngine(limits: limits, now: now)
    }

    /// All effects of an input about this session, including later ones.
    private func heard(_ effects: SessionEngine.Effects, _ session: Session) -> [Heard] {
        effects.flatMap { effect in
            guard case .request(let request) = effect else { return Heard.all(effect) }
            return shard.answers(to: request).flatMap { answer in
                var effects = SessionEngine.Effects()
                switch answer {
                case .entered(let entered): core.ordinary.entered(entered, session, &effects)
                case .refused(_, let serial, let refusal):
                    core.ordinary.refused(session, serial: serial, refusal, &effects)
                }
                return heard(effects, session)
            }
        }
    }

    func session(_ slot: UInt32, generation: UInt32 = 1, app: App? = nil) -> Session {
        let session = Session(
            id: SessionID(slot: slot, generation: generation), app: app ?? self.app,
            socketID: SocketID(random: UInt64(slot + 1) << 32 | 7))
        core.opened(session)
        return session
    }

    func send(_ text: String, from session: Session, hasRoom: Bool = true) throws -> [Heard] {
        var effects = SessionEngine.Effects()
        var text = text
        text.withUTF8 { text in
            let text = UnsafeRawBufferPointer(text)
            if readsCommonMessages, let event = CommonEvent(text), core.received(event, from: session, &effects) {
                return
            }
            do throws(ClientEventError) {
                core.received(try ClientEvent.decode(text), from: session, hasRoom: hasRoom, now: time(), &effects)
            } catch {
                core.received(error, from: session, &effects)
            }
        }
        return heard(effects, session)
    }

    func subscribe(_ channel: String, auth: String = "", from session: Session) throws -> [Heard] {
        try send(
            #"{"event":"pusher:subscribe","data":{"auth":"\#(auth)","channel":"\#(channel)"}}"#, from: session)
    }

    func unsubscribe(_ channel: String, from session: Session) throws -> [Heard] {
        try send(#"{"event":"pusher:unsubscribe","data":{"channel":"\#(channel)"}}"#, from: session)
    }

    /// Signs in with the app's signature; `more` follows the id in `user_data`.
    func signin(_ user: String, more: String = "", from session: Session) throws -> [Heard] {
        let data = #"{"id":"\#(user)"\#(more)}"#
        let auth = session.app.credentials.sign(.user(userData: data), socketID: session.socketID)
        let escaped = data.replacing("\"", with: "\\\"")
        return try send(
            #"{"event":"pusher:signin","data":{"auth":"\#(auth)","user_data":"\#(escaped)"}}"#, from: session)
    }

    /// Sends the client's positions.
    func resume(
        _ channels: [String: (epoch: String, offset: Int64)], from session: Session, hasRoom: Bool = true
    ) throws -> [Heard] {
        let positions = channels.sorted { $0.key < $1.key }.map {
            #""\#($0.key)":{"epoch":"\#($0.value.epoch)","offset":\#($0.value.offset)}"#
        }
        return try send(
            #"{"event":"sync:resume","data":{"v":1,"channels":{\#(positions.joined(separator: ","))}}}"#, from: session,
            hasRoom: hasRoom)
    }

    /// Answers a join as its shard would.
    func joined(
        _ join: StreamJoin, at offset: Int64, _ session: Session, _ outcome: StreamJoined.Outcome = .fresh,
        hasRoom: Bool = true
    ) -> [Heard] {
        var effects = SessionEngine.Effects()
        let position = StreamPosition(epoch: "e", offset: offset)
        let joined = StreamJoined(session: join.session, serial: join.serial, position: position, outcome: outcome)
        core.streams.joined(joined, session, hasRoom: hasRoom, now: time(), &effects)
        return heard(effects, session)
    }

    /// The connection has sent its queue.
    func drained(_ session: Session) -> [Heard] {
        var effects = SessionEngine.Effects()
        core.streams.drained(session, now: time(), &effects)
        return heard(effects, session)
    }

    /// Sends an action.
    func act(_ key: String, more: String = "", from session: Session) throws -> [Heard] {
        try send(
            #"{"event":"sync:action","data":{"key":"\#(key)","type":"skip","payload":{}\#(more)}}"#, from: session)
    }

    /// Answers an action as the store would.
    func answered(_ json: String, _ session: Session) -> [Heard] {
        var effects = SessionEngine.Effects()
        core.actions.answered(ActionAnswer(status: .applied, json: SharedBytes.copy(json)), session, &effects)
        return heard(effects, session)
    }

    func close(_ session: Session) -> [Heard] {
        var effects = SessionEngine.Effects()
        core.closed(session, &effects)
        return heard(effects, session)
    }

    func subscribers(_ channel: String, app: App? = nil) -> [UInt32] {
        core.channels.named(channel, of: app ?? self.app)?.subscribers.map(\.slot).sorted() ?? []
    }
}

/// A shard of ordinary channels for one loop.
private final class ShardOfOne {
    private var shard = ChannelShard(loops: 1)

    func answers(to request: ChannelRequest) -> [ChannelAnswer] {
        var effects = ChannelShard.Effects()
        shard.received(request, from: 0, now: 0, &effects)
        return effects.compactMap { effect in
            guard case .answer(_, let answer) = effect else { return nil }
            return answer
        }
    }
}

/// An effect, in a form that tests can compare.
enum Heard: Equatable, CustomStringConvertible {
    case pong
    case text(String)
    case verify(String)
    case watchIdentity(Duration)
    case tellBackoff
    case close(UInt16)
    case act(String, user: String)
    case join(String, serial: UInt32, StreamJoin.Purpose = .subscribe)
    case forget(String)
    case leave(String)
    case users([String])

    /// A page counts as its events.
    static func all(_ effect: Effect) -> [Heard] {
        switch effect {
        case .pong: [.pong]
        case .send(let messages): messages.texts.map(Heard.text)
        case .share(let messages), .queue(let messages): messages.texts.map(Heard.text)
        case .verify(let token): [.verify(token)]
        case .watchIdentity(let wait): [.watchIdentity(wait)]
        case .tellBackoff: [.tellBackoff]
        case .close(let code): [.close(code.rawValue)]
        case .act(let envelope, let user): [.act(envelope.key, user: user)]
        case .join(let join): [.join(join.name.format() ?? "?", serial: join.serial, join.purpose)]
        case .forget(let name): [.forget(name.format() ?? "?")]
        case .leave(let name): [.leave(name.format() ?? "?")]
        case .request: []
        case .users(let requests): [.users(requests.map(Heard.text))]
        }
    }

    var description: String {
        switch self {
        case .pong: "pong"
        case .text(let text): text
        case .verify(let token): "verify \(token)"
        case .watchIdentity(let wait): "watch the identity after \(wait)"
        case .tellBackoff: "tell how long to stay away"
        case .close(let code): "close \(code)"
        case .act(let key, let user): "act \(key) as \(user)"
        case .join(let name, let serial, let purpose): "join \(name) \(serial) \(purpose)"
        case .forget(let name): "forget \(name)"
        case .leave(let name): "leave \(name)"
        case .users(let requests): requests.joined(separator: ", ")
        }
    }
}

extension Heard {
    static func text(_ request: UserRequest) -> String {
        switch request {
        case .arrived(let user): "arrived \(user.id)"
        case .departed(let user, _): "departed \(user.id)"
        case .watch(let user, let serial): "watch \(user.id) \(serial)"
        case .unwatch(let user): "unwatch \(user.id)"
        }
    }
}

extension Messages {
    var texts: [String] {
        var texts: [String] = []
        each { texts.append(String(decoding: $0, as: UTF8.self)) }
        return texts
    }
}

/// The form of messages for the test sink.
private final class Texts: SharedEncoding {
    let texts: [String]
    var messages: Messages { Messages(texts) }

    init(_ messages: consuming Messages) { texts = messages.texts }
}

extension Messages {
    init(_ texts: [String]) {
        var writer = ByteWriter()
        for text in texts { Self.append(to: &writer) { $0.append(utf8: text) } }
        self.init(writer)
    }
}

extension SharedMessages {
    var texts: [String] { form(Texts.self).texts }
}

extension Broadcast {
    var texts: [String] {
        switch self {
        case .passing(let messages): messages.texts
        case .kept(let messages): messages.texts
        }
    }
}

func succeeded(_ channel: String) -> Heard {
    .text(#"{"event":"pusher_internal:subscription_succeeded","channel":"\#(channel)","data":"{}"}"#)
}

func succeeded(_ channel: String, at offset: Int64) -> Heard {
    let data = #"{\"sync\":{\"epoch\":\"e\",\"offset\":\#(offset)}}"#
    return .text(#"{"event":"pusher_internal:subscription_succeeded","channel":"\#(channel)","data":"\#(data)"}"#)
}

func resumed(_ channel: String, at offset: Int64, epoch: String = "e", replayed: Int64) -> Heard {
    resumed(channel, at: offset, epoch: epoch, #"\"recovered\":true,\"replayed\":\#(replayed)"#)
}

func resumed(_ channel: String, at offset: Int64, epoch: String = "e", lost: ResumeLoss) -> Heard {
    resumed(channel, at: offset, epoch: epoch, #"\"recovered\":false,\"reason\":\"\#(lost.rawValue)\""#)
}

private func resumed(_ channel: String, at offset: Int64, epoch: String, _ outcome: String) -> Heard {
    let fields = #"\"epoch\":\"\#(epoch)\",\"offset\":\#(offset),"# + outcome
    return .text(#"{"event":"sync:resumed","data":"{\"channels\":{\"\#(channel)\":{\#(fields)}}}"}"#)
}

extension SubscribedChannels {
    /// The channel of that name, if a session of the loop is in it or awaits it.
    func named(_ name: String, of app: App) -> LocalChannel? {
        if app.ownsDatabase, let stream = try? StreamName.parse(name) { return self[stream] }
        return ChannelName(name).flatMap { self[ChannelKey(app.index, $0)] }
    }
}
