import ArgumentParser
import FoundationEssentials
import Glibc
import Pusher
import Reactor
import Sync

/// `carillon tail`: a device on the command line.
struct TailCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tail", abstract: "Be a device: print the events of a user or a channel.",
        discussion: "Without --url, it connects to the hub of `carillon dev` and makes the token that it needs.")

    @Option(help: "Id of the user whose channels are followed.")
    var user: String?

    @Option(help: "Folder of `carillon dev`.")
    var dir = ".carillon"

    @Option(
        help: "Another hub: ws://HOST:PORT or wss://HOST:PORT. It needs --app-key, and a token for a user.")
    var url: String?

    @Option(help: "PEM file of root certificates for wss://, in place of the system's.")
    var caFile: String?

    @Option(help: "Key of the app.")
    var appKey: String?

    @Option(help: "Token of the user. With --url, it may be in the environment instead: CARILLON_TOKEN.")
    var token: String?

    @Option(help: "A channel to follow, by its full name. May be given several times.")
    var channel: [String] = []

    @Argument(help: "Topics of the user to follow.")
    var topics = ["adherence", "reminders"]

    func run() throws {
        let target = try Target(self)
        let stop = try StopSignal.install()
        let printer = EventPrinter()
        var cursors = Cursors()
        var delay = Duration.zero
        var hasConnected = false
        while !stop.wait(timeout: delay) {
            do {
                let device = try Device(target.address, appKey: target.appKey, tls: target.tls, stop: stop)
                hasConnected = true
                switch try Self.follow(device, target, &cursors, printer) {
                case .closed(let code): delay = Self.delay(after: code)
                case .tokenRefused(let reason): throw Failure("the hub refuses the token: \(reason)")
                case .nothingToFollow: throw Failure("the hub refuses every channel: see the lines above")
                }
            } catch let pause as ClientSocket.Pause {
                switch pause {
                case .stopped: return
                case .timeout: printer.note("the hub does not take what is sent")
                case .closed(let reason): printer.note("not connected: \(reason)")
                case .hopeless(let reason): throw Failure("\(target.address): \(reason)")
                // A certificate that was good may be replaced by mistake, and mended soon.
                case .untrusted(let reason) where hasConnected: printer.note("not connected: \(reason)")
                case .untrusted(let reason): throw Failure("\(target.address): \(reason); \(target.advice)")
                }
                // 1, 2, 4, then every 8 seconds: a person is waiting.
                delay = min(.seconds(8), max(.seconds(1), delay * 2))
            }
            if delay < .zero { throw Failure("the hub refuses this client for good: see the line above") }
        }
    }

    /// Why a connection is no longer followed.
    enum Ending: Equatable {
        case closed(code: UInt16?)
        /// Only a user's channels were requested, and the token for them is refused.
        case tokenRefused(String)
        /// Every requested channel is refused.
        case nothingToFollow
    }

    /// Prints events, missed ones first, until the connection closes or can bring nothing more.
    static func follow(
        _ device: Device, _ target: Target, _ cursors: inout Cursors, _ printer: EventPrinter
    ) throws(ClientSocket.Pause) -> Ending {
        var isWaitingForUser = false
        var isResuming = false
        var awaited = Set(target.channels)
        while true {
            switch try device.next() {
            case .established(let socketID):
                printer.note("connected to \(target.address.authority) as socket \(socketID)")
                if let token = target.token() {
                    try device.signIn(token: token)
                    isWaitingForUser = true
                }
                for channel in target.channels { try device.subscribe(channel) }
                if !cursors.positions.isEmpty {
                    try device.resume(cursors)
                    isResuming = true
                }
            case .signedIn(let userID):
                isWaitingForUser = false
                printer.note("signed in as \(userID)")
            case .subscribed(let channel, let position, let isPublished):
                if let position { cursors.begin(channel, at: position) }
                printer.note("subscribed to \(channel)" + (position?.offset == 0 ? ", without any event so far" : ""))
                if !isPublished {
                    printer.note("warning: nothing comes on \(channel): no table is published for this topic")
                }
            case .resumed(let channels):
                isResuming = false
                resume(channels, &cursors, printer)
            case .expiring:
                if let token = target.token() { try device.signIn(token: token) }
            case .refused(let channel, let reason):
                printer.note("refused \(channel): \(reason)")
                awaited.remove(channel)
                if awaited.isEmpty { return .nothingToFollow }
            case .event(let channel, let name, let data):
                switch cursors.step(channel, data: data) {
                case .next: printer.event(channel: channel, name: name, data: data)
                case .gap where !isResuming:
                    try device.resume(cursors)
                    isResuming = true
                case .known, .gap: break
                }
            case .status(let isDegraded):
                printer.note(isDegraded ? "the hub has lost its database" : "the hub has its database again")
            // Errors with a code close the connection; the close code says whether to reconnect.
            case .error(nil, let message) where isWaitingForUser && target.isOnlyUsers: return .tokenRefused(message)
            case .error(let code, let message):
                printer.note("error\(code.map { " \($0)" } ?? ""): \(message)")
            case .closed(let code):
                printer.note("the hub closed the connection\(code.map { " (code \($0))" } ?? "")")
                return .closed(code: code)
            }
        }
    }

    private static func resume(_ channels: [Resumption], _ cursors: inout Cursors, _ printer: EventPrinter) {
        for told in channels {
            if let replayed = told.replayed {
                printer.note("resumed \(told.channel): \(replayed) missed")
            } else if told.reason == "store_unavailable" {
                // The position stays: the next event shows the gap, and the client asks again.
                printer.note("\(told.channel): what was missed comes later")
            } else {
                if let position = told.position { cursors.skip(told.channel, to: position) }
                printer.note("\(told.channel): what was missed cannot be shown (\(told.reason))")
            }
        }
    }

    /// The delay that Pusher's close codes prescribe; negative means never.
    static func delay(after code: UInt16?) -> Duration {
        switch code ?? 1006 {
        case 4000..<4100: .seconds(-1)
        case 4200..<4300: .milliseconds(100)
        case 4300..<4400: .seconds(-1)
        default: .seconds(1)
        }
    }
}

