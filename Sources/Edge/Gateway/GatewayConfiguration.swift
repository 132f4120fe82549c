import Bytes
import Channels
import HTTP
import Reactor

/// What the gateway is told: where to listen, for which apps, and within which bounds and times.
package struct GatewayConfiguration: Sendable {
    /// Where clients connect; never empty.
    package var listeners = [ListenerConfiguration(.tcp(host: "127.0.0.1", port: 6001))]
    /// Proxies whose word on their clients' addresses is taken.
    package var trustedPeers = TrustedPeers()
    /// Loops, one thread each; 1 to `LoopSet.loopsMax`.
    package var loops = 1
    package var apps: [App] = []
    /// Certificates and ticket keys of the listeners that use TLS.
    package var tls: TLSServer?
    package var origins = AllowedOrigins.any
    package var limits = GatewayLimits()
    package var channelLimits = ChannelLimits()
    /// Bodies as large as a batch of Pusher's HTTP API may be: ten events of 10 KiB, which take three times that where
    /// every letter is escaped (`AppLimits.bodyBytes`).
    package var httpLimits = {
        var limits = HTTPLimits()
        limits.bodyBytes = 655_360
        return limits
    }()
    package var timeouts = GatewayTimeouts()
    /// Messages are compressed for clients that offer it; nil: never.
    package var compression: CompressionSettings? = CompressionSettings()
    /// Refuse clients that name no protocol version (close code 4008) instead of taking them for version 7.
    package var requiresProtocolVersion = false
    /// What answers every message, in place of the engine; nil in a hub. A server of another protocol on this transport,
    /// such as the echo that conformance suites judge, so takes every upgrade below `/app/`, without apps and greeting.
    package var responder: Responder?

    package init() {}
}

// Of many loops, each has room for one connection's queue nevertheless, and for one message: or one that may be queued would
// never be sent, and none would come that comes in pieces. An answer of HTTP that is longer than that is refused
// (`HTTPConversation.answer`).
extension GatewayConfiguration {
    /// Bytes that may be queued to all connections of one loop.
    package var queuedBytesOfLoop: Int { max(limits.sendQueuesBytesMax / loops, limits.sendQueueBytesMax) }

    /// Bytes of what is not finished that all connections of one loop may hold.
    package var unfinishedBytesOfLoop: Int {
        let record = listeners.contains(where: \.usesTLS) ? TLSSession.heldBytesMax : 0
        return max(
            limits.unfinishedBytesMax / loops, max(limits.messageBytesMax, httpLimits.messageBytes) + record)
    }
}

/// Answers a message, text or else binary, by a frame. Called on a loop.
package typealias Responder = @Sendable (_ payload: UnsafeRawBufferPointer, _ isText: Bool) -> SharedBytes

/// One of the places where clients connect.
package struct ListenerConfiguration: Sendable {
    package var place: ListenPlace
    /// With the certificates of `GatewayConfiguration.tls`, which are there then.
    package var usesTLS: Bool

    package init(_ place: ListenPlace, usesTLS: Bool = false) {
        self.place = place
        self.usesTLS = usesTLS
    }
}

