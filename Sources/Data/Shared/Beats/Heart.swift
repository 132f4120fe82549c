import Clock
import HubEngine
import Metrics
import RESP
import Reactor
import Redis

/// What a link does with time: it looks whether all is well. That of the first loop also says that the hub lives, ends what
/// is due, and has backends told, where calls of the hub may have begun something.
///
/// Worst interleaving: the hub whose calls have begun a grace dies. Each hub learns by its own beats what is due, and any of
/// them ends it; who comes second finds nothing (`gracesOfADeadHubEnd`). And: something becomes due while the hub still
/// hears what backends are to be told. If it asked again at once, it would hear the same again, since it has not said yet
/// that it has told it. It asks once it has (`aHubTellsOnceWhileRedisIsSlow`).
final class Heart {
    private weak var link: RedisLink?
    private let loop: EventLoop
    private let beats: Bool
    /// What hubs have of limited apps. The first loop's heart knows it for the whole hub.
    let shares: AppShares?
    private var watch = GroupWatch()
    private var tellings: Tellings
    private let buckets: Int
    private var beating: Alarm?
    private var dues: Alarm?
    private var waiter: Alarm?
    private var isUp = false
    /// Turns since the beginning; in one second each bucket has its turn.
    private var turn = 0
    /// When each bucket's channels have work, and behind them when each bucket's users have.
    private var dueAt: [Instant]
    /// Places of `dueAt` whose end is on its way.
    private var ending: Set<Int> = []
    private var waiting: [(due: Instant, work: () -> Void)] = []

    /// Each wakes Redis and all hubs, which costs more than the beats do. One of more buckets would hold up others' calls.
    private static let turnsPerSecond = 4
    /// Until it is looked whether a call has begun something: counts are told in such intervals.
    private static let soon = Duration.milliseconds(100)
    /// Until what is not known yet is asked again.
    private static let pause = Duration.seconds(1)

    init(_ link: RedisLink, on loop: EventLoop, beats: Bool) throws(ReactorError) {
        self.link = link
        self.loop = loop
        self.beats = beats
        shares = beats ? AppShares() : nil
        buckets = link.shared.keys.count
        dueAt = Array(repeating: .max, count: 2 * buckets)
        tellings = Tellings(buckets: buckets)
        beating = try Alarm(loop) { [weak self] in self?.beat() }
        dues = try Alarm(loop) { [weak self] in self?.endDues() }
        waiter = try Alarm(loop) { [weak self] in self?.perform() }
    }

    /// Nothing is done any more.
    func end() {
        isUp = false
        for alarm in [beating, dues, waiter] { if let alarm { loop.remove(alarm) } }
        (beating, dues, waiter) = (nil, nil, nil)
    }

    // MARK: Up and down

    /// There is a connection.
    func begin() {
        isUp = true
        turn = 0
        beating?.set(after: .milliseconds(1_000 / Self.turnsPerSecond))
    }

    /// There is none.
    func pause() {
        isUp = false
        beating?.unset()
        dues?.unset()
        dueAt = Array(repeating: .max, count: 2 * buckets)
        shares?.forget()
        watch.forget()
        if beats { link?.shared.metrics.hubs.set(0) }
    }

    // MARK: Beats

    private func beat() {
        guard isUp, let link else { return }
        link.refreshApps()
        if turn % Self.turnsPerSecond == 0 || !beats { check() }
        if beats {
            for bucket in stride(from: turn % Self.turnsPerSecond, to: buckets, by: Self.turnsPerSecond) {
                beat(bucket, link)
            }
        } else if link.shared.isSilent(at: loop.now) {
            // The first loop has no connection. Other hubs must not take this one for dead.
            beatAll()
        }
        turn += 1
        beating?.set(after: beats ? .milliseconds(1_000 / Self.turnsPerSecond) : .seconds(1))
    }

    /// Beats for all buckets at once.
    func beatAll() {
        guard let link else { return }
        for bucket in 0..<buckets { beat(bucket, link) }
    }

