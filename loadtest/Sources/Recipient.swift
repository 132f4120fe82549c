/// A device as the ledger knows it.
final class Recipient {
    let number: Int
    let user: Int
    /// The last offset received per topic; -1 before the subscribe is acknowledged.
    var offsets: ContiguousArray<Int64>

    init(_ number: Int, user: Int, topics: Int) {
        self.number = number
        self.user = user
        offsets = ContiguousArray(repeating: -1, count: topics)
    }
}
