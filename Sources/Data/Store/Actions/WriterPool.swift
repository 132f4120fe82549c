import Reactor

/// The connections that write, and which of them is to send next.
///
/// Where there are several, one is kept for suspects' actions while there are suspects: nobody else waits behind them.
struct WriterPool {
    private let writers: [Writer]
    /// The one that is kept.
    private var quarantine: Writer?

    init(_ writers: [Writer]) {
        self.writers = writers
    }

    /// Whether actions can be sent at all.
    var isUp: Bool { writers.contains { $0.isUp } }

    func start() {
        for writer in writers { writer.start() }
    }

    /// The writer with the least under way, which a locked user's or a slow one's is not for long; nil where none has less
    /// than that.
    func freest(below load: Int) -> Writer? {
        var best: Writer?
        for writer in writers where writer.isUp && writer.load < load && writer !== quarantine {
            if writer.load < best?.load ?? .max { best = writer }
        }
        return best
    }

    /// The writer on which a suspect's action may be sent now: one with nothing else, where there are several.
    ///
    /// - Parameter depth: what a writer may have under way where there is one alone.
    mutating func quarantined(hasSuspect: Bool, isUnderWay: Bool, below depth: Int) -> Writer? {
        let isSeveral = writers.count(where: { $0.isUp }) > 1
        if !hasSuspect || !isSeveral || quarantine?.isUp != true { quarantine = nil }
        guard hasSuspect, !isUnderWay else { return nil }
        guard isSeveral else { return freest(below: depth) }
        // Nothing more is sent on it from now on, so it is soon idle.
        if quarantine == nil { quarantine = freest(below: .max) }
        return quarantine?.load == 0 ? quarantine : nil
    }
}
