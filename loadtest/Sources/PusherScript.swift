import Bytes
import JSON
import Pusher

/// A device of any server of Pusher's protocol, on one ordinary channel. It subscribes once connected, and is live when the
/// subscription is acknowledged.
final class PusherScript: DeviceScript {
    /// The kind of channel. A presence channel is named after the user, and each device is its own member.
    enum Channels {
        case `public`, presence
    }

    private let credentials: AppCredentials
    private let names: Names
    private let channels: Channels

    /// Devices that join channels of the kind `channels`, named after `names`.
    init(_ credentials: AppCredentials, _ names: Names, _ channels: Channels) {
        self.credentials = credentials
        self.names = names
        self.channels = channels
    }

    func channel(_ number: Int) -> String {
        (channels == .presence ? "presence-" : "") + names.id(number)
    }

    func opened(_ device: LoadDevice) {}

    func received(_ text: UnsafeRawBufferPointer, by device: LoadDevice) {
        do throws(JSONError) {
            switch try text.member("event")?.string {
            case "pusher:connection_established": try subscribe(device, text)
            case "pusher_internal:subscription_succeeded": device.becomeLive()
            case "pusher:error", "pusher:subscription_error": device.fail("the server says \(text.string)")
            case "pusher:ping": pong(device)
            default: break
            }
        } catch {
            device.fail("the server sent what is no JSON object")
        }
    }

    private func subscribe(_ device: LoadDevice, _ text: UnsafeRawBufferPointer) throws(JSONError) {
        guard let data = try text.member("data")?.characters,
            let id = try socketID(in: data)
        else { return device.fail("a connection without an id") }
        let name = channel(device.recipient.user)
        var message = ByteWriter()
        message.append(#"{"event":"pusher:subscribe","data":{"channel":"#)
        message.append(jsonString: name)
        if channels == .presence, let channel = ChannelName(name) {
            let member = #"{"user_id":"\#(names.id(device.recipient.number))"}"#
            message.append(#","auth":"#)
            message.append(jsonString: credentials.sign(.channel(channel, channelData: member), socketID: id))
            message.append(#","channel_data":"#)
            message.append(jsonString: member)
        }
        message.append("}}")
        device.send(message)
    }

    private func socketID(in data: [UInt8]) throws(JSONError) -> SocketID? {
        let found: Result<SocketID?, JSONError> = data.withUnsafeBytes { bytes in
            do throws(JSONError) {
                return .success(try bytes.member("socket_id")?.withCharacters { SocketID($0) } ?? nil)
            } catch {
                return .failure(error)
            }
        }
        return try found.get()
    }

    private func pong(_ device: LoadDevice) {
        var message = ByteWriter()
        message.append(#"{"event":"pusher:pong","data":{}}"#)
        device.send(message)
    }
}
