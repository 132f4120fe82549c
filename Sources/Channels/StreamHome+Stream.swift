import Sync

extension StreamHome {
    /// One stream at its home.
    struct Stream {
        /// The loops that have takers under `user.…` and under `private-user.…`.
        private var userLoops: LoopSet = []
        private var privateLoops: LoopSet = []
        // Small, for a hub has one for each stream of each user: 48 bytes (see the tests).
        var state = State.awaiting([])
        let watch: UInt32
        /// Which entry of the lingering streams stands for this one; `taken` or `awaited` while it has takers.
        private var mark = Self.taken
        var window = ReplayWindow()

        private static let taken: UInt32 = 0
        private static let awaited: UInt32 = 1
        /// The first number of a lingering stream.
        static let lingerMin: UInt32 = 2

        init(watch: UInt32) {
            self.watch = watch
        }

        /// Which entry of the lingering streams stands for this one; 0 while it has takers.
        var linger: UInt32 {
            get { mark < Self.lingerMin ? 0 : mark }
            set { mark = newValue }
        }

        /// Whether a reader waits until the stream gets to its offset, as only a taker does.
        var isAwaited: Bool {
            get { mark == Self.awaited }
            set { if mark < Self.lingerMin { mark = newValue ? Self.awaited : Self.taken } }
        }
    }

    enum State {
        /// The feed has not answered yet; these joins wait for the position. Bounded by the sessions there are: who leaves is
        /// taken out.
        case awaiting(ContiguousArray<Waiting>)
        /// The offset handed on last.
        case positioned(StreamPosition)
    }

    struct Waiting {
        let session: SessionID
        let serial: UInt32
        /// Below `LoopSet.loopsMax`.
        let loop: UInt8
        let form: StreamForm
    }
}

extension StreamHome.Stream {
    var position: StreamPosition? {
        guard case .positioned(let position) = state else { return nil }
        return position
    }

    /// Nil once the position is known.
    var waiting: ContiguousArray<StreamHome.Waiting>? {
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
        if lingered { linger = 0 }
        guard case .awaiting(var waiting) = state else { return (position, lingered) }
        // Let go of before the list grows, or it would be copied.
        state = .awaiting([])
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
    mutating func positioned(at position: StreamPosition, watch: UInt32) -> ContiguousArray<StreamHome.Waiting>? {
        guard self.watch == watch, let waiting else { return nil }
        state = .positioned(position)
        return waiting
    }

    /// The next event has come: false for one that was handed on before, or that nobody was promised.
    mutating func advance(by event: borrowing StreamEvent, _ limits: StreamLimits) -> Bool {
        guard case .positioned(let position) = state, event.offset > position.offset else { return false }
        // The feed leaves no gap; were there one, the window would still have none.
        if event.offset != position.offset &+ 1 { window.removeAll() }
        state = .positioned(StreamPosition(in: position.life, offset: event.offset))
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
