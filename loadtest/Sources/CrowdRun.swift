import Clock
import Foundation
import Glibc
import Pusher
import Reactor

/// What is wrong at a moment: the answer to `look`.
struct CrowdState: Codable {
    /// Clients that want to be in their channel, and those that are.
    var wanted = 0
    var inside = 0
    /// Clients that are not where they want to be, or show other members than there are.
    var wrong = 0
    /// Events that must have come by now, and have not; and publishes that are under way.
    var missing = 0
    var underWay = 0
    /// The first of what is wrong.
    var examples: [String] = []
    /// What clients were told that cannot be, since the beginning.
    var faults: [String: Int] = [:]
    var firstFaults: [String] = []
    var flickers = 0
    var published = 0
    /// Publishes that were not taken, by the answer; and those in calm times.
    var refused: [String: Int] = [:]
    var refusedInCalm = 0
    var deliveries = 0
    var returns = 0
    /// Attempts to connect that hung.
    var hung = 0
    var cpuSeconds = 0.0
}

/// A crowd that does what lines of its input say.
final class CrowdRun {
    private struct Publish: Hashable {
        let hall: Int
        let number: Int
    }

    private let script: HallScript
    private let crowd: Crowd
    private let backend: RoomBackend
    private let rate: Double
    private var random: SeededGenerator
    private var hubs: [LoadAddress] = []
    /// How many clients each hub has, at the beginning of a turn, and those that were sent there since; nil: nobody was.
    private var loads: [String: Int]?
    private var wants: ContiguousArray<Bool>
    private var isCalm = false
    private var state = CrowdState()
    /// Of each channel, the number of the next event.
    private var next: [Int]
    /// Publishes of calm times, since when they are under way; and those that were taken.
    private var judged: [Publish: Instant] = [:]
    private var taken: [Publish: Instant] = [:]
    private var publishedAt = Instant.read()
    private var due = 0.0
    /// When it was looked for attempts that hang.
    private var lookedAt = Instant.read()
    private var input: [UInt8] = []
    private var isOver = false

    init(_ command: CrowdCommand, seed: UInt64) throws {
        let credentials = AppCredentials(key: command.appKey, secret: command.appSecret)
        let halls = Hall.plan(clients: command.clients)
        script = HallScript(credentials, Names(run: String(seed, radix: 36), topics: []), halls: halls)
        rate = command.rate
        random = SeededGenerator(seed: seed)
        wants = ContiguousArray(repeating: false, count: command.clients)
        next = Array(repeating: 0, count: halls.count)
        let swarm = try Swarm(
            try LoadAddress("127.0.0.1:1"), target: "/app/\(command.appKey)?protocol=7&client=loadtest",
            loop: try EventLoop(), script: script, seed: seed &+ 1)
        let hallOf = script.hallOf
        crowd = Crowd(
            swarm, script, userOf: { hallOf[$0] }, offsets: Array(repeating: [], count: command.clients))
        crowd.pauseIfRefused = .seconds(1)
        backend = RoomBackend(credentials, keepsAnswers: true)
        swarm.addressOf = { [unowned self, unowned swarm] _ in emptiest() ?? swarm.address }
        script.isIn = { [unowned self] in crowd.currentSince($0) != nil }
        crowd.isBack = { [unowned self] _, absence in if absence != nil { state.returns += 1 } }
    }

