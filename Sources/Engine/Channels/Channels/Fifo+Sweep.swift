import Bytes

/// For entries that may come to stand for nothing before their turn: they are not looked for when that happens, but skipped
/// by the reader, and swept when most are such.
extension Fifo {
    /// Whether a sweep is due, where `live` entries stand for something; `slack`: entries kept beyond twice as many.
    func needsSweep(live: Int, slack: Int = 1_024) -> Bool { count > 2 * live + slack }
}