/// What to follow, and where.
struct Target {
    let address: HubAddress
    /// Nil without TLS.
    var tls: TLSClient?
    let appKey: String
    let channels: [String]
    /// Whether all channels are the user's: they need a valid token.
    let isOnlyUsers: Bool
    /// Returns a token that is valid now; nil when no user is followed.
    let token: () -> String?
    /// Roots that the user has named.
    var rootsFile: String?

    /// What to do about a certificate that is not good.
    var advice: String {
        if let rootsFile { return "it must have the name \(address.host), and its root must be in \(rootsFile)" }
        return "it must have the name \(address.host); for a root that this system does not know, give --ca-file FILE"
    }
}

extension Target {
    static let tokenVariable = "CARILLON_TOKEN"

    init(_ command: TailCommand) throws(Failure) {
        var channels = command.channel
        if let user = command.user {
            for topic in command.topics {
                let name = StreamName(form: .user, stream: StreamID(user: user, topic: topic)).format()
                guard let name else {
                    throw Failure(
                        "there is no channel for the user \(user) and the topic \(topic): topics are a…z and _")
                }
                channels.append(name)
            }
        }
        guard !channels.isEmpty else { throw Failure("nothing to follow: give --user NAME or --channel NAME") }
        self.channels = channels
        isOnlyUsers = command.channel.isEmpty

        if let url = command.url {
            guard let appKey = command.appKey else { throw Failure("--url also needs --app-key") }
            // The process list shows an option to all users of the machine, and no variable.
            let given = command.token ?? ProcessInfo.processInfo.environment[Self.tokenVariable]
            guard command.user == nil || given != nil else {
                throw Failure("--url also needs a token for a user: set \(Self.tokenVariable), or give --token")
            }
            address = try HubAddress(url)
            self.appKey = appKey
            token = { given }
        } else {
            let hub = try DevelopmentFolder.find(command.dir).hub()
            address = try HubAddress(hub.url)
            appKey = command.appKey ?? hub.appKey
            token = { [token = command.token, user = command.user] in
                guard let user, token == nil else { return token }
                // Made anew for each connection: the old token may have expired meanwhile.
                let fresh = try? DevelopmentToken(hub: hub, user: user, lifetime: .seconds(12 * 3600), now: Date())
                return try? fresh?.signedAtOnce(secret: hub.jwtSecret)
            }
        }
        tls = try Self.tls(of: address, judgedBy: command.caFile)
        rootsFile = command.caFile
    }

    private static func tls(of address: HubAddress, judgedBy file: String?) throws(Failure) -> TLSClient? {
        guard address.usesTLS else {
            guard file != nil else { return nil }
            throw Failure("--ca-file is of no use at \(address): did you mean wss://\(address.authority)?")
        }
        var manner = TLSClient.Manner()
        manner.rootsFile = file
        manner.trustsSystem = true
        do throws(TLSError) {
            return try TLSClient(manner)
        } catch {
            throw Failure("--ca-file: \(error)")
        }
    }
}
