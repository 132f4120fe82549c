import Metrics
import Reactor

/// Metrics of the TLS handshakes of all loops, and of the certificates.
package final class TLSMetrics: Sendable {
    let handshakes = CounterTable("kind", ["full", "resumed"])
    let failures = CounterTable("reason", TLSFailure.allCases.map(\.rawValue))
    let delayed = Counter()
    let underWay = Gauge()
    let times = Histogram.times()
    private let reloads = CounterTable("result", ["ok", "failed"])
    private let server = Locked<TLSServer?>(nil)

    /// The server whose certificates are shown.
    func serves(_ server: TLSServer) {
        self.server.withLock { $0 = server }
    }

    /// The certificates were read again, or could not be.
    package func reloaded(_ isDone: Bool) {
        reloads[isDone ? "ok" : "failed"].add()
    }

    func append(to exposition: inout Exposition) {
        guard let server = server.withLock({ $0 }) else { return }
        exposition.counter(
            "tls_handshakes_total", "TLS handshakes that succeeded, in full or resumed by a ticket.", handshakes)
        exposition.counter("tls_handshakes_failed_total", "TLS handshakes that failed, by the reason.", failures)
        exposition.counter(
            "tls_handshakes_delayed_total", "TLS handshakes that had to wait for others.", delayed.count)
        exposition.gauge("tls_handshakes_under_way", "TLS handshakes in progress.", Double(underWay.level))
        exposition.histogram(
            "tls_handshake_seconds", "From a connection's accept to the end of its TLS handshake.", times)
        exposition.counter("tls_reloads_total", "Times that the certificates were read again.", reloads)
        exposition.gauge(
            "tls_certificate_expiry_seconds", "When a certificate ends, in seconds since 1970.",
            server.certificates.map { ([.init("file", $0.path)], Double($0.expiresAt)) })
    }
}
