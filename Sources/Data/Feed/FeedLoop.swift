import Clock
import Logging
import Metrics
import Postgres
import Reactor
import Sync
import Synchronization

/// The feed on its loop: joins the connections, the tail machine and the sink.
///
/// Whatever happens in a tick only changes state and collects outputs; when the tick ends, the outputs leave in one
/// call, in their order, and the next query is sent. So all notifications of a tick cost one read.
final class FeedLoop: EventSource {
    /// How long reading pauses before it looks again whether the receivers have caught up.
    private static let backlogPause = Duration.milliseconds(2)

    private let loop: EventLoop
    private let configuration: FeedConfiguration
    private let sink: FeedSink
    private let logger: Logger
    private let metrics: FeedMetrics
    private var tail: Tail
    private var revoked = RevocationTail()
    private var topics = TopicWatch()
    private var writer = OldestWriter()
    /// When the last read of revocations began.
    private var lastRevocations = Instant(nanoseconds: 0)
    /// When the published tables were looked at last, except on connecting.
    private var lastPublished = Instant(nanoseconds: 0)
    private var outputs: [FeedOutput] = []
    /// Whether all revocations are known.
    private var isCurrent = false
    private var status = FeedStatus.away
    private var lastTail = Instant(nanoseconds: 0)
    /// Whether a notification from the reader was heard by the listener, nil while that is not known.
    private var isProbeHeard: Bool?
    private var reader: Reader?
    private var listener: Listener?
    private var catchUp: CatchUp?
    private var bulkReader: BulkReader?
    private var poll: Alarm?
    private var resume: Alarm?
    private var revocationsDue: Alarm?
    private var probe: Alarm?
    private var check: Alarm?
    private var outage: Outage?

    init(
        _ loop: EventLoop, _ configuration: FeedConfiguration, reading: ConnectionParameters,
        listening: ConnectionParameters, _ sink: FeedSink, _ logger: Logger, _ metrics: FeedMetrics,
        _ postgres: PostgresMetrics
    ) throws(ReactorError) {
        self.loop = loop
        self.configuration = configuration
        self.sink = sink
        self.logger = logger
        self.metrics = metrics
        tail = Tail(
            streamsMax: configuration.streamsMax, streamsPerUserMax: configuration.streamsPerUserMax)
        super.init()
        try loop.add(self)
        reader = try Reader(
            loop, reading, configuration, logger, metrics, postgres.meter(.tail),
            connected: { [weak self] in self?.connected($0, $1) },
            lost: { [weak self] in self?.readerLost() })
        listener = try Listener(
            loop, listening, configuration, logger, metrics, postgres.meter(.listen),
            woken: { [weak self] in self?.woken() },
            published: { [weak self] in self?.published() },
            changed: { [weak self] in self?.listenerChanged() })
        catchUp = try CatchUp(
            loop, reading, configuration, logger, metrics, postgres.meter(.catchUp),
            changed: { [weak self] in self?.mark() },
            put: { [weak self] in self?.put($0) })
        bulkReader = try BulkReader(
            loop, reading, configuration, logger, metrics, postgres.meter(.bulk),
            received: { [weak self] page, number throws(MalformedAnswer) in try self?.received(page, of: number) },
            ended: { [weak self] in self?.bulkEnded($0, isWhole: $1) },
            changed: { [weak self] in self?.mark() })
        poll = try Alarm(loop) { [weak self] in self?.pollDue() }
        resume = try Alarm(loop) { [weak self] in self?.mark() }
        revocationsDue = try Alarm(loop) { [weak self] in self?.mark() }
        probe = try Alarm(loop) { [weak self] in self?.probeUnheard() }
        check = try Alarm(loop) { [weak self] in self?.checkDue() }
        outage = try Outage(loop, after: configuration.degradedAfter) { [weak self] in self?.put(.degraded($0)) }
        outage?.changed(isAway: true)
        schedulePoll()
        check?.set(after: configuration.positionCheckInterval)
        listener?.start()
        reader?.start()
        catchUp?.start()
        bulkReader?.start()
    }

    /// A request from a home loop.
    func received(_ request: FeedRequest) {
        switch request {
        case .watch(let stream, let serial): tail.watch(stream, serial: serial, &outputs)
        case .unwatch(let stream): tail.unwatch(stream)
        case .read(let read): catchUp?.read(read)
        case .wake: tail.wake()
        }
        mark()
    }