/// The gateway's bounds. Each is tested at the bound and one past it.
package struct GatewayLimits: Sendable {
    /// Bytes of one WebSocket message; above it the connection is closed with 1009.
    package var messageBytesMax = 65_536
    /// Fragments of one message; above it the connection is closed with 1008.
    package var messageFragmentsMax = 1_024
    /// Messages that one connection may send each second on the long run, one more counted for each 4 KiB that one costs
    /// (`MessagePayload.cost`); above it, it is closed with 4100. 0: no bound.
    package var messagesPerSecond = 200
    /// Messages that one connection may send at once after a silence.
    package var messagesBurst = 2_000
    /// Pings and pongs of one connection, likewise. 0: no bound.
    package var controlFramesPerSecond = 10
    /// Pings and pongs at once after a silence.
    package var controlFramesBurst = 100
    /// Bytes each second that a begun request has to bring after half of `GatewayTimeouts.handshake`; below it, it is
    /// answered with 408. 0: no bound.
    package var requestBytesPerSecondMin = 500
    /// Requests of one connection that are answered in one turn; what else it has sent waits for the next.
    package var requestsPerTurnMax = 16
    /// Bytes that one connection's messages may cost which are looked at in one turn, each with `WebSocketMachine.messageCost`
    /// more; what else it has sent waits for the next.
    package var turnBytesMax = 65_536
    /// Bytes of answers queued to one connection above which its next request waits until it has read them.
    package var answerBytesMax = 65_536
    /// Connections closed in one turn whose peers have gone; the others wait for the next.
    package var departuresPerTurnMax = 16
    /// Connections that have another turn in one tick; the others wait for the next.
    package var turnsPerTickMax = 64
    /// Bytes queued to one connection that does not read; above it the connection is closed with 4100.
    package var sendQueueBytesMax = 8 << 20
    /// Frames queued to one connection, likewise: a small frame costs many times its bytes.
    package var sendQueueFramesMax = 16_384
    /// Bytes queued to one connection above which its streams are fed by pages, one at a time as it takes them. It may
    /// hold so much and one page (`StreamLimits.pageBytes`).
    package var pullQueueBytesMax = 1 << 20
    /// Frames queued to one connection, likewise.
    package var pullQueueFramesMax = 4_096
    /// Bytes queued to all connections together; above it the largest queues' connections are closed with 4100 until an
    /// eighth is free again. From half of it on, streams of who does not keep up are fed by pages sooner.
    ///
    /// A frame for many counts for each of them, though it is held once: so the bound tells the most that the queues can
    /// hold, and what is still to be sent, rather than what they do hold. Divided among the loops, and looked at when a
    /// tick ends, as the bounds of one connection are; the kernel's buffers are none of it. Each loop has room for one
    /// connection's queue; an answer of HTTP for which a loop has none is not given, but 503.
    package var sendQueuesBytesMax = 256 << 20
    /// Bytes held of messages and requests that have not come to their end, of all connections together; above it those
    /// with the most are closed with 4100, and requests answered with 503. Divided among the loops, of which each has
    /// room for one message or request.
    package var unfinishedBytesMax = 64 << 20
    /// Events of ordinary channels on their way between loops, one for each event and loop, and what backends ask of them,
    /// for each loop that there is; above it clients' events are dropped, and what backends publish or ask is answered with
    /// 503. Above half of it that is so for an app that has more than its even share (`PublishBacklog`).
    package var publishesUnderWayMax = 10_000
    /// Connections in all; above it a request is answered with 503.
    package var connectionsMax = 200_000
    /// Connections from one address, or one network of IPv6 (/64); above it a request is answered with 429. Nil: no bound.
    package var connectionsPerAddressMax: Int? = 1_000
    /// Connections that one address may begin each second on the long run; above it likewise. 0: no bound.
    package var addressConnectsPerSecond = 50
    /// Connections that one address may begin at once after a silence.
    package var addressConnectsBurst = 1_000
    /// Whether loopback and unix-domain sockets are free of the bounds for one address.
    package var exemptsLoopback = false
    /// TLS handshakes begun and not complete, on all loops; others wait.
    package var tlsHandshakesMax = 1_024
    /// TLS handshakes waiting to begin, on all loops; above it a connection is closed.
    package var tlsHandshakesWaitingMax = 16_384
    /// Connections beyond `connectionsMax` that are told so before further ones are just closed.
    package var refusalsMax = 128
    /// Connections beyond the bounds for one address, likewise.
    package var refusalsPerAddressMax = 8

    package init() {}
}

/// How long the gateway waits for whom.
package struct GatewayTimeouts: Sendable {
    /// From the first byte awaited of a request to its last, and from accept to the end of the upgrade.
    package var handshake: Duration = .seconds(10)
    /// From accept to the end of the TLS handshake, where there is one; the request's time runs from there.
    package var tlsHandshake: Duration = .seconds(10)
    /// How long a TLS handshake may keep its place among `GatewayLimits.tlsHandshakesMax` while others wait for one: more
    /// than a slow network's round trips take.
    package var tlsTurn: Duration = .seconds(2)
    /// From the first byte of a WebSocket message to its last; beyond it the connection is closed with 1008.
    package var message: Duration = .seconds(30)
    /// How long the peer may leave what it was sent unacknowledged, or its window shut, before the connection is given up.
    package var unacked: Duration = .seconds(60)
    /// A kept-alive HTTP connection between two requests.
    package var keepAlive: Duration = .seconds(60)
    /// Silence of a peer before it is sent a ping; told to clients as `activity_timeout`.
    package var activity: Duration = .seconds(120)
    /// Silence after that ping before the connection is closed with 4201.
    package var pong: Duration = .seconds(30)
    /// A route's answer to a request; beyond it the request is answered with 503. Longer than the store takes to give
    /// up.
    package var answer: Duration = .seconds(15)
    /// How long a connection that is fed by pages may acknowledge not one byte before it is closed with 4100.
    package var stalled: Duration = .seconds(60)
    /// From the hub's end to a connection's close frame, where actions of that connection are still unanswered.
    package var drain: Duration = .seconds(2)
    /// From `sync:auth_expiring` to the end of the token, and from there to the close with 4109.
    package var identity = IdentityTimes()
    /// From our close frame until the peer's, or until the socket is closed without it.
    package var close: Duration = .seconds(2)
    /// The same when the hub ends. A service manager starts the successor when this process has ended, and all other
    /// clients are back after a second: one that answers nothing must not hold that up. Who is dropped sees 1006, after which
    /// pusher-js does as after 1001.
    package var farewell: Duration = .milliseconds(500)

    package init() {}
}
