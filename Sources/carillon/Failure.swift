import Glibc
import Postgres

/// A problem told to a person in one clear line each, after which the command ends.
///
/// It says which setting, file or thing is concerned, its value, and what to do. Never health data, never a secret.
struct Failure: Error, CustomStringConvertible {
    /// Exit status: 78 (`EX_CONFIG` of sysexits.h) when the configuration must be changed, else 1.
    enum Status: Int32 {
        case general = 1
        case configuration = 78
    }

    let lines: [String]
    let status: Status

    /// A failure of one line.
    init(_ line: String, status: Status = .general) {
        self.lines = [line]
        self.status = status
    }

    /// A failure of several problems found together, each on its own line.
    init(lines: [String], status: Status = .general) {
        self.lines = lines
        self.status = status
    }

    var description: String { lines.joined(separator: "\n") }
}

extension StatementError {
    /// The first line of what the server said. Those that follow may be pages of a function's text (QUERY, CONTEXT), or quote
    /// rows (DETAIL).
    var line: String {
        description.split(whereSeparator: \.isNewline).lazy.map(\.trimmed)
            .first { !$0.isEmpty } ?? ""
    }
}

/// Writes a line for people to standard output at once, so that a reader at the other end of a pipe sees it now. A
/// reader that has gone away is no reason to fail.
func say(_ line: String) {
    Descriptor.write(line + "\n", to: STDOUT_FILENO)
}

/// Writes a line to standard error.
func complain(_ line: String) {
    Descriptor.write(line + "\n", to: STDERR_FILENO)
}
