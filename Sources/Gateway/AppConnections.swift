import Channels
import Synchronization

/// The connections of one app, over all loops: WebSockets that are open.
final class AppConnections: Sendable {
    private let opened = Atomic<Int>(0)

    var count: Int { opened.load(ordering: .relaxed) }

    /// Counts a connection in, unless there are `most` already; nil: there is no bound.
    func enter(most: Int?) -> Bool {
        guard let most else {
            opened.add(1, ordering: .relaxed)
            return true
        }
        var seen = count
        while seen < most {
            let result = opened.compareExchange(expected: seen, desired: seen + 1, ordering: .relaxed)
            if result.exchanged { return true }
            seen = result.original
        }
        return false
    }

    func leave() {
        opened.subtract(1, ordering: .relaxed)
    }
}

/// The apps served, with what is counted of each: what every loop has its own copy of.
struct ServedApps: Sendable {
    let table: AppTable
    /// By the apps' indices.
    let connections: [AppConnections]

    init(_ table: AppTable) {
        self.table = table
        connections = (0..<table.indexCount).map { _ in AppConnections() }
    }

    private init(_ table: AppTable, _ connections: [AppConnections]) {
        self.table = table
        self.connections = connections
    }

    /// With another table in this one's place. What is counted stays, of apps that are served no more as well: their
    /// connections have still to leave.
    func replaced(by table: AppTable) -> ServedApps {
        var connections = connections
        while connections.count < table.indexCount { connections.append(AppConnections()) }
        return ServedApps(table, connections)
    }
}
