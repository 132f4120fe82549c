import Bytes
import CLinux
import Glibc
import HTTP
import Pusher
import Reactor
import WebSocket

/// A device's behaviour once its connection is a WebSocket.
protocol DeviceScript: AnyObject {
    func opened(_ device: LoadDevice)
    /// A whole text message has arrived. Its buffer is reused after this call.
    func received(_ text: UnsafeRawBufferPointer, by device: LoadDevice)
}

/// One connection of a device, on the load tester's loop.
///
/// Valid transitions of `Phase`: `connecting` → (`securing` →) `upgrading` → `joining` → `live`; any → `gone`.
final class LoadDevice: EventSource {
    enum Phase {
        case connecting, securing, upgrading, joining, live, gone
    }

    let recipient: Recipient
    private(set) var phase = Phase.connecting
    /// Whether it was a WebSocket when it failed, and the code of the close frame that came, if any.
    private(set) var end: (wasOpen: Bool, code: UInt16?) = (false, nil)

    private let socket: Int32
    let address: LoadAddress
    private unowned let swarm: Swarm
    private var reader = MessageReader(role: .client)
    private var leftover: [UInt8] = []
    private var isHolding = false
    private let handshake: ClientHandshake
    /// Nil in the clear.
    private let tls: TLSSession?

    init(_ recipient: Recipient, in swarm: Swarm) throws {
        self.recipient = recipient
        self.swarm = swarm
        handshake = ClientHandshake(random: (swarm.random.next(), swarm.random.next()))
        tls = try swarm.newTLSSession()
        address = swarm.addressOf?(recipient) ?? swarm.address
        socket = try address.connect(source: recipient.number / Limits.connectionsPerAddress)
        super.init()
        if swarm.stamps { StampedSocket.begin(socket) }
        try swarm.loop.add(self, descriptor: socket, interest: .writable)
    }

    deinit {
        close(socket)
    }

    // MARK: Inputs

    override func ready(_ readiness: Readiness) {
        if phase == .connecting { return connected() }
        guard phase != .gone, readiness.contains(.readable) || readiness.contains(.hangup) else { return }
        let buffer = swarm.buffer
        let held = leftover.count
        if held > 0 { leftover.withUnsafeBytes { buffer.copyMemory(from: $0) } }
        let room = UnsafeMutableRawBufferPointer(rebasing: buffer[held...])
        let stamped = swarm.stamps ? StampedSocket.receive(socket, into: room) : nil
        let result = stamped?.result ?? tls?.receive(socket, into: room) ?? Socket.receive(socket, into: room)
        if phase == .securing, tls?.isEstablished == true { secured() }
        guard phase != .gone else { return }
        switch result {
        case .bytes(let count):
            swarm.received(count, at: stamped?.came)
            consume(UnsafeMutableRawBufferPointer(rebasing: buffer[..<(held + count)]))
        case .wouldBlock: break
        case .endOfStream: fail("the server closed the connection")
        case .failed(let code): fail(tls?.failure?.rawValue ?? String(cString: strerror(code)))
        }
    }

    /// Subscribed to all it wants.
    func becomeLive() {
        guard phase == .joining else { return }
        phase = .live
        swarm.isLive(self)
    }

    /// Sends a text message. The connection fails if the socket does not take it whole.
    func send(_ text: borrowing ByteWriter) {
        send(Opcode.text, text)
    }

    func send(_ text: SharedBytes) {
        text.withUnsafeBytes { send(Opcode.text, $0) }
    }

    /// Sends the messages of `body` by one write: else the kernel's work for each would be the measured server's time.
    func together(_ body: () -> Void) {
        isHolding = true
        body()
        isHolding = false
        sendFrames()
    }

    /// Sends an unsolicited pong, which servers ignore (RFC 6455 §5.5.3).
    ///
    /// Used for a device that is live without sending anything, to compare it fairly with one that subscribes. Once a
    /// client has sent data, Linux delays its acknowledgements until the next segment, and they are then made in the
    /// sender's time (`tcp_cleanup_rbuf`, `__tcp_ack_snd_check`). Silent devices cost their server up to a quarter less.
    func speakOnce() {
        send(Opcode.pong, ByteWriter())
    }

