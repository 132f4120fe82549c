import Bytes
import Clock
import Pusher
import Sync

/// What sessions missed of one shard's streams: from the window as far as it reaches, otherwise from the log.
struct StreamReplays {
    typealias Effects = ContiguousArray<StreamShard.Effect>

    private let limits: StreamLimits
    /// By stream, where pages of the log are awaited.
    private var readers: [StreamID: StreamReaders] = [:]
    /// The earliest end of a reader's backoff; nil where there is none.
    private(set) var nextPauseEnd: Instant?

    init(_ limits: StreamLimits) {
        self.limits = limits
    }

    var readerCount: Int { readers.values.reduce(0) { $0 + $1.count } }

    /// Whether a reader waits until the stream reaches an offset that the log has.
    func awaitsArrival(_ id: StreamID) -> Bool { readers[id]?.awaitsArrival == true }

    // MARK: Questions

    /// Decides on a `sync:resume`. Where the window does not reach, the log decides.
    mutating func resume(
        _ join: StreamJoin, _ loop: Int, from: StreamPosition, in stream: StreamState, at position: StreamPosition,
        _ effects: inout Effects
    ) {
        let missed = position.offset.subtractingReportingOverflow(from.offset)
        if from.epoch != position.epoch {
            effects.answer(join, loop, position, .lost(.streamReset))
        } else if from.offset > position.offset {
            // The shard stands where the feed has read to. A snapshot, or another hub, may be newer than that.
            read(join, loop, after: from.offset, .confirmation, in: stream, at: position, &effects)
        } else if missed.overflow || missed.partialValue > limits.replayEvents {
            effects.answer(join, loop, position, .lost(.tooMany))
        } else if missed.partialValue == 0 {
            effects.answer(join, loop, position, .recovered(replayed: 0, nil))
        } else if let page = stream.page(join.name, after: from.offset, limits) {
            effects.answer(join, loop, position, .recovered(replayed: missed.partialValue, page))
        } else {
            read(join, loop, after: from.offset, .resume, in: stream, at: position, &effects)
        }
    }

    /// The next page for a session that is being replayed, however far it is behind.
    mutating func next(
        _ join: StreamJoin, _ loop: Int, after: StreamPosition, in stream: StreamState, at position: StreamPosition,
        _ effects: inout Effects
    ) {
        if after.epoch != position.epoch || after.offset > position.offset {
            // A reset is on its way to the loop, ahead of this answer.
            effects.answer(join, loop, position, .lost(.streamReset))
        } else if after.offset == position.offset {
            effects.answer(join, loop, position, .page(nil))
        } else if let page = stream.page(join.name, after: after.offset, limits) {
            effects.answer(join, loop, position, .page(page))
        } else {
            read(join, loop, after: after.offset, .page, in: stream, at: position, &effects)
        }
    }

    // MARK: The log

    mutating func page(
        _ read: StreamRead, _ events: [StreamEvent], in stream: StreamState, now: Instant, _ effects: inout Effects
    ) {
        guard let position = current(read, in: stream) else { return }
        guard read.after < read.upTo else { return confirmed(read, in: stream, at: position, &effects) }
        // The feed gives a page without a gap. An event that does not follow is not handed on.
        var page: ContiguousArray<ReplayWindow.Entry> = []
        for event in events {
            let next = read.after &+ Int64(page.count) &+ 1
            guard event.offset == next, next <= read.upTo, next <= position.offset else { break }
            page.append(ReplayWindow.Entry(name: event.name, data: event.data))
        }
        guard !page.isEmpty else { return unreadable(read, .busy, in: stream, now: now, &effects) }
        if let index = readers.index(forKey: read.stream) { readers.values[index].recovered() }
        let last = read.after &+ Int64(page.count)
        var pages: [StreamForm: StreamPage] = [:]
        for reader in answered(read, where: { $0.after == read.after && $0.purpose != .arrival }) {
            let form = reader.key.form
            let name = StreamName(form: form, stream: read.stream)
            guard let shared = pages[form] ?? StreamPage(page, last: last, name) else { continue }
            pages[form] = shared
            answer(
                reader, position,
                reader.purpose == .page
                    ? .page(shared) : .recovered(replayed: position.offset - reader.after, shared), &effects
            )
        }
        readNext(stream, position, &effects)
    }

