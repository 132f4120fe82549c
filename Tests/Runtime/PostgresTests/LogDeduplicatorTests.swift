import Testing

@testable import Postgres

@Suite struct LogDeduplicatorTests {
    @Test func eachThingIsToldOnceUntilItsConnectionIsThere() {
        let metrics = PostgresMetrics()
        let (reading, writing) = (metrics.meter(.tail).complaints, metrics.meter(.write).complaints)
        #expect(reading.isNew("refused", of: "reader"))
        #expect(!writing.isNew("refused", of: "writer"), "of all roles")
        #expect(writing.isNew("no such role", of: "writer"))
        #expect(!reading.isNew("refused", of: "reader"), "in turn, too")
        writing.forget("writer")
        #expect(!reading.isNew("refused", of: "reader"), "another connection is no end of this one's outage")
        #expect(writing.isNew("no such role", of: "writer"))
        reading.forget("reader")
        #expect(reading.isNew("refused", of: "reader"))
    }
}
