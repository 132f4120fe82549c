import Bytes
import Clock
import Pusher
import Sync

/// What a session missed: from the window where that reaches, and from the log where it does not.
extension StreamHome {
    /// Decides on a `sync:resume`. The log has the last word where the window does not reach.
    mutating func resume(
        _ join: StreamJoin, _ loop: Int, from: StreamPosition, at position: StreamPosition,
        _ effects: inout ContiguousArray<Effect>
    ) {
        let missed = position.offset.subtractingReportingOverflow(from.offset)
        if from.life != position.life {
            answer(join, loop, position, .lost(.streamReset), &effects)
        } else if from.offset > position.offset {
            // The home stands where the feed has read to: a snapshot, or another hub, may well be newer than that.
            read(join, loop, after: from.offset, .confirmation, position, &effects)
        } else if missed.overflow || missed.partialValue > limits.replayEvents {
            answer(join, loop, position, .lost(.tooMany), &effects)
        } else if missed.partialValue == 0 {
            answer(join, loop, position, .recovered(replayed: 0, nil), &effects)
        } else if let page = windowPage(join.name, after: from.offset) {
            answer(join, loop, position, .recovered(replayed: missed.partialValue, page), &effects)
        } else {
            read(join, loop, after: from.offset, .resume, position, &effects)
        }
    }

    /// The next page of a session that has begun; how far it is behind does not matter.
    mutating func next(
        _ join: StreamJoin, _ loop: Int, after: StreamPosition, at position: StreamPosition,
        _ effects: inout ContiguousArray<Effect>
    ) {
        if after.life != position.life || after.offset > position.offset {
            // A reset is on its way to the loop, ahead of this answer.
            answer(join, loop, position, .lost(.streamReset), &effects)
        } else if after.offset == position.offset {
            answer(join, loop, position, .page(nil), &effects)
        } else if let page = windowPage(join.name, after: after.offset) {
            answer(join, loop, position, .page(page), &effects)
        } else {
            read(join, loop, after: after.offset, .page, position, &effects)
        }
    }

    // MARK: The log

    /// A page of the log has been read.
    package mutating func page(
        _ read: StreamRead, _ events: [StreamEvent], now: Instant, _ effects: inout ContiguousArray<Effect>
    ) {
        guard let position = current(read) else { return }
        guard read.after < read.upTo else { return confirmed(read, position, &effects) }
        // The feed gives a page without a gap; what does not follow is not handed on.
        var page: ContiguousArray<ReplayWindow.Entry> = []
        for event in events {
            let next = read.after &+ Int64(page.count) &+ 1
            guard event.offset == next, next <= read.upTo, next <= position.offset else { break }
            page.append(ReplayWindow.Entry(name: event.name, data: event.data))
        }
        guard !page.isEmpty else { return unreadable(read, .busy, now: now, &effects) }
        if let place = readers.index(forKey: read.stream) { readers.values[place].recovered() }
        let last = read.after &+ Int64(page.count)
        var pages: [StreamForm: StreamPage] = [:]
        for reader in answered(read, where: { $0.after == read.after && $0.purpose != .arrival }) {
            let form = reader.key.form
            let name = StreamName(form: form, stream: read.stream)
            guard let shared = pages[form] ?? Self.encode(page, last: last, name) else { continue }
            pages[form] = shared
            answer(
                reader, position,
                reader.purpose == .page
                    ? .page(shared) : .recovered(replayed: position.offset - reader.after, shared), &effects
            )
        }
        readNext(read.stream, position, &effects)
    }

