import Bytes
import Clock
import Postgres
import Sync

/// Answers to undecided actions. Clients told to wait at the same time come back spread over that time again.
extension ActionAnswer {
    /// The hub is stopping; the client connects to another hub, or to the next.
    static func stopping(key: String) -> ActionAnswer {
        .retry(key: key, .unavailable, after: .seconds(1), message: "the hub is stopping")
    }

    static func unavailable(_ key: String, after wait: Duration) -> ActionAnswer {
        .retry(
            key: key, .unavailable, after: wait.spread, message: "the database cannot be written to at the moment")
    }

    static func held(_ key: String, _ wait: Duration, _ reason: HoldReason) -> ActionAnswer {
        switch reason {
        case .locked: busy(key, after: wait, "another writer has this user's rows locked")
        case .failed:
            .retry(
                key: key, .unavailable, after: max(wait, .milliseconds(500)).spread,
                message: "the database could not carry it out")
        }
    }

    static func busy(_ key: String, after wait: Duration, _ message: StaticString) -> ActionAnswer {
        .retry(key: key, .busy, after: wait.spread, message: message)
    }
}

extension ActionAnswer {
    /// From the row of `sync.apply` or `sync.refuse`: the status and the answer's JSON. Nil if its shape is wrong.
    init?(_ rows: Rows) {
        guard rows.count == 1 else { return nil }
        self.init(rows, at: 0)
    }

    /// From one of the rows of `sync.apply_all`.
    init?(_ rows: Rows, at row: Int) {
        guard let status = rows.string(row, 0).flatMap({ ActionStatus(rawValue: $0) }),
            let json = rows.withBytes(row, 1, { SharedBytes.copy($0) })
        else { return nil }
        self.init(status: status, json: json, retry: status == .retry ? .outOfOrder : nil)
    }
}

extension Duration {
    /// A random duration between this and twice this.
    fileprivate var spread: Duration {
        let milliseconds = wholeMilliseconds + 1
        return .milliseconds(Int.random(in: milliseconds...2 * milliseconds))
    }
}
