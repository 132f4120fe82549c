import Clock
import Logging
import Metrics
import Postgres
import Reactor
import Sync
import Synchronization

/// The feed on its loop: joins the connections, the tail machine and the sink.
///
/// Inputs only change state and collect outputs. At the end of the tick the outputs leave in one call, in order, and the
/// next query is sent; so all notifications of a tick cost one read.
final class FeedLoop: EventSource {
    /// How long reading pauses before it checks again whether the receivers have caught up.
    private static let backlogPause = Duration.milliseconds(2)

    private let loop: EventLoop
    private let configuration: FeedConfiguration
    private let sink: FeedSink
    private let logger: Logger
    private let metrics: FeedMetrics
    private var tail: Tail
    private var revoked: RevocationTail
    private var topics = TopicWatch()
    private var writer = OldestWriter()
    /// When the published tables were last checked, except on connecting.
    private var lastPublished = Instant(nanoseconds: 0)
    private var outputs: [FeedOutput] = []
    private var status = FeedStatus.away
    private var pace = (tail: TailPace(), positions: PositionPace())
    private var reader: Reader?
    private var notifyProbe: NotifyProbe?
    private var logReader: LogReader?
    private var bulkReader: BulkReader?
    private var resume: Alarm?
    private var check: Alarm?
    private var outage: OutageNotice?

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
        revoked = RevocationTail(interval: configuration.revocationInterval)
        super.init()
        try loop.add(self)
        let reader = try Reader(
            loop, reading, configuration, logger, metrics, postgres.meter(.tail),
            connected: { [weak self] in self?.connected($0, $1) },
            lost: { [weak self] in self?.readerLost() })
        self.reader = reader
        notifyProbe = try NotifyProbe(
            loop, listening, configuration, logger, metrics, postgres.meter(.listen), reader,
            woken: { [weak self] in self?.woken() },
            published: { [weak self] in self?.published() },
            changed: { [weak self] in self?.mark() })
        let logReader = try LogReader(
            loop, reading, configuration, logger, metrics, postgres.meter(.catchUp), postgres.meter(.bulk),
            changed: { [weak self] in self?.mark() },
            isWatched: { [weak self] in self?.tail.isWatched($0.stream, serial: $0.watch) ?? false },
            put: { [weak self] in self?.put($0) })
        self.logReader = logReader
        bulkReader = BulkReader(
            logReader, metrics,
            received: { [weak self] page, number throws(MalformedAnswer) in try self?.received(page, of: number) },
            ended: { [weak self] in self?.bulkEnded($0, isWhole: $1) },
            changed: { [weak self] in self?.mark() })
        resume = try Alarm(loop) { [weak self] in self?.mark() }
        check = try Alarm(loop) { [weak self] in self?.checkDue() }
        outage = try OutageNotice(loop, after: configuration.degradedAfter) { [weak self] in self?.put(.degraded($0)) }
        outage?.changed(isAway: true)
        check?.set(after: configuration.positionCheckInterval)
        notifyProbe?.start()
        reader.start()
        logReader.start()
    }

    /// A request from an owning loop.
    func received(_ request: FeedRequest) {
        switch request {
        case .watch(let stream, let serial, let isBack):
            tail.watch(stream, serial: serial, isBack: isBack, &outputs)
            pace.positions.came(at: loop.now)
        case .unwatch(let stream): tail.unwatch(stream)
        case .read(let read): logReader?.read(read)
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
        notifyProbe?.readerConnected()
        mark()
    }

    private func readerLost() {
        writer.gone()
        metrics.writes(since: nil)
        tail.disconnected()
        let wasCurrent = revoked.isComplete
        revoked.disconnected()
        topics.disconnected()
        revocationsChanged(from: wasCurrent)
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

    private func checkDue() {
        tail.checkDue()
        // Once per round over all streams, not with each lot.
        if loop.now.duration(since: lastPublished) >= configuration.positionCheckInterval, reader?.isUp == true {
            lastPublished = loop.now
            reader?.checkPublished()
        }
        check?.set(after: configuration.positionCheckInterval / tail.checkLots)
        mark()
    }

    private func put(_ output: FeedOutput) {
        if case .unreadable(let read, .otherEpoch) = output {
            // The log showed the new epoch first: the reset need not wait for the position check.
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
                pace.tail.ended(at: loop.now)
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
        let wasCurrent = revoked.isComplete
        revoked.received(page.revocations, snapshot: page.snapshot)
        metrics.revocations.add(page.revocations.count)
        if !page.revocations.isEmpty { outputs.append(.revoked(page.revocations)) }
        revocationsChanged(from: wasCurrent)
        mark()
    }

    private func answered(_ published: PublishedTopics) {
        if let news = topics.received(published) { outputs.append(.topics(news)) }
        mark()
    }

    private func revocationsChanged(from wasCurrent: Bool) {
        let isCurrent = revoked.isComplete
        guard isCurrent != wasCurrent else { return }
        outputs.append(.revocationsCurrent(isCurrent))
        logReader?.current(isCurrent)
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
        guard let logReader else { return }
        var hasRoom = true
        if logReader.wantsPage, sink.backlog() > configuration.backlogMax {
            hasRoom = false
            resume?.set(within: Self.backlogPause)
        }
        logReader.pump(hasRoom: hasRoom)
    }

    private func pumpReader() {
        guard let reader, reader.isUp, !tail.isBusy, !revoked.isBusy, !topics.isBusy else { return }
        if revoked.wantsRead {
            let pause = revoked.pause(at: loop.now)
            if pause > .zero {
                resume?.set(within: pause)
            } else if let query = revoked.nextQuery(at: loop.now) {
                return reader.send(query) { [weak self] in self?.answered($0) }
            }
        }
        guard revoked.isComplete else { return }
        if topics.begins() { return reader.sendTopics { [weak self] in self?.answered($0) } }
        var permit: Tail.Permit = [.tail, .replay]
        let backlog = sink.backlog()
        if backlog > FeedLimits.bulkBacklogMax {
            // A long replay waits as pages of a bulk do, since live events of others queue behind it.
            permit = backlog > configuration.backlogMax ? [] : .tail
            resume?.set(within: Self.backlogPause)
        } else if backlog > configuration.backlogMax {
            permit = []
            resume?.set(within: Self.backlogPause)
        }
        if permit.contains(.tail), tail.wantsTail, let rest = pace.tail.rest(at: loop.now) {
            permit.remove(.tail)
            resume?.set(within: rest)
        }
        var fewest = 1
        if tail.waitingPositions > 0, let rest = pace.positions.rest(at: loop.now) {
            fewest = FeedLimits.positionsPerQuery
            resume?.set(within: rest)
        }
        guard let query = tail.nextQuery(permit, fewestPositions: fewest) else { return }
        switch query {
        case .tail: pace.tail.begins(at: loop.now)
        case .positions(let tickets): pace.positions.asked(tickets.count, at: loop.now)
        case .check, .replay: break
        }
        reader.send(query) { [weak self] in self?.answered($0) }
    }

    /// Reads a page of a bulk only when the loops' queues are almost empty, since live events of others queue behind it.
    private func pumpBulk() {
        guard let bulkReader, bulkReader.number != nil || Self.hasBulk(&tail) else { return }
        if bulkReader.number != tail.bulk?.number { bulkReader.cancel() }
        if bulkReader.isUp, let server = reader?.server {
            if let bulk = tail.nextBulk() { bulkReader.begin(bulk, on: server, epoch: tail.epoch) }
        } else if tail.waitingTickets == 0, let bulk = tail.nextBulk() {
            // Not while streams are still compared because of the last bulk: that would start anew each time.
            tail.bulkFailed(bulk.number)
            mark()
        }
        guard bulkReader.wantsPage else { return }
        if sink.backlog() > min(configuration.backlogMax, FeedLimits.bulkBacklogMax) {
            resume?.set(within: Self.backlogPause)
        } else {
            bulkReader.read()
        }
    }

    /// A parameter, since a property would be copied first.
    private static func hasBulk(_ tail: inout Tail) -> Bool { tail.hasBulk }

    private func refreshStatus() {
        let next: FeedStatus
        if reader?.isUp != true {
            next = .away
        } else if status == .away || status == .catchingUp, !revoked.isComplete || !topics.areKnown || !tail.isCaughtUp
        {
            next = .catchingUp
        } else if notifyProbe?.isLive == true {
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
}
