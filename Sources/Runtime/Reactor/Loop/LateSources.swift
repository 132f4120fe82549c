/// Dirty sources of a loop that are written a tick or two later, with what comes for them meanwhile.
///
/// In a storm most clients get an answer from their own loop, and the next one from another loop a moment later. Two writes
/// would be two calls for each client here, two reads there, and their processor's time is what the others wait for.
///
/// A busy loop ends its ticks without a wait, so that the second answer is there when two ticks have ended: the other loop's
/// tick under way, and the one that takes the mail. A loop that is not busy writes all of them when its tick ends, and never
/// sleeps while there are any.
///
/// Worst interleavings, each with its test in `LateSourcesTests`:
/// - The source goes meanwhile, and another one has its slot: the name of the first finds nobody.
/// - The source is marked dirty meanwhile, again and again: it is written no later for that, and once.
/// - Nothing more comes: it is written all the same.
public final class LateSources {
    private var entries: ContiguousArray<(slot: UInt32, generation: UInt32, tick: UInt64)> = []
    private var tick: UInt64 = 0
    /// Whether this tick has much to look at.
    private var isBusy = false

    /// The ticks after that in which a source became late.
    private static let ticks: UInt64 = 2
    /// A tick with so many to look at is busy.
    private static let readyMany = 32

    var isEmpty: Bool { entries.isEmpty }

    func tickBegins(ready count: Int) {
        isBusy = count >= Self.readyMany
    }

    /// The source was just marked dirty, and more for it will come from another loop. In a busy tick, and for the source
    /// that was marked last, both are written together.
    public func append(_ source: EventSource, of loop: EventLoop) {
        guard isBusy, let last = loop.dirty.last, last.toOpaque() == Unmanaged.passUnretained(source).toOpaque() else {
            return
        }
        // It stays marked: so further marks do nothing.
        loop.dirty.removeLast()
        entries.append((source.slot, source.generation, tick))
    }

    /// Has each source written whose time it is: all, unless the loop is busy.
    func tickEnds(of loop: EventLoop) {
        if !entries.isEmpty {
            let due = entries.prefix { !isBusy || tick &- $0.tick >= Self.ticks }
            for entry in due {
                if let source = loop.unretainedSource(slot: entry.slot, generation: entry.generation) {
                    loop.dirty.append(source)
                }
            }
            entries.removeFirst(due.count)
        }
        tick &+= 1
        isBusy = false
    }
}
