/// Elements in the order of their numbers. Taking one from an end, and adding one behind all, is constant time in the long
/// run; elsewhere it is linear in how many are behind it. Memory is within twice what is in it and a little.
struct SortedRow<Element> {
    private var entries: ContiguousArray<(number: UInt64, element: Element?)> = []
    private var head = 0

    var count: Int { entries.count - head }
    var isEmpty: Bool { head == entries.count }
    var first: Element? { head < entries.count ? entries[head].element : nil }
    var last: Element? { head < entries.count ? entries[entries.count - 1].element : nil }

    /// All, in their order.
    var elements: [Element] { entries[head...].compactMap(\.element) }

    /// The element of that number; nil where there is none.
    func element(_ number: UInt64) -> Element? {
        let place = place(of: number)
        return place < entries.count && entries[place].number == number ? entries[place].element : nil
    }

    /// The first elements, `count` at most.
    func prefix(_ count: Int) -> [Element] {
        entries[head..<min(entries.count, head + max(0, count))].compactMap(\.element)
    }

    /// The last of those of which that is true.
    func last(where isMeant: (Element) -> Bool) -> Element? {
        for place in (head..<entries.count).reversed() {
            if let element = entries[place].element, isMeant(element) { return element }
        }
        return nil
    }

    /// The first of those of which that is true.
    func first(where isMeant: (Element) -> Bool) -> Element? {
        for place in head..<entries.count {
            if let element = entries[place].element, isMeant(element) { return element }
        }
        return nil
    }

    /// - Parameter number: no other element's.
    mutating func insert(_ element: Element, _ number: UInt64) {
        if head == entries.count || entries[entries.count - 1].number < number {
            entries.append((number, element))
        } else {
            entries.insert((number, element), at: place(of: number))
        }
    }

    /// Removes the element of that number, if there is one.
    mutating func remove(_ number: UInt64) {
        let place = place(of: number)
        guard place < entries.count, entries[place].number == number else { return }
        guard place == head else {
            entries.remove(at: place)
            return
        }
        entries[head].element = nil
        head += 1
        guard head == entries.count || (head >= 64 && head * 2 >= entries.count) else { return }
        entries.removeFirst(head)
        head = 0
    }

    /// The place of the first element whose number is not smaller.
    private func place(of number: UInt64) -> Int {
        var (low, high) = (head, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
