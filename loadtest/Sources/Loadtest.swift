import ArgumentParser
import Foundation

/// The load tester: many devices of many users at a hub, and writers to its database.
///
/// It drives events through PostgreSQL as an app's backend does, and judges deliveries: every device must get every event
/// of its user's streams once, in order, with the same content, and no event of another user.
@main struct Loadtest: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "loadtest",
        abstract: "Load a hub with devices and row changes, and check and measure what arrives.",
        subcommands: [
            FanoutCommand.self, IdleCommand.self, CPUCommand.self, ActionsCommand.self, LatencyCommand.self,
            NotifyCommand.self, StalledCommand.self, TransportCommand.self, ConnectCommand.self, MessagesCommand.self,
            PublishCommand.self, DropCommand.self, StormCommand.self, DeployCommand.self, RollingCommand.self,
            CrowdCommand.self,
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

/// Why a run failed, in one line.
struct LoadFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

func say(_ line: String) {
    try? FileHandle.standardOutput.write(contentsOf: Data((line + "\n").utf8))
}

func complain(_ line: String) {
    try? FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8))
}
