import Metrics
import Testing

@testable import carillon

@Suite struct HubMetricsTests {
    private func text(_ metrics: HubMetrics) -> String {
        var exposition = Exposition()
        for source in metrics.sources { source.append(to: &exposition) }
        return String(decoding: exposition.bytes, as: UTF8.self)
    }

    /// Otherwise alerts would take a hub without a database, or without Redis, for one that cannot reach it.
    @Test func nothingIsToldOfWhatIsNotThere() {
        let with = text(HubMetrics(hasDatabase: true, hasRedis: true))
        let without = text(HubMetrics(hasDatabase: false, hasRedis: false))
        for name in [
            "carillon_feed_status", "carillon_pg_", "carillon_actions_total", "carillon_snapshots_total",
            "carillon_redis_connections",
        ] {
            #expect(with.contains("\n\(name)") && !without.contains(name))
        }
        for name in ["carillon_webhook_requests_total", "carillon_app_reloads_total"] {
            #expect(with.contains("\n\(name)") && without.contains("\n\(name)"))
        }
    }
}
