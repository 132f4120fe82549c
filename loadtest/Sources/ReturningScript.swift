import Bytes
import JSON
import Pusher

/// A client as the wire page has it, or a bare one that is there once it is greeted.
///
/// When it is connected, it subscribes, names its positions and signs in. It applies only what follows its position. It is
/// current when it has, for each channel, what the hub's answer says.
final class ReturningScript: DeviceScript {
    /// Called when a client is current, once for each connection.
    var isCurrent: (LoadDevice) -> Void = { _ in }
    /// Takes each event, and moves its client's offset on. By default, all must come once and in order.
    var arrived: (Arrival, LoadDevice) -> Void = { _, _ in }
    /// Takes each answer to an action.
    var answered: (ActionResult, LoadDevice) -> Void = { _, _ in }
    /// Events that came twice, or left a gap, or were another user's.
    private(set) var astray = 0
    /// Positions that the hub did not continue from.
    private(set) var unrecovered = 0
    /// Positions that it continued from.
    private(set) var recovered = 0

    private let credentials: AppCredentials
    private let names: Names
    /// Nil for bare clients.
    private let epoch: String?
    /// By client and topic: where the hub's answer says that the channel stands; -1 before it.
    private var targets: ContiguousArray<Int64>

    /// - Parameter epoch: of all channels; nil for clients that do nothing once they are greeted.
    init(_ credentials: AppCredentials, _ names: Names, clients: Int, epoch: String?) {
        self.credentials = credentials
        self.names = names
        self.epoch = epoch
        targets = ContiguousArray(repeating: -1, count: clients * names.topics.count)
        arrived = { [unowned self] in judge($0, $1) }
    }

    func opened(_ device: LoadDevice) {
        for topic in names.topics.indices { targets[index(topic, device)] = -1 }
    }

    func received(_ text: UnsafeRawBufferPointer, by device: LoadDevice) {
        // Half of what comes in a storm, and nothing in it matters to a client that has positions.
        if text.hasPrefix(#"{"event":"pusher_internal:"#) || text.hasPrefix(#"{"event":"pusher:signin_s"#) { return }
        do throws(JSONError) {
            act(upon: try HubMessage(text, names: names), device)
        } catch {
            device.fail("the hub sent what is no JSON object")
        }
    }

    private func act(upon message: HubMessage, _ device: LoadDevice) {
        switch message {
        case .established(let id): established(id, device)
        case .resumed(let topic, let user, let offset, let isRecovered):
            guard user == device.recipient.user else {
                astray += 1
                return
            }
            if isRecovered {
                recovered += 1
            } else {
                unrecovered += 1
                device.recipient.offsets[topic] = offset
            }
            targets[index(topic, device)] = offset
            look(device)
        case .event(let arrival):
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

    private func established(_ id: SocketID, _ device: LoadDevice) {
        guard let epoch else { return become(device) }
        let user = device.recipient.user
        var resume = ByteWriter()
        resume.append(#"{"event":"sync:resume","data":{"v":1,"channels":{"#)
        for topic in names.topics.indices {
            if topic > 0 { resume.append(",") }
            resume.append(jsonString: names.channel(topic, of: user))
            resume.append(#":{"epoch":"#)
            resume.append(jsonString: epoch)
            resume.append(#","offset":"#)
            resume.append(decimal: device.recipient.offsets[topic])
            resume.append("}")
        }
        resume.append("}}}")
        device.together {
            for topic in names.topics.indices { device.send(names.subscribe(topic, of: user)) }
            device.send(resume)
            device.send(credentials.signin(names.id(user), id))
        }
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
