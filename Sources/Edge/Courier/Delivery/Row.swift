/// A queue whose first elements can be looked at before they are taken. Removing is constant time in the long run; memory
/// is within twice what is in it and a little.
struct Row<Element> {
    private var elements: ContiguousArray<Element?> = []
    private var head = 0

    var count: Int { elements.count - head }
    var isEmpty: Bool { head == elements.count }
    var first: Element? { head < elements.count ? elements[head] : nil }
    var last: Element? { head < elements.count ? elements[elements.count - 1] : nil }

    /// The first elements, `count` at most.
    func prefix(_ count: Int) -> [Element] {
        elements[head..<min(elements.count, head + max(0, count))].compactMap { $0 }
    }

    mutating func append(_ element: Element) {
        elements.append(element)
    }

    /// Removes the first element.
    mutating func removeFirst() {
        guard head < elements.count else { return }
        elements[head] = nil
        head += 1
        if head == elements.count || (head >= 64 && head * 2 >= elements.count) { dropHead() }
    }

    /// The place of the element for which `cost` is least, the first of several, counted from the first; nil where it is nil
    /// for all of them.
    func least(_ cost: (Element) -> Int?) -> (place: Int, cost: Int)? {
        var least: (place: Int, cost: Int)?
        for place in head..<elements.count {
            guard let cost = elements[place].flatMap(cost), cost < least?.cost ?? .max else { continue }
            least = (place - head, cost)
            if cost == 0 { break }
        }
        return least
    }

    /// Removes the element at that place, counted from the first. Linear in how many there are behind it.
    mutating func remove(at place: Int) -> Element? {
        guard (0..<count).contains(place) else { return nil }
        guard place > 0 else {
            defer { removeFirst() }
            return first
        }
        return elements.remove(at: head + place)
    }

    /// Removes the last element.
    mutating func removeLast() {
        guard head < elements.count else { return }
        elements.removeLast()
    }

    mutating func removeAll(where isGone: (Element) -> Bool) {
        dropHead()
        elements.removeAll { $0.map(isGone) ?? true }
    }

    private mutating func dropHead() {
        elements.removeFirst(head)
        head = 0
    }
}
