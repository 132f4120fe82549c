/// First in, first out, or put back in front, or taken from between. Amortized constant time; what is taken out is released at once, and memory
/// stays within eight times what is in it, and a little.
public struct Fifo<Element> {
    @usableFromInline var elements: ContiguousArray<Element?> = []
    @usableFromInline var head = 0

    /// Elements for which memory is kept whatever is in it.
    @usableFromInline static var slack: Int { 64 }

    /// An empty queue, without memory.
    @inlinable public init() {}

    /// How many elements there are.
    @inlinable public var count: Int { elements.count &- head }
    /// Whether there is none.
    @inlinable public var isEmpty: Bool { head == elements.count }
    /// The next one; nil for none.
    @inlinable public var first: Element? { head < elements.count ? elements[head] : nil }

    /// The one behind all others; nil for none.
    @inlinable public var last: Element? { head < elements.count ? elements[elements.count &- 1] : nil }

    /// The element at a place below `count`, the next one at 0.
    @inlinable public subscript(place: Int) -> Element { elements[head &+ place].unsafelyUnwrapped }

    /// Takes out the one at a place below `count`. Linear in how many there are behind it, but constant time for the next one.
    @inlinable @discardableResult public mutating func remove(at place: Int) -> Element {
        let element = self[place]
        if place == 0 { popFirst() } else { elements.remove(at: head &+ place) }
        return element
    }

    /// Puts one in at a place, `count` at most. Linear in how many there are behind it.
    @inlinable public mutating func insert(_ element: Element, at place: Int) {
        elements.insert(element, at: head &+ place)
    }

    /// Puts one behind all others.
    @inlinable public mutating func append(_ element: Element) {
        elements.append(element)
    }

    /// Puts one in front of all others. Linear time where nothing has been taken out.
    @inlinable public mutating func prepend(_ element: Element) {
        if head > 0 {
            head &-= 1
            elements[head] = element
        } else {
            elements.insert(element, at: 0)
        }
    }

    /// Takes out the next one; nil for none.
    @inlinable @discardableResult public mutating func popFirst() -> Element? {
        guard head < elements.count else { return nil }
        let element = exchange(&elements[head], with: nil)
        head &+= 1
        // Not whenever it is empty: most are, after each element, and moving what is left costs more than the element.
        if head >= Self.slack && head &* 2 >= elements.count { closeUp() }
        return element
    }

    /// Takes out all, in linear time, but those that are to be kept; their order stays.
    @inlinable public mutating func sweep(keeping isKept: (Element) -> Bool) {
        elements.removeFirst(head)
        head = 0
        elements.removeAll { !isKept($0.unsafelyUnwrapped) }
        closeUp()
    }

    /// Takes out all.
    @inlinable public mutating func removeAll() {
        self = Fifo()
    }

    /// Gives back the room of what was taken out.
    @inlinable mutating func closeUp() {
        if elements.capacity > 8 &* count &+ Self.slack {
            // A slice of all would share the room.
            var rest: ContiguousArray<Element?> = []
            rest.reserveCapacity(count)
            rest.append(contentsOf: elements[head...])
            elements = rest
        } else {
            elements.removeFirst(head)
        }
        head = 0
    }
}

extension Fifo: Sendable where Element: Sendable {}
