import Synchronization

/// Counts what happens. Any thread; nothing waits and nothing is allocated. Wraps at 2^64.
public final class Counter: Sendable {
    @usableFromInline let value = Atomic<UInt64>(0)

    /// A counter at zero.
    public init() {}

    /// Counts `count` more, which is not negative.
    @inlinable
    public func add(_ count: Int = 1) {
        value.wrappingAdd(UInt64(truncatingIfNeeded: count), ordering: .relaxed)
    }

    /// What has been counted.
    public var count: UInt64 { value.load(ordering: .relaxed) }
}

/// A quantity that goes up and down. Any thread, as `Counter`.
public final class Gauge: Sendable {
    @usableFromInline let value = Atomic<Int>(0)

    /// A gauge at zero.
    public init() {}

    /// Moves the gauge by `change`.
    @inlinable
    public func add(_ change: Int) {
        value.wrappingAdd(change, ordering: .relaxed)
    }

    /// Puts the gauge at `level`.
    @inlinable
    public func set(_ level: Int) {
        value.store(level, ordering: .relaxed)
    }

    /// Where it stands.
    public var level: Int { value.load(ordering: .relaxed) }
}