    /// A page of the log cannot be had.
    ///
    /// A client that asked by `sync:resume` is told. A page that no client asked for is read again after a backoff, unless
    /// the log has lost it. Otherwise a device that is only slow would continue without the events between, and a stock
    /// client ignores the message that says so. The worst interleavings, each with its test in `PausedReadTests`: during the
    /// backoff the subscription ends, or is replaced; the stream gets another epoch; another subscription resumes and must
    /// not wait for its end; or the log loses the page.
    mutating func unreadable(
        _ read: StreamRead, _ failure: StreamReadFailure, in stream: StreamState, now: Instant,
        _ effects: inout Effects
    ) {
        guard let position = current(read, in: stream) else { return }
        let meant: [StreamReaders.Reader]
        let loss: ResumeLoss
        switch failure {
        case .expired:
            // Offsets before an expired one have expired too.
            loss = .positionExpired
            meant = answered(read) { $0.after <= read.after }
        case .ahead:
            loss = .ahead
            meant = answered(read) {
                $0.purpose == .confirmation && $0.after >= read.after && $0.after > position.offset
            }
        case .otherEpoch:
            // A reset will tell all subscribers of the other epoch. Until it comes, this epoch's log is out of reach.
            loss = .storeUnavailable
            meant = answered(read) { $0.purpose != .page }
            pause(read, now) { _ in true }
        case .busy:
            loss = .storeUnavailable
            meant = answered(read) {
                ($0.purpose == .resume || $0.purpose == .confirmation) && $0.after == read.after
            }
            pause(read, now) { $0.after == read.after }
        }
        for reader in meant { answer(reader, position, .lost(loss), &effects) }
        readNext(stream, position, &effects)
    }

    /// Backs off from the stream's log, if a reader that `isMeant` selects waits for a page.
    private mutating func pause(_ read: StreamRead, _ now: Instant, where isMeant: (StreamReaders.Reader) -> Bool) {
        guard let index = readers.index(forKey: read.stream), readers.values[index].awaitsPage(where: isMeant) else {
            return
        }
        let until = readers.values[index].pause(at: now, salt: UInt64(read.watch), limits)
        nextPauseEnd = min(nextPauseEnd ?? until, until)
    }

    /// Returns the streams whose backoff is over and whose pages must be read again.
    mutating func endPauses(now: Instant) -> [StreamID] {
        guard let due = nextPauseEnd, due <= now else { return [] }
        nextPauseEnd = nil
        var ended: [StreamID] = []
        for index in readers.indices {
            guard let until = readers.values[index].pausedUntil else { continue }
            if until <= now {
                readers.values[index].endPause()
                ended.append(readers.keys[index])
            } else {
                nextPauseEnd = min(nextPauseEnd ?? until, until)
            }
        }
        return ended
    }

    // MARK: Ahead of the shard

    /// The log has reached the offset that was asked about, and the shard has not yet.
    private mutating func confirmed(
        _ read: StreamRead, in stream: StreamState, at position: StreamPosition, _ effects: inout Effects
    ) {
        for reader in answered(read, where: { $0.purpose == .confirmation && $0.after <= read.after }) {
            if reader.after <= position.offset {
                resume(reader, in: stream, at: position, &effects)
            } else {
                readers[read.stream, default: StreamReaders()].awaitArrival(reader)
            }
        }
        readNext(stream, position, &effects)
    }

    /// The stream has moved on: readers that were ahead of it continue from there.
    mutating func arrived(_ stream: StreamState, _ effects: inout Effects) {
        guard let position = stream.position, let index = readers.index(forKey: stream.id) else { return }
        let arrived = readers.values[index].arrived(at: position.offset)
        for reader in arrived { resume(reader, in: stream, at: position, &effects) }
        if !arrived.isEmpty { readNext(stream, position, &effects) }
    }

