import Bytes
import JSON
import Pusher
import Reactor

/// A device of a hub: signs in as its user, subscribes to the user's topics, answers pings, and passes events on.
///
/// It sends signin and subscribes together once the connection is established, as an impatient client would.
final class HubScript: DeviceScript {
    /// Called with each event of a live device.
    var arrived: (Arrival, LoadDevice) -> Void = { _, _ in }
    /// Called with each answer to an action.
    var answered: (ActionResult, LoadDevice) -> Void = { _, _ in }
    /// Size of the last event in bytes, without the frame header.
    private(set) var lastEventBytes = 0

    private let credentials: AppCredentials
    private let names: Names
    private var parsed: [Parsed]

    /// Devices that subscribe to all topics of `names`.
    init(_ credentials: AppCredentials, _ names: Names) {
        self.credentials = credentials
        self.names = names
        parsed = Array(repeating: Parsed(), count: Limits.parsedKept)
    }

    func opened(_ device: LoadDevice) {}

    func received(_ text: UnsafeRawBufferPointer, by device: LoadDevice) {
        if device.phase == .live, let arrival = known(text) { return arrived(arrival, device) }
        do throws(JSONError) {
            act(upon: try HubMessage(text, names: names), text, device)
        } catch {
            device.fail("the hub sent what is no JSON object")
        }
    }

    // MARK: Steps

    private func act(upon message: HubMessage, _ text: UnsafeRawBufferPointer, _ device: LoadDevice) {
        switch message {
        case .established(let id): introduce(device, id)
        case .subscribed(let topic, let user, let offset):
            guard user == device.recipient.user, device.recipient.offsets[topic] < 0 else {
                return device.fail("an acknowledgement of a subscribe that was not its own")
            }
            device.recipient.offsets[topic] = offset
            if device.recipient.offsets.allSatisfy({ $0 >= 0 }) { device.becomeLive() }
        case .event(let arrival):
            guard device.recipient.offsets[arrival.topic] >= 0 else {
                return device.fail("an event before its acknowledgement")
            }
            remember(text, arrival)
            lastEventBytes = text.count
            arrived(arrival, device)
        case .result(let result): answered(result, device)
        case .ping:
            var pong = ByteWriter()
            pong.append(#"{"event":"pusher:pong","data":{}}"#)
            device.send(pong)
        case .refusal(let name): device.fail("the hub says \(name)")
        case .signedIn, .resumed, .other: break
        }
    }

    private func introduce(_ device: LoadDevice, _ id: SocketID) {
        device.send(credentials.signin(names.id(device.recipient.user), id))
        for topic in names.topics.indices { device.send(names.subscribe(topic, of: device.recipient.user)) }
    }

    // MARK: A message to many devices is parsed once

    /// A parsed message, with its bytes.
    private struct Parsed {
        var bytes: [UInt8] = []
        var arrival: Arrival?
    }

    private func known(_ text: UnsafeRawBufferPointer) -> Arrival? {
        let slot = Int(truncatingIfNeeded: Checksum.of(text) % UInt64(Limits.parsedKept))
        return parsed[slot].bytes.withUnsafeBytes { $0.equals(text) } ? parsed[slot].arrival : nil
    }

    private func remember(_ text: UnsafeRawBufferPointer, _ arrival: Arrival) {
        let slot = Int(truncatingIfNeeded: arrival.checksum % UInt64(Limits.parsedKept))
        parsed[slot] = Parsed(bytes: Array(text), arrival: arrival)
    }
}

extension AppCredentials {
    /// `pusher:signin` of that user, as the app's backend signs it for a connection.
    func signin(_ user: String, _ id: SocketID) -> ByteWriter {
        var userData = ByteWriter()
        UserData.append(id: user, to: &userData)
        let text = userData.string
        var signin = ByteWriter()
        signin.append(#"{"event":"pusher:signin","data":{"auth":"#)
        signin.append(jsonString: sign(.user(userData: text), socketID: id))
        signin.append(#","user_data":"#)
        signin.append(jsonString: text)
        signin.append("}}")
        return signin
    }
}

extension Names {
    /// `pusher:subscribe` to that topic of the user.
    func subscribe(_ topic: Int, of user: Int) -> ByteWriter {
        var subscribe = ByteWriter()
        subscribe.append(#"{"event":"pusher:subscribe","data":{"auth":"","channel":"#)
        subscribe.append(jsonString: channel(topic, of: user))
        subscribe.append("}}")
        return subscribe
    }
}
