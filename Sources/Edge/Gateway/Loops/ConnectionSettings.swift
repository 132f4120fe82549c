import Bytes
import Clock
import HTTP
import HubEngine
import Reactor
import WebSocket

/// The settings of a loop's connections: bounds, times, and whatever else is equal for all of them.
final class ConnectionSettings {
    /// As configured, except the bound above which streams are fed by pages: `MemoryBudget` moves it.
    var limits: GatewayLimits
    let configuration: GatewayConfiguration
    let timeouts: GatewayTimeouts
    let trustedPeers: TrustedPeers
    let http: HTTPRules
    let webSockets: WebSocketRules
    let hasTrustedPeers: Bool
    let activitySeconds: Int
    // Computed once, because taking a `Duration` apart costs hundreds of instructions, and each connection needs it.
    let handshakeNanoseconds: UInt64
    let pingFrame: SharedBytes
    let pongFrame = FrameWriter.frames(of: .pong())

    static let continueResponse = SharedBytes.copy("HTTP/1.1 100 Continue\r\n\r\n")
    /// The divisor of `pullQueueBytesMax` while much is queued to all.
    private static let pressedPart = 16

    init(_ configuration: GatewayConfiguration) {
        self.configuration = configuration
        let limits = configuration.limits
        timeouts = configuration.timeouts
        trustedPeers = configuration.trustedPeers
        self.limits = limits
        hasTrustedPeers = configuration.trustedPeers != TrustedPeers()
        activitySeconds = Int(timeouts.activity.components.seconds)
        handshakeNanoseconds = timeouts.handshake.wholeNanoseconds
        var rules = WebSocketRules()
        rules.limits.messageBytes = limits.messageBytesMax
        rules.limits.fragments = limits.messageFragmentsMax
        rules.messageRate = SmallAllowance.rate(perSecond: limits.messagesPerSecond, burst: limits.messagesBurst)
        rules.controlRate = SmallAllowance.rate(
            perSecond: limits.controlFramesPerSecond, burst: limits.controlFramesBurst)
        rules.activity = timeouts.activity.wholeNanoseconds
        rules.pong = timeouts.pong.wholeNanoseconds
        rules.message = timeouts.message.wholeNanoseconds
        webSockets = rules
        var http = HTTPRules()
        http.time = handshakeNanoseconds
        http.bytesPerSecondMin = limits.requestBytesPerSecondMin
        http.requestsPerTurnMax = limits.requestsPerTurnMax
        http.answerBytesMax = limits.answerBytesMax
        self.http = http
        var writer = ByteWriter(capacity: 16)
        FrameWriter.append(control: Opcode.ping, UnsafeRawBufferPointer(start: nil, count: 0), to: &writer)
        pingFrame = writer.finish()
    }

    /// The queued bytes of all connections have risen above half of their bound, or fallen below it.
    func pressureChanged(_ isPressed: Bool) {
        limits.pullQueueBytesMax = configuration.limits.pullQueueBytesMax / (isPressed ? Self.pressedPart : 1)
    }
}
