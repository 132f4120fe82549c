import Bytes
import HTTP
import JSON
import Pusher
import Reactor
import Sync
import WebSocket

/// One connection of a device to a hub: a real client of the wire protocol, like a phone.
final class Device {
    /// What arrives, as far as it matters at a terminal.
    enum Arrival: Equatable {
        case established(socketID: String)
        /// The user of the token, as the hub read it.
        case signedIn(userID: String)
        /// `position` is the stream's; nil for a channel that is no stream. Not published: no table has the stream's topic.
        case subscribed(channel: String, position: StreamPosition?, isPublished: Bool = true)
        case resumed([Resumption])
        case refused(channel: String, reason: String)
        case event(channel: String, name: String, data: String)
        case status(isDegraded: Bool)
        case expiring
        case error(code: Int64?, message: String)
        case closed(code: UInt16?)
    }

    /// Silence after which the connection is probed.
    private static let activityTimeout = Duration.seconds(120)
    private static let pongTimeout = Duration.seconds(30)
    /// Largest message accepted; bulk events are far below it.
    private static let messageBytesMax = 16 << 20

    private let socket: ClientSocket
    private var reader = MessageReader(role: .client)
    private var buffer: [UInt8]
    private var filled = 0
    private var consumed = 0
    private var limits = MessageLimits()

    init(
        _ address: HubAddress, appKey: String, tls: TLSClient? = nil, stop: Latch
    ) throws(ClientSocket.Pause) {
        limits.messageBytes = Self.messageBytesMax
        buffer = [UInt8](repeating: 0, count: 64 << 10)
        socket = try ClientSocket(address, tls: tls, stop: stop)
        var random = SystemRandomNumberGenerator()
        let handshake = ClientHandshake(random: (random.next(), random.next()))
        var request = ByteWriter()
        handshake.append(
            host: address.authority,
            target: "\(address.prefix)/app/\(appKey)?protocol=7&client=carillon-tail&version=\(Carillon.version)",
            to: &request)
        try socket.send(request)
        try readResponse(to: handshake) { tls == nil && ClientSocket.speaksTLS(address, stop: stop) }
    }

