import RESP
import Reactor

/// Why there is no connection to Redis. Safe for a log: codes and our own words, never arguments, and no message of the
/// server.
package struct RedisTrouble: Error, Equatable, Sendable, CustomStringConvertible {
    /// What happened, as few kinds for counting.
    package enum Kind: String, CaseIterable, Sendable {
        /// The host's name has no address.
        case hostNotFound = "host_not_found"
        /// No address takes the connection.
        case connecting
        /// It was not made in time.
        case timeout
        /// TLS failed; a certificate's fault is `untrusted`.
        case tls
        /// The server's certificate is not good for its host.
        case untrusted
        /// The user or the password is wrong, or one is missing.
        case credentials
        /// The user may not do what a connection needs.
        case forbidden
        /// The server does not speak RESP3, or is older than Redis 7.
        case tooOld = "too_old"
        /// It is a replica, or it is a sentinel.
        case notMaster = "not_master"
        /// The sentinels that answer know no master of the service.
        case noMaster = "no_master"
        /// The owner's prelude was refused.
        case prelude
        /// The server answered a command of the connection's own with another error.
        case refused
        /// The server has closed the connection, or it broke.
        case lost
        /// A reply is overdue.
        case overdue
        /// The server has sent what is not RESP3, or a reply to no command.
        case malformed
        /// A value is longer than `RedisSettings.valueBytesMax`.
        case tooLong = "too_long"
        /// The server takes no writes any more, or is still loading: `READONLY`, `LOADING`, `MASTERDOWN`.
        case unfit
    }

    /// What happened.
    package let kind: Kind
    /// More about it in our own or the system's words, or the code of Redis's error; may be empty.
    package let detail: String

    /// `detail` is one line without secrets.
    package init(_ kind: Kind, _ detail: String = "") { (self.kind, self.detail) = (kind, detail) }

    /// From an error in the answer to `HELLO`.
    init(greeting error: RESPError) {
        switch error.code {
        case "WRONGPASS", "NOAUTH": self.init(.credentials, error.code)
        case "NOPERM": self.init(.forbidden, error.code)
        case "NOPROTO": self.init(.tooOld, error.code)
        default: self.init(.refused, error.code)
        }
    }

    /// From an error that is not about the command: the server takes no writes. Nil for others.
    init?(unfit error: RESPError) {
        switch error.code {
        case "READONLY", "LOADING", "MASTERDOWN": self.init(.unfit, error.code)
        default: return nil
        }
    }

    /// From bytes that are not understood.
    init(bytes problem: RESPProblem) {
        switch problem {
        case .malformed: self.init(.malformed)
        case .tooLong: self.init(.tooLong)
        case .tooDeep: self.init(.malformed, "values within values")
        }
    }

    /// Whether it passes by itself; otherwise somebody must change something first.
    package var isPassing: Bool {
        switch kind {
        case .untrusted, .credentials, .forbidden, .tooOld, .prelude, .refused, .tooLong: false
        case .hostNotFound, .connecting, .timeout, .tls, .notMaster, .noMaster, .lost, .overdue, .malformed, .unfit:
            true
        }
    }

    /// One line for the operator.
    package var description: String { detail.isEmpty ? wording : "\(wording) (\(detail))" }

    private var wording: String {
        switch kind {
        case .hostNotFound: "the host's name has no address"
        case .connecting: "nobody takes the connection"
        case .timeout: "it was not connected in time"
        case .tls: "TLS failed"
        case .untrusted: "its certificate is not good"
        case .credentials: "the user or the password is wrong or missing"
        case .forbidden: "the user may not do this"
        case .tooOld: "it is older than Redis 7"
        case .notMaster: "it is not a master"
        case .noMaster: "the sentinels know no master of this service"
        case .prelude: "it is not fit for the hub"
        case .refused: "it refused the connection"
        case .lost: "the connection was lost"
        case .overdue: "a reply is overdue"
        case .malformed: "it does not speak Redis's protocol"
        case .tooLong: "it sent a value beyond the bound"
        case .unfit: "it cannot be written to"
        }
    }
}
