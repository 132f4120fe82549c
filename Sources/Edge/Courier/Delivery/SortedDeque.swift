import Bytes

/// Elements sorted by number. Removing at either end and appending take amortised constant time; elsewhere the time is
/// linear in the number of later elements.
struct SortedDeque<Element> {
    private var entries = Fifo<(number: UInt64, element: Element)>()

    var count: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty }
    var first: Element? { entries.first?.element }
    var last: Element? { entries.last?.element }

    var elements: [Element] { prefix(count) }

    func element(_ number: UInt64) -> Element? {
        let index = index(of: number)
        return isNumber(number, at: index) ? entries[index].element : nil
    }

    func prefix(_ count: Int) -> [Element] {
        (0..<min(self.count, max(0, count))).map { entries[$0].element }
    }

    func last(where isMeant: (Element) -> Bool) -> Element? {
        (0..<count).reversed().lazy.map { entries[$0].element }.first(where: isMeant)
    }

    func first(where isMeant: (Element) -> Bool) -> Element? {
        (0..<count).lazy.map { entries[$0].element }.first(where: isMeant)
    }

    /// - Parameter number: unique among the elements.
    mutating func insert(_ element: Element, _ number: UInt64) {
        let isLast = entries.last.map { $0.number < number } ?? true
        entries.insert((number, element), at: isLast ? count : index(of: number))
    }

    mutating func remove(_ number: UInt64) {
        let index = index(of: number)
        if isNumber(number, at: index) { entries.remove(at: index) }
    }

    private func isNumber(_ number: UInt64, at index: Int) -> Bool { index < count && entries[index].number == number }

    /// The index of the first element whose number is not smaller.
    private func index(of number: UInt64) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
