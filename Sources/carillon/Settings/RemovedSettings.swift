import API
import Courier
import Feed
import Gateway
import HTTP
import HubEngine
import Identity
import Store

/// Removed settings by key, with advice for a configuration that still has them.
enum RemovedSettings {
    static let advice: [String: String] = [
        "tls.handshakeTimeout": now("handshakeTimeout"),
        "jwt.leeway": fixed(TokenPolicy().leeway),
        "messageTimeout": fixed(GatewayTimeouts().message),
        "limits.messageFragments": fixed(GatewayLimits().messageFragmentsMax),
        "limits.messagesBurst": burst(of: "limits.messagesPerSecond"),
        "limits.controlFramesPerSecond": fixed(GatewayLimits().controlFramesPerSecond),
        "limits.controlFramesBurst": fixed(GatewayLimits().controlFramesBurst),
        "limits.requestBytesPerSecond": fixed(GatewayLimits().requestBytesPerSecondMin),
        "limits.parkedSubscribes": fixed(ChannelLimits().parkedPerSessionMax),
        "limits.connectsBurst": "it is twenty times limits.connectsPerSecond: set that",
        "limits.tlsHandshakes": fixed(AdmissionLimits().tlsHandshakesMax),
        "limits.tlsHandshakesWaiting": fixed(AdmissionLimits().tlsHandshakesWaitingMax),
        "limits.stalledTimeout": "it is twice pongTimeout: set that",
        "unackedTimeout": "it is twice pongTimeout: set that",
        "limits.headBytes": fixed(bytes: GatewayConfiguration().httpLimits.headBytes),
        "limits.bodyBytes": "what your apps may publish at once always fits; leave it out",
        "limits.pullQueueBytes": "it is an eighth of limits.sendQueueBytes: set that",
        "limits.streamsPerUser": fixed(FeedLimits.streamsPerUserMax),
        "strictProtocol": "clients that name no protocol version count as clients of version 7; leave it out",
        "limits.windowEvents": "\(fixed(StreamLimits().windowEvents)), or set limits.windowTotalBytes for all channels",
        "limits.windowBytes":
            "\(fixed(bytes: StreamLimits().windowBytes)), or set limits.windowTotalBytes for all channels",
        "limits.linger": fixed(StreamLimits().linger),
        "limits.actionsBurst": burst(of: "limits.actionsPerSecond"),
        "limits.deviceActionsPerSecond": "it is half of limits.actionsPerSecond: set that",
        "limits.deviceActionsBurst": "it is ten times half of limits.actionsPerSecond: set that",
        "webhooks.leaveGrace": now("presence.leaveGrace"),
        "webhooks.queueEvents": fixed(CourierLimits().queueEventsMax),
        "webhooks.queueBytes": fixed(bytes: CourierLimits().queueBytesMax),
        "api.idempotencyKeys": fixed(PusherRoutes.Settings().idempotencyKeysMax),
        "api.idempotencyTime": fixed(PusherRoutes.Settings().idempotencyTime),
        "websocket.compressionThreshold": fixed(CompressionSettings().threshold),
        "websocket.compressionLevel": fixed(CompressionSettings().level),
        "store.queryConnections": "it is half of store.connections: set that",
        "store.lockTimeout": fixed(StoreConfiguration(connectionString: "").lockTimeout),
        "feed.heartbeatInterval": "it is seven times feed.pollInterval, at least 10s: set that",
        "feed.heartbeatTimeout": "it is half of seven times feed.pollInterval, at least 5s: set that",
        "feed.positionCheckInterval": "it is twenty times feed.pollInterval: set that",
        "push.apnsKeyFile": apnsKey,
        "push.apnsKeyID": apnsKey,
        "push.apnsTeamID": apnsKey,
        "push.fcmURL": "it is made from universe_domain in the file of push.fcmKeyFile; leave it out",
    ]

    /// Removed members of `apps`, with advice.
    static let memberAdvice = ["publishesBurst": "it is a second's worth of publishesPerSecond, and one batch at least"]

    /// The problem when `name` is a removed setting; otherwise nil.
    ///
    /// - Parameter form: how the source of `name` writes keys.
    static func problem(_ name: String, _ form: (String) -> String = { $0 }) -> String? {
        advice.first { form($0.key) == name }.map { "\(name) is no longer a setting: \($0.value)" }
    }

    private static let apnsKey = "set push.apnsKey instead, to KEYID:TEAMID:FILE"

    private static func fixed(_ number: Int) -> String { "it is fixed at \(number); leave it out" }
    private static func fixed(bytes: Int) -> String { "it is fixed at \(Form.brief(bytes)); leave it out" }
    private static func fixed(_ time: Duration) -> String { "it is fixed at \(Form.brief(time)); leave it out" }
    private static func now(_ key: String) -> String { "set \(key) instead" }
    private static func burst(of key: String) -> String { "it is ten times \(key): set that" }
}
