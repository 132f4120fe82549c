import Bytes
import HTTP
import HubEngine
import Reactor

/// The gateway's configuration: where to listen, for which apps, within which bounds and times.
package struct GatewayConfiguration: Sendable {
    /// Where clients connect; never empty.
    package var listeners = [ListenerConfiguration(.tcp(host: "127.0.0.1", port: 6001))]
    /// Proxies whose `X-Forwarded-For` is believed.
    package var trustedPeers = TrustedPeers()
    /// Loops, one thread each; 1 to `LoopSet.loopsMax`.
    package var loops = 1
    /// The apps at the start; `Gateway.replaceApps` changes them later.
    package var apps: [App] = []
    /// Certificates and ticket keys of the listeners that use TLS.
    package var tls: TLSServer?
    /// The origins whose pages may connect from a browser.
    package var origins = AllowedOrigins.any
    /// Who is let in, and how fast.
    package var admission = AdmissionLimits()
    /// Bounds of connections and their queues.
    package var limits = GatewayLimits()
    /// Bounds of sessions, channels and streams.
    package var channelLimits = ChannelLimits()
    /// Bodies may be as large as a batch of Pusher's HTTP API: ten events of 10 KiB, times three if every letter is escaped.
    package var httpLimits = {
        var limits = HTTPLimits()
        limits.bodyBytes = 655_360
        return limits
    }()
    /// How long the gateway waits for clients.
    package var timeouts = GatewayTimeouts()
    /// Messages are compressed for clients that offer it; nil: never.
    package var compression: CompressionSettings? = CompressionSettings()
    /// Each loop remembers the way of its last events (`EventTrace`), for the console.
    package var keepsTraces = false
    /// The way to what all hubs share; nil: this hub is alone, and has it in its memory.
    package var sharedLink: (any SharedLink)?
    /// Answers every message in place of the engine; nil in a hub. For servers of another protocol on this transport, such
    /// as the echo server of conformance suites: every upgrade below `/app/` is taken, without apps or greeting.
    package var responder: Responder?

    /// The defaults: one loop, no apps, no listeners.
    package init() {}
}

extension GatewayConfiguration {
    /// Bounds of all ordinary channels. A list of members must fit into a client's queue: otherwise a newcomer would be
    /// closed for not reading what no queue can hold.
    package var shardLimits: ShardLimits {
        var shards = channelLimits.shards
        shards.membersBytesMax = min(shards.membersBytesMax, limits.sendQueueBytesMax / 4)
        return shards
    }

    /// Binds the listeners' sockets.
    ///
    /// - Throws: `ListenError`, a sentence for the operator.
    package func listen() throws(ListenError) -> [ListeningSocket] {
        var sockets: [ListeningSocket] = []
        for listener in listeners { sockets.append(try ListeningSocket(listener.endpoint, unacked: timeouts.unacked)) }
        return sockets
    }
}

// Each of many loops has room for one connection's queue and one message. Otherwise a message that may be queued would never
// be sent, and one in pieces never taken. A longer HTTP answer is refused (`HTTPConversation.answer`).
extension GatewayConfiguration {
    /// Bytes that may be queued to all connections of one loop.
    package var queuedBytesOfLoop: Int { max(limits.sendQueuesBytesMax / loops, limits.sendQueueBytesMax) }

    /// Bytes of unfinished messages and requests that all connections of one loop may hold.
    package var unfinishedBytesOfLoop: Int {
        let record = listeners.contains(where: \.usesTLS) ? TLSSession.heldBytesMax : 0
        return max(
            limits.unfinishedBytesMax / loops, max(limits.messageBytesMax, httpLimits.messageBytes) + record)
    }
}

/// Answers a message, text or binary, by a frame. Called on a loop.
package typealias Responder = @Sendable (_ payload: UnsafeRawBufferPointer, _ isText: Bool) -> SharedBytes

/// One of the endpoints where clients connect.
package struct ListenerConfiguration: Sendable {
    /// The address or path where it listens.
    package var endpoint: ListenEndpoint
    /// With the certificates of `GatewayConfiguration.tls`, which must be set then.
    package var usesTLS: Bool

    /// Without TLS by default.
    package init(_ endpoint: ListenEndpoint, usesTLS: Bool = false) {
        self.endpoint = endpoint
        self.usesTLS = usesTLS
    }
}