    /// A page of the log cannot be had.
    ///
    /// Who asked by `sync:resume` is told. A page that no client asked for is asked for again after a pause, unless the log
    /// has lost it: a device that is slow, and no more, would else be sent on without what lies between, and a stock client
    /// does not look at the word that tells it so. The worst interleavings, each with its test in `PausedReadTests`: the
    /// subscription ends in the pause, or is another one by then; the stream gets another life in it; another
    /// subscription resumes in it, and must not wait for its end; or the log has lost the page when the pause is over.
    package mutating func unreadable(
        _ read: StreamRead, _ failure: StreamReadFailure, now: Instant, _ effects: inout ContiguousArray<Effect>
    ) {
        guard let position = current(read) else { return }
        let meant: [StreamReaders.Reader]
        let loss: ResumeLoss
        switch failure {
        case .expired:
            // What lies before an offset that has expired has expired too.
            loss = .positionExpired
            meant = answered(read) { $0.after <= read.after }
        case .ahead:
            loss = .ahead
            meant = answered(read) {
                $0.purpose == .confirmation && $0.after >= read.after && $0.after > position.offset
            }
        case .otherEpoch:
            // All takers will be told of the other life by a reset; until it comes, this one's log is out of reach.
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
        readNext(read.stream, position, &effects)
    }

    /// Leaves the stream's log alone for a while, where one of those whom `isMeant` says waits for a page.
    private mutating func pause(_ read: StreamRead, _ now: Instant, where isMeant: (StreamReaders.Reader) -> Bool) {
        guard let place = readers.index(forKey: read.stream), readers.values[place].awaitsPage(where: isMeant) else {
            return
        }
        let until = readers.values[place].pause(at: now, salt: UInt64(read.watch), limits)
        nextPauseEnd = min(nextPauseEnd ?? until, until)
    }

    /// Time has passed: pages whose pauses are over are asked for again. Worth calling at `nextPauseEnd`.
    package mutating func endPauses(now: Instant, _ effects: inout ContiguousArray<Effect>) {
        guard let due = nextPauseEnd, due <= now else { return }
        nextPauseEnd = nil
        var ended: [StreamID] = []
        for place in readers.indices {
            guard let until = readers.values[place].pausedUntil else { continue }
            if until <= now {
                readers.values[place].endPause()
                ended.append(readers.keys[place])
            } else {
                nextPauseEnd = min(nextPauseEnd ?? until, until)
            }
        }
        for id in ended {
            guard let position = streams[id]?.position else { continue }
            readNext(id, position, &effects)
        }
    }

    // MARK: Ahead of the home

    /// The log has got to the place that was asked about, where the home is not yet.
    private mutating func confirmed(
        _ read: StreamRead, _ position: StreamPosition, _ effects: inout ContiguousArray<Effect>
    ) {
        for reader in answered(read, where: { $0.purpose == .confirmation && $0.after <= read.after }) {
            if reader.after <= position.offset {
                resume(reader, read.stream, at: position, &effects)
            } else {
                readers[read.stream, default: StreamReaders()].awaitArrival(reader)
                if let place = streams.place(of: read.stream) { streams[place].isAwaited = true }
            }
        }
        readNext(read.stream, position, &effects)
    }

    /// The stream has moved on: who was ahead of it goes on from there.
    mutating func arrived(_ id: StreamID, _ effects: inout ContiguousArray<Effect>) {
        guard let stream = streams.place(of: id), let position = streams[stream].position else { return }
        guard let place = readers.index(forKey: id) else {
            streams[stream].isAwaited = false
            return
        }
        let arrived = readers.values[place].arrived(at: position.offset)
        streams[stream].isAwaited = readers.values[place].awaitsArrival
        for reader in arrived { resume(reader, id, at: position, &effects) }
        if !arrived.isEmpty { readNext(id, position, &effects) }
    }

    private mutating func resume(
        _ reader: StreamReaders.Reader, _ id: StreamID, at position: StreamPosition,
        _ effects: inout ContiguousArray<Effect>
    ) {
        let from = StreamPosition(in: position.life, offset: reader.after)
        let join = StreamJoin(
            name: StreamName(form: reader.key.form, stream: id), session: reader.key.session, serial: reader.serial,
            purpose: .resume(from: from))
        resume(join, Int(reader.key.loop), from: from, at: position, &effects)
    }

    /// Where the stream stands, if the read is the one that its readers wait for.
    private func current(_ read: StreamRead) -> StreamPosition? {
        guard let stream = streams[read.stream], stream.watch == read.watch, let position = stream.position,
            position.life == read.epoch, readers[read.stream]?.reading == read.after
        else { return nil }
        return position
    }

    private mutating func answered(
        _ read: StreamRead, where isMeant: (StreamReaders.Reader) -> Bool
    ) -> [StreamReaders.Reader] {
        guard let place = readers.index(forKey: read.stream) else { return [] }
        return readers.values[place].answered(where: isMeant)
    }

    private mutating func read(
        _ join: StreamJoin, _ loop: Int, after: Int64, _ purpose: StreamReaders.Purpose, _ position: StreamPosition,
        _ effects: inout ContiguousArray<Effect>
    ) {
        let id = join.name.stream
        let reader = StreamReaders.Reader(
            join.session, serial: join.serial, loop: loop, form: join.name.form, after: after, purpose: purpose)
        guard readers[id, default: StreamReaders()].append(reader, most: limits.readersPerStreamMax) else {
            return answer(join, loop, position, .lost(.storeUnavailable), &effects)
        }
        readNext(id, position, &effects)
    }

    private mutating func readNext(
        _ id: StreamID, _ position: StreamPosition, _ effects: inout ContiguousArray<Effect>
    ) {
        guard let place = readers.index(forKey: id), let stream = streams[id] else { return }
        if let after = readers.values[place].nextRead() {
            let read = StreamRead(
                stream: id, watch: stream.watch, epoch: position.life, after: after,
                upTo: max(after, position.offset))
            effects.append(.read(read))
        } else if readers.values[place].isEmpty {
            readers.remove(at: place)
        }
    }

    // MARK: Answers

    /// A page from the window; nil where that does not reach so far back.
    private func windowPage(_ name: StreamName, after: Int64) -> StreamPage? {
        guard let place = streams.place(of: name.stream), streams[place].window.reaches(after) else {
            return nil
        }
        let page = streams[place].window.page(after: after, limits)
        return Self.encode(page, last: after &+ Int64(page.count), name)
    }

    private static func encode(
        _ page: ContiguousArray<ReplayWindow.Entry>, last: Int64, _ name: StreamName
    ) -> StreamPage? {
        guard !page.isEmpty else { return nil }
        return StreamPage(messages: SharedMessages(.page(page, name)), last: last)
    }

    func answer(
        _ join: StreamJoin, _ loop: Int, _ position: StreamPosition, _ outcome: StreamJoined.Outcome,
        _ effects: inout ContiguousArray<Effect>
    ) {
        let joined = StreamJoined(
            session: join.session, serial: join.serial, position: position, outcome: outcome)
        effects.append(.joined(loop: loop, joined))
    }

    private func answer(
        _ reader: StreamReaders.Reader, _ position: StreamPosition, _ outcome: StreamJoined.Outcome,
        _ effects: inout ContiguousArray<Effect>
    ) {
        let joined = StreamJoined(
            session: reader.key.session, serial: reader.serial, position: position, outcome: outcome)
        effects.append(.joined(loop: Int(reader.key.loop), joined))
    }
}
