/// The bounds of the courier. Each is tested at the bound and one past it.
package struct CourierLimits: Sendable, Equatable {
    /// Events of one kind that may wait for one endpoint, and events of one kind and app that may wait for the courier's
    /// thread; one more is dropped.
    package var queueEventsMax = 10_000
    /// Bytes of the waiting events of all endpoints. Each kind of an endpoint may use what the others leave. Beyond the
    /// bound, the kind of an endpoint that holds most loses its last events, so that neither a silent endpoint nor a
    /// frequent kind takes room from others. An endpoint with no event of a kind always accepts one. Before the courier's
    /// thread has taken events, each kind of each app has an equal share.
    package var queueBytesMax = 64 << 20
    /// Requests in flight to one endpoint; retries may be half as many. An endpoint with batches has one first attempt and
    /// one retry, and further first attempts only while these hang. A channel has one request in flight, so that its events
    /// arrive in order.
    package var requestsPerEndpoint = 8
    /// Requests in flight; retries may be half as many, and the last quarter is reserved for apps that have few
    /// (`FairScheduler`).
    package var requestsMax = 128
    /// Events in one batch.
    package var batchEventsMax = 100
    /// Bytes of one batch, unless its first event is larger.
    package var batchBytesMax = 256 << 10
    /// How long a batch waits for more events.
    package var batchWindow = Duration.milliseconds(500)
    /// Age of an event after which a failed request is not retried (Pusher's "five minutes"). Once the event is older by a
    /// further `requestTimeout`, no request is begun.
    package var retryFor = Duration.seconds(300)
    /// Backoff of a channel after its first failed request; it doubles with each failure. Also the interval between retries
    /// of all channels to an endpoint whose last request failed.
    package var pauseMin = Duration.seconds(1)
    /// The longest backoff.
    package var pauseMax = Duration.seconds(60)
    /// Time for name resolution, connecting and the TLS handshake.
    package var connectTimeout = Duration.seconds(5)
    /// Time for a whole request.
    package var requestTimeout = Duration.seconds(10)
    /// How long certificates read from a file are cached, in whole seconds; a replaced file is read after that.
    package var certificatesKept = Duration.seconds(60)
    /// Bytes read of a response, head and body. None are kept.
    package var responseBytesMax = 64 << 10

    /// The defaults.
    package init() {}

    /// Resolutions given up at `connectTimeout` that may still run. Apps share the bound evenly; an app at its share makes
    /// no request until some have ended.
    package var lingeringResolvesMax = 64
    /// How long such a resolution is assumed to run: longer than the system's resolver needs to ask three servers twice.
    package var lingeringResolve = Duration.seconds(60)

    /// Descriptors that the courier may use at once. Three per request: a name being resolved uses two of libcurl's and the
    /// resolver's socket, and a connection tried over IPv4 and IPv6 in parallel uses two. Two per resolution given up, plus
    /// some of libcurl's own.
    package var descriptorsMax: Int { 3 * requestsMax + 2 * lingeringResolvesMax + 16 }

    /// Bytes that one event costs beside its text, if it is the only one of its channel.
    static let bytesPerEvent = 768

    /// Lost changes remembered per endpoint. Beyond the bound, any channel is assumed to have lost one.
    static let lostChangesMax = 10_000
}
