import Synchronization

/// How many events of ordinary channels are in the loops' mailboxes: clients' on their way to a home, and all on their way
/// from a home to another loop, one for each event and loop. Nobody waits for those of clients, so they are dropped while
/// there are too many, and backends are told to come back later.
final class PublishBacklog: Sendable {
    private let messages = Atomic<Int>(0)

    var count: Int { messages.load(ordering: .relaxed) }

    func add() { messages.add(1, ordering: .relaxed) }

    func subtract() { messages.subtract(1, ordering: .relaxed) }
}
