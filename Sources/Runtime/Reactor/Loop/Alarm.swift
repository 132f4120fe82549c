import Clock

/// A deadline with a closure: a source has one deadline, and its owner several things to wait for.
package final class Alarm: EventSource {
    private let loop: EventLoop
    private let rings: () -> Void

    /// The closure must not keep the alarm's owner alive.
    package init(_ loop: EventLoop, _ rings: @escaping () -> Void) throws(ReactorError) {
        self.loop = loop
        self.rings = rings
        super.init()
        try loop.add(self)
    }

    /// Rings once, after `duration`, instead of whenever it was to ring.
    package func set(after duration: Duration) {
        loop.setDeadline(self, Instant.read().advanced(by: duration))
    }

    /// Rings once, after `duration` at the latest: sooner where it was to.
    package func set(within duration: Duration) {
        let latest = Instant.read().advanced(by: duration)
        if deadlineIndex < 0 || deadline > latest { loop.setDeadline(self, latest) }
    }

    package func unset() {
        loop.setDeadline(self, nil)
    }

    package override func deadlineReached() {
        rings()
    }
}
