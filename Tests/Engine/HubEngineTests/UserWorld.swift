import Bytes
import Clock
import HubEngine
import Pusher

/// Several loops with mailboxes, each with the shard of some users, in manual steps.
final class UserWorld {
    enum Message {
        case users([UserRequest], from: Int)
        case told([UserNews])
    }

    /// One connection, and what its client was told about users.
    final class Client {
        let loop: Int
        let session: Session
        let user: String
        /// The users that it watches, after it has signed in.
        var watched: [String] = []
        /// By user: the last state told, online or offline.
        var seen: [String: Bool] = [:]
        /// States told again although known, since the last change of its watchlist.
        var repeats = 0

        init(loop: Int, session: Session, user: String) {
            self.loop = loop
            self.session = session
            self.user = user
        }
    }

    static let grace: UInt64 = 10
    let engines: [EngineFixture]
    private var shards: [UserShard]
    private var mailboxes: [[Message]]
    private(set) var clients: [Client] = []
    private var lastSlot: [UInt32]
    var now: Instant = 0

    var app: App { engines[0].watchfulApp }

    init(loops: Int) {
        engines = (0..<loops).map { _ in EngineFixture() }
        var limits = ShardLimits()
        limits.leaveGrace = .nanoseconds(Int64(Self.grace))
        shards = Array(repeating: UserShard(limits: limits), count: loops)
        mailboxes = Array(repeating: [], count: loops)
        lastSlot = Array(repeating: 0, count: loops)
    }

    // MARK: Clients

    func connect(_ user: String, _ loop: Int) -> Client {
        lastSlot[loop] += 1
        let session = engines[loop].session(lastSlot[loop], app: app)
        let client = Client(loop: loop, session: session, user: user)
        clients.append(client)
        return client
    }

    func signin(_ client: Client, watching watched: [String]) throws {
        let list = watched.map { "\"\($0)\"" }.joined(separator: ",")
        client.watched = watched
        client.seen = [:]
        let data = #"{"id":"\#(client.user)","watchlist":[\#(list)]}"#
        let auth = app.credentials.sign(.user(userData: data), socketID: client.session.socketID)
        var effects = SessionEngine.Effects()
        engines[client.loop].core.received(
            .signin(auth: auth, userData: data), from: client.session, now: now, &effects)
        perform(effects, client)
    }

    func disconnect(_ client: Client) {
        clients.removeAll { $0 === client }
        var effects = SessionEngine.Effects()
        engines[client.loop].core.closed(client.session, &effects)
        perform(effects, client)
    }

    /// Replaces the app, with or without watchlists.
    func replace(by app: App) {
        for client in clients {
            var effects = SessionEngine.Effects()
            engines[client.loop].core.replaceApp(of: client.session, by: app, &effects)
            perform(effects, client)
        }
    }

    private func perform(_ effects: SessionEngine.Effects, _ client: Client) {
        for effect in effects {
            switch effect {
            case .send(let messages): hear(messages, client)
            case .users(let requests):
                for target in shards.indices {
                    let requests = requests.filter { shard(of: $0.user) == target }
                    if !requests.isEmpty { post(.users(requests, from: client.loop), to: target, from: client.loop) }
                }
            default: break
            }
        }
    }

    /// Equal in every run, unlike `UserKey.shard`.
    private func shard(of user: UserKey) -> Int { user.id.utf8.reduce(0) { $0 + Int($1) } % shards.count }

    private func hear(_ messages: Messages, _ client: Client) {
        for text in messages.texts where text.contains("watchlist_events") {
            for (name, isOnline) in [("online", true), ("offline", false)] {
                guard let start = text.range(of: #"\"\#(name)\",\"user_ids\":["#)?.upperBound else { continue }
                for id in text[start...].prefix(while: { $0 != "]" }).split(separator: ",") {
                    let user = String(id.dropFirst(2).dropLast(2))
                    if client.seen.updateValue(isOnline, forKey: user) == isOnline { client.repeats += 1 }
                }
            }
        }
    }

    // MARK: Between the loops

    private func post(_ message: Message, to target: Int, from loop: Int) {
        if target == loop {
            take(message, at: target)
        } else {
            mailboxes[target].append(message)
        }
    }

    /// Loop `loop` processes its next message.
    func look(at loop: Int) {
        guard !mailboxes[loop].isEmpty else { return }
        take(mailboxes[loop].removeFirst(), at: loop)
    }

    func tick(_ loop: Int) {
        atShard(loop) { [now] in $0.tick(now: now, &$1) }
    }

    /// Runs until nothing is left to do.
    func settle() {
        while mailboxes.contains(where: { !$0.isEmpty }) {
            for loop in mailboxes.indices { look(at: loop) }
        }
    }

    /// Users known to any shard.
    var userCount: Int { shards.reduce(0) { $0 + $1.userCount } }

    private func take(_ message: Message, at loop: Int) {
        switch message {
        case .users(let requests, let from):
            atShard(loop) { [now] in $0.received(requests, from: from, now: now, &$1) }
        case .told(let news):
            engines[loop].core.watchlists.told(news) { ids, messages in
                for client in clients where client.loop == loop && ids.contains(client.session.id) {
                    hear(messages, client)
                }
            }
        }
    }

    private func atShard(_ loop: Int, _ input: (inout UserShard, inout ContiguousArray<UserShard.Effect>) -> Void) {
        var effects: ContiguousArray<UserShard.Effect> = []
        input(&shards[loop], &effects)
        for effect in effects {
            switch effect {
            case .answer(let target, let news): post(.told(news), to: target, from: loop)
            case .tell(let loops, let news):
                for target in shards.indices where loops.contains(loop: target) {
                    post(.told([news]), to: target, from: loop)
                }
            }
        }
    }
}
