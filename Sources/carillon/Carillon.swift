import ArgumentParser
import Glibc

/// The `carillon` command.
@main struct Carillon: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "carillon",
        abstract: "A realtime sync hub: what PostgreSQL commits, every device of that user sees.",
        version: "carillon \(version)",
        subcommands: [
            ServeCommand.self, DevCommand.self, MigrateCommand.self, TokenCommand.self, TailCommand.self,
            JobsCommand.self, DrainCommand.self, ClusterCommand.self, CheckConfigCommand.self, VersionCommand.self,
        ])

    static let version = "0.2.0-dev"

    static func main() {
        do {
            try checkCommand(CommandLine.arguments.dropFirst())
            var command = try parseAsRoot()
            try command.run()
        } catch let failure as Failure {
            for line in failure.lines { complain("carillon: \(line)") }
            Glibc.exit(failure.status.rawValue)
        } catch {
            let text = fullMessage(for: error)
            if exitCode(for: error).isSuccess, let settings = SettingsHelp.below(text) {
                say(text.trimmed + "\n\n" + settings)
                Glibc.exit(0)
            }
            exit(withError: error)
        }
    }

    /// - Throws: an error that suggests the intended command when `name` is unknown.
    static func checkCommand(_ arguments: some Sequence<String>) throws(ValidationError) {
        var words = Array(arguments)
        if words.first == "help" { words.removeFirst() }
        let names = configuration.subcommands.compactMap { $0.configuration.commandName }
        guard let name = words.first, !name.hasPrefix("-"), !names.contains(name), name != "help" else { return }
        let begun = names.first { !name.isEmpty && $0.hasPrefix(name.lowercased()) }
        var hint = begun.map { ", did you mean \($0)?" } ?? nearest(to: name, among: names)
        if hint.isEmpty { hint = "; there are \(names.joined(separator: ", "))" }
        throw ValidationError("there is no command \(name)\(hint)")
    }
}
