import Reactor

/// Reports outages that last; a quick restart of the server is not reported.
final class OutageNotice {
    private let patience: Duration
    private let tell: (Bool) -> Void
    private var alarm: Alarm?
    private var isAway = false
    private var isTold = false

    /// - Parameters:
    ///   - patience: how long an outage lasts before it is reported.
    ///   - tell: called with true when an outage is reported, and with false when it ends.
    init(_ loop: EventLoop, after patience: Duration, _ tell: @escaping (Bool) -> Void) throws(ReactorError) {
        self.patience = patience
        self.tell = tell
        alarm = try Alarm(loop) { [weak self] in self?.lasts() }
    }

    /// The database is away or back. It counts as away until missed events have been read.
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