    func run() throws {
        _ = fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK)
        while !isOver {
            loads = nil
            if Instant.read().duration(since: lookedAt) > .seconds(1) {
                lookedAt = .read()
                state.hung += crowd.giveUp()
            }
            crowd.turn(waitingAtMost: .milliseconds(5))
            publishDue()
            for answer in backend.takeAnswers() { answered(answer) }
            for line in readLines() { try obey(line.split(separator: " ").map(String.init)) }
        }
    }

    func end() {
        backend.end()
        _ = crowd.dropAll()
    }

    /// The hub with the fewest clients, as balancers find it.
    private func emptiest() -> LoadAddress? {
        if loads == nil {
            loads = [:]
            for client in wants.indices {
                if let device = crowd.connection(of: client) { loads?[device.address.text, default: 0] += 1 }
            }
        }
        let found = hubs.min { loads?[$0.text] ?? 0 < loads?[$1.text] ?? 0 }
        if let found { loads?[found.text, default: 0] += 1 }
        return found
    }

    // MARK: Commands

    private func readLines() -> [String] {
        var bytes = [UInt8](repeating: 0, count: 4_096)
        switch read(0, &bytes, bytes.count) {
        case 0: isOver = true
        case let count where count > 0: input += bytes[..<count]
        default: break
        }
        guard let end = input.lastIndex(of: UInt8(ascii: "\n")) else { return [] }
        let lines = input[...end].split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
        input.removeSubrange(...end)
        return lines
    }

    private func obey(_ words: [String]) throws {
        let argument = words.count > 1 ? words[1] : ""
        switch words.first {
        case "hubs": hubs = try argument.split(separator: ",").map { try LoadAddress(String($0)) }
        case "all": for client in wants.indices { want(client, argument == "1") }
        case "stir": for _ in 0..<(Int(argument) ?? 0) { stir() }
        case "calm": isCalm = argument == "1"
        case "hear": for hall in script.halls.indices { publish(to: hall) }
        case "look": return try answer(look())
        case "who": return try answer(who())
        default: throw LoadFailure("no command: \(words)")
        }
        try answer(["ok"])
    }

    private func answer(_ value: some Encodable) throws {
        say(String(decoding: try JSONEncoder().encode(value), as: UTF8.self))
    }

    private func stir() {
        let client = Int.random(in: wants.indices, using: &random)
        want(client, !wants[client])
    }

    private func want(_ client: Int, _ isWanted: Bool) {
        guard wants[client] != isWanted else { return }
        wants[client] = isWanted
        if isWanted { return crowd.enter(client) }
        // Half of those who go say so.
        if let device = crowd.connection(of: client), Bool.random(using: &random) { script.leaves(device) }
        crowd.leave(client)
    }

    // MARK: Publishes

    private func publishDue() {
        let now = Instant.read()
        due += Double(now.nanoseconds &- publishedAt.nanoseconds) / 1e9 * rate
        publishedAt = now
        while due >= 1 {
            due -= 1
            if !hubs.isEmpty { publish(to: Int.random(in: script.halls.indices, using: &random)) }
        }
    }

    private func publish(to hall: Int) {
        let publish = Publish(hall: hall, number: next[hall])
        next[hall] += 1
        if isCalm { judged[publish] = .read() }
        backend.publish(
            "\(publish.number)", to: script.channel(hall), by: hubs[state.published % hubs.count], in: hall)
        state.published += 1
    }

    private func answered(_ answer: RoomBackend.Answer) {
        let publish = Publish(hall: answer.room, number: Int(answer.number) ?? 0)
        guard let since = judged.removeValue(forKey: publish) else { return }
        if answer.problem == nil { taken[publish] = since } else { state.refusedInCalm += 1 }
    }

    /// How many events have not come yet to those who were in when they were published.
    private func missing(_ example: (String) -> Void) -> Int {
        var all = 0
        for (publish, since) in taken {
            let behind = script.halls[publish.hall].clients.filter {
                !script.heard[$0][publish.number] && crowd.currentSince($0).map { $0 < since } == true
            }
            if behind.isEmpty { taken[publish] = nil }
            all += behind.count
            if let first = behind.first {
                example("client \(first) has not got event \(publish.number) of \(script.channel(publish.hall))")
            }
        }
        return all
    }

    // MARK: What there is

    private func look() -> CrowdState {
        var now = state
        func example(_ text: String) { if now.examples.count < 5 { now.examples.append(text) } }
        for (number, hall) in script.halls.enumerated() {
            var wanted = Bits()
            for client in hall.clients where wants[client] { wanted[client - hall.first] = true }
            now.wanted += wanted.count
            for client in hall.clients {
                let isIn = crowd.currentSince(client) != nil
                if isIn { now.inside += 1 }
                let shown = script.shown[client] ?? Bits()
                guard isIn != wants[client] || isIn && hall.isPresence && shown != wanted else { continue }
                now.wrong += 1
                example(
                    "client \(client) of \(script.channel(number)) is \(crowd.whereabouts(of: client)), "
                        + "is in: \(isIn), wants \(wants[client]), "
                        + "does not show \(wanted.numbers.filter { !shown[$0] }.prefix(5).map { $0 + hall.first }), "
                        + "shows beside \(shown.numbers.filter { !wanted[$0] }.prefix(5).map { $0 + hall.first })")
            }
        }
        now.missing = missing(example)
        now.underWay = judged.count
        (now.faults, now.firstFaults) = (script.faults, script.firstFaults)
        (now.flickers, now.deliveries) = (script.flickers, script.deliveries)
        now.refused = backend.refused
        now.cpuSeconds = ProcessMeter.ownCPUSeconds()
        return now
    }

    /// By channel, the ids of those who want to be in.
    private func who() -> [String: [String]] {
        var all: [String: [String]] = [:]
        for (number, hall) in script.halls.enumerated() {
            all[script.channel(number)] = hall.clients.filter { wants[$0] }.map { script.id($0) }
        }
        return all
    }
}
