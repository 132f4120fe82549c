import ArgumentParser
import Foundation

/// The load tester: many devices of many users on one side of a hub, writers to its database on the other.
///
/// It drives events through PostgreSQL as an app's backend does, and judges what arrives: every device must get every
/// event of its user's streams, once, in order, with the same content, and nothing of another user's.
@main struct Loadtest: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "loadtest",
        abstract: "Load a hub with devices and row changes, and check and measure what arrives.",
        subcommands: [
            FanoutCommand.self, IdleCommand.self, CPUCommand.self, ActionsCommand.self, LatencyCommand.self,
            NotifyCommand.self, StalledCommand.self, TransportCommand.self, ConnectCommand.self, MessagesCommand.self,
            PublishCommand.self, DropCommand.self,
        ],
        defaultSubcommand: FanoutCommand.self)

    static func main() {
        do {
            var command = try parseAsRoot()
            try command.run()
        } catch let failure as LoadFailure {
            complain("loadtest: \(failure.description)")
            Foundation.exit(1)
        } catch {
            exit(withError: error)
        }
    }
}

/// A run that came to nothing, in one line for a person.
struct LoadFailure: Error, CustomStringConvertible {
    let description: String

    /// A failure of one line.
    init(_ description: String) {
        self.description = description
    }
}

/// Writes a line to standard output at once.
func say(_ line: String) {
    try? FileHandle.standardOutput.write(contentsOf: Data((line + "\n").utf8))
}

/// Writes a line to standard error.
func complain(_ line: String) {
    try? FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8))
}
