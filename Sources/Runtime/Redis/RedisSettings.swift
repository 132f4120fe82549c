import Reactor

/// How a hub reaches Redis, and what it keeps for it at most.
package struct RedisSettings: Sendable {
    /// Where it is.
    package var url: RedisURL
    /// PEM file of the roots that servers are judged by; nil: those of the system. For TLS only.
    package var rootsFile: String?
    /// What servers that ask for a certificate are shown; nil: nothing. For TLS only.
    package var identity: TLSCertificateFiles?
    /// The connection's name in `CLIENT LIST`; without spaces, as Redis demands; empty for none.
    package var clientName = "carillon"
    /// From the first packet to the end of the prelude, of one attempt.
    package var connectTimeout = Duration.seconds(5)
    /// How long a reply may take, counted from `send` of the oldest command without one. Then the connection is left.
    package var replyTimeout = Duration.seconds(5)
    /// After this long without a byte from the server, a connection without commands sends `PING`. A peer that vanished is
    /// so found after this and `replyTimeout`.
    package var pingAfter = Duration.seconds(10)
    /// Pauses between attempts begin here.
    package var pauseMin = Duration.milliseconds(100)
    /// No pause is longer.
    package var pauseMax = Duration.seconds(5)
    /// Bytes of commands that may wait to be written; beyond it `send` refuses.
    package var waitingBytesMax = 16 << 20
    /// Commands that may be without a reply; beyond it `send` refuses.
    package var unansweredMax = 65_536
    /// Bytes of one reply or push on the wire; the connection is left for a longer one.
    package var valueBytesMax = 16 << 20

    /// The defaults.
    package init(_ url: RedisURL) { self.url = url }

    /// The connections' TLS; nil without it. Reads the files.
    ///
    /// - Throws: where a file cannot be used; the error names it.
    package func tls() throws(TLSError) -> TLSClient? {
        guard url.isSecure else { return nil }
        var manner = TLSClient.Manner()
        manner.rootsFile = rootsFile
        manner.trustsSystem = rootsFile == nil
        manner.identity = identity
        manner.protocols = []
        return try TLSClient(manner)
    }
}
