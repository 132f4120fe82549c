import ArgumentParser
import Pusher

/// `loadtest deploy`: what devices notice of deploys.
struct DeployCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deploy", abstract: "Replace a hub again and again while devices receive and act.",
        discussion: """
            It starts hubs of its own, one after the other on one port: `take-over` has each take the sockets of the one \
            before it; with `sockets` this program holds the listening socket, as systemd does, and each hub ends before \
            the next one starts. Clients keep pusher-js's rules, and resume from their positions. Doses are changed by SQL, \
            and devices take and undo others; an action that has no answer is sent again. Every event must come once and \
            in order, and every action be applied once. The times of events run until the kernel has them for the device. \
            Those of devices that a deploy has not closed yet are judged; those of devices that are back at the new hub \
            stand beside them.
            """)

    @Option(help: "The program that is deployed.")
    var program = ".build/release/carillon"

    @Option(help: "Folder of `carillon dev`, whose database is used.")
    var dir: String?

    @Option(help: "Connection string of the database's owner.")
    var database: String?

    @Option(help: "Connection string of the hubs; by default the owner's with carillon_hub for carillon_owner.")
    var hubDatabase: String?

    @Option(help: "The ways to deploy: take-over, sockets.")
    var way: [Deploys.Way] = [.takeOver, .sockets]

    @Option(help: "Deploys in a row, of each way.")
    var deploys = 5

    @Option(help: "Users.")
    var users = 500

    @Option(help: "Devices of each.")
    var devicesPerUser = 2

    @Option(help: "Doses changed by SQL, a second.")
    var changes = 100.0

    @Option(help: "Actions of all devices, a second.")
    var actions = 50.0

    @Option(help: "Seconds without a deploy before each.")
    var quiet = 3.0

    @Option(help: "Write the figures to this file, as JSON.")
    var json: String?

    func run() throws {
        guard users > 0, devicesPerUser > 0, (1...Limits.connectionsMax).contains(users * devicesPerUser),
            users * devicesPerUser * 2 <= Limits.rowsMax / 10, deploys > 0, changes > 0, actions > 0, quiet > 0
        else {
            throw LoadFailure(
                "--users times --devices-per-user: up to \(Limits.rowsMax / 20); all other numbers above zero")
        }
        let owner = try HubOptions.databaseURL(database, dir)
        let hub = hubDatabase ?? owner.replacing("carillon_owner@", with: "carillon_hub@")
        let app = (key: "deploy-key", secret: "deploy-secret")
        let credentials = AppCredentials(key: app.key, secret: app.secret)
        let plan = DeployRun.Plan(
            users: users, devicesPerUser: devicesPerUser, deploys: deploys, changes: changes, actions: actions,
            quiet: .seconds(quiet))
        let seed = UInt64.random(in: 1...UInt64(UInt32.max))
        var figures = DeployFigures(seed: seed)
        for (number, way) in way.enumerated() {
            let hubs = try Deploys(way, program: program, settings: ["DATABASE_URL": hub], app: app)
            let run: DeployRun
            do {
                run = try DeployRun(
                    plan, hubs, databaseURL: owner, credentials, seed: seed &+ UInt64(number), progress: ProgressLine())
            } catch {
                hubs.end()
                throw error
            }
            defer { run.cleanUp() }
            figures.ways[way.rawValue] = try run.run()
        }
        figures.print()
        try write(figures, to: json)
        if let fault = figures.fault { throw LoadFailure("\(fault) (seed \(seed))") }
    }
}
