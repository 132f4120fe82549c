import Clock

/// What a descriptor is ready for.
public struct Readiness: OptionSet, Sendable {
    /// The bits.
    public let rawValue: UInt8

    /// From bits.
    @inlinable public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// Bytes to read, or a connection to accept, or the peer's end of stream.
    @inlinable public static var readable: Readiness { Readiness(rawValue: 1) }
    /// Room in the send buffer, or a finished connect.
    @inlinable public static var writable: Readiness { Readiness(rawValue: 2) }
    /// Both directions are gone (`EPOLLHUP`, `EPOLLERR`). Always reported, whatever was asked for.
    @inlinable public static var hangup: Readiness { Readiness(rawValue: 4) }
}

/// Something that a loop looks after: a descriptor, a deadline, work at the end of the tick, or any of them. Belongs to one
/// loop and its thread. A class, not a protocol: calls on the message path are one indirect jump, without boxes.
open class EventSource {
    /// The index in the loop's table while added. With `generation` it names this source and no later one.
    public internal(set) final var slot: UInt32 = .max
    /// Counts the uses of the slot, so that no later source is taken for this one.
    public internal(set) final var generation: UInt32 = 0
    final var descriptor: Int32 = -1
    /// The index in the loop's heap of deadlines; -1 without a deadline.
    final var deadlineIndex: Int32 = -1
    final var deadline = Instant(nanoseconds: 0)
    // Last, so that a subclass's small fields lie beside them.
    /// What the descriptor is watched for.
    public internal(set) final var interest: Readiness = []
    @usableFromInline final var isDirty = false

    /// A source that no loop looks after yet.
    public init() {}

    /// Whether a loop looks after this source.
    @inlinable public final var isAdded: Bool { slot != .max }

    /// The descriptor is ready. May remove the source.
    open func ready(_ readiness: Readiness) {}

    /// The deadline has passed; it is unset before this call.
    open func deadlineReached() {}

    /// The tick in which the source was marked dirty ends: the moment to write what piled up.
    open func tickEnded() {}
}
