import Bytes
import JSON
import Pusher

/// A client as the wire page has it, or a bare one that is there once it is greeted.
///
/// When it is connected, it subscribes, names its positions and signs in. It applies only what follows its position. It is
/// current when it has, for each channel, what the hub's answer says. If the log cannot be read, it keeps its position, and
/// asks again after a pause.
final class ReturningScript: CrowdScript {
    var isCurrent: (LoadDevice) -> Void = { _ in }
    /// Takes each event, and moves its client's offset on. By default, all must come once and in order.
    var arrived: (Arrival, LoadDevice) -> Void = { _, _ in }
    /// Takes each answer to an action.
    var answered: (ActionResult, LoadDevice) -> Void = { _, _ in }
    /// Events that came twice, or left a gap, or were another user's.
    private(set) var astray = 0
    var isUnavailable: (LoadDevice, Int) -> Void = { _, _ in }
    /// Positions that the hub did not continue from, by its reason: their clients would have to fetch snapshots.
    private(set) var lost: [String: Int] = [:]
    /// How often the log could not be read.
    private(set) var unavailable = 0
    /// Positions that it continued from.
    private(set) var recovered = 0

    private let credentials: AppCredentials
    private let names: Names
    /// Nil for bare clients.
    private let epoch: String?
    /// By client and topic: where the hub's answer says that the channel stands; -1 before it.
    private var targets: ContiguousArray<Int64>
    /// By client and topic: whether its log could not be read. What comes meanwhile comes again when it could.
    private var isAwaited: ContiguousArray<Bool>
    // What a client says and is told is prepared. The time to make and to read it would be the hub's in a storm.
    /// By client and topic: its subscribe, and what stands before its offset in `sync:resume` and in the hub's answer.
    private var prepared: ContiguousArray<Prepared> = []
    private var text = ByteWriter(capacity: 1024)

    private struct Prepared {
        let subscribe: SharedBytes
        let resume: [UInt8]
        let answer: [UInt8]
    }

