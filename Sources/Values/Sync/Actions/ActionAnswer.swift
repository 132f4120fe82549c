import Bytes
import Clock
import JSON

/// What became of an action.
package enum ActionStatus: String, Sendable, CaseIterable {
    case applied, noop, conflict, rejected, partial
    /// Nothing was decided: send the same action again later.
    case retry
}

/// Why an action is to be sent again, which HTTP tells apart by its status.
package enum RetryReason: Sendable, Equatable {
    /// This user or device sends too much.
    case rateLimited
    /// Rows are locked, or too many actions wait.
    case busy
    /// No database that can be written to.
    case unavailable
    /// The device's numbers have a gap: the answer says which one is expected.
    case outOfOrder

    /// The answer's `code`.
    package var code: StaticString {
        switch self {
        case .rateLimited, .busy: "busy"
        case .unavailable: "unavailable"
        case .outOfOrder: "out_of_order"
        }
    }
}

/// The answer to an action.
package struct ActionAnswer: Sendable {
    package let status: ActionStatus
    /// The whole `sync:result` object.
    package let json: SharedBytes
    /// Set where the status is `retry`.
    package let retry: RetryReason?
    /// How long to wait before sending it again.
    package let retryAfter: Duration?

    package init(status: ActionStatus, json: SharedBytes, retry: RetryReason? = nil, retryAfter: Duration? = nil) {
        self.status = status
        self.json = json
        self.retry = retry
        self.retryAfter = retryAfter
    }
}

extension ActionAnswer {
    /// A retry that the hub itself asks for; nothing is stored of it.
    ///
    /// - Parameter message: a sentence for developers, of our own words.
    package static func retry(
        key: String, _ reason: RetryReason, after wait: Duration, message: StaticString
    ) -> ActionAnswer {
        var json = ByteWriter(capacity: 160)
        json.append("{\"key\":")
        json.append(jsonString: key)
        json.append(",\"status\":\"retry\",\"code\":\"")
        json.append(reason.code)
        json.append("\",\"afterMs\":")
        // What a browser's timers take, some three weeks.
        json.append(decimal: min(wait.millisecondsRoundedUp, Int(Int32.max)))
        json.append(",\"message\":\"")
        json.append(message)
        json.append("\"}")
        return ActionAnswer(status: .retry, json: json.finish(), retry: reason, retryAfter: wait)
    }

    /// A rejection that is not stored: the action cannot be read, or the database cannot hold it.
    ///
    /// - Parameters:
    ///   - path: the field at fault, such as `payload`; nil where none is to be named.
    ///   - message: a reason, of our own words.
    package static func invalid(key: String, path: String?, message: StaticString) -> ActionAnswer {
        var json = ByteWriter(capacity: 160)
        json.append("{\"key\":")
        json.append(jsonString: key)
        json.append(",\"status\":\"rejected\",\"code\":\"invalid\"")
        if let path {
            json.append(",\"path\":")
            json.append(jsonString: path)
        }
        json.append(",\"message\":\"")
        json.append(message)
        json.append("\"}")
        return ActionAnswer(status: .rejected, json: json.finish())
    }
}
