import Synchronization

/// A counter. Any thread may use it; it neither waits nor allocates. Wraps at 2^64.
public final class Counter: Sendable {
    @usableFromInline let value = Atomic<UInt64>(0)

    /// A counter at zero.
    public init() {}

    /// Adds `count`, which is not negative.
    @inlinable
    public func add(_ count: Int = 1) {
        value.wrappingAdd(UInt64(truncatingIfNeeded: count), ordering: .relaxed)
    }

    /// The current count.
    public var count: UInt64 { value.load(ordering: .relaxed) }
}

/// A value that goes up and down. Any thread may use it, as with `Counter`.
public final class Gauge: Sendable {
    @usableFromInline let value = Atomic<Int>(0)

    /// A gauge at zero.
    public init() {}

    /// Moves the gauge by `change`.
    @inlinable
    public func add(_ change: Int) {
        value.wrappingAdd(change, ordering: .relaxed)
    }

    /// Sets the gauge to `level`.
    @inlinable
    public func set(_ level: Int) {
        value.store(level, ordering: .relaxed)
    }

    /// The current level.
    public var level: Int { value.load(ordering: .relaxed) }
}
