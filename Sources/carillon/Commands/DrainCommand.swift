import ArgumentParser
import Glibc
import Reactor

/// `carillon drain`: a running hub gives its clients away.
struct DrainCommand: SettingsReader {
    static let configuration = CommandConfiguration(
        commandName: "drain",
        abstract: "Close a running hub's connections at a pace, so that their clients go to other hubs.",
        discussion: """
            The hub is not ready from now on, and runs on. After drainPause it closes its connections in random order. This \
            command waits for the end. If you interrupt it, the drain goes on.
            """)

    static let settingsHelp = SettingsHelp(
        groups: [SettingGroup("Control", [SettingsTable[\.unixSockets.control]])], profile: .serve,
        pointer: "Other settings are accepted, and not used: carillon check-config --help lists them.")

    @Flag(help: "Take a drain back: connections that are left stay, and the hub is ready again.")
    var cancel = false

    @OptionGroup var arguments: SettingsArguments

    func run() throws {
        let effective = try arguments.effective(.serve)
        guard let path = effective.values.unixSockets.control else {
            throw effective.missing(SettingsTable[\.unixSockets.control])
        }
        guard let connection = LocalSocket.connect(path) else {
            throw Failure("control.socket \(path): no hub listens there (\(String(cString: strerror(errno))))")
        }
        defer { Socket.close(connection) }
        guard let peer = LocalSocket.peer(connection), peer.isTrusted || geteuid() == 0 else {
            throw Failure("control.socket \(path): another user's program listens there", status: .configuration)
        }
        let request = cancel ? ControlRequest.cancel : .drain
        guard LocalSocket.send(request.line, to: connection) else { throw Self.lost }
        var lines = LineBuffer(bytesMax: ControlAnswer.bytesMax)
        while true {
            var entry = pollfd(fd: connection, events: Int16(POLLIN), revents: 0)
            _ = poll(&entry, 1, -1)
            switch LocalSocket.receive(connection, atMost: ControlAnswer.bytesMax) {
            case .nothing: continue
            case .end: throw Self.lost
            case .bytes(let bytes, _, _): guard lines.append(bytes) else { throw Self.lost }
            }
            while let line = lines.next() {
                switch ControlAnswer(line) {
                case .draining: say("draining")
                case .left(let count): say("\(count) left")
                case .drained: return say("drained")
                case .cancelled: return say(cancel ? "taken back" : "taken back by another command")
                case .refused(let reason), .later(let reason): throw Failure(reason)
                default: throw Self.lost
                }
            }
        }
    }

    private static let lost = Failure("the hub has gone, or does not take this user's commands")
}
