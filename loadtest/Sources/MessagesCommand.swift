import ArgumentParser
import Bytes
import Pusher
import Reactor

/// `loadtest messages`: client messages that a hub answers at once, one per turn of a connection.
struct MessagesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "messages", abstract: "Have messages answered, one at a time on each connection.",
        discussion: "For counting instructions: nothing but the messages happens between --once-open and --once-done.")

    @OptionGroup var options: HubOptions

    @Option(
        help: "What is said: ping; refused, a subscribe to another user's channel; action, on a dose that nobody has.")
    var kind = MessageKind.ping

    @Option(help: "Connections.")
    var connections = 50

    @Option(help: "Messages of each connection.")
    var messages = 100

    func run() throws {
        guard (1...Limits.connectionsMax).contains(connections), messages > 0 else {
            throw LoadFailure("--connections from 1 to \(Limits.connectionsMax), --messages above zero")
        }
        let seed = UInt64.random(in: 1...UInt64(UInt32.max))
        let names = Names(run: String(seed, radix: 36), topics: [RowKind.reminders.topic])
        let script = AskingScript(HubScript(options.credentials, names), kind, names, messages: messages)
        let swarm = try Swarm(
            try options.address(), target: "/app/\(options.appKey)?protocol=7&client=loadtest", loop: try EventLoop(),
            script: script, seed: seed)
        try swarm.open(connections, perUser: 1, topics: 1, progress: ProgressLine())
        try options.run(options.onceOpen)
        for device in swarm.devices { script.ask(device) }
        var watch = StallWatch()
        while script.answers < connections * messages {
            swarm.loop.tick(waitingAtMost: .milliseconds(20))
            if let failure = swarm.firstFailure { throw LoadFailure(failure) }
            guard watch.isMoving(script.answers) else { throw LoadFailure("answers have ceased to come") }
        }
        try options.run(options.onceDone)
        say("\(script.answers) messages were answered")
        swarm.closeAll()
    }
}

enum MessageKind: String, CaseIterable, ExpressibleByArgument {
    /// `pusher:ping`, answered by `pusher:pong`.
    case ping
    /// A subscribe to another user's channel, answered by `pusher:subscription_error`: the hub reads the channel's name and
    /// verifies nothing.
    case refused
    /// A `sync:action` on a dose that nobody has, answered by `sync:result`: the database stores a conflict, and no event
    /// follows.
    case action

    fileprivate var answer: StaticString {
        switch self {
        case .ping: #"{"event":"pusher:pong""#
        case .refused: #"{"event":"pusher:subscription_error""#
        case .action: #"{"event":"sync:result""#
        }
    }
}

/// A device that asks again after each answer.
private final class AskingScript: DeviceScript {
    private(set) var answers = 0
    private let joining: HubScript
    private let kind: MessageKind
    private let messages: Int
    private let names: Names
    private var asked: [Int: Int] = [:]

    init(_ joining: HubScript, _ kind: MessageKind, _ names: Names, messages: Int) {
        self.joining = joining
        self.kind = kind
        self.messages = messages
        self.names = names
    }

    private func text(_ number: Int, of device: LoadDevice) -> String {
        switch kind {
        case .ping:
            #"{"event":"pusher:ping","data":{}}"#
        case .refused:
            // A number that no device has: there are at most that many connections.
            #"{"event":"pusher:subscribe","data":{"auth":"","channel":"\#(names.channel(0, of: Limits.connectionsMax))"}}"#
        case .action:
            #"{"event":"sync:action","data":{"v":1,"key":"\#(names.key(device.recipient.number, number))","#
                + #""type":"skip","payload":{"occurrenceId":"none"}}}"#
        }
    }

    func opened(_ device: LoadDevice) {
        joining.opened(device)
    }

    func received(_ text: UnsafeRawBufferPointer, by device: LoadDevice) {
        guard device.phase == .live, text.hasPrefix(kind.answer) else { return joining.received(text, by: device) }
        answers += 1
        ask(device)
    }

    /// Asks once more unless the device has sent all its messages.
    func ask(_ device: LoadDevice) {
        guard asked[device.recipient.number, default: 0] < messages else { return }
        asked[device.recipient.number, default: 0] += 1
        var question = ByteWriter()
        question.append(utf8: text(asked[device.recipient.number, default: 0], of: device))
        device.send(question)
    }
}
