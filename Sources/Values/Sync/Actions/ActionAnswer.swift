import Bytes
import Clock
import JSON

/// The result of an action.
package enum ActionStatus: String, Sendable, CaseIterable {
    case applied, noop, conflict, rejected, partial
    /// Nothing was decided: send the same action again later.
    case retry
}

/// Why an action should be sent again. HTTP gives each reason its own status.
package enum RetryReason: Sendable, Equatable {
    /// This user or device sends too much.
    case rateLimited
    /// Rows are locked, or too many actions wait.
    case busy
    /// No writable database.
    case unavailable
    /// The device's numbers have a gap. The answer gives the expected number.
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
    /// What became of the action.
    package let status: ActionStatus
    /// The whole `sync:result` object.
    package let json: SharedBytes
    /// Set when the status is `retry`.
    package let retry: RetryReason?
    /// How long to wait before a retry.
    package let retryAfter: Duration?

    /// `json` is the whole `sync:result` object.
    package init(status: ActionStatus, json: SharedBytes, retry: RetryReason? = nil, retryAfter: Duration? = nil) {
        self.status = status
        self.json = json
        self.retry = retry
        self.retryAfter = retryAfter
    }
}

extension ActionAnswer {
    /// A retry requested by the hub itself. Nothing is stored.
    ///
    /// - Parameter message: a sentence for developers, in our own words.
    package static func retry(
        key: String, _ reason: RetryReason, after wait: Duration, message: StaticString
    ) -> ActionAnswer {
        var json = ByteWriter(capacity: 160)
        json.append("{\"key\":")
        json.append(jsonString: key)
        json.append(",\"status\":\"retry\",\"code\":\"")
        json.append(reason.code)
        json.append("\",\"afterMs\":")
        // The most that browser timers accept, about three weeks.
        json.append(decimal: min(wait.millisecondsRoundedUp, Int(Int32.max)))
        json.append(",\"message\":\"")
        json.append(message)
        json.append("\"}")
        return ActionAnswer(status: .retry, json: json.finish(), retry: reason, retryAfter: wait)
    }

    /// A rejection that is not stored: the action cannot be read, or the database cannot hold it.
    ///
    /// - Parameters:
    ///   - path: the field at fault, such as `payload`; nil to name none.
    ///   - message: a reason, in our own words.
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
        json.append("\",\"numberUsed\":false}")
        return ActionAnswer(status: .rejected, json: json.finish())
    }
}