    /// Whether it reads. Unread bytes stay in the kernel, then at the server.
    func setReading(_ isReading: Bool) {
        guard phase == .live else { return }
        swarm.loop.setInterest(self, isReading ? .readable : [])
    }

    /// Closes the connection without a close frame.
    func drop() {
        phase = .gone
        swarm.loop.remove(self)
    }

    /// The connection is unusable, which fails the run unless the swarm expects that.
    func fail(_ reason: String, code: UInt16? = nil) {
        guard phase != .gone else { return }
        end = (phase == .joining || phase == .live, code)
        drop()
        swarm.failed(self, reason)
    }

    // MARK: Steps

    private func connected() {
        var code: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &length)
        guard code == 0 else { return fail(String(cString: strerror(code))) }
        swarm.loop.setInterest(self, .readable)
        guard let tls else { return upgrade() }
        phase = .securing
        if tls.start(socket) != .all { fail("the server does not read") }
    }

    private func secured() {
        swarm.isSecured(resumed: tls?.isResumed == true)
        upgrade()
    }

    private func upgrade() {
        phase = .upgrading
        var request = ByteWriter()
        handshake.append(host: address.text, target: swarm.target(of: recipient), to: &request)
        sendAll(request)
    }

    private func consume(_ bytes: UnsafeMutableRawBufferPointer) {
        var consumed = 0
        if phase == .upgrading {
            guard upgraded(UnsafeRawBufferPointer(bytes), &consumed) else { return }
        }
        do {
            while phase != .gone, let event = try reader.read(bytes, consumed: &consumed, limits: swarm.messageLimits) {
                received(event, in: bytes)
            }
        } catch {
            return fail("not WebSocket: \(error.reason)")
        }
        keep(bytes, from: consumed)
    }

    /// Whether the response to the upgrade has arrived and is valid.
    private func upgraded(_ bytes: UnsafeRawBufferPointer, _ consumed: inout Int) -> Bool {
        do {
            guard let head = try ResponseHead.parse(bytes) else {
                leftover = Array(bytes)
                return false
            }
            guard handshake.isAccepted(by: head) else {
                fail("the upgrade was answered with status \(head.statusCode)")
                return false
            }
            consumed = head.consumed
        } catch {
            fail("the answer to the upgrade is no HTTP")
            return false
        }
        phase = .joining
        swarm.script.opened(self)
        return phase != .gone
    }

    private func received(_ event: MessageEvent, in buffer: UnsafeMutableRawBufferPointer) {
        switch event {
        case .text(let payload):
            payload.withUnsafeBytes(in: buffer) { swarm.script.received($0, by: self) }
        case .ping(let payload):
            var pong = ByteWriter(capacity: 128)
            payload.withUnsafeBytes(in: buffer) { pong.append($0) }
            send(Opcode.pong, pong)
        case .pong: break
        case .binary: fail("a binary message came")
        case .close(let code):
            fail("the server closed with code \(code.map { "\($0.rawValue)" } ?? "none")", code: code?.rawValue)
        }
    }

    private func keep(_ bytes: UnsafeMutableRawBufferPointer, from consumed: Int) {
        if consumed < bytes.count {
            leftover = Array(bytes[consumed...])
        } else if !leftover.isEmpty {
            leftover = []
        }
    }

    private func send(_ opcode: UInt8, _ payload: borrowing ByteWriter) {
        payload.withUnsafeBytes { send(opcode, $0) }
    }

    private func send(_ opcode: UInt8, _ payload: UnsafeRawBufferPointer) {
        let mask = UInt32(truncatingIfNeeded: swarm.random.next())
        FrameWriter.append(masked: opcode, payload, mask: mask, to: &swarm.frames)
        if !isHolding { sendFrames() }
    }

    private func sendFrames() {
        if phase != .gone, !swarm.frames.isEmpty { sendAll(swarm.frames) }
        swarm.frames.removeAll()
    }

    private func sendAll(_ bytes: borrowing ByteWriter) {
        // An empty send buffer holds any message of a device many times.
        let isSent = bytes.withUnsafeBytes { bytes in
            guard let tls else { return Socket.send(socket, bytes) == .bytes(bytes.count) }
            return tls.seal(bytes) && tls.send(socket) == .all
        }
        if !isSent { fail("the server does not read") }
    }
}
