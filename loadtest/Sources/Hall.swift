/// One channel of a crowd, and the clients that belong there.
struct Hall {
    let first: Int
    let count: Int
    let isPresence: Bool

    var clients: Range<Int> { first..<first + count }

    /// Channels for that many clients: of each ten, three are in channels of three, three in channels of thirty, one or two
    /// in one or two large ones, and the others in channels without members.
    static func plan(clients: Int) -> [Hall] {
        var halls: [Hall] = []
        var next = 0
        func add(_ share: Int, of size: Int, isPresence: Bool) {
            let end = min(clients, next + share)
            while next < end {
                let count = min(size, end - next)
                halls.append(Hall(first: next, count: count, isPresence: isPresence))
                next += count
            }
        }
        add(clients * 3 / 10, of: 3, isPresence: true)
        add(clients * 3 / 10, of: 30, isPresence: true)
        add(clients * 14 / 100, of: max(1, min(clients * 14 / 100, 210)), isPresence: true)
        add(clients, of: 40, isPresence: false)
        return halls
    }
}

/// A set of small numbers.
struct Bits: Equatable {
    private var words: ContiguousArray<UInt64> = []

    /// All below `count`.
    init(below count: Int) {
        for number in 0..<count { self[number] = true }
    }

    init() {}

    subscript(number: Int) -> Bool {
        get { number >> 6 < words.count && words[number >> 6] >> (number & 63) & 1 == 1 }
        set {
            while number >> 6 >= words.count { words.append(0) }
            if newValue {
                words[number >> 6] |= 1 << (number & 63)
            } else {
                words[number >> 6] &= ~(1 << (number & 63))
            }
        }
    }

    var count: Int { words.reduce(0) { $0 + $1.nonzeroBitCount } }

    var numbers: [Int] { (0..<words.count << 6).filter { self[$0] } }

    /// Whether both have the same numbers.
    static func == (one: Bits, other: Bits) -> Bool {
        for index in 0..<max(one.words.count, other.words.count)
        where (index < one.words.count ? one.words[index] : 0) != (index < other.words.count ? other.words[index] : 0) {
            return false
        }
        return true
    }
}
