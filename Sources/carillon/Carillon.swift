import ArgumentParser
import Foundation

/// The command: everything an operator or developer does with Carillon.
@main struct Carillon: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "carillon",
        abstract: "A realtime sync hub: what PostgreSQL commits, every device of that user sees.",
        version: "carillon \(version)",
        subcommands: [
            ServeCommand.self, DevCommand.self, MigrateCommand.self, TokenCommand.self, TailCommand.self,
            CheckConfigCommand.self, VersionCommand.self,
        ])

    /// Of this source tree.
    static let version = "0.1.0"

    static func main() {
        do {
            var command = try parseAsRoot()
            try command.run()
        } catch let failure as Failure {
            for line in failure.lines { complain("carillon: \(line)") }
            Foundation.exit(failure.status.rawValue)
        } catch {
            exit(withError: error)
        }
    }
}
