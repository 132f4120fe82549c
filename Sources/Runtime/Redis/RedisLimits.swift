/// The bounds of this target. Those that depend on a hub's size are in `RedisSettings`.
package enum RedisLimits {
    /// Sentinels of one URL.
    package static let sentinelsMax = 16
    /// Bytes of a host's name (RFC 1035 §2.3.4).
    package static let hostBytesMax = 253
    /// Bytes of memory for commands that a connection keeps between writes; what a burst took beyond it is freed.
    static let outputKeptBytes = 256 << 10
    /// Reads of one connection in one turn of the loop, of `RedisRoom.bytes` each; the rest is read in the next.
    static let readsPerTurn = 8
    /// How long one sentinel may take to answer.
    static let sentinelPatience = Duration.seconds(2)
    /// After a connection held this long, the next outage starts with the shortest pauses.
    static let provenAfter = Duration.seconds(5)
}
