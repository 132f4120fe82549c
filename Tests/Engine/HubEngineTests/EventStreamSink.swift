import Bytes
import Clock
import HubEngine
import Pusher
import Sync
import Synchronization

/// A sink of another kind than the gateway: sessions receive `text/event-stream` (WHATWG HTML, "Server-sent events") and
/// send each message as a request. One loop owns everything.
final class EventStreamSink {
    /// Messages in the event stream format: our JSON texts have no line breaks.
    private final class Lines: SharedEncoding {
        let texts: [String]
        var text: String { texts.map { "data: \($0)\n\n" }.joined() }
        var messages: Messages { Messages(texts) }
        let isCounted = Atomic<Bool>(false)

        init(_ messages: consuming Messages) { texts = messages.texts }
    }

    let app: App
    private let engine = SessionEngine()
    private var channels = ChannelShard(loops: 1)
    private var streams = StreamShard()
    private var users = UserShard()
    /// Messages to and from the owners, not yet processed.
    private var line: [() -> Void] = []
    /// What each session has been sent since the last `takeSent`.
    private var sent: [SessionID: String] = [:]
    private var sessions: [SessionID: Session] = [:]
    /// How often lines were made for a shared message.
    private(set) var linesMade = 0
    /// The position of every stream when it is first watched, and the events in its log.
    private let position: StreamPosition
    private var log: [StreamEvent]

    init(app: App, at position: StreamPosition, log: [StreamEvent]) {
        self.app = app
        self.position = position
        self.log = log
    }

    // MARK: Inputs

    func open(_ slot: UInt32) -> Session {
        let session = Session(
            id: SessionID(slot: slot, generation: 1), app: app, socketID: SocketID(random: UInt64(slot + 1) << 32 | 7))
        engine.opened(session)
        sessions[session.id] = session
        return session
    }

    func say(_ text: String, _ session: Session) throws {
        var text = text
        let event = try text.withUTF8 { try ClientEvent.decode(UnsafeRawBufferPointer($0)) }
        input(session) { $0.received(event, from: session, now: 1, &$1) }
        run()
    }

    func close(_ session: Session) {
        input(session) { $0.closed(session, mayReturn: false, &$1) }
        run()
    }

    func publish(_ publication: Publication) {
        channels { [app] in _ = $0.publish(publication, of: app, now: 1, &$1) }
        run()
    }

    func feed(_ event: StreamEvent) {
        log.append(event)
        streams { $0.received(event, &$1) }
        run()
    }

    func takeSent(_ session: Session) -> String { sent.removeValue(forKey: session.id) ?? "" }

    // MARK: Effects

    private func run() {
        while !line.isEmpty { line.removeFirst()() }
    }

    private func lines(_ messages: SharedMessages) -> String {
        let form = messages.form(Lines.self)
        if !form.isCounted.exchange(true, ordering: .relaxed) { linesMade += 1 }
        return form.text
    }

    private func input(_ session: Session, _ input: (SessionEngine, inout SessionEngine.Effects) -> Void) {
        var effects = SessionEngine.Effects()
        input(engine, &effects)
        for effect in effects {
            switch effect {
            case .pong: sent[session.id, default: ""] += ": pong\n\n"
            case .send(let messages): sent[session.id, default: ""] += Lines(messages).text
            case .share(let messages), .queue(let messages): sent[session.id, default: ""] += lines(messages)
            case .close(let code): sent[session.id, default: ""] += "event: end\ndata: \(code.rawValue)\n\n"
            case .request(let request): line.append { self.channels { $0.received(request, from: 0, now: 1, &$1) } }
            case .join(let join): line.append { self.streams { $0.join(join, from: 0, &$1) } }
            case .forget(let name): line.append { self.streams.forget(session.id, name, from: 0) }
            case .leave(let name): line.append { self.streams { $0.leave(name, from: 0, now: 1, &$1) } }
            case .users(let requests): line.append { self.users(requests) }
            case .verify, .act, .watchIdentity, .tellBackoff: break
            }
        }
    }

    private func channels(_ input: (inout ChannelShard, inout ChannelShard.Effects) -> Void) {
        var effects = ChannelShard.Effects()
        input(&channels, &effects)
        for effect in effects {
            switch effect {
            case .answer(_, .entered(let entered)):
                line.append { self.tell(entered.session) { $0.ordinary.entered(entered, $1, &$2) } }
            case .answer(_, .refused(let id, let serial, let refusal)):
                line.append { self.tell(id) { $0.ordinary.refused($1, serial: serial, refusal, &$2) } }
            case .broadcast(_, let key, let broadcast, let except, _):
                line.append {
                    let text =
                        switch broadcast {
                        case .passing(let messages): Lines(messages).text
                        case .kept(let messages): self.lines(messages)
                        }
                    for id in self.engine.channels[key]?.subscribers.map(\.self) ?? []
                    where except != .session(id, loop: 0) {
                        self.sent[id, default: ""] += text
                    }
                }
            case .webhook, .reply: break
            }
        }
    }

    private func streams(_ input: (inout StreamShard, inout ContiguousArray<StreamShard.Effect>) -> Void) {
        var effects: ContiguousArray<StreamShard.Effect> = []
        input(&streams, &effects)
        for effect in effects {
            switch effect {
            case .watch(let stream, let serial, _):
                line.append { self.streams { $0.positioned(stream, at: self.position, watch: serial, &$1) } }
            case .read(let read):
                let events = log.filter { $0.offset > read.after && $0.offset <= read.upTo }
                line.append { self.streams { $0.page(read, events, now: 1, &$1) } }
            case .joined(_, let joined):
                line.append { self.tell(joined.session) { $0.streams.joined(joined, $1, hasRoom: true, now: 1, &$2) } }
            case .broadcast(let told):
                let (name, offset, text) = (told.name, told.offset, Lines(told.messages).text)
                line.append {
                    guard let channel = self.engine.channels[name] else { return }
                    for id in channel.subscribers { self.sent[id, default: ""] += text }
                    channel.advanced(to: offset)
                }
            case .unwatch, .refused, .reset: break
            }
        }
    }

    private func users(_ requests: [UserRequest]) {
        var effects: ContiguousArray<UserShard.Effect> = []
        users.received(requests, from: 0, now: 1, &effects)
        for effect in effects {
            let news =
                switch effect {
                case .answer(_, let news): news
                case .tell(_, let news): [news]
                }
            line.append {
                self.engine.watchlists.told(news) { sessions, messages in
                    let text = Lines(messages).text
                    for id in sessions { self.sent[id, default: ""] += text }
                }
            }
        }
    }

    private func tell(_ id: SessionID, _ answer: (SessionEngine, Session, inout SessionEngine.Effects) -> Void) {
        guard let session = sessions[id] else { return }
        input(session) { answer($0, session, &$1) }
    }
}
