import Bytes

/// Apps by how much they have of something, the one with most at hand. Each change takes the logarithm of their number.
/// Apps that have nothing are not in it.
struct LargestFirst {
    /// `@unchecked Sendable`: of one table, and so behind the lock that its owner holds it by.
    private final class Holder: HeapEntry, @unchecked Sendable {
        let app: Int
        var amount: Int
        private(set) var place = 0

        init(_ app: Int, _ amount: Int) {
            (self.app, self.amount) = (app, amount)
        }

        func precedes(_ other: Holder) -> Bool { amount > other.amount }

        func moved(to place: Int) { self.place = place }
    }

    private var heap = Heap<Holder>()
    private var holders: [Int: Holder] = [:]

    var count: Int { heap.count }
    /// The app that has most.
    var first: Int? { heap.first?.app }

    /// The app at a place below `count`, in an order that means nothing.
    func app(at place: Int) -> Int { heap[place].app }

    /// The app has so much more, or less.
    mutating func add(_ amount: Int, to app: Int) {
        guard let holder = holders[app] else {
            guard amount > 0 else { return }
            let holder = Holder(app, amount)
            holders[app] = holder
            return heap.insert(holder)
        }
        holder.amount += amount
        if holder.amount > 0 {
            heap.settle(at: holder.place)
        } else {
            holders[app] = nil
            heap.remove(at: holder.place)
        }
    }
}
