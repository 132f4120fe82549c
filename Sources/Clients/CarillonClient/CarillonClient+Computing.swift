import Care
import Foundation

// What screens show, computed anew whenever the mirror or time has changed.

extension CarillonClient {
    /// What the person does is seen at once.
    func compute() {
        pace.task.cancel()
        guard !isClosed else { return }
        let begin = DispatchTime.now()
        let now = Timestamp(options.now())
        display.show(store.mirror, at: now)
        pace.computed(since: begin)
        // Again when a dose becomes due or missed, or the day ends.
        edge.set(nanoseconds: display.untilEdge(at: now)) { [weak self] in await self?.compute() }
        if store.fence != nil {
            perform { machine.complete(store.mirror, today: display.today(store.mirror, at: now), &$0) }
        }
    }

    /// What the hub tells may wait for a moment.
    func computeSoon() {
        guard !pace.task.isSet, !isClosed else { return }
        guard let wait = pace.wait else { return compute() }
        pace.task.set(nanoseconds: wait) { [weak self] in await self?.compute() }
    }
}