    override func tickEnded() {
        pump()
        refreshStatus()
        metrics.streams.set(tail.streamCount)
        guard !outputs.isEmpty else { return }
        let batch = outputs
        outputs = []
        metrics.events.add(batch.count { if case .event = $0 { true } else { false } })
        sink.deliver(batch)
    }

    private func sawWriters(_ snapshot: String) {
        writer.saw(snapshot, at: loop.now)
        metrics.writes(since: writer.since)
    }

    // MARK: Inputs

    private func connected(_ snapshot: String, _ epoch: String) {
        sawWriters(snapshot)
        tail.connected(snapshot: snapshot, epoch: epoch)
        revoked.connected()
        topics.connected()
        schedulePoll()
        sendProbe()
        mark()
    }

    private func readerLost() {
        writer.gone()
        metrics.writes(since: nil)
        tail.disconnected()
        revoked.disconnected()
        topics.disconnected()
        revocationsCurrent(false)
        mark()
    }

    private func woken() {
        tail.wake()
        revoked.wake()
        mark()
    }

    private func published() {
        topics.wake()
        mark()
    }

    private func listenerChanged() {
        isProbeHeard = nil
        schedulePoll()
        sendProbe()
        mark()
    }

    private func pollDue() {
        schedulePoll()
        topics.wake()
        woken()
    }

    private func checkDue() {
        tail.checkDue()
        // Once in each round over all streams, not with each lot of them.
        if loop.now.duration(since: lastPublished) >= configuration.positionCheckInterval, reader?.isUp == true {
            lastPublished = loop.now
            reader?.checkPublished()
        }
        check?.set(after: configuration.positionCheckInterval / tail.checkLots)
        mark()
    }

    private func put(_ output: FeedOutput) {
        if case .unreadable(let read, .otherEpoch) = output {
            // Seen there first: the reset need not wait for the check.
            tail.suspected(read.stream, otherThan: read.epoch)
        }
        outputs.append(output)
        mark()
    }

    private func answered(_ answer: Reader.Answer) {
        do throws(MalformedAnswer) {
            switch answer {
            case .positions(let positions): try tail.positionsReceived(positions, &outputs)
            case .tail(let page) where page.isOverflow:
                sawWriters(page.snapshot)
                try tail.tailOverflowed(snapshot: page.snapshot, epoch: page.epoch)
            case .tail(let page):
                sawWriters(page.snapshot)
                try tail.tailReceived(page.events, snapshot: page.snapshot, epoch: page.epoch, &outputs)
            case .replay(let page): try tail.replayReceived(page, &outputs)
            }
        } catch {
            reader?.drop(.malformedAnswer)
        }
        countGaps()
        mark()
    }

    private func received(_ page: BulkRows, of number: UInt64) throws(MalformedAnswer) {
        defer { mark() }
        try tail.bulkReceived(page, of: number, &outputs)
    }

    private func bulkEnded(_ number: UInt64, isWhole: Bool) {
        if isWhole { tail.bulkEnded(number) } else { tail.bulkFailed(number) }
        countGaps()
        mark()
    }

    private func answered(_ page: RevocationRows) {
        revoked.received(page.revocations, snapshot: page.snapshot)
        metrics.revocations.add(page.revocations.count)
        if !page.revocations.isEmpty { outputs.append(.revoked(page.revocations)) }
        revocationsCurrent(revoked.isComplete)
        mark()
    }

    private func answered(_ published: PublishedTopics) {
        if let news = topics.received(published) { outputs.append(.topics(news)) }
        mark()
    }

    private func revocationsCurrent(_ isCurrent: Bool) {
        guard isCurrent != self.isCurrent else { return }
        self.isCurrent = isCurrent
        outputs.append(.revocationsCurrent(isCurrent))
        catchUp?.current(isCurrent)
    }

    private func countGaps() {
        let known = Int(clamping: metrics.gaps.count)
        guard tail.gapCount > known else { return }
        metrics.gaps.add(tail.gapCount - known)
        logger.warning(
            "streams were behind the database, and what they missed is being read: report this as a bug",
            metadata: ["streams": "\(tail.gapCount - known)"])
    }

    // MARK: Steps

    private func mark() {
        loop.markDirty(self)
    }

    private func pump() {
        pumpReader()
        pumpBulk()
        guard let catchUp else { return }
        var hasRoom = true
        if catchUp.wantsPage, sink.backlog() > configuration.backlogMax {
            hasRoom = false
            resume?.set(after: Self.backlogPause)
        }
        catchUp.pump(hasRoom: hasRoom) { tail.isWatched($0.stream, serial: $0.watch) }
    }

