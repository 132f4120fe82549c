/// First in, first out, of entries that may come to stand for nothing before their turn: they are not looked for when that
/// happens, but skipped by the reader, and swept when most are such.
struct LazyQueue<Entry> {
    private var entries: ContiguousArray<Entry> = []
    private var head = 0

    /// The most entries that are kept beyond twice as many as stand for something.
    static var slack: Int { 1_024 }

    var count: Int { entries.count &- head }
    var first: Entry? { head < entries.count ? entries[head] : nil }

    mutating func append(_ entry: Entry) {
        entries.append(entry)
    }

    mutating func popFirst() -> Entry? {
        guard head < entries.count else { return nil }
        let entry = entries[head]
        head &+= 1
        if head == entries.count || (head > Self.slack && head &* 2 > entries.count) { dropHead() }
        return entry
    }

    /// Whether a sweep is due, where `live` entries stand for something.
    func needsSweep(live: Int, slack: Int = slack) -> Bool { count > 2 * live + slack }

    /// Drops the entries that stand for nothing.
    mutating func sweep(keeping isLive: (Entry) -> Bool) {
        dropHead()
        entries.removeAll { !isLive($0) }
    }

    private mutating func dropHead() {
        entries.removeFirst(head)
        head = 0
    }
}
