import ArgumentParser
import CLinux
import Foundation
import Glibc

/// Hubs that follow one another on one port, each deployed in the place of the one before it.
final class Deploys {
    enum Way: String, CaseIterable, Codable, ExpressibleByArgument {
        /// Each hub takes the sockets of the one before it.
        case takeOver = "take-over"
        /// The listening socket is held outside, as systemd does; each hub ends before the next one starts.
        case sockets
        /// Each hub ends before the next one starts and listens: others take its clients meanwhile.
        case restart
    }

    private enum Step {
        case serving, starting, ending
    }

    let way: Way
    /// Where all of them listen.
    let address: String
    private let program: String
    private let environment: [String: String]
    private let folder: URL
    /// Held outside the hubs; nil where they hold it themselves.
    private let socket: Int32?
    private var count = 0
    private var hub: DeployedHub?
    /// The hub that the present one follows.
    private var old: DeployedHub?
    private var step = Step.serving

    /// As long as a hub's own (`HubListeners`), and as `carillon.socket` says.
    private static let backlog: Int32 = 4_096

    /// - Parameter settings: of the hubs, by the names of the environment.
    init(_ way: Way, program: String, settings: [String: String], app: (key: String, secret: String)) throws {
        self.way = way
        self.program = URL(fileURLWithPath: program).standardizedFileURL.path
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("loadtest-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let (listening, port) = try Self.listen()
        address = "127.0.0.1:\(port)"
        if way != .sockets {
            // The first hub binds the port that was free a moment ago.
            close(listening)
            socket = nil
        } else {
            socket = listening
        }
        var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("CARILLON_") }
        environment.merge(settings) { $1 }
        environment["CARILLON_LISTEN"] = address
        environment["CARILLON_OPERATIONS_LISTEN"] = "off"
        environment["CARILLON_LOG_FORMAT"] = "json"
        environment["CARILLON_APPS"] =
            #"[{"id":"1","key":"\#(app.key)","secret":"\#(app.secret)"}]"#
        if way == .takeOver { environment["CARILLON_CONTROL_SOCKET"] = folder.appendingPathComponent("control").path }
        self.environment = environment
    }

    /// Whether a balancer may send clients to it.
    var takesClients: Bool { way == .restart ? step == .serving && !isLeaving : true }
    /// A balancer sends it no more clients, for it ends soon.
    var isLeaving = false

    /// Starts the first hub; returns when it is ready.
    func start() throws {
        hub = try newHub()
        var watch = StallWatch()
        while try hub?.says(#""ready""#) == false {
            usleep(5_000)
            guard watch.isMoving(0) else { throw LoadFailure("the first hub is not ready") }
        }
    }

    /// A deploy begins.
    func begin() throws {
        old = hub
        isLeaving = false
        switch way {
        case .takeOver:
            hub = try newHub("--take-over")
            step = .starting
        case .sockets, .restart:
            old?.tell(SIGTERM)
            step = .ending
        }
    }

    /// Goes on with the deploy that has begun. Returns whether the new hub serves and the old one has ended.
    func goOn() throws -> Bool {
        switch (way, step) {
        case (_, .serving): break
        case (.takeOver, .starting):
            if try hub?.says(#""took over"#) == true { step = .ending }
        case (.takeOver, .ending):
            if try hasEnded() { step = .serving }
        case (.sockets, .ending), (.restart, .ending):
            guard try hasEnded() else { break }
            hub = try newHub()
            step = .starting
        case (.sockets, .starting), (.restart, .starting):
            if try hub?.says(#""ready""#) == true { step = .serving }
        }
        return step == .serving
    }

    /// Ends the hubs, and removes what they left.
    func end() {
        for each in [hub, old] { each?.end() }
        if let socket { close(socket) }
        try? FileManager.default.removeItem(at: folder)
    }

    private func hasEnded() throws -> Bool {
        guard let old, old.hasEnded else { return false }
        guard old.status == 0 else { throw LoadFailure("a hub that was followed ended with status \(old.status ?? 0)") }
        return true
    }

    private func newHub(_ arguments: String...) throws -> DeployedHub {
        count += 1
        return try DeployedHub(
            program, ["serve"] + arguments, environment: environment, socket: socket,
            log: folder.appendingPathComponent("hub-\(count).log"))
    }

    private static func listen() throws -> (socket: Int32, port: UInt16) {
        let made = cl_stream_socket(AF_INET)
        _ = cl_set_option(made, SOL_SOCKET, SO_REUSEADDR, 1)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr = in_addr(s_addr: UInt32(0x7F00_0001).bigEndian)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isMade = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(made, $0, length) == 0 && Glibc.listen(made, backlog) == 0 && getsockname(made, $0, &length) == 0
            }
        }
        guard made >= 0, isMade else { throw LoadFailure("listen: \(String(cString: strerror(errno)))") }
        return (made, UInt16(bigEndian: address.sin_port))
    }
}
