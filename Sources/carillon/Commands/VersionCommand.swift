import ArgumentParser

/// `carillon version`.
struct VersionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "version", abstract: "Print the version.")

    func run() {
        say("carillon \(Carillon.version)")
    }
}
