import Clock
import Testing

@testable import Postgres

@Suite struct WriteRefusalTests {
    private static func failure(_ code: String) -> PostgresError {
        PostgresError(.statement, "refused", sqlstate: SQLState(code))
    }

    @Test func aRefusalCountsForAMinute() {
        let metrics = PostgresMetrics()
        let start = Instant.read()
        #expect(metrics.writeRefusal(at: start) == nil)
        metrics.meter(.job).failed(Self.failure("53100"))
        #expect(metrics.writeRefusal() == .diskFull)
        metrics.meter(.write).failed(Self.failure("25006"))
        #expect(metrics.writeRefusal(at: start.advanced(by: .seconds(59))) == .readOnly)
        #expect(metrics.writeRefusal(at: Instant.read().advanced(by: .seconds(60))) == nil)
        let connecting = PostgresMetrics()
        connecting.meter(.write).failed(PostgresError(.connecting, "connection to server failed: session is read-only"))
        #expect(connecting.writeRefusal() == .readOnly)
    }

    /// Snapshots are read in transactions that may not write, and other failures say nothing of the disk.
    @Test func otherFailuresAreNone() {
        let metrics = PostgresMetrics()
        metrics.meter(.query).failed(Self.failure("25006"))
        for code in ["53300", "55P03", "40P01", "P0001"] { metrics.meter(.write).failed(Self.failure(code)) }
        #expect(metrics.writeRefusal() == nil)
    }
}
