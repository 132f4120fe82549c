/// The bounds of what the courier keeps and does. Each is tested at the bound and one past it.
package struct CourierLimits: Sendable, Equatable {
    /// Events of one kind that may wait for one endpoint, and as many of one app that the courier's thread has not looked at; one
    /// more is dropped.
    package var queueEventsMax = 10_000
    /// Bytes of the events that wait, of all endpoints together. Each kind of an endpoint may have what the others leave; beyond
    /// the bound that which holds most loses its last events, so that neither an endpoint that does not answer nor a kind of
    /// which there are many takes anything from the others. An event is taken in any case where its endpoint holds none of
    /// its kind. Of what the courier's thread has not looked at each kind of each app has an equal share.
    package var queueBytesMax = 64 << 20
    /// Requests to one endpoint that may be under way, of what has failed half as many. An endpoint that takes batches has one
    /// of each, and others of what is new only while these hang. A channel has one, so that its events come in their order.
    package var requestsPerEndpoint = 8
    /// Requests under way; half of them at most of what has failed, and the last quarter for apps that have few (`FairScheduler`).
    package var requestsMax = 128
    /// Events of one batch.
    package var batchEventsMax = 100
    /// Bytes of one batch, unless its first event is larger.
    package var batchBytesMax = 256 << 10
    /// How long a batch waits for more events.
    package var batchWindow = Duration.milliseconds(500)
    /// Age of an event after which a request that fails is not repeated (Pusher's "five minutes"), and `requestTimeout` later
    /// none is begun.
    package var retryFor = Duration.seconds(300)
    /// The pause of a channel after the first request that fails; it doubles with each. And the pause between the repeated
    /// requests of all channels to an endpoint of which none has answered.
    package var pauseMin = Duration.seconds(1)
    /// The longest pause.
    package var pauseMax = Duration.seconds(60)
    /// Time for resolving the name, connecting and the TLS handshake.
    package var connectTimeout = Duration.seconds(5)
    /// Time for all of a request.
    package var requestTimeout = Duration.seconds(10)
    /// How long certificates that were read of a file are good for, in whole seconds: one that is replaced is read by then.
    package var certificatesKept = Duration.seconds(60)
    /// Bytes that are read of an answer, head or body, none of which is kept.
    package var responseBytesMax = 64 << 10

    package init() {}

    /// Names whose resolving was given up at `connectTimeout` and may still go on, an even share for each app; an app that
    /// has it makes no request until there are fewer.
    package var lingeringResolvesMax = 64
    /// How long such a resolving is taken to go on: longer than the system's resolver asks three servers twice.
    package var lingeringResolve = Duration.seconds(60)

    /// Descriptors that the courier may have at once. For a request three: a name that is being resolved has two of libcurl's
    /// and the resolver's socket, and a connection that is tried by IPv4 and IPv6 side by side has two. For a resolving that
    /// was given up two; and some of libcurl's own.
    package var descriptorsMax: Int { 3 * requestsMax + 2 * lingeringResolvesMax + 16 }

    /// What keeping an event costs beside its text, in bytes, where it is the only one of its channel.
    static let bytesPerEvent = 768

    /// Changes that one webhook was never told and that are remembered; with more, it is taken to be any channel's.
    static let lostChangesMax = 10_000
}