    private func pumpReader() {
        guard let reader, reader.isUp, !tail.isBusy, !revoked.isBusy, !topics.isBusy else { return }
        if let query = revocationQuery() { return reader.send(query) { [weak self] in self?.answered($0) } }
        guard revoked.isComplete else { return }
        if topics.begins() { return reader.sendTopics { [weak self] in self?.answered($0) } }
        var permit: Tail.Permit = [.tail, .replay]
        let backlog = sink.backlog()
        if backlog > FeedLimits.bulkBacklogMax {
            // A long replay waits as pages of a bulk do: live events of others come behind it.
            permit = backlog > configuration.backlogMax ? [] : .tail
            resume?.set(after: Self.backlogPause)
        } else if backlog > configuration.backlogMax {
            permit = []
            resume?.set(after: Self.backlogPause)
        }
        if permit.contains(.tail), tail.wantsTail, configuration.tailInterval > .zero {
            let elapsed = loop.now.duration(since: lastTail)
            if elapsed < configuration.tailInterval {
                permit.remove(.tail)
                resume?.set(after: configuration.tailInterval - elapsed)
            }
        }
        guard let query = tail.nextQuery(permit) else { return }
        if case .tail = query { lastTail = loop.now }
        reader.send(query) { [weak self] in self?.answered($0) }
    }

    /// A page of a bulk goes when hardly anything is before the loops: live events of others come behind it there.
    private func pumpBulk() {
        guard let bulkReader else { return }
        if bulkReader.number != tail.bulk?.number { bulkReader.cancel() }
        if bulkReader.isUp, let server = reader?.server {
            if let bulk = tail.nextBulk() { bulkReader.begin(bulk, on: server, epoch: tail.epoch) }
        } else if tail.waitingTickets == 0, let bulk = tail.nextBulk() {
            // Not while streams are still being compared on account of the one before: they would begin anew each time.
            tail.bulkFailed(bulk.number)
            mark()
        }
        guard bulkReader.wantsPage else { return }
        if sink.backlog() > min(configuration.backlogMax, FeedLimits.bulkBacklogMax) {
            resume?.set(after: Self.backlogPause)
        } else {
            bulkReader.read()
        }
    }

    /// At most so often, for every commit of anything wakes.
    private func revocationQuery() -> RevocationTail.Query? {
        guard revoked.wantsRead else { return nil }
        let pause = configuration.revocationInterval - loop.now.duration(since: lastRevocations)
        guard !revoked.isComplete || revoked.isAmidRead || pause <= .zero else {
            revocationsDue?.set(after: pause)
            return nil
        }
        lastRevocations = loop.now
        return revoked.nextQuery()
    }

    private func schedulePoll() {
        let isHeard = listener?.isListening == true && isProbeHeard != false
        poll?.set(
            after: isHeard
                ? configuration.pollInterval : min(configuration.pollInterval, configuration.pollIntervalUnheard))
    }

    private func refreshStatus() {
        let next: FeedStatus
        if reader?.isUp != true {
            next = .away
        } else if status == .away || status == .catchingUp, !isCurrent || !topics.areKnown || !tail.isCaughtUp {
            next = .catchingUp
        } else if listener?.isListening == true, isProbeHeard != false {
            next = .live
        } else {
            next = .polling
        }
        guard next != status else { return }
        logger.info("feed: \(next)")
        status = next
        metrics.status.withLock { $0 = next }
        outputs.append(.status(next))
        outage?.changed(isAway: next == .away || next == .catchingUp)
    }

    // MARK: The probe

    /// LISTEN through a pooler of transactions succeeds and hears nothing. So once both connections are up, one tells
    /// the other something.
    private func sendProbe() {
        guard isProbeHeard == nil, let listener, listener.isListening, let reader, reader.isUp else { return }
        let token = String(UInt64.random(in: .min ... .max), radix: 16)
        listener.expect(token) { [weak self] in self?.probeHeard() }
        reader.sendProbe(token)
        probe?.set(after: configuration.heartbeatTimeout)
    }

    private func probeHeard() {
        probe?.unset()
        isProbeHeard = true
        mark()
    }

    private func probeUnheard() {
        guard isProbeHeard == nil, listener?.isListening == true, reader?.isUp == true else { return }
        isProbeHeard = false
        logger.error(
            """
            PostgreSQL: the listening connection hears no notifications, so events come by polling; does its \
            connection string lead through a pooler of transactions?
            """)
        schedulePoll()
        mark()
    }
}
