import Bytes
import Channels
import Pusher
import Sync

/// A hub with one app that owns the database and one that does not, and a way to talk to it in text.
struct EngineFixture {
    let app = App(
        id: "1", credentials: AppCredentials(key: "key", secret: "secret"), index: 0, ownsDatabase: true)
    let otherApp = App(
        id: "2", credentials: AppCredentials(key: "other", secret: "else"), index: 1, ownsDatabase: false)
    let hub: Hub

    init(
        limits: ChannelLimits = ChannelLimits(), now: @escaping () -> UnixTime = { UnixTime(microseconds: .min) }
    ) {
        hub = Hub(appCount: 2, limits: limits, now: now)
    }

    func session(_ slot: UInt32, app: App? = nil) -> Session {
        let session = Session(
            id: SessionID(slot: slot, generation: 1), app: app ?? self.app,
            socketID: SocketID(random: UInt64(slot + 1) << 11, 7 << 11))
        hub.opened(session)
        return session
    }

    func send(_ text: String, from session: Session) throws -> [Heard] {
        var effects = Hub.Effects()
        var text = text
        let event = try text.withUTF8 { try ClientEvent.decode(UnsafeRawBufferPointer($0)) }
        hub.received(event, from: session, &effects)
        return effects.map(Heard.init)
    }

    func subscribe(_ channel: String, auth: String = "", from session: Session) throws -> [Heard] {
        try send(
            #"{"event":"pusher:subscribe","data":{"channel":"\#(channel)","auth":"\#(auth)"}}"#, from: session)
    }

    func unsubscribe(_ channel: String, from session: Session) throws -> [Heard] {
        try send(#"{"event":"pusher:unsubscribe","data":{"channel":"\#(channel)"}}"#, from: session)
    }

    /// Signs in by the app's own signature; `more` stands in `user_data` behind the id.
    func signin(_ user: String, more: String = "", from session: Session) throws -> [Heard] {
        let data = #"{"id":"\#(user)"\#(more)}"#
        let auth = session.app.credentials.sign(.user(userData: data), socketID: session.socketID)
        let escaped = data.replacing("\"", with: "\\\"")
        return try send(
            #"{"event":"pusher:signin","data":{"auth":"\#(auth)","user_data":"\#(escaped)"}}"#, from: session)
    }

    /// Answers a join as its home would.
    func joined(_ join: StreamJoin, at offset: Int64, _ session: Session) -> [Heard] {
        var effects = Hub.Effects()
        let position = StreamPosition(epoch: "e", offset: offset)
        hub.joined(StreamJoined(session: join.session, serial: join.serial, position: position), session, &effects)
        return effects.map(Heard.init)
    }

    /// An action as clients send it.
    func act(_ key: String, more: String = "", from session: Session) throws -> [Heard] {
        try send(
            #"{"event":"sync:action","data":{"key":"\#(key)","type":"skip","payload":{}\#(more)}}"#, from: session)
    }

    /// Answers an action as the store would.
    func answered(_ json: String, _ session: Session) -> [Heard] {
        var effects = Hub.Effects()
        hub.answered(ActionAnswer(status: .applied, json: SharedBytes.copy(json)), session, &effects)
        return effects.map(Heard.init)
    }

    func close(_ session: Session) -> [Heard] {
        var effects = Hub.Effects()
        hub.closed(session, &effects)
        return effects.map(Heard.init)
    }

    func subscribers(_ channel: String, app: App? = nil) -> [UInt32] {
        hub.channel(channel, of: app ?? self.app)?.subscribers.map(\.slot).sorted() ?? []
    }
}

/// An effect, in words that tests compare.
enum Heard: Equatable, CustomStringConvertible {
    case text(String)
    case verify(String)
    case watchIdentity(Duration)
    case close(UInt16)
    case act(String, user: String)
    case join(String, serial: UInt32)
    case leave(String)

    init(_ effect: Effect) {
        switch effect {
        case .send(let frame): self = .text(payload(of: frame))
        case .verify(let token): self = .verify(token)
        case .watchIdentity(let wait): self = .watchIdentity(wait)
        case .close(let code): self = .close(code.rawValue)
        case .act(let envelope, let user): self = .act(envelope.key, user: user)
        case .join(let join): self = .join(join.name.format() ?? "?", serial: join.serial)
        case .leave(let name): self = .leave(name.format() ?? "?")
        }
    }

    var description: String {
        switch self {
        case .text(let text): text
        case .verify(let token): "verify \(token)"
        case .watchIdentity(let wait): "watch the identity after \(wait)"
        case .close(let code): "close \(code)"
        case .act(let key, let user): "act \(key) as \(user)"
        case .join(let name, let serial): "join \(name) \(serial)"
        case .leave(let name): "leave \(name)"
        }
    }
}

/// The payload of a server's frame.
func payload(of frame: SharedBytes) -> String {
    let bytes = frame.array
    guard bytes.count >= 2 else { return "" }
    let header = bytes[1] < 126 ? 2 : bytes[1] == 126 ? 4 : 10
    return String(decoding: bytes.dropFirst(header), as: UTF8.self)
}

func succeeded(_ channel: String) -> Heard {
    .text(#"{"event":"pusher_internal:subscription_succeeded","channel":"\#(channel)","data":"{}"}"#)
}

func succeeded(_ channel: String, at offset: Int64) -> Heard {
    let data = #"{\"sync\":{\"epoch\":\"e\",\"offset\":\#(offset)}}"#
    return .text(#"{"event":"pusher_internal:subscription_succeeded","channel":"\#(channel)","data":"\#(data)"}"#)
}
