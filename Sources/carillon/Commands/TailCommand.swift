import ArgumentParser

/// `carillon tail`: a device on the command line.
struct TailCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "tail", abstract: "Print events.")
    func run() throws {}
}
