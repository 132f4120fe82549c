import Foundation
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
        description.split(whereSeparator: \.isNewline).lazy.map { $0.trimmingCharacters(in: .whitespaces) }
            .first { !$0.isEmpty } ?? ""
    }
}

/// Writes a line for people to standard output at once, so that a reader at the other end of a pipe sees it now.
func say(_ line: String) {
    writeLine(line, to: FileHandle.standardOutput)
}

/// Writes a line to standard error.
func complain(_ line: String) {
    writeLine(line, to: FileHandle.standardError)
}

private func writeLine(_ line: String, to handle: FileHandle) {
    // A reader that has gone away is no reason to fail: the throwing form turns EPIPE into an error that is dropped.
    try? handle.write(contentsOf: Data((line + "\n").utf8))
}
