import Clock

/// A deadline with a closure, for an owner that waits for several things: a source has only one deadline.
package final class Alarm: EventSource {
    private let loop: EventLoop
    private let rings: () -> Void

    /// The closure must not retain the alarm's owner.
    package init(_ loop: EventLoop, _ rings: @escaping () -> Void) throws(ReactorError) {
        self.loop = loop
        self.rings = rings
        super.init()
        try loop.add(self)
    }

    /// Rings once, after `duration`; an earlier setting is void.
    package func set(after duration: Duration) {
        loop.setDeadline(self, Instant.read().advanced(by: duration))
    }

    /// Rings once, after `duration` at the latest; an earlier deadline stays.
    package func set(within duration: Duration) {
        let latest = Instant.read().advanced(by: duration)
        if deadlineIndex < 0 || deadline > latest { loop.setDeadline(self, latest) }
    }

    /// It does not ring any more.
    package func unset() {
        loop.setDeadline(self, nil)
    }

    package override func deadlineReached() {
        rings()
    }
}