    private mutating func resume(
        _ reader: StreamReaders.Reader, in stream: StreamState, at position: StreamPosition, _ effects: inout Effects
    ) {
        let from = StreamPosition(in: position.epoch, offset: reader.after)
        let join = StreamJoin(
            name: StreamName(form: reader.key.form, stream: stream.id), session: reader.key.session,
            serial: reader.serial,
            purpose: .resume(from: from))
        resume(join, Int(reader.key.loop), from: from, in: stream, at: position, &effects)
    }

    /// The stream's position, if the read is the one that its readers wait for.
    private func current(_ read: StreamRead, in stream: StreamState) -> StreamPosition? {
        guard stream.watch == read.watch, let position = stream.position,
            position.epoch == read.epoch, readers[read.stream]?.reading == read.after
        else { return nil }
        return position
    }

    private mutating func answered(
        _ read: StreamRead, where isMeant: (StreamReaders.Reader) -> Bool
    ) -> [StreamReaders.Reader] {
        guard let index = readers.index(forKey: read.stream) else { return [] }
        return readers.values[index].answered(where: isMeant)
    }

    private mutating func read(
        _ join: StreamJoin, _ loop: Int, after: Int64, _ purpose: StreamReaders.Purpose, in stream: StreamState,
        at position: StreamPosition, _ effects: inout Effects
    ) {
        let reader = StreamReaders.Reader(
            join.session, serial: join.serial, loop: loop, form: join.name.form, after: after, purpose: purpose)
        guard readers[stream.id, default: StreamReaders()].append(reader, most: limits.readersPerStreamMax) else {
            return effects.answer(join, loop, position, .lost(.storeUnavailable))
        }
        readNext(stream, position, &effects)
    }

    /// Reads the next page of the stream's log, if somebody waits for one.
    mutating func readNext(_ stream: StreamState, _ position: StreamPosition, _ effects: inout Effects) {
        guard let index = readers.index(forKey: stream.id) else { return }
        if let after = readers.values[index].nextRead() {
            let read = StreamRead(
                stream: stream.id, watch: stream.watch, epoch: position.epoch, after: after,
                upTo: max(after, position.offset))
            effects.append(.read(read))
        } else if readers.values[index].isEmpty {
            readers.remove(at: index)
        }
    }

    private func answer(
        _ reader: StreamReaders.Reader, _ position: StreamPosition, _ outcome: StreamJoined.Outcome,
        _ effects: inout Effects
    ) {
        let joined = StreamJoined(
            session: reader.key.session, serial: reader.serial, position: position, outcome: outcome)
        effects.append(.joined(loop: Int(reader.key.loop), joined))
    }

    // MARK: Leaving

    mutating func forget(_ session: SessionID, _ name: StreamName, from loop: Int) {
        forget(name.stream) { $0.remove(session, form: name.form, loop: loop) }
    }

    mutating func forgetAll(_ name: StreamName, from loop: Int) {
        forget(name.stream) { $0.removeAll(form: name.form, loop: loop) }
    }

    private mutating func forget(_ id: StreamID, _ change: (inout StreamReaders) -> Void) {
        guard let index = readers.index(forKey: id) else { return }
        change(&readers.values[index])
        if readers.values[index].isEmpty { readers.remove(at: index) }
    }

    /// The stream is gone, or was reset.
    mutating func forgetAll(of id: StreamID) {
        readers[id] = nil
    }
}

extension ContiguousArray<StreamShard.Effect> {
    mutating func answer(
        _ join: StreamJoin, _ loop: Int, _ position: StreamPosition, _ outcome: StreamJoined.Outcome = .fresh
    ) {
        let joined = StreamJoined(
            session: join.session, serial: join.serial, position: position, outcome: outcome)
        append(.joined(loop: loop, joined))
    }
}

extension StreamState {
    /// A page from the window; nil where the window does not reach back so far.
    fileprivate func page(_ name: StreamName, after: Int64, _ limits: StreamLimits) -> StreamPage? {
        guard let window, window.reaches(after) else { return nil }
        let page = window.page(after: after, limits)
        return StreamPage(page, last: after &+ Int64(page.count), name)
    }
}

extension StreamPage {
    fileprivate init?(_ events: ContiguousArray<ReplayWindow.Entry>, last: Int64, _ name: StreamName) {
        guard !events.isEmpty else { return nil }
        self.init(messages: SharedMessages(.page(events, name)), last: last)
    }
}
