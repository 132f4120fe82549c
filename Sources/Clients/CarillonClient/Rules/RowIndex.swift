/// Which screens an action of the queue changes: those of doses, of reminders, or the lists of medications.
enum RowFamily: CaseIterable, Sendable {
    case doses, reminders, lists, other

    init(_ type: String) { self = Self.ofTypes[type] ?? .other }

    private static let ofTypes: [String: RowFamily] = {
        var found: [String: RowFamily] = [:]
        for type in MedicationOverlay.types { found[type] = .lists }
        for type in ReminderOverlay.types { found[type] = .reminders }
        for type in DoseOverlay.types { found[type] = .doses }
        return found
    }()
}

/// The ids of rows that are asked for often, each list in its order: of thousands, an act looks at a few.
struct RowIndex: Sendable {
    /// Those that the hub has still to confirm.
    private(set) var waiting: [Int64] = []
    /// Those that a person has to see: parked and refused ones.
    private(set) var seen: [Int64] = []
    /// Those that count, or did until their events came.
    private var open: [RowFamily: [Int64]] = [:]
    /// Counts the changes of each family.
    private(set) var turns: [RowFamily: Int] = [:]

    func open(_ family: RowFamily) -> [Int64] { open[family] ?? [] }

    mutating func add(_ row: QueuedAction) {
        if row.state.isWaiting { waiting.insert(inOrder: row.id) }
        if row.state == .parked || row.state == .failed { seen.insert(inOrder: row.id) }
        let family = RowFamily(row.type)
        if row.mayCount { open[family, default: []].insert(inOrder: row.id) }
        turns[family, default: 0] += 1
    }

    mutating func remove(_ row: QueuedAction) {
        if row.state.isWaiting { waiting.remove(inOrder: row.id) }
        if row.state == .parked || row.state == .failed { seen.remove(inOrder: row.id) }
        let family = RowFamily(row.type)
        if row.mayCount { open[family]?.remove(inOrder: row.id) }
        turns[family, default: 0] += 1
    }
}

extension QueuedAction {
    /// Whether it counts as long as its events are not here.
    fileprivate var mayCount: Bool {
        state.isWaiting || more.until != nil
    }
}

extension Array {
    /// The index of the first element that is after `id`. Elements are in the order of their ids.
    func partition(after id: Int64, _ idOf: (Element) -> Int64) -> Int {
        // Most of what is asked for is new.
        if let last, idOf(last) <= id { return count }
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if idOf(self[middle]) <= id { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

extension [Int64] {
    fileprivate mutating func insert(inOrder id: Int64) { insert(id, at: partition(after: id) { $0 }) }

    fileprivate mutating func remove(inOrder id: Int64) {
        let index = partition(after: id - 1) { $0 }
        if index < count, self[index] == id { remove(at: index) }
    }
}
