/// Apps by how much they have of something, the one with most at hand. Each change takes the logarithm of their number.
///
/// A heap: no app has more than the one at half its place. Apps that have nothing are not in it.
struct LargestFirst {
    private var heap: [(app: Int, amount: Int)] = []
    private var places: [Int: Int] = [:]

    var count: Int { heap.count }
    /// The app that has most.
    var first: Int? { heap.first?.app }

    /// The app at a place below `count`, in an order that means nothing.
    func app(at place: Int) -> Int { heap[place].app }

    /// The app has so much more, or less.
    mutating func add(_ amount: Int, to app: Int) {
        guard let place = places[app] else {
            guard amount > 0 else { return }
            places[app] = heap.count
            heap.append((app, amount))
            return rise(heap.count - 1)
        }
        heap[place].amount += amount
        if heap[place].amount <= 0 {
            swap(place, heap.count - 1)
            heap.removeLast()
            places[app] = nil
            guard place < heap.count else { return }
        }
        rise(place)
        sink(place)
    }

    private mutating func rise(_ start: Int) {
        var place = start
        while place > 0, heap[place].amount > heap[(place - 1) / 2].amount {
            swap(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }

    private mutating func sink(_ start: Int) {
        var place = start
        while true {
            var largest = place
            for child in [2 * place + 1, 2 * place + 2]
            where child < heap.count && heap[child].amount > heap[largest].amount {
                largest = child
            }
            guard largest != place else { return }
            swap(place, largest)
            place = largest
        }
    }

    private mutating func swap(_ one: Int, _ other: Int) {
        heap.swapAt(one, other)
        places[heap[one].app] = one
        places[heap[other].app] = other
    }
}
