/// A device as the ledger knows it.
final class Recipient {
    /// Among all devices of the run.
    let number: Int
    /// The user's number.
    let user: Int
    /// The offset received last of each topic; -1 before the subscribe is acknowledged.
    var offsets: ContiguousArray<Int64>

    /// A device that has subscribed to nothing yet.
    init(_ number: Int, user: Int, topics: Int) {
        self.number = number
        self.user = user
        offsets = ContiguousArray(repeating: -1, count: topics)
    }
}
