/// What the state has told, and is not done.
struct NewsQueue {
    var items = ContiguousArray<ChannelNews>()
    /// Whether they are in reverse.
    private var isTurned = false

    /// The next one, unless it is a change above `sequence`.
    mutating func next(upTo sequence: UInt64) -> ChannelNews? {
        // Taken out from the end: only from there are they moved, not copied.
        if !isTurned, items.count > 1 { items.reverse() }
        isTurned = !items.isEmpty
        return isTurned && items[items.count - 1].sequence <= sequence ? items.popLast() : nil
    }
}
