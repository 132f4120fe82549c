import ArgumentParser
import Pusher

/// `loadtest crowd`: clients that a judge strikes, and asks what they show.
struct CrowdCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "crowd",
        abstract: "Clients of several hubs that stay, whatever becomes of these, and say what they show.",
        discussion: """
            Each client is in one channel: presence channels of three, of thirty and of some two hundred, and others. It \
            comes back by pusher-js's rules, to any hub that is named; where one refuses it, it tries another, as a balancer \
            would. A backend publishes numbered events all the time. Commands are lines of standard input, each answered by \
            a line of JSON:

            `hubs A:P,B:P` those that take clients and publishes from now on. `all 1`, `all 0`: all come, or go. `stir N`: \
            so many of them go or come. `calm 1`, `calm 0`: what is published from now on must be taken, and reach each \
            client that was in before, or need not. `hear`: publishes to each channel. `look`: what is wrong at the moment. \
            `who`: who wants to be in which channel. The end of the input ends it.
            """)

    @Option(help: "Clients.")
    var clients = 3_000

    @Option(help: "Publishes a second.")
    var rate = 20.0

    @Option(help: "Key of the app.")
    var appKey = "carillon-key"

    @Option(help: "Secret of the app.")
    var appSecret = "carillon-secret"

    @Option(help: "Repeats the choices of a run.")
    var seed: UInt64?

    func run() throws {
        guard (10...Limits.connectionsMax).contains(clients), rate > 0 else {
            throw LoadFailure("--clients from 10 to \(Limits.connectionsMax), --rate above zero")
        }
        let run = try CrowdRun(self, seed: seed ?? UInt64.random(in: 1...UInt64(UInt32.max)))
        defer { run.end() }
        try run.run()
    }
}
