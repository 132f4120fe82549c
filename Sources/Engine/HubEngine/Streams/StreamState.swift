import Bytes
import Sync

/// One stream at its shard.
struct StreamState: TableEntry {
    // 40 bytes, in an order without gaps (tested): a hub has one for each stream of each user.
    let id: StreamID
    private var state: State
    private var subscribing = SubscribingLoops.user([])
    /// Whether a reader waits until the stream reaches its offset. Only a subscribed stream has such readers.
    var isAwaited = false
    let watch: UInt32

    private enum State {
        /// The feed has not answered yet: these joins wait for the position. Bounded: sessions that leave are removed.
        case awaiting(ContiguousArray<Waiting>)
        case positioned(StreamPosition)
        /// At the window's end.
        case windowed(ReplayWindow)
    }

    struct Waiting {
        let session: SessionID
        let serial: UInt32
        /// Below `LoopSet.loopsMax`.
        let loop: UInt8
        let form: StreamForm
    }

    /// - Parameter waiting: an empty list, perhaps with capacity.
    init(_ id: StreamID, watch: UInt32, waiting: ContiguousArray<Waiting>) {
        self.id = id
        self.watch = watch
        state = .awaiting(waiting)
    }

    var key: StreamID { id }

    /// The number of this stream's lingering entry; 0 while a loop subscribes to it.
    var linger: UInt32 {
        guard case .none(let linger) = subscribing else { return 0 }
        return linger
    }

    /// The last subscribing loop has gone: the stream lingers under that number.
    mutating func lingers(as number: UInt32) {
        subscribing = .none(linger: number)
        isAwaited = false
    }
}

/// The subscribing loops, by the form of the name that they use. Nearly always all use one form.
private enum SubscribingLoops {
    case none(linger: UInt32)
    case user(LoopSet)
    case privateUser(LoopSet)
    indirect case both(user: LoopSet, privateUser: LoopSet)

    subscript(form: StreamForm) -> LoopSet {
        get {
            switch (self, form) {
            case (.user(let loops), .user), (.privateUser(let loops), .privateUser), (.both(let loops, _), .user),
                (.both(_, let loops), .privateUser):
                loops
            case (.none, _), (.user, .privateUser), (.privateUser, .user): []
            }
        }
        set {
            let user = form == .user ? newValue : self[.user]
            let privateUser = form == .privateUser ? newValue : self[.privateUser]
            self =
                if privateUser.isEmpty {
                    .user(user)
                } else if user.isEmpty {
                    .privateUser(privateUser)
                } else {
                    .both(user: user, privateUser: privateUser)
                }
        }
    }
}

extension StreamState {
    var position: StreamPosition? {
        switch state {
        case .awaiting: nil
        case .positioned(let position): position
        case .windowed(let window): window.end
        }
    }

    /// The most recent events; nil where none are kept.
    var window: ReplayWindow? {
        guard case .windowed(let window) = state else { return nil }
        return window
    }

    var waiting: ContiguousArray<Waiting>? {
        guard case .awaiting(let waiting) = state else { return nil }
        return waiting
    }

    func loops(_ form: StreamForm) -> LoopSet {
        subscribing[form]
    }

    /// Adds a loop, now or when the position is known. Returns the position, if known, and whether the stream lingered.
    mutating func take(_ join: StreamJoin, _ loop: Int) -> (StreamPosition?, lingered: Bool) {
        let form = join.name.form
        let lingered = linger != 0
        subscribing[form].insert(LoopSet(loop: loop))
        guard case .awaiting(var waiting) = state else { return (position, lingered) }
        // Released before the list grows, or it would be copied.
        state = .awaiting([])
        waiting.append(
            Waiting(
                session: join.session, serial: join.serial, loop: UInt8(truncatingIfNeeded: loop), form: form))
        state = .awaiting(waiting)
        return (nil, lingered)
    }

    /// Removes a loop. True where it was the last; false also where there was none.
    mutating func drop(_ form: StreamForm, _ loop: Int) -> Bool {
        guard linger == 0 else { return false }
        subscribing[form].remove(LoopSet(loop: loop))
        if var waiting {
            waiting.removeAll { Int($0.loop) == loop && $0.form == form }
            state = .awaiting(waiting)
        }
        return StreamForm.allCases.allSatisfy { subscribing[$0].isEmpty }
    }

    /// A session of the loop has left the channel: it waits no longer.
    mutating func forget(_ session: SessionID, _ form: StreamForm, _ loop: Int) {
        guard var waiting else { return }
        waiting.removeAll { $0.session == session && $0.form == form && Int($0.loop) == loop }
        state = .awaiting(waiting)
    }

    /// The position has been read. Returns the joins to answer; nil for another watch, or where it was known before.
    mutating func positioned(at position: StreamPosition, watch: UInt32) -> ContiguousArray<Waiting>? {
        guard self.watch == watch, let waiting else { return nil }
        state = .positioned(position)
        return waiting
    }

    /// The stream goes on from there, without a window.
    mutating func reset(to position: StreamPosition) {
        state = .positioned(position)
        isAwaited = false
    }

    /// The next event has come. False where it was handed on before, or the position is not known yet.
    mutating func advance(by event: borrowing StreamEvent, _ limits: StreamLimits) -> Bool {
        guard let position, event.offset > position.offset else { return false }
        // The feed leaves no gap. If there were one, the window still has none.
        let known = event.offset == position.offset &+ 1 ? window : nil
        let window = known ?? ReplayWindow(in: position.epoch, from: event.offset)
        if known == nil { state = .windowed(window) }
        window.append(copy event)
        while window.count > limits.windowEvents || (window.byteCount > limits.windowBytes && window.count > 0) {
            removeFirst(of: window)
        }
        return true
    }

    func holds(_ offset: Int64) -> Bool { window.map { $0.first <= offset } ?? false }

    /// Drops the window's oldest event, to evict the one at `offset`. False where that one left before.
    mutating func forgetEvent(upTo offset: Int64) -> Bool {
        guard let window, window.first <= offset else { return false }
        removeFirst(of: window)
        return true
    }

    private mutating func removeFirst(of window: ReplayWindow) {
        window.removeFirst()
        if window.count == 0 { state = .positioned(window.end) }
    }
}
