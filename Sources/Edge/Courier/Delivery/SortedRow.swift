import Bytes

/// Elements in the order of their numbers. Taking one from an end, and adding one behind all, is constant time in the long
/// run; elsewhere it is linear in how many are behind it.
struct SortedRow<Element> {
    private var entries = Fifo<(number: UInt64, element: Element)>()

    var count: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty }
    var first: Element? { entries.first?.element }
    var last: Element? { entries.last?.element }

    /// All, in their order.
    var elements: [Element] { prefix(count) }

    /// The element of that number; nil where there is none.
    func element(_ number: UInt64) -> Element? {
        let place = place(of: number)
        return isNumber(number, at: place) ? entries[place].element : nil
    }

    /// The first elements, `count` at most.
    func prefix(_ count: Int) -> [Element] {
        (0..<min(self.count, max(0, count))).map { entries[$0].element }
    }

    /// The last of those of which that is true.
    func last(where isMeant: (Element) -> Bool) -> Element? {
        (0..<count).reversed().lazy.map { entries[$0].element }.first(where: isMeant)
    }

    /// The first of those of which that is true.
    func first(where isMeant: (Element) -> Bool) -> Element? {
        (0..<count).lazy.map { entries[$0].element }.first(where: isMeant)
    }

    /// - Parameter number: no other element's.
    mutating func insert(_ element: Element, _ number: UInt64) {
        let isLast = entries.last.map { $0.number < number } ?? true
        entries.insert((number, element), at: isLast ? count : place(of: number))
    }

    /// Removes the element of that number, if there is one.
    mutating func remove(_ number: UInt64) {
        let place = place(of: number)
        if isNumber(number, at: place) { entries.remove(at: place) }
    }

    private func isNumber(_ number: UInt64, at place: Int) -> Bool { place < count && entries[place].number == number }

    /// The place of the first element whose number is not smaller.
    private func place(of number: UInt64) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
