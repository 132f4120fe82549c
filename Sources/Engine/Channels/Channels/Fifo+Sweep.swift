import Bytes

/// For entries that may become stale before their turn: they are skipped when read, and swept when most entries are stale.
extension Fifo {
    /// Whether a sweep is due, when `live` entries are not stale. `slack`: entries kept beyond twice `live`.
    func needsSweep(live: Int, slack: Int = 1_024) -> Bool { count > 2 * live + slack }
}
