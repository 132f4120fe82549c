import Metrics
import Testing

@testable import carillon

@Suite struct HubMetricsTests {
    private func text(_ metrics: HubMetrics) -> String {
        var exposition = Exposition()
        for source in metrics.sources { source.append(to: &exposition) }
        return String(decoding: exposition.bytes, as: UTF8.self)
    }

    /// Otherwise alerts would take a hub without a database for one whose database is unreachable.
    @Test func nothingIsToldOfADatabaseThatIsNotThere() {
        let (with, without) = (text(HubMetrics(hasDatabase: true)), text(HubMetrics(hasDatabase: false)))
        for name in ["carillon_feed_status", "carillon_pg_", "carillon_actions_total", "carillon_snapshots_total"] {
            #expect(with.contains("\n\(name)") && !without.contains(name))
        }
        for name in ["carillon_webhook_requests_total", "carillon_app_reloads_total"] {
            #expect(with.contains("\n\(name)") && without.contains("\n\(name)"))
        }
    }
}
