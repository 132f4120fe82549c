import Sync

extension StreamHome {
    /// One stream at its home.
    struct Stream {
        /// The loops that have takers under `user.…` and under `private-user.…`.
        private var userLoops: LoopSet = []
        private var privateLoops: LoopSet = []
        // In this order, all of it takes 48 bytes, of which a hub has one for each stream of each user.
        var state = State.awaiting(WaitingList())
        /// Whether a reader waits until the stream gets to its offset.
        var isAwaited = false
        let watch: UInt32
        /// Which entry of the lingering streams stands for this one; 0 while it has takers.
        var linger: UInt32 = 0
        var window = ReplayWindow()

        init(watch: UInt32) {
            self.watch = watch
        }
    }

    enum State {
        /// The feed has not answered yet; these joins wait for the position.
        case awaiting(WaitingList)
        /// The offset handed on last.
        case positioned(StreamPosition)
    }

    struct Waiting {
        let session: SessionID
        let serial: UInt32
        /// Below `LoopSet.loopsMax`; small, for each stream has room for one of these.
        let loop: UInt8
        let form: StreamForm
    }

    /// Nearly always one, which needs no memory of its own. Bounded by the sessions there are: who leaves is taken out.
    struct WaitingList {
        private var first: Waiting?
        private var others: ContiguousArray<Waiting> = []

        mutating func append(_ waiting: Waiting) {
            if first == nil, others.isEmpty {
                first = waiting
            } else {
                others.append(waiting)
            }
        }

        mutating func removeAll(where isGone: (Waiting) -> Bool) {
            if let first, isGone(first) { self.first = nil }
            others.removeAll(where: isGone)
        }

        func forEachJoin(_ body: (Waiting) -> Void) {
            if let first { body(first) }
            for waiting in others { body(waiting) }
        }
    }
}

extension StreamHome.Stream {
    var position: StreamPosition? {
        guard case .positioned(let position) = state else { return nil }
        return position
    }

    /// Nil once the position is known.
    var waiting: StreamHome.WaitingList? {
        guard case .awaiting(let waiting) = state else { return nil }
        return waiting
    }

    func loops(_ form: StreamForm) -> LoopSet {
        form == .user ? userLoops : privateLoops
    }

    /// Takes a loop in: at once, where the position is known, or when it will be. Also says whether the stream lingered.
    mutating func take(_ join: StreamJoin, _ loop: Int) -> (StreamPosition?, lingered: Bool) {
        let form = join.name.form
        if form == .user {
            userLoops.insert(LoopSet(loop: loop))
        } else {
            privateLoops.insert(LoopSet(loop: loop))
        }
        let lingered = linger != 0
        linger = 0
        guard case .awaiting(var waiting) = state else { return (position, lingered) }
        // Let go of before the list grows, or it would be copied.
        state = .awaiting(StreamHome.WaitingList())
        waiting.append(
            StreamHome.Waiting(
                session: join.session, serial: join.serial, loop: UInt8(truncatingIfNeeded: loop), form: form))
        state = .awaiting(waiting)
        return (nil, lingered)
    }

    /// Lets a loop go, and says whether it was the last; false also where there was none.
    mutating func drop(_ form: StreamForm, _ loop: Int) -> Bool {
        guard linger == 0 else { return false }
        if form == .user {
            userLoops.remove(LoopSet(loop: loop))
        } else {
            privateLoops.remove(LoopSet(loop: loop))
        }
        if var waiting {
            waiting.removeAll { Int($0.loop) == loop && $0.form == form }
            state = .awaiting(waiting)
        }
        return userLoops.isEmpty && privateLoops.isEmpty
    }

    /// A session of the loop has left the channel: it waits no more.
    mutating func forget(_ session: SessionID, _ form: StreamForm, _ loop: Int) {
        guard var waiting else { return }
        waiting.removeAll { $0.session == session && $0.form == form && Int($0.loop) == loop }
        state = .awaiting(waiting)
    }

    /// The position has been read: whom to tell; nil where another watch is meant, or it was known before.
    mutating func positioned(at position: StreamPosition, watch: UInt32) -> StreamHome.WaitingList? {
        guard self.watch == watch, let waiting else { return nil }
        state = .positioned(position)
        return waiting
    }

    /// The next event has come: false for one that was handed on before, or that nobody was promised.
    mutating func advance(by event: borrowing StreamEvent, _ limits: StreamLimits) -> Bool {
        guard case .positioned(let position) = state, event.offset > position.offset else { return false }
        // The feed leaves no gap; were there one, the window would still have none.
        if event.offset != position.offset &+ 1 { window.removeAll() }
        state = .positioned(StreamPosition(epoch: position.epoch, offset: event.offset))
        window.append(copy event)
        while window.count > limits.windowEvents || (window.byteCount > limits.windowBytes && window.count > 0) {
            window.removeFirst()
        }
        return true
    }

    func holds(_ offset: Int64) -> Bool { window.count > 0 && window.first <= offset }

    /// Makes room in the window, for the entry of the event at `offset`; false where it left before.
    mutating func forgetEvent(upTo offset: Int64) -> Bool {
        guard holds(offset) else { return false }
        window.removeFirst()
        return true
    }
}