/// The bounds of connections that were let in, and of their queues. Each is tested at the bound and one past it.
package struct GatewayLimits: Sendable {
    /// Bytes of one WebSocket message. Above it the connection is closed with 1009.
    package var messageBytesMax = 65_536
    /// Fragments of one message. Above it the connection is closed with 1008.
    package var messageFragmentsMax = 1_024
    /// Messages per second of one connection on average. A message counts once more for each 4 KiB of its
    /// `MessagePayload.cost`. Above it the connection is closed with 4100. 0: no bound.
    package var messagesPerSecond = 200
    /// Messages that one connection may send at once after a pause (the token bucket's burst).
    package var messagesBurst = 2_000
    /// Pings and pongs per second of one connection on average. 0: no bound.
    package var controlFramesPerSecond = 10
    /// Pings and pongs at once after a pause.
    package var controlFramesBurst = 100
    /// Bytes per second that a request must bring after half of `GatewayTimeouts.handshake`; otherwise 408. 0: no bound.
    package var requestBytesPerSecondMin = 500
    /// Requests of one connection answered in one turn. The rest waits for the next.
    package var requestsPerTurnMax = 16
    /// Bytes of one connection's messages handled in one turn, each message with `WebSocketMachine.messageCost` more.
    package var turnBytesMax = 65_536
    /// Bytes of answers queued to one connection above which its next request waits until it has read them.
    package var answerBytesMax = 65_536
    /// Connections whose peers have gone that are closed in one turn. The rest waits for the next.
    package var departuresPerTurnMax = 16
    /// Connections that get another turn in one tick. The rest waits for the next.
    package var turnsPerTickMax = 64
    /// Bytes queued to one connection that does not read. Above it the connection is closed with 4100.
    package var sendQueueBytesMax = 8 << 20
    /// Frames queued to one connection, closed above it with 4100: a small frame costs many times its bytes.
    package var sendQueueFramesMax = 16_384
    /// Bytes queued to one connection above which its streams are fed by pages, one at a time as it takes them. Its queue
    /// may reach this and one page (`StreamLimits.pageBytes`).
    package var pullQueueBytesMax = 1 << 20
    /// Frames queued to one connection above which its streams are fed by pages.
    package var pullQueueFramesMax = 4_096
    /// Bytes queued to all connections. Above it the connections with the largest queues are closed with 4100 until an
    /// eighth is free. Above half of it, streams of slow connections are fed by pages sooner.
    ///
    /// A frame for many counts once for each, though it is held once: this bounds what may have to be sent, not memory.
    /// Divided among the loops, each with room for one connection's queue. Checked when a tick ends, as the bounds of one
    /// connection are. The kernel's buffers do not count. An HTTP answer without room is replaced by 503.
    package var sendQueuesBytesMax = 256 << 20
    /// Bytes of unfinished messages and requests of all connections. Above it the connections with most are closed with
    /// 4100, and requests answered with 503. Divided among the loops, each with room for one message or request.
    package var unfinishedBytesMax = 64 << 20
    /// Events of ordinary channels in flight between loops (one for each event and loop) and backends' calls, for each loop.
    /// Above it clients' events are dropped, and backends' calls answered with 503. Above half of it the same holds for an
    /// app with more than its even share (`PublishBacklog`).
    package var publishesUnderWayMax = 10_000

    /// The defaults.
    package init() {}
}

/// How long the gateway waits, and for what.
package struct GatewayTimeouts: Sendable {
    /// For a request: the first from accept or TLS handshake's end, a later one from its first byte. Again for a token.
    package var handshake: Duration = .seconds(10)
    /// From accept, or its turn in the queue, to the end of the TLS handshake, if there is one. The request's time begins
    /// there.
    package var tlsHandshake: Duration = .seconds(10)
    /// How long a connection waits for its turn: as long as pusher-js gives an attempt.
    package var tlsQueue: Duration = .seconds(15)
    /// How long a TLS handshake may keep its slot while others wait: more than a slow network's round trips take.
    package var tlsTurn: Duration = .seconds(2)
    /// From a WebSocket message's first byte to its last. Beyond it the connection is closed with 1008.
    package var message: Duration = .seconds(30)
    /// How long the peer may leave data unacknowledged, or its window shut, before the connection is dropped.
    package var unacked: Duration = .seconds(60)
    /// How long a kept-alive HTTP connection may idle between two requests.
    package var keepAlive: Duration = .seconds(60)
    /// Silence of a peer before it is sent a ping; told to clients as `activity_timeout`.
    package var activity: Duration = .seconds(120)
    /// Silence after that ping before the connection is closed with 4201.
    package var pong: Duration = .seconds(30)
    /// For a route's answer to a request; beyond it the answer is 503. Longer than the store takes to give up.
    package var answer: Duration = .seconds(15)
    /// How long a connection that is fed by pages may acknowledge no byte before it is closed with 4100.
    package var stalled: Duration = .seconds(60)
    /// From the hub's end to a connection's close frame, while the connection's actions are unanswered.
    package var drain: Duration = .seconds(2)
    /// From `sync:auth_expiring` to the end of the token, and from there to the close with 4109.
    package var identity = IdentityTimes()
    /// From our close frame until the peer's; then the socket is closed without it.
    package var close: Duration = .seconds(2)
    /// From our close frame until the socket is closed when the hub ends. A service manager starts the successor when this
    /// process has ended, and all other clients are back after a second, so a silent one must not delay that. A client that
    /// is dropped sees 1006, which pusher-js handles like 1001.
    package var farewell: Duration = .milliseconds(500)

    /// The defaults.
    package init() {}
}
