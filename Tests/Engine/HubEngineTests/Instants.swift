import Clock

/// Instants as integer literals, in nanoseconds.
extension Instant: ExpressibleByIntegerLiteral {
    public init(integerLiteral value: UInt64) {
        self.init(nanoseconds: value)
    }

    static func + (time: Instant, nanoseconds: UInt64) -> Instant { time.advanced(byNanoseconds: nanoseconds) }

    static func += (time: inout Instant, nanoseconds: UInt64) { time = time + nanoseconds }

    static func - (time: Instant, nanoseconds: UInt64) -> Instant {
        Instant(nanoseconds: time.nanoseconds - nanoseconds)
    }

    static func - (later: Instant, earlier: Instant) -> UInt64 { later.nanoseconds - earlier.nanoseconds }
}