    private func beat(_ bucket: Int, _ link: RedisLink) {
        link.shared.beats(at: loop.now)
        let sender = link.hub
        let about = bucket == 0 ? link.shared.about : ""
        let use = bucket == 0 ? shares?.say(at: loop.now) : nil
        let asked = shares?.asked ?? []
        let command = SharedCommand(
            beatOf: sender, loop: link.number, at: link.replica, about: about, use: use, apps: asked)
        link.evaluate(command, bucket) { [weak self] in
            self?.beaten(bucket, $0, as: sender, hears: use != nil, asked)
        }
    }

    /// - Parameters:
    ///   - hears: whether the answer says what other hubs have.
    ///   - asked: apps whose channels it counts.
    private func beaten(_ bucket: Int, _ reply: RedisReply, as sender: HubID, hears: Bool, _ asked: [String]) {
        switch reply {
        case .value(.array(let parts)):
            guard parts.count == 8, case .integer(let delay) = parts[0], case .integer(let userDelay) = parts[1],
                case .integer(let settling) = parts[2], case .array(let others) = parts[3],
                case .array(let counts) = parts[4], case .integer(let hubs) = parts[5],
                case .array(let abouts) = parts[6], case .array(let dead) = parts[7]
            else { return }
            link?.shared.metrics.hubs.set(Int(hubs))
            if hears { shares?.hear(others) }
            shares?.hear(counts, of: asked, in: bucket)
            if settling == 0 { link?.shared.hasSettled(bucket) }
            // A beat writes: where it is taken, others are.
            if bucket == 0, let link {
                let shared = link.shared
                shared.log.isTaken()
                shared.isBeaten(link.replica)
                // While it settles, hubs have still to say that they are there.
                if settling > 0 { watch.forget() }
                if settling == 0, beats, !abouts.isEmpty {
                    watch.hear(abouts, dead: dead, as: sender, serving: shared.apps, now: loop.now, shared.logger)
                }
            }
            // What is due is for the first loop alone: to Redis, all loops are the same hub.
            guard beats else { return }
            isDue(bucket, inMilliseconds: tellings.isUnderWay(bucket) ? 0 : delay)
            isDue(buckets + bucket, inMilliseconds: userDelay)
        case .refused(let error): link?.failed(error, as: sender)
        case .value, .lost: break
        }
    }

    /// Looks whether the hub was taken for dead, and whether beats come.
    func check() {
        guard let link else { return }
        link.renewIfDead()
        link.catchUpOnUsers()
        link.look()
    }

    // MARK: What is due

    /// A call about the bucket's channels may have begun something.
    func channelsMayBeDue(_ bucket: Int) { mayBeDue(bucket) }

    /// A call about the bucket's users has.
    func usersMayBeDue(_ bucket: Int) { mayBeDue(buckets + bucket) }

    /// `place` in `dueAt`.
    func mayBeDue(_ place: Int) {
        if beats { isDue(place, at: loop.now.advanced(by: Self.soon)) } else { link?.shared.poke(place) }
    }

    private func isDue(_ place: Int, inMilliseconds delay: Int64) {
        // Behind the time, not before it: the server counts in whole milliseconds.
        if delay >= 0 { isDue(place, at: loop.now.advanced(by: .milliseconds(delay + 1))) }
    }

    private func isDue(_ place: Int, at time: Instant) {
        guard isUp, time < dueAt[place] else { return }
        dueAt[place] = time
        dues?.set(within: time.duration(since: Instant.read()))
    }

    private func endDues() {
        guard isUp, let link else { return }
        let now = loop.now
        for place in dueAt.indices where dueAt[place] <= now && ending.insert(place).inserted {
            dueAt[place] = .max
            if place < buckets { endDues(of: place, link) } else { endUserDues(of: place - buckets, link) }
        }
        waitForNext()
    }

    private func waitForNext() {
        let next = dueAt.indices.lazy.filter { !self.ending.contains($0) }.map { self.dueAt[$0] }.min() ?? .max
        if next < .max { dues?.set(within: next.duration(since: Instant.read())) }
    }

    private func hasEnded(_ place: Int) {
        ending.remove(place)
        if dueAt[place] < .max { waitForNext() }
    }

