import Bytes
import Clock
import HubEngine
import Metrics
import Pusher
import RESP
import Reactor
import Redis

/// One loop's way to the state of ordinary channels in Redis: its calls, in the order of each bucket, and the channels it
/// follows, on one connection. Confined to the loop.
///
/// Worst interleavings, each with its test in `RedisLinkTests`:
/// - The connection breaks with calls on their way. They are sent again in their order, under their numbers, before
///   anything new: what was carried out is answered, and not done again. Then the loop says all that it holds, for what was
///   told meanwhile did not come.
/// - A script is unknown to the server, and a later call of its bucket is not. That one names the call before it, and is
///   refused, for that one was not carried out: the connection is left, and both are sent again in order.
/// - Redis has lost its last writes, or all. The first call that changes something names one that Redis does not know, and
///   is refused in the same way.
/// - The server is not the master any more, and does not know it. It refuses what is written, since its replicas have left
///   it, or no beat comes, while the hub's own go elsewhere: the sentinels are asked (`FormerMasterTests`).
/// - The hub was taken for dead while it was paused. Its next call is refused: it goes on as another hub, and says all
///   again.
package final class RedisLink {
    let shared: SharedRedis
    let number: Int
    private let loop: EventLoop
    let receive: @Sendable (SharedArrival) -> Void
    /// For what the connection brings: the loop is in no call of its own then.
    private let take: (SharedArrival) -> Void
    private var client: RedisClient?
    private let scripts = ScriptHashes()
    let served = LinkApps()
    var apps: KnownApps { served.known }
    private(set) var hub: HubID
    private(set) var followed: FollowedChannels
    /// Calls that are sent before all others, once they can be.
    private var waiting = Fifo<LinkCall>()
    /// The last call of each bucket that changes it, on this connection; nil: none, or it is not known what became of it.
    private var lastSent: [UInt64?]
    private let users = LinkUsers()
    private let commands = LinkCommands()
    private let counted = CountedChannels()
    private var beats: BeatWatch
    private(set) var heart: Heart?
    private var isEnding = false
    /// Something was not told, and there was no gap since.
    private var owesGap = false

    /// Calls that wait for a connection, at most; each is answered as unavailable beyond it.
    static let waitingMax = 10_000
    /// How long a call may wait. The engine waits no longer.
    static let patience = Duration.seconds(5)

    init(
        _ shared: SharedRedis, loop number: Int, of loops: Int, on loop: EventLoop,
        _ receive: @escaping @Sendable (SharedArrival) -> Void, _ take: @escaping (SharedArrival) -> Void
    ) throws {
        self.shared = shared
        self.number = number
        followed = FollowedChannels(served.known, shared.keys, loop: number, of: loops)
        self.loop = loop
        (self.receive, self.take) = (receive, take)
        hub = shared.presentHub
        lastSent = Array(repeating: nil, count: shared.keys.count)
        beats = BeatWatch(buckets: shared.keys.count)
        let client = try RedisClient(
            "loop \(number)", loop: loop, settings: shared.settings.redis,
            prelude: scripts.prelude(shared.settings), log: shared.log,
            handlers: RedisClient.Handlers(
                opened: { [weak self] in self?.opened($0) }, lost: { [weak self] _ in self?.lost() },
                push: { [weak self] in self?.pushed($0) }))
        self.client = client
        users.link = self
        commands.link = self
        counted.link = self
        heart = try Heart(self, on: loop, beats: number == 0)
        refreshApps()
        client.connect()
    }

    func refreshApps() {
        if let apps = served.refresh(shared) { heart?.serve(apps) }
    }

    // MARK: From the loop

    /// Sends a request of the loop. Never waits.
    package func send(_ request: SharedRequest) {
        refreshApps()
        switch request {
        case .channel(let sent): call(sent)
        case .follow(let key): if let channel = followed.insert(key) { subscribe([channel]) }
        case .unfollow(let key): if let channel = followed.remove(key) { _ = client?.unsubscribe([channel]) { _ in } }
        case .user(let sent): if !isEnding { users.tell(sent) }
        case .command(let command): commands.tell(command)
        case .end: end()
        }
    }

    /// Ends. The first loop's link says for the hub that it is dead: what it has gets its grace at once, and nobody waits
    /// until its lease is over.
    private func end() {
        isEnding = true
        heart?.end()
        guard number == 0, client?.isUp == true, let heart else { return close() }
        heart.reap(hub) { [weak self] in self?.close() }
    }

    private func close() {
        heart = nil
        client?.close()
        client = nil
        receive(.ended)
    }

    /// Without its subscriptions, a loop would be deaf: it tries again.
    private func subscribe(_ channels: [[UInt8]]) {
        let sending = client?.subscribe(channels) { [weak self] in
            guard case .refused(let error) = $0 else { return }
            self?.shared.log.isRefused(error)
            self?.client?.leave("SSUBSCRIBE \(error.code)")
        }
        if sending == .full { client?.leave("too many commands wait") }
    }

    private func call(_ sent: SentChannelCall) {
        guard !isEnding else { return }
        let known = SentChannelCall(sent.call, sent.number, from: hub)
        guard let command = try? SharedCommand(known, caller: number, apps, buckets: shared.keys.count) else {
            return answer(.unavailable(.notDone), sent.number)
        }
        shared.metrics.calls.add()
        let deadline = loop.now.advanced(by: Self.patience)
        if let bucket = command.bucket {
            return submit(LinkCall(known, command, bucket: bucket.number, deadline: deadline))
        }
        let gather = LinkGather(shared.keys.count)
        for bucket in shared.keys.indices { ask(command, bucket, gather, sent.number) }
    }

    private func ask(_ command: SharedCommand, _ bucket: Int, _ gather: LinkGather, _ number: UInt64) {
        evaluate(command, bucket) { [weak self] reply in
            guard let self else { return }
            let bytes: [UInt8]? = if case .value(.bytes(let bytes)) = reply { bytes } else { nil }
            if let whole = gather.take(bytes, apps) { answer(whole, number) }
        }
    }

    /// Answers the call, later: nobody expects it within the call.
    private func answer(_ reply: ChannelReply, _ number: UInt64) {
        receive(.news([ChannelNews.reply(number, reply).encoded(apps)]))
    }

    private func refuse(_ call: LinkCall, _ fault: StateFault? = nil) {
        answer(.unavailable(fault ?? call.fault), call.number)
    }

    // MARK: To Redis

    /// Sends the call, behind those that wait.
    private func submit(_ call: LinkCall) {
        if waiting.isEmpty, client?.isUp == true { transmit(call) } else { hold(call) }
    }

    /// Keeps the call until there is a connection. Those that have waited for too long make room.
    private func hold(_ call: LinkCall) {
        while let first = waiting.first, first.deadline <= loop.now {
            waiting.popFirst()
            refuse(first)
        }
        switch call.kind {
        case .fleeting: break
        case .question: refuse(call)
        case .lasting where waiting.count >= Self.waitingMax: refuse(call)
        case .lasting: waiting.append(call)
        }
    }

    private func transmit(_ call: LinkCall) {
        if call.command.changes { call.command.follows(lastSent[call.bucket]) }
        switch send(call.command, call.bucket, { [weak self] in self?.answered($0, call) }) {
        case .taken:
            // One that is repeated may be older than others that were carried out.
            if call.command.changes { lastSent[call.bucket] = max(lastSent[call.bucket] ?? 0, call.number) }
        // It does not wait: nothing would say when there is room, and the caller asks again.
        case .full: if call.kind != .fleeting { refuse(call) }
        case .away, nil: hold(call)
        }
    }

    /// Has the script carry it out. Without a connection, or beyond a bound, it counts as lost.
    func evaluate(_ command: SharedCommand, _ bucket: Int, _ done: @escaping (RedisReply) -> Void) {
        if send(command, bucket, done) != .taken { done(.lost) }
    }

    private func send(_ command: SharedCommand, _ bucket: Int, _ done: @escaping (RedisReply) -> Void) -> RedisSending?
    {
        client?.send(encoding: { command.write(scripts[command.script], shared.keys[bucket], to: &$0) }, done)
    }

    private func answered(_ reply: RedisReply, _ call: LinkCall) {
        switch reply {
        case .value(.bytes(let bytes)):
            take(.news([bytes]))
            if call.command.changes { heart?.channelsMayBeDue(call.bucket) }
        case .value(let value):
            if let pages = MemberPages(value) {
                (call.pages, call.mayBeDone) = (pages, true)
                read(call, from: [UInt8(ascii: "0")])
                heart?.channelsMayBeDue(call.bucket)
            } else {
                refuse(call, .unknown)
            }
        case .lost:
            call.mayBeDone = true
            lost(call)
        case .refused(let error): refused(call, error)
        }
    }

    /// Reads the members, page by page.
    private func read(_ call: LinkCall, from cursor: [UInt8]) {
        evaluate(SharedCommand(membersFor: call.command, from: cursor), call.bucket) { [weak self] reply in
            guard let self, var pages = call.pages else { return }
            guard case .value(let page) = reply else {
                call.pages = nil
                if case .refused(let error) = reply { return refused(call, error) }
                // Beyond a bound, it does not wait.
                return client?.isUp == true ? refuse(call) : lost(call)
            }
            do throws(SharedProblem) {
                let next = try pages.add(page)
                call.pages = pages
                if let next { read(call, from: next) } else { take(.news([pages.answer])) }
            } catch {
                refuse(call)
            }
        }
    }

    /// It may have been carried out, or not: it is sent again, unless nobody waits for it any more.
    private func lost(_ call: LinkCall) {
        if lastSent[call.bucket] == call.number { lastSent[call.bucket] = nil }
        guard call.kind != .fleeting, loop.now < call.deadline, waiting.count < Self.waitingMax else {
            if call.kind != .fleeting { refuse(call) }
            return
        }
        shared.metrics.repeats.add()
        waiting.append(call)
    }

    private func refused(_ call: LinkCall, _ error: RESPError) {
        switch error.code {
        case "NOSCRIPT", "ORDER":
            lost(call)
            client?.leave(ScriptHashes.areLost, as: .lost)
        case "FENCED":
            refuse(call, call.fault(of: error.code))
            shared.renew(call.hub)
            renewIfDead()
        case "SETTLING" where call.kind == .question: refuse(call, call.fault(of: error.code))
        case "SETTLING" where call.kind == .fleeting: break
        case "SETTLING":
            heart?.later { [weak self] in
                guard let self else { return }
                if loop.now < call.deadline { submit(call) } else { refuse(call) }
            }
        default:
            if lastSent[call.bucket] == call.number { lastSent[call.bucket] = nil }
            if shared.isRefused(error) { client?.leave(error.code) }
            refuse(call, call.fault(of: error.code))
        }
    }

    /// Redis has refused what is not a call of the loop, sent as that hub. Returns whether nothing will say it again.
    @discardableResult
    func failed(_ error: RESPError, as sender: HubID) -> Bool {
        switch error.code {
        case "NOSCRIPT": client?.leave(ScriptHashes.areLost, as: .lost)
        case "FENCED":
            shared.renew(sender)
            renewIfDead()
        case "SETTLING": return true
        default:
            if shared.isRefused(error) { client?.leave(error.code) }
            return true
        }
        return false
    }

    /// All is said again with the next connection.
    func owes() { owesGap = true }

    /// All is said again in a while, as if the way had been broken.
    func owe() {
        guard !owesGap else { return }
        owesGap = true
        heart?.later { [weak self] in if let self, owesGap, isUp { tellGap() } }
    }

    // MARK: Up and down

    private func opened(_ generation: UInt64) {
        guard !isEnding else { return }
        shared.metrics.connections.add(1)
        if generation == 1 { shared.isUp(number) }
        lastSent = Array(repeating: nil, count: shared.keys.count)
        beats = BeatWatch(buckets: shared.keys.count)
        let channels = Array(shared.beatChannels.keys) + followed.all
        for part in (channels + ofUsers).parts(of: 500) { subscribe(part) }
        // Before all else: where Redis has lost something, its buckets settle first.
        heart?.beatAll()
        commands.tellUntold()
        if number == 0 { commands.catchUp() }
        while client?.isUp == true, let call = waiting.popFirst() {
            if loop.now < call.deadline { transmit(call) } else { refuse(call) }
        }
        // Nothing was told by the first one.
        if generation > 1 || owesGap {
            tellGap()
            if number == 0 { shared.missedUsers() }
        }
        heart?.begin()
    }

    private var ofUsers: [[UInt8]] { number == 0 ? users.channels(of: hub, shared.keys) : [] }

    private func lost() {
        shared.metrics.connections.add(-1)
        if isEnding { return close() }
        heart?.pause()
    }

    private func tellGap() {
        owesGap = false
        shared.metrics.gaps.add()
        receive(.gap)
        counted.read()
    }

    /// Goes on as another hub, if this one was taken for dead.
    func renewIfDead() {
        guard !isEnding, hub != shared.presentHub else { return }
        let dead = hub
        hub = shared.presentHub
        if number == 0 {
            subscribe(ofUsers)
            shared.missedUsers()
            // Buckets that still take it for alive would count its clients twice until its lease is over.
            heart?.later { [weak self] in self?.heart?.reap(dead) }
        }
        heart?.beatAll()
        if number == 0 { commands.catchUp() }
        lastSent = Array(repeating: nil, count: shared.keys.count)
        while let call = waiting.popFirst() { refuse(call) }
        tellGap()
    }

    // MARK: What Redis tells

    private func pushed(_ push: [RESPValue]) {
        guard push.count == 3, case .bytes(let kind) = push[0], kind.elementsEqual("smessage".utf8),
            case .bytes(let channel) = push[1], case .bytes(let message) = push[2]
        else { return }
        if channel.ends(with: "}:beat") { return beat(message, channel) }
        if channel.ends(with: "}:commands") { return commands.hear(message) }
        take(.news([message]))
    }

    private func beat(_ message: [UInt8], _ channel: [UInt8]) {
        guard let bucket = shared.beatChannels[channel], let beat = try? Beat(message, apps) else { return }
        if beats.isAnew(beat, bucket) { owe() }
        if beats.hasMissed(beat, bucket, now: loop.now) {
            sayAgain(bucket)
        } else {
            let news = beat.changed.filter { followed.has($0.key) }
            // At once, as changes are: one that comes behind it must not overtake it.
            if !news.isEmpty { take(.news(news.map(\.bytes))) }
        }
    }

    /// News that nobody has pushed.
    func tell(_ news: [RESPValue]) {
        receive(.news(news.compactMap { if case .bytes(let bytes) = $0 { bytes } else { nil } }))
    }

    /// What backends are to be told.
    func tell(_ webhooks: [RESPValue], _ receipt: WebhookReceipt) {
        receive(.webhooks(webhooks.compactMap { if case .bytes(let bytes) = $0 { bytes } else { nil } }, receipt))
    }

    /// Another loop's call may have begun something.
    func poked(_ place: Int) { heart?.mayBeDue(place) }

    /// All channels of the bucket may have changed unseen.
    private func sayAgain(_ bucket: Int) {
        let news = followed.latest(in: bucket)
        if !news.isEmpty { receive(.news(news)) }
    }

    /// Says again what buckets hold from which no beat has come for too long.
    func look() {
        let silent = beats.takeSilent(now: loop.now)
        for bucket in silent { sayAgain(bucket) }
        if silent.count == shared.keys.count, shared.mayHaveReplaced(replica) { client?.leave("no beats come") }
    }

    var replica: [UInt8] { scripts.replica }

    // MARK: For users

    var isUp: Bool { client?.isUp == true }

    /// Each second.
    func catchUpOnUsers() {
        commands.tellUntold()
        commands.catchUpAgain()
        if users.haveBeenMissed(shared.usersMissed), number > 0 { owe() }
    }
}

extension [UInt8] {
    fileprivate func ends(with text: StaticString) -> Bool {
        suffix(text.utf8CodeUnitCount).elementsEqual(
            UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }
}

extension Array {
    fileprivate func parts(of size: Int) -> [[Element]] {
        stride(from: 0, to: count, by: size).map { Array(self[$0..<Swift.min(count, $0 + size)]) }
    }
}