    /// - Parameters:
    ///   - perUser: clients of each user.
    ///   - epoch: of all channels; nil for clients that do nothing once they are greeted.
    init(_ credentials: AppCredentials, _ names: Names, clients: Int, perUser: Int = 1, epoch: String?) {
        self.credentials = credentials
        self.names = names
        self.epoch = epoch
        targets = ContiguousArray(repeating: -1, count: clients * names.topics.count)
        isAwaited = ContiguousArray(repeating: false, count: clients * names.topics.count)
        if let epoch {
            prepared.reserveCapacity(targets.count)
            for client in 0..<clients {
                for topic in names.topics.indices {
                    let channel = names.channel(topic, of: client / perUser)
                    prepared.append(
                        Prepared(
                            subscribe: names.subscribe(topic, of: client / perUser).copy(),
                            resume: Array(#""\#(channel)":{"epoch":"\#(epoch)","offset":"#.utf8),
                            answer: Array(#"\#(channel)\":{\"epoch\":\"\#(epoch)\",\"offset\":"#.utf8)))
                }
            }
        }
        arrived = { [unowned self] in judge($0, $1) }
    }

    func opened(_ device: LoadDevice) {
        for topic in names.topics.indices {
            targets[index(topic, device)] = -1
            isAwaited[index(topic, device)] = false
        }
    }

    func received(_ text: UnsafeRawBufferPointer, by device: LoadDevice) {
        // Half of what comes in a storm, and nothing in it matters to a client that has positions.
        if text.hasPrefix(#"{"event":"pusher_internal:"#) || text.hasPrefix(#"{"event":"pusher:signin_s"#) { return }
        if let id = Self.greeting(text) { return established(id, device) }
        if let (topic, offset) = recovered(text, device) { return isRecovered(topic, offset, device) }
        do throws(JSONError) {
            act(upon: try HubMessage(text, names: names), device)
        } catch {
            device.fail("the hub sent what is no JSON object")
        }
    }

    private func act(upon message: HubMessage, _ device: LoadDevice) {
        switch message {
        case .established(let id): established(id, device)
        case .resumed(let topic, let user, let offset, let loss):
            guard user == device.recipient.user else {
                astray += 1
                return
            }
            guard let loss else { return isRecovered(topic, offset, device) }
            isLost(topic, loss, offset, device)
        case .event(let arrival):
            if arrival.user == device.recipient.user, isAwaited[index(arrival.topic, device)] { return }
            arrived(arrival, device)
            look(device)
        case .result(let result): answered(result, device)
        case .ping:
            var pong = ByteWriter()
            pong.append(#"{"event":"pusher:pong","data":{}}"#)
            device.send(pong)
        case .refusal(let name): device.fail("the hub says \(name)")
        case .subscribed, .signedIn, .other: break
        }
    }

    private func judge(_ arrival: Arrival, _ device: LoadDevice) {
        guard arrival.user == device.recipient.user, arrival.offset == device.recipient.offsets[arrival.topic] + 1
        else {
            astray += 1
            return
        }
        device.recipient.offsets[arrival.topic] = arrival.offset
    }

    private func isRecovered(_ topic: Int, _ offset: Int64, _ device: LoadDevice) {
        recovered += 1
        targets[index(topic, device)] = offset
        isAwaited[index(topic, device)] = false
        look(device)
    }

    private func isLost(_ topic: Int, _ loss: String, _ offset: Int64, _ device: LoadDevice) {
        if loss == "store_unavailable" {
            unavailable += 1
            isAwaited[index(topic, device)] = true
            return isUnavailable(device, topic)
        }
        lost[loss, default: 0] += 1
        device.recipient.offsets[topic] = offset
        targets[index(topic, device)] = offset
        isAwaited[index(topic, device)] = false
        look(device)
    }

    func ask(_ topic: Int, _ device: LoadDevice) {
        text.removeAll()
        appendPositions(topic...topic, of: device)
        device.send(text)
    }

    private func appendPositions(_ topics: some Sequence<Int>, of device: LoadDevice) {
        text.append(#"{"event":"sync:resume","data":{"v":1,"channels":{"#)
        var isFirst = true
        for topic in topics {
            if !isFirst { text.append(",") }
            isFirst = false
            text.append(prepared[index(topic, device)].resume)
            text.append(decimal: device.recipient.offsets[topic])
            text.append("}")
        }
        text.append("}}}")
    }

    private func established(_ id: SocketID, _ device: LoadDevice) {
        guard epoch != nil else { return become(device) }
        device.together {
            for topic in names.topics.indices { device.send(prepared[index(topic, device)].subscribe) }
            text.removeAll()
            appendPositions(names.topics.indices, of: device)
            device.send(text)
            device.send(credentials.signin(names.id(device.recipient.user), id))
        }
    }

    // MARK: The usual spelling of two messages

    /// The socket id of a greeting in the hub's spelling; nil for other messages.
    private static func greeting(_ text: UnsafeRawBufferPointer) -> SocketID? {
        let start: StaticString = #"{"event":"pusher:connection_established","data":"{\"socket_id\":\""#
        guard text.hasPrefix(start), let end = text.firstIndex(of: UInt8(ascii: "\\"), from: start.utf8CodeUnitCount)
        else { return nil }
        return SocketID(text.part(start.utf8CodeUnitCount..<end))
    }

    /// The topic and the offset of an answer to a position that the hub continues from, in the hub's spelling.
    private func recovered(_ text: UnsafeRawBufferPointer, _ device: LoadDevice) -> (topic: Int, offset: Int64)? {
        let start: StaticString = #"{"event":"sync:resumed","data":"{\"channels\":{\""#
        guard !prepared.isEmpty, text.hasPrefix(start) else { return nil }
        let rest = text.part(start.utf8CodeUnitCount..<text.count)
        for topic in names.topics.indices {
            let count = prepared[index(topic, device)].answer.count
            guard rest.count > count,
                prepared[index(topic, device)].answer.withUnsafeBytes({ $0.equals(rest.part(0..<count)) }),
                let end = rest.firstIndex(of: UInt8(ascii: ","), from: count),
                rest.part(end..<rest.count).hasPrefix(#",\"recovered\":true,"#),
                let offset = rest.part(count..<end).decimalValue
            else { continue }
            return (topic, Int64(offset))
        }
        return nil
    }

    private func look(_ device: LoadDevice) {
        guard device.phase == .joining else { return }
        for topic in names.topics.indices {
            let target = targets[index(topic, device)]
            if target < 0 || device.recipient.offsets[topic] < target { return }
        }
        become(device)
    }

    private func become(_ device: LoadDevice) {
        device.becomeLive()
        isCurrent(device)
    }

    private func index(_ topic: Int, _ device: LoadDevice) -> Int {
        device.recipient.number * names.topics.count + topic
    }
}
