import Glibc
import Postgres

/// An error that ends the command, told to a person in one clear line for each problem.
///
/// It names the setting, file or object, its value, and what to do. Never health data, never a secret.
struct Failure: Error, CustomStringConvertible {
    /// Exit status: 78 (`EX_CONFIG` of sysexits.h) when the configuration must change, otherwise 1.
    enum Status: Int32 {
        case general = 1
        case configuration = 78
    }

    let lines: [String]
    let status: Status

    init(_ line: String, status: Status = .general) {
        self.lines = [line]
        self.status = status
    }

    init(lines: [String], status: Status = .general) {
        self.lines = lines
        self.status = status
    }

    var description: String { lines.joined(separator: "\n") }
}

extension StatementError {
    /// The server's first line. Further lines may be pages of a function's text (QUERY, CONTEXT) or quote rows (DETAIL).
    var line: String {
        description.split(whereSeparator: \.isNewline).lazy.map(\.trimmed)
            .first { !$0.isEmpty } ?? ""
    }
}

/// Writes a line to standard output at once, so that the reader of a pipe sees it now. A closed pipe is no error.
func say(_ line: String) {
    Descriptor.write(line + "\n", to: STDOUT_FILENO)
}

func complain(_ line: String) {
    Descriptor.write(line + "\n", to: STDERR_FILENO)
}
