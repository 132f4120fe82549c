/// Two counts and four flags of a session in 32 bits: 14 bits for each count, which its bounds keep below `countMax`.
struct SessionFlags {
    private var bits: UInt32 = 0

    /// The most that a count may be. `limits.channelsPerConnection` and `ChannelLimits.actionsPerSessionMax` are below it.
    static let countMax = 0x3FFF

    enum Flag: UInt32 {
        case isExpiryAnnounced = 28
        case isVouchedFor, isAuthorized, isAnnounced
    }

    var behindCount: Int {
        get { count(at: 0) }
        set { set(newValue, at: 0) }
    }

    var actionsInFlight: Int {
        get { count(at: 14) }
        set { set(newValue, at: 14) }
    }

    subscript(flag: Flag) -> Bool {
        get { bits >> flag.rawValue & 1 == 1 }
        set { bits = bits & ~(1 << flag.rawValue) | (newValue ? 1 << flag.rawValue : 0) }
    }

    private func count(at bit: UInt32) -> Int { Int(bits >> bit) & Self.countMax }

    private mutating func set(_ count: Int, at bit: UInt32) {
        precondition(count >= 0 && count <= Self.countMax, "a count of a session is out of its range")
        bits = bits & ~(UInt32(Self.countMax) << bit) | UInt32(truncatingIfNeeded: count) << bit
    }
}