    private func endDues(of bucket: Int, _ link: RedisLink) {
        let sender = link.hub
        let told = tellings.told(bucket)
        let command = SharedCommand(
            dueOf: sender, after: tellings.last(bucket), told: told, in: tellings.epoch(bucket),
            foreign: tellings.foreign(bucket))
        link.evaluate(command, bucket) { [weak self] reply in
            guard let self else { return }
            // A hub that ends leaves what it gets now to others.
            if isUp, case .value(.array(let parts)) = reply, parts.count == 6, case .integer(let delay) = parts[1],
                case .bytes(let last) = parts[2], case .array(let webhooks) = parts[3],
                case .integer(let kind) = parts[4], case .bytes(let epoch) = parts[5]
            {
                if kind > 0 { tellings.begin(bucket, in: epoch) } else { tellings.isKnown(told, bucket) }
                isDue(bucket, inMilliseconds: delay)
                if let link = self.link, !webhooks.isEmpty {
                    if kind == 2 {
                        link.shared.dropped(unserved: webhooks.count)
                        link.receive(.unserved(webhooks.count))
                        return endDues(of: bucket, link)
                    }
                    if tell(webhooks, upTo: last, bucket, link) { return endDues(of: bucket, link) }
                }
            }
            if case .refused(let error) = reply { self.link?.failed(error, as: sender) }
            hasEnded(bucket)
        }
    }

    /// Has backends told, up to an event of an app that this hub does not serve. Returns whether to ask again at once.
    private func tell(_ webhooks: [RESPValue], upTo last: [UInt8], _ bucket: Int, _ link: RedisLink) -> Bool {
        let served = webhooks.prefix { if case .bytes(let bytes) = $0 { link.served.tells(bytes) } else { true } }
        let rest = webhooks.count - served.count
        if !served.isEmpty {
            let number = tellings.gets(upTo: Self.id(rest, before: last), bucket)
            let receipt = WebhookReceipt { [weak shared = link.shared] in
                shared?.perform { $0?.heart?.isTold(number, bucket) }
            }
            link.tell(Array(served), receipt)
        }
        guard rest > 0 else { return true }
        tellings.comesToForeign(Self.id(rest - 1, before: last), bucket)
        return !tellings.foreign(bucket).isEmpty
    }

    /// Ids are numbered without a gap.
    private static func id(_ count: Int, before last: [UInt8]) -> [UInt8] {
        let number = UInt64(String(decoding: last.prefix { $0 != UInt8(ascii: "-") }, as: UTF8.self)) ?? 0
        return Array("\(number &- UInt64(count))-0".utf8)
    }

    /// These apps are served from now on.
    func serve(_ apps: [App]) {
        shares?.serve(apps)
        for bucket in tellings.servesOthers() { isDue(bucket, at: loop.now) }
    }

    /// Backends have been told of the page.
    private func isTold(_ number: Int, _ bucket: Int) {
        if tellings.isTold(number, bucket) { isDue(bucket, at: loop.now) }
    }

    private func endUserDues(of bucket: Int, _ link: RedisLink) {
        let sender = link.hub
        link.evaluate(SharedCommand(userDueOf: sender), bucket) { [weak self] reply in
            guard let self else { return }
            switch reply {
            case .value(.integer(let delay)): isDue(buckets + bucket, inMilliseconds: delay)
            case .refused(let error): self.link?.failed(error, as: sender)
            case .value, .lost: break
            }
            hasEnded(buckets + bucket)
        }
    }

    // MARK: The dead

    /// Says of this run, which is the hub, or was, that it is dead. What it has gets its grace.
    ///
    /// - Parameter done: called when all buckets know, or cannot be told.
    func reap(_ run: HubID, _ done: @escaping () -> Void = {}) {
        guard let link else { return done() }
        let call = SentChannelCall(.reap(run), 0, from: link.hub)
        guard let command = try? SharedCommand(call, caller: 0, link.apps, buckets: buckets) else { return done() }
        var left = buckets
        for bucket in 0..<buckets {
            link.evaluate(command, bucket) { _ in
                left -= 1
                if left == 0 { done() }
            }
        }
    }

    // MARK: Later

    /// Does it after a pause.
    func later(_ work: @escaping () -> Void) {
        waiting.append((loop.now.advanced(by: Self.pause), work))
        waiter?.set(within: Self.pause)
    }

    private func perform() {
        let now = Instant.read()
        let due = waiting.filter { $0.due <= now }
        waiting.removeAll { $0.due <= now }
        for entry in due { entry.work() }
        if let next = waiting.first { waiter?.set(within: next.due.duration(since: now)) }
    }
}
