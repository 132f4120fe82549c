import Reactor

/// Tells of outages that last: short ones, of a server that restarts in no time, are nobody's business.
final class OutageNotice {
    private let patience: Duration
    private let tell: (Bool) -> Void
    private var alarm: Alarm?
    private var isAway = false
    private var isTold = false

    /// - Parameters:
    ///   - patience: how long an outage lasts before it is told.
    ///   - tell: whether there is one; called where that changes.
    init(_ loop: EventLoop, after patience: Duration, _ tell: @escaping (Bool) -> Void) throws(ReactorError) {
        self.patience = patience
        self.tell = tell
        alarm = try Alarm(loop) { [weak self] in self?.lasts() }
    }

    /// What is away and comes back, to catch up, is away until it has.
    func changed(isAway: Bool) {
        guard isAway != self.isAway else { return }
        self.isAway = isAway
        if isAway {
            alarm?.set(after: patience)
        } else {
            alarm?.unset()
            guard isTold else { return }
            isTold = false
            tell(false)
        }
    }

    private func lasts() {
        isTold = true
        tell(true)
    }
}
