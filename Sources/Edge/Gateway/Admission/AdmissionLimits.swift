/// How many connections are let in, of whom, and how fast. Each bound is tested at the bound and one past it.
package struct AdmissionLimits: Sendable {
    /// Connections in all. Above it a request is answered with 503.
    package var connectionsMax = 200_000
    /// Connections from one address, or one IPv6 network (/64). Above it a request is answered with 429. Nil: no bound.
    package var connectionsPerAddressMax: Int? = 1_000
    /// Connections that one address may begin per second on average. Above it they wait for their turn. 0: no bound.
    package var addressConnectsPerSecond = 50
    /// Connections that one address may begin at once after a pause.
    package var addressConnectsBurst = 1_000
    /// Connections of one address beyond its rate that may wait for their turn. One more is refused.
    package var addressConnectsWaitingMax = 500
    /// Requests without a good token or signature that one address may send per second on average, on all of its
    /// connections. Above it they are told so after `strangerPause`. 0: no bound.
    package var strangerRequestsPerSecond = 200
    /// Such requests that one address may send at once after a pause.
    package var strangerRequestsBurst = 1_000
    /// Event streams that one user may begin per second on average. 0: no bound.
    package var userStreamsPerSecond = 10
    /// Event streams that one user may begin at once after a pause.
    package var userStreamsBurst = 200
    /// How long a request above these rates waits for its answer, which says so. Who asks again at once thus asks no more
    /// often than this.
    package var strangerPause = Duration.seconds(1)
    /// Whether loopback and unix-domain sockets are exempt from the bounds for one address.
    package var exemptsLoopback = false
    /// TLS handshakes in progress, on all loops. More wait.
    package var tlsHandshakesMax = 1_024
    /// TLS handshakes waiting to begin, on all loops. Above it a connection is closed.
    package var tlsHandshakesWaitingMax = 16_384
    /// Connections beyond `connectionsMax` that are told so. Further ones are closed without an answer.
    package var refusalsMax = 128
    /// Connections beyond the bounds for one address that are told so.
    package var refusalsPerAddressMax = 8

    /// The defaults.
    package init() {}
}
