/// A queue: first in, first out. Elements can also be prepended, inserted and removed anywhere. `append` and `popFirst` take
/// amortized constant time. Removed elements are released at once; memory stays below eight times the content plus `slack`.
public struct Fifo<Element> {
    @usableFromInline var elements: ContiguousArray<Element?> = []
    @usableFromInline var head = 0

    /// Elements for which memory is always kept.
    @usableFromInline static var slack: Int { 64 }

    /// An empty queue, without memory.
    @inlinable public init() {}

    /// Elements in the queue.
    @inlinable public var count: Int { elements.count &- head }
    /// True when there are none.
    @inlinable public var isEmpty: Bool { head == elements.count }
    /// The front element; nil when empty.
    @inlinable public var first: Element? { head < elements.count ? elements[head] : nil }

    /// The back element; nil when empty.
    @inlinable public var last: Element? { head < elements.count ? elements[elements.count &- 1] : nil }

    /// The element at an index below `count`; the front element is at 0.
    @inlinable public subscript(index: Int) -> Element { elements[head &+ index].unsafelyUnwrapped }

    /// Removes the element at an index below `count`. Linear in the elements after it; constant for the front element.
    @inlinable @discardableResult public mutating func remove(at index: Int) -> Element {
        let element = self[index]
        if index == 0 { popFirst() } else { elements.remove(at: head &+ index) }
        return element
    }

    /// Inserts at an index, at most `count`. Linear in the elements after it.
    @inlinable public mutating func insert(_ element: Element, at index: Int) {
        elements.insert(element, at: head &+ index)
    }

    /// Adds an element at the back.
    @inlinable public mutating func append(_ element: Element) {
        elements.append(element)
    }

    /// Adds an element at the front. Linear when nothing has been removed from the front.
    @inlinable public mutating func prepend(_ element: Element) {
        if head > 0 {
            head &-= 1
            elements[head] = element
        } else {
            elements.insert(element, at: 0)
        }
    }

    /// Removes the front element; nil when empty.
    @inlinable @discardableResult public mutating func popFirst() -> Element? {
        guard head < elements.count else { return nil }
        let element = exchange(&elements[head], with: nil)
        head &+= 1
        // Not each time it is empty: most queues are, after each element, and closing up costs more than the element.
        if head >= Self.slack && head &* 2 >= elements.count { closeUp() }
        return element
    }

    /// Whether a sweep is due if only `live` elements are not stale. Stale elements are skipped when their turn comes, and
    /// swept when they are more than half. `slack`: elements kept beyond twice `live`.
    @inlinable public func needsSweep(live: Int, slack: Int = 1_024) -> Bool { count > 2 * live + slack }

    /// Removes all elements that are not to be kept, in linear time. The order stays.
    @inlinable public mutating func sweep(keeping isKept: (Element) -> Bool) {
        elements.removeFirst(head)
        head = 0
        elements.removeAll { !isKept($0.unsafelyUnwrapped) }
        closeUp()
    }

    /// Removes all elements and frees the memory.
    @inlinable public mutating func removeAll() {
        self = Fifo()
    }

    @inlinable mutating func closeUp() {
        if elements.capacity > 8 &* count &+ Self.slack {
            // A slice of all elements would share the storage.
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