    func signIn(token: String) throws(ClientSocket.Pause) {
        try send { writer in
            writer.append(#"{"event":"sync:auth","data":{"token":"#)
            writer.append(jsonString: token)
            writer.append("}}")
        }
    }

    func subscribe(_ channel: String) throws(ClientSocket.Pause) {
        try send { writer in
            writer.append(#"{"event":"pusher:subscribe","data":{"auth":"","channel":"#)
            writer.append(jsonString: channel)
            writer.append("}}")
        }
    }

    /// Reports its positions and asks for missed events.
    func resume(_ cursors: Cursors) throws(ClientSocket.Pause) {
        try send { writer in
            writer.append(#"{"event":"sync:resume","data":"#)
            cursors.append(to: &writer)
            writer.append("}")
        }
    }

    /// Waits for the next arrival. Sends and answers pings meanwhile.
    func next() throws(ClientSocket.Pause) -> Arrival {
        var probed = false
        while true {
            if let arrival = try parse() { return arrival }
            do {
                try fill(timeout: probed ? Self.pongTimeout : Self.activityTimeout)
                probed = false
            } catch .timeout where !probed {
                probed = true
                try send { $0.append(#"{"event":"pusher:ping","data":{}}"#) }
            } catch .timeout {
                throw .closed("the hub is silent")
            }
        }
    }

    private func parse() throws(ClientSocket.Pause) -> Arrival? {
        while true {
            let found: Result<Found?, WebSocketError> = buffer.withUnsafeMutableBytes { bytes in
                let unread = UnsafeMutableRawBufferPointer(rebasing: bytes[..<filled])
                do throws(WebSocketError) {
                    guard let event = try reader.read(unread, consumed: &consumed, limits: limits) else {
                        return .success(nil)
                    }
                    return .success(Found(event, in: unread))
                } catch {
                    return .failure(error)
                }
            }
            switch found {
            case .failure(let error): throw .closed("not WebSocket: \(error.reason)")
            case .success(nil):
                discardConsumed()
                return nil
            case .success(.message(let arrival)?): return arrival
            case .success(.ping(let payload)?): try send(control: Opcode.pong, payload)
            case .success(.pusherPing?): try send { $0.append(#"{"event":"pusher:pong","data":{}}"#) }
            case .success(.nothing?): continue
            }
        }
    }

    private func discardConsumed() {
        buffer.withUnsafeMutableBytes { bytes in
            for index in consumed..<filled { bytes[index - consumed] = bytes[index] }
        }
        filled -= consumed
        consumed = 0
    }

    private func fill(timeout: Duration) throws(ClientSocket.Pause) {
        // The reader leaves at most an incomplete frame header, so there is always room.
        let start = filled
        let result: Result<Int, ClientSocket.Pause> = buffer.withUnsafeMutableBytes { bytes in
            do throws(ClientSocket.Pause) {
                let free = UnsafeMutableRawBufferPointer(rebasing: bytes[start...])
                return .success(try socket.receive(into: free, timeout: timeout))
            } catch {
                return .failure(error)
            }
        }
        filled += try result.get()
    }

    /// - Parameter isSecured: whether the port speaks TLS, although we did not; called when the answer suggests it.
    private func readResponse(
        to handshake: ClientHandshake, isSecured: () -> Bool
    ) throws(ClientSocket.Pause) {
        func refused(_ reason: String) -> ClientSocket.Pause {
            isSecured() ? .hopeless("this port speaks TLS: use wss:// in place of ws://") : .closed(reason)
        }
        while true {
            let status: Result<Int?, HTTPError> = buffer.withUnsafeBytes { bytes in
                do throws(HTTPError) {
                    let unread = UnsafeRawBufferPointer(rebasing: bytes[..<filled])
                    guard let head = try ResponseHead.parse(unread) else { return .success(nil) }
                    consumed = head.consumed
                    return .success(handshake.isAccepted(by: head) ? 101 : head.statusCode)
                } catch {
                    return .failure(error)
                }
            }
            switch status {
            case .failure: throw refused("the answer is no HTTP")
            case .success(101?): return
            case .success(400?): throw refused("the hub answered the handshake with status 400")
            case .success(let code?): throw .closed("the hub answered the handshake with status \(code)")
            case .success(nil): break
            }
            guard filled < buffer.count else { throw .closed("the answer's head is too large") }
            do {
                try fill(timeout: .seconds(10))
            } catch .timeout {
                throw refused("the hub did not answer the handshake")
            } catch .closed(let reason) {
                throw refused(reason)
            }
        }
    }

    private func send(_ write: (inout ByteWriter) -> Void) throws(ClientSocket.Pause) {
        var text = ByteWriter()
        write(&text)
        var frame = ByteWriter()
        let mask = UInt32.random(in: .min ... .max)
        text.withUnsafeBytes { FrameWriter.append(masked: Opcode.text, $0, mask: mask, to: &frame) }
        try socket.send(frame)
    }

    private func send(control opcode: UInt8, _ payload: [UInt8]) throws(ClientSocket.Pause) {
        var frame = ByteWriter()
        let mask = UInt32.random(in: .min ... .max)
        payload.withUnsafeBytes { FrameWriter.append(masked: opcode, $0, mask: mask, to: &frame) }
        try socket.send(frame)
    }
}

extension ClientSocket {
    fileprivate func send(_ writer: borrowing ByteWriter) throws(Pause) {
        try writer.withUnsafeBytes { (bytes) throws(Pause) in try send(bytes) }
    }
}

/// What the device found in a WebSocket message: news for its user, a ping, or nothing.
private enum Found {
    case message(Device.Arrival)
    case ping([UInt8])
    case pusherPing
    case nothing

    init(_ event: MessageEvent, in buffer: UnsafeMutableRawBufferPointer) {
        switch event {
        case .text(let payload):
            self = payload.withUnsafeBytes(in: buffer) { bytes in
                guard let message = try? JSONTree(bytes.string), message.isObject else {
                    return .message(.error(code: nil, message: "a message that is no event"))
                }
                return Found(message)
            }
        case .ping(let payload): self = .ping(payload.withUnsafeBytes(in: buffer) { Array($0) })
        case .close(let code): self = .message(.closed(code: code?.rawValue))
        case .binary, .pong: self = .nothing
        }
    }

    private init(_ message: JSONTree) {
        let (name, channel) = (message["event"]?.string ?? "", message["channel"]?.string ?? "")
        // A string with JSON inside, except in `pusher:error`.
        let text = message["data"].map { $0.string ?? $0.canonicalText } ?? ""
        let data = (try? JSONTree(text)) ?? .null
        switch name {
        case "pusher:ping": self = .pusherPing
        case "pusher:pong": self = .nothing
        case "pusher:connection_established":
            self = .message(.established(socketID: data["socket_id"]?.string ?? ""))
        case "sync:auth_ok": self = .message(.signedIn(userID: data["userId"]?.string ?? ""))
        case "pusher_internal:subscription_succeeded":
            self = .message(
                .subscribed(
                    channel: channel, position: StreamPosition(acknowledgement: text),
                    isPublished: data["sync"]?["published"]?.canonicalText != "false"))
        case "sync:resumed":
            self = Resumption.parse(text).map { .message(.resumed($0)) } ?? .nothing
        case "sync:auth_expiring": self = .message(.expiring)
        case "sync:status": self = .message(.status(isDegraded: data["degraded"]?.canonicalText == "true"))
        case "pusher:subscription_error":
            self = .message(.refused(channel: channel, reason: data["error"]?.string ?? ""))
        case "pusher:error":
            self = .message(
                .error(code: data["code"]?.integer, message: data["message"]?.string ?? ""))
        default: self = .message(.event(channel: channel, name: name, data: text))
        }
    }
}
