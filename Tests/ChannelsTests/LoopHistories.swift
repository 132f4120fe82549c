import Bytes
import Channels
import Pusher
import Sync
import TestSupport
import Testing

/// Random histories of several loops, their mailboxes, one home and a feed: whatever the order in which mailboxes are
/// looked at, each subscriber gets exactly the events above the offset it was answered with.
@Suite struct LoopHistories {
    @Test(arguments: 0..<200 as Range<UInt64>)
    func everySubscriberGetsAllAboveItsAnswer(_ seed: UInt64) throws {
        var world = World(seed: seed, loops: 3)
        for _ in 0..<400 { try world.step() }
        try world.settle()
        for device in world.devices {
            #expect(device.complaints.isEmpty, "seed \(seed): \(device.complaints)")
            if let last = device.last {
                #expect(last == world.committed, "seed \(seed): \(last) of \(world.committed)")
            }
        }
    }
}

private struct Device {
    let loop: Int
    let session: Session
    /// The offset that the device knows, while it is subscribed.
    var last: Int64?
    var complaints: [String] = []
}

private enum Message {
    case join(StreamJoin, from: Int), leave(StreamName, from: Int)
    case joined(StreamJoined), broadcast(String, Int64)
    case positioned(Int64, watch: UInt32), event(Int64)
}

private struct World {
    private let stream = StreamID(user: "u", topic: "adherence")
    private let channel = "user.u.adherence"
    private var random: SeededRandom
    private var hubs: [EngineFixture] = []
    private var mailboxes: [[Message]]
    private var home = StreamHome()
    /// What the feed was asked last, and how far it has handed over; loop 0 is the home.
    private var watch: UInt32?
    private var requests: [UInt32?] = []
    private var delivered: Int64 = 0
    private(set) var committed: Int64 = 0
    private(set) var devices: [Device] = []

    init(seed: UInt64, loops: Int) {
        random = SeededRandom(seed: seed)
        mailboxes = Array(repeating: [], count: loops)
        for loop in 0..<loops {
            let engine = EngineFixture()
            hubs.append(engine)
            for slot in 0..<3 as Range<UInt32> {
                let session = engine.session(slot)
                _ = try? engine.signin("u", from: session)
                devices.append(Device(loop: loop, session: session))
            }
        }
    }

    mutating func step() throws {
        switch Int.random(in: 0..<10, using: &random) {
        case 0: committed += 1
        case 1, 2: try toggle(Int.random(in: devices.indices, using: &random))
        case 3, 4, 5: try look(at: Int.random(in: mailboxes.indices, using: &random))
        default: feedStep()
        }
    }

    mutating func settle() throws {
        while !mailboxes.allSatisfy(\.isEmpty) || !requests.isEmpty || (watch != nil && delivered < committed) {
            feedStep()
            for loop in mailboxes.indices { try look(at: loop) }
        }
    }

    private mutating func toggle(_ index: Int) throws {
        let device = devices[index]
        let text = device.session.subscriptionCount > 0 && Bool.random(using: &random)
        let event =
            text
            ? #"{"event":"pusher:unsubscribe","data":{"channel":"\#(channel)"}}"#
            : #"{"event":"pusher:subscribe","data":{"channel":"\#(channel)"}}"#
        if text { devices[index].last = nil }
        var effects = Hub.Effects()
        var bytes = event
        let decoded = try bytes.withUTF8 { try ClientEvent.decode(UnsafeRawBufferPointer($0)) }
        hubs[device.loop].hub.received(decoded, from: device.session, &effects)
        for effect in effects {
            switch effect {
            case .join(let join): mailboxes[0].append(.join(join, from: device.loop))
            case .leave(let name): mailboxes[0].append(.leave(name, from: device.loop))
            default: break
            }
        }
    }

    /// One request, or some events, as the feed's thread would.
    private mutating func feedStep() {
        if !requests.isEmpty, Bool.random(using: &random) {
            watch = requests.removeFirst()
            if let watch {
                delivered = committed
                mailboxes[0].append(.positioned(committed, watch: watch))
            }
        } else if watch != nil, delivered < committed {
            delivered += 1
            mailboxes[0].append(.event(delivered))
        }
    }

    private mutating func look(at loop: Int) throws {
        guard !mailboxes[loop].isEmpty else { return }
        let message = mailboxes[loop].removeFirst()
        var effects: ContiguousArray<StreamHome.Effect> = []
        switch message {
        case .join(let join, let from): home.join(join, from: from, &effects)
        case .leave(let name, let from): home.leave(name, from: from, &effects)
        case .positioned(let offset, let watch):
            home.positioned(stream, at: StreamPosition(epoch: "e", offset: offset), watch: watch, &effects)
        case .event(let offset):
            let event = StreamEvent(stream: stream, offset: offset, name: "x", data: .copy("\(offset)"))
            home.received(event, &effects)
        case .joined(let joined): answer(joined, loop)
        case .broadcast(let name, let offset): deliver(name, offset, loop)
        }
        for effect in effects { route(effect) }
    }

    private mutating func route(_ effect: StreamHome.Effect) {
        switch effect {
        case .watch(_, let serial): requests.append(serial)
        case .unwatch: requests.append(nil)
        case .joined(let loop, let joined): mailboxes[loop].append(.joined(joined))
        case .refused: break
        case .broadcast(let loops, let name, let frame):
            let text = payload(of: frame)
            let offset = text.dropLast(2).split(separator: "\"").last.flatMap { Int64($0) } ?? -1
            for loop in mailboxes.indices where loops.contains(loop: loop) {
                mailboxes[loop].append(.broadcast(name, offset))
            }
        }
    }

    private mutating func answer(_ joined: StreamJoined, _ loop: Int) {
        guard let index = devices.firstIndex(where: { $0.loop == loop && $0.session.id == joined.session }) else {
            return
        }
        var effects = Hub.Effects()
        hubs[loop].hub.joined(joined, devices[index].session, &effects)
        guard !effects.isEmpty else { return }
        if let last = devices[index].last, last != joined.position.offset {
            devices[index].complaints.append("answered again at \(joined.position.offset), knew \(last)")
        }
        devices[index].last = joined.position.offset
    }

    private mutating func deliver(_ name: String, _ offset: Int64, _ loop: Int) {
        for slot in hubs[loop].subscribers(name) {
            guard let index = devices.firstIndex(where: { $0.loop == loop && $0.session.id.slot == slot }) else {
                continue
            }
            if let last = devices[index].last, offset != last + 1 {
                devices[index].complaints.append("\(offset) after \(last)")
            }
            devices[index].last = offset
        }
    }
}
